//! Credit in both directions, as plain counting.
//!
//! *Publish credit* bounds what a client may have sent without an answer. *Delivery windows* bound what the core may
//! have delivered without it being on its way to the client: of the credit that a client gives, only so much is told to
//! the core at a time, and more as deliveries are written. A reader that is slow, or gone, holds that much and no more.

use std::sync::Arc;

use millpond_protocol::PUBLISH_CREDIT;

use crate::sync::atomic::{AtomicI64, Ordering};

/// Publish credit is given back in steps of this: one small frame per four megabytes.
const PUBLISH_STEP: u32 = PUBLISH_CREDIT / 4;

/// Messages of one consumer that may be delivered and not written yet. A few milliseconds of a fast consumer.
pub(crate) const WINDOW_MESSAGES: u32 = 8192;
/// Messages of one consumer for which there is always room: enough to go on with, while many share what is left.
const WINDOW_MIN: u32 = 16;
/// Of the messages for which there is room, a window takes one in so many at most, so that there is some for the next one.
const PART: i64 = 4;
/// Bytes of one consumer's messages that may be delivered and not written yet.
pub(crate) const WINDOW_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of a message that is delivered and not written, its body apart, roughly.
const DELIVERED: usize = 256;

/// Messages that may be delivered and not written yet, over all consumers. Where many share it each has a small window,
/// which costs it round trips and nobody anything else.
#[derive(Debug)]
pub(crate) struct Windows(AtomicI64);

impl Windows {
    /// For so many bytes.
    pub(crate) fn new(bytes: usize) -> Windows {
        Windows(AtomicI64::new((bytes / DELIVERED) as i64))
    }

    fn take(&self, wanted: u32) -> u32 {
        let part = (self.0.load(Ordering::Relaxed) / PART).clamp(WINDOW_MIN.into(), WINDOW_MESSAGES.into());
        let taken = wanted.min(part as u32);
        self.0.fetch_sub(taken.into(), Ordering::Relaxed);
        taken
    }

    fn give_back(&self, messages: u32) {
        self.0.fetch_add(messages.into(), Ordering::Relaxed);
    }
}

/// What one connection has published and not been given back.
#[derive(Default)]
pub(crate) struct PublishCredit {
    spent: u64,
    owed: u32,
}

impl PublishCredit {
    /// Counts a publish frame; false if the client has no credit left for it.
    pub(crate) fn spend(&mut self, bytes: u32) -> bool {
        self.spent += u64::from(bytes);
        self.spent <= u64::from(PUBLISH_CREDIT)
    }

    /// Counts the answer of a publish frame. Some bytes are to be told to the client now and then.
    pub(crate) fn give_back(&mut self, bytes: u32) -> Option<u32> {
        self.owed += bytes;
        if self.owed < PUBLISH_STEP {
            return None;
        }
        self.spent -= u64::from(self.owed);
        Some(std::mem::take(&mut self.owed))
    }
}

/// The credit of one attached consumer.
#[derive(Debug)]
pub(crate) struct Window {
    windows: Arc<Windows>,
    /// Given by the client and not told to the core.
    kept: Grant,
    /// Told to the core and not used up by deliveries that were written: messages, and bytes, which are less than nothing
    /// where the last message took more than were left.
    told: (u32, i64),
}

/// Messages and bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Grant {
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}

pub(crate) const NOTHING: Grant = Grant { messages: 0, bytes: 0 };

impl Window {
    /// A consumer's window, and what the core is told when the consumer is attached.
    pub(crate) fn new(credit: Grant, windows: &Arc<Windows>) -> (Window, Grant) {
        let mut window = Window { windows: windows.clone(), kept: credit, told: (0, 0) };
        let first = window.top_up();
        (window, first)
    }

    /// The client gives more. What the core is to be told now, if anything.
    pub(crate) fn add(&mut self, credit: Grant) -> Option<Grant> {
        self.kept.messages = self.kept.messages.saturating_add(credit.messages);
        self.kept.bytes = self.kept.bytes.saturating_add(credit.bytes);
        self.due()
    }

    /// Deliveries were written, for which the core counts what was `spent`. Where the client sees less, because a message
    /// could not be read, it will never give the rest again: that is still its credit. What the core is to be told now,
    /// if anything.
    pub(crate) fn written(&mut self, spent: Grant, seen: Grant) -> Option<Grant> {
        let messages = spent.messages.min(self.told.0);
        self.windows.give_back(messages);
        self.told = (self.told.0 - messages, self.told.1.saturating_sub_unsigned(spent.bytes));
        self.kept.messages = self.kept.messages.saturating_add(spent.messages.saturating_sub(seen.messages));
        self.kept.bytes = self.kept.bytes.saturating_add(spent.bytes.saturating_sub(seen.bytes));
        self.due()
    }

    /// What is kept and fits into the window.
    fn fitting(&self) -> Grant {
        let (messages, bytes) = self.told;
        let room = (WINDOW_BYTES as i64).saturating_sub(bytes).max(0).unsigned_abs();
        Grant {
            messages: self.kept.messages.min(WINDOW_MESSAGES.saturating_sub(messages)),
            bytes: self.kept.bytes.min(room),
        }
    }

