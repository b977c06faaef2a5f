//! Memory that all connections share: who needs more than a little of it takes what it needs at once, in the order in
//! which it was asked for.
//!
//! Invariant: whoever waits for room holds none of it. So whoever has room can finish with it, and nobody waits for
//! somebody who waits. Who has some and makes no use of it, while others wait, is known ([`Held::is_overdue`]) and is
//! closed by its connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that a connection may hold without asking: a small request and its answer touch one page.
pub(crate) const SMALL: usize = 4 * 1024;
/// How long half of the room that is held may take to be used while others wait for it. The largest frame takes as long at 4 Mbit/s.
const PROMPT: Duration = Duration::from_secs(10);
/// After how long it is looked whether it is used as fast as that while another one waits; while several do, it is as much sooner.
const PAUSE: Duration = Duration::from_secs(2);
/// The same, however many wait: a client that lost a packet, or that has no processor, is back by then.
const PAUSE_MIN: Duration = Duration::from_millis(500);

/// So many bytes.
#[derive(Debug)]
pub(crate) struct Room {
    bytes: usize,
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

/// Room that a connection has.
#[derive(Debug)]
pub(crate) struct Held {
    room: Arc<Room>,
    permit: OwnedSemaphorePermit,
    /// Since when its use is counted, and when it is looked at next.
    since: Instant,
    look: Instant,
    /// Bytes of its use since then.
    used: usize,
    /// Whether its client was to blame for that when it was asked last.
    is_stuck: bool,
}

/// A place among those who wait for room.
pub(crate) struct Turn {
    room: Arc<Room>,
    granted: Pin<Box<dyn Future<Output = OwnedSemaphorePermit> + Send>>,
}

impl Room {
    pub(crate) fn new(bytes: usize) -> Arc<Room> {
        // The semaphore's calls count in 32 bits.
        let bytes = bytes.min(u32::MAX as usize);
        Arc::new(Room { bytes, free: Arc::new(Semaphore::new(bytes)), waiting: AtomicUsize::new(0) })
    }

    /// Takes room if there is some and nobody waits for it. All of it is enough for anybody.
    pub(crate) fn try_take(self: &Arc<Room>, bytes: usize) -> Option<Held> {
        let permit = self.free.clone().try_acquire_many_owned(self.count(bytes)).ok()?;
        Some(Held::new(self.clone(), permit))
    }

    /// Waits for room, of which the caller has none.
    pub(crate) fn wait(self: &Arc<Room>, bytes: usize) -> Turn {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let (free, bytes) = (self.free.clone(), self.count(bytes));
        let granted = async move { free.acquire_many_owned(bytes).await.expect("it is never closed") };
        Turn { room: self.clone(), granted: Box::pin(granted) }
    }

    /// How many bytes it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that nobody has.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.free.available_permits()
    }

    fn count(&self, bytes: usize) -> u32 {
        bytes.min(self.bytes) as u32
    }
}