    /// Tells in steps of at least half a window, or when the core has nothing left to deliver on.
    fn due(&mut self) -> Option<Grant> {
        let fitting = self.fitting();
        let messages = fitting.messages > 0 && self.told.0 <= WINDOW_MESSAGES / 2;
        let bytes = fitting.bytes > 0 && self.told.1 <= WINDOW_BYTES as i64 / 2;
        (messages || bytes).then(|| self.top_up())
    }

    fn top_up(&mut self) -> Grant {
        let Grant { messages, bytes } = self.fitting();
        let messages = self.windows.take(messages);
        self.kept = Grant { messages: self.kept.messages - messages, bytes: self.kept.bytes - bytes };
        self.told = (self.told.0 + messages, self.told.1.saturating_add_unsigned(bytes));
        Grant { messages, bytes }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.windows.give_back(self.told.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plenty() -> Arc<Windows> {
        Arc::new(Windows::new(1 << 30))
    }

    #[test]
    fn consumers_share_what_may_be_delivered_and_each_has_a_little() {
        const ROOM: u32 = 2 * WINDOW_MESSAGES;
        let shared = Arc::new(Windows::new(ROOM as usize * DELIVERED));
        let all = Grant { messages: u32::MAX, bytes: 1 << 40 };
        let mut windows: Vec<(Window, Grant)> = (0..100).map(|_| Window::new(all, &shared)).collect();
        let told: u32 = windows.iter().map(|(_, told)| told.messages).sum();
        assert!(told <= ROOM + 100 * WINDOW_MIN, "{told} messages may be delivered");
        assert!(windows.iter().all(|(_, told)| told.messages >= WINDOW_MIN));
        let (last, told) = windows.last_mut().unwrap();
        let more = last.written(*told, *told).expect("who has written all is told more");
        assert!(more.messages >= WINDOW_MIN && more.messages < 100);
        drop(windows);
        assert_eq!(shared.0.load(Ordering::Relaxed), ROOM.into(), "who detaches gives all back");
    }

    #[test]
    fn publish_credit_comes_back_in_steps_and_ends() {
        let mut credit = PublishCredit::default();
        for _ in 0..4 {
            assert!(credit.spend(PUBLISH_STEP));
        }
        assert!(!credit.spend(1));
        let mut credit = PublishCredit::default();
        assert!(credit.spend(PUBLISH_CREDIT));
        assert_eq!(credit.give_back(PUBLISH_STEP - 1), None);
        assert_eq!(credit.give_back(1), Some(PUBLISH_STEP));
        assert!(credit.spend(PUBLISH_STEP));
        assert!(!credit.spend(1));
    }

    #[test]
    fn the_core_is_never_told_more_than_a_window() {
        let (mut window, first) = Window::new(Grant { messages: 1_000_000, bytes: u64::MAX }, &plenty());
        assert_eq!(first, Grant { messages: WINDOW_MESSAGES, bytes: WINDOW_BYTES });
        assert_eq!(window.add(Grant { messages: 5, bytes: 5 }), None);
        let few = Grant { messages: 10, bytes: 100 };
        assert_eq!(window.written(few, few), None, "not worth a command");
        let half = Grant { messages: WINDOW_MESSAGES / 2, bytes: 0 };
        assert_eq!(window.written(half, half), Some(Grant { messages: WINDOW_MESSAGES / 2 + 10, bytes: 100 }));
    }

    #[test]
    fn what_the_last_message_took_beyond_the_credit_is_owed() {
        let (mut window, first) = Window::new(Grant { messages: 10, bytes: 100 }, &plenty());
        assert_eq!(first, Grant { messages: 10, bytes: 100 });
        let large = Grant { messages: 1, bytes: 3 * WINDOW_BYTES };
        assert_eq!(window.written(large, large), None);
        let owed = Grant { messages: 0, bytes: 3 * WINDOW_BYTES - 100 };
        assert_eq!(window.add(owed), Some(owed), "it is paid to the core, which counts it as well");
        let more = Grant { messages: 0, bytes: 2 * WINDOW_BYTES };
        assert_eq!(
            window.add(more),
            Some(Grant { messages: 0, bytes: WINDOW_BYTES }),
            "and no more than a window beyond"
        );
    }

    #[test]
    fn small_credit_is_told_at_once() {
        let (mut window, first) = Window::new(Grant { messages: 1, bytes: 1000 }, &plenty());
        assert_eq!(first, Grant { messages: 1, bytes: 1000 });
        let one = Grant { messages: 1, bytes: 50 };
        assert_eq!(window.written(one, one), None, "the client has given no more");
        assert_eq!(window.add(one), Some(one));
    }

    #[test]
    fn credit_for_what_the_client_never_sees_is_not_lost() {
        let (mut window, first) = Window::new(Grant { messages: 2, bytes: 100 }, &plenty());
        assert_eq!(first, Grant { messages: 2, bytes: 100 });
        let (both, one) = (Grant { messages: 2, bytes: 100 }, Grant { messages: 1, bytes: 50 });
        assert_eq!(window.written(both, one), Some(one), "one of the two was damaged");
        assert_eq!(window.written(one, NOTHING), Some(one), "and the next one too");
        assert_eq!(window.written(one, one), None);
    }
}