impl Turn {
    /// Resolves to the room once it is there.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Held> {
        self.granted.as_mut().poll(context).map(|permit| Held::new(self.room.clone(), permit))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.room.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Held {
    fn new(room: Arc<Room>, permit: OwnedSemaphorePermit) -> Held {
        let now = Instant::now();
        Held { room, permit, since: now, look: now + PAUSE_MIN, used: 0, is_stuck: false }
    }

    /// Whether it is enough for so many bytes.
    pub(crate) fn is_enough(&self, bytes: usize) -> bool {
        self.permit.num_permits() >= bytes.min(self.room.bytes)
    }

    /// Adds to it what is missing to so many bytes, if there is room; false if not.
    pub(crate) fn try_extend(&mut self, bytes: usize) -> bool {
        let missing = bytes.min(self.room.bytes).saturating_sub(self.permit.num_permits());
        match self.room.free.clone().try_acquire_many_owned(missing as u32) {
            Ok(more) => self.permit.merge(more),
            Err(_) => return false,
        }
        true
    }

    /// Takes other room of the same in.
    pub(crate) fn merge(&mut self, other: Held) {
        self.permit.merge(other.permit);
    }

    /// Gives back what is beyond so many bytes.
    pub(crate) fn shrink(&mut self, bytes: usize) {
        drop(self.permit.split(self.permit.num_permits().saturating_sub(bytes)));
    }

    /// It may be made use of from now on.
    pub(crate) fn begin(&mut self, now: Instant) {
        (self.since, self.look, self.used) = (now, now + PAUSE_MIN, 0);
    }

    /// It was not made use of though it could be: that is as if nothing had been for as long as it may.
    pub(crate) fn was_left(&mut self, now: Instant) {
        (self.since, self.look, self.used) = (now.checked_sub(PROMPT).unwrap_or(now), now, 0);
    }

    /// So many bytes of it were made use of.
    pub(crate) fn used(&mut self, bytes: usize) {
        self.used += bytes;
    }

    /// When [`Held::is_overdue`] is to be asked next.
    pub(crate) fn look(&self) -> Instant {
        self.look
    }

    /// The same of room that waits for a client to read, while `is_stuck` says so: it counts from then on.
    pub(crate) fn is_left_unread(&mut self, is_stuck: bool, now: Instant) -> bool {
        if is_stuck && !std::mem::replace(&mut self.is_stuck, is_stuck) {
            self.begin(now);
        }
        self.is_stuck = is_stuck;
        is_stuck && self.is_overdue(now)
    }

    /// Whether others wait for it and it is hardly made use of: as slowly as by less than a half of it in [`PROMPT`].
    pub(crate) fn is_overdue(&mut self, now: Instant) -> bool {
        if now < self.look {
            return false;
        }
        self.look = now + PAUSE_MIN;
        let took = now.saturating_duration_since(self.since);
        let is_soon = |waiting| took < (PAUSE / waiting).max(PAUSE_MIN);
        match u32::try_from(self.room.waiting.load(Ordering::Relaxed)).unwrap_or(u32::MAX) {
            0 => {
                self.begin(now);
                false
            }
            waiting if is_soon(waiting) => false,
            _ => {
                let least = self.permit.num_permits() as u128 / 2 * took.as_millis() / PROMPT.as_millis();
                let is_hardly_used = (self.used as u128) < least;
                self.begin(now);
                is_hardly_used
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn poll(turn: &mut Turn) -> Option<Held> {
        match turn.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(held) => Some(held),
            Poll::Pending => None,
        }
    }

    #[test]
    fn room_goes_in_the_order_in_which_it_was_asked_for() {
        let room = Room::new(100);
        let all = room.try_take(1_000_000).expect("more than there is means all of it");
        let (mut large, mut small) = (room.wait(80), room.wait(1));
        assert!(poll(&mut large).is_none() && poll(&mut small).is_none());
        drop(all);
        assert!(room.try_take(30).is_none(), "what is free belongs to who waits");
        let held = poll(&mut large).unwrap();
        assert!(held.is_enough(80) && !held.is_enough(81));
        assert!(poll(&mut small).is_some());
    }

    #[test]
    fn who_waits_no_longer_is_not_waited_for() {
        let room = Room::new(100);
        let all = room.try_take(100).unwrap();
        let mut gone = room.wait(100);
        assert!(poll(&mut gone).is_none());
        drop(gone);
        drop(all);
        assert!(room.try_take(100).is_some());
    }

    #[test]
    fn idle_room_is_overdue_only_while_others_wait() {
        let room = Room::new(100);
        let mut held = room.try_take(60).unwrap();
        assert!(held.try_extend(100) && held.is_enough(100));
        let late = |times: u32| Instant::now() + times * (PROMPT + Duration::from_millis(1));
        assert!(!held.is_overdue(late(1)));
        let turn = room.wait(1);
        assert!(!held.is_overdue(late(1)), "it was looked at just now");
        held.used(50);
        assert!(!held.is_overdue(late(2)), "it is being used");
        assert!(held.is_overdue(late(3)));
        drop(turn);
        assert!(!held.is_overdue(late(4)));
        let _turn = room.wait(1);
        held.was_left(late(5));
        assert!(held.is_overdue(late(5)));
    }

    #[test]
    fn the_more_wait_the_sooner_idle_room_is_overdue() {
        let room = Room::new(100);
        let (mut idle, begin) = (room.try_take(100).unwrap(), Instant::now());
        idle.begin(begin);
        let after = |part: Duration| begin + part + Duration::from_millis(1);
        let mut turns = vec![room.wait(1)];
        assert!(!idle.is_overdue(after(PAUSE / 2)));
        turns.push(room.wait(1));
        assert!(!idle.is_overdue(after(PAUSE / 4)) && !idle.is_overdue(after(PAUSE / 2)), "it was looked at just now");
        assert!(idle.is_overdue(after(PAUSE / 2 + PAUSE_MIN)));
        turns.extend((0..1000).map(|_| room.wait(1)));
        idle.begin(begin);
        assert!(!idle.is_overdue(begin + PAUSE_MIN / 2) && idle.is_overdue(after(PAUSE_MIN)));
        // As much as would be half of it in the longest time is enough in a short one.
        idle.begin(begin);
        idle.used(100 / 2 / 20);
        assert!(!idle.is_overdue(begin + PAUSE_MIN));
    }
}
