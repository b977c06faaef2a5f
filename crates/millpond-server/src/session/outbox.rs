//! What waits to be told to one connection.
//!
//! Whoever releases outputs puts all of a batch in under one lock and wakes the connection once; the connection takes
//! all that is there in one swap.
//!
//! Answers stay what they are until there is room to write them, and that of a client that does not read is for ever: so they
//! are counted, of each connection and of all, from when they are decided: a disk that stands still may keep them from being
//! told for as long. Deliveries are not, for they have room before they are decided ([`super::credit`]).

use std::mem;
use std::sync::Arc;

use millpond_core::output::{LeasedRun, Reply, lost};
use millpond_types::limits::PAGE_BYTES_MAX;
use millpond_types::{Code, LeaderEpoch, NamespaceView, OutcomeRun, PublishOutcome, Standing, TopicName};
use tokio::sync::Notify;

use super::ticket::UNANSWERED;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard, PoisonError};

/// Weight at which a connection is closed: its client asks and does not read. The weight is in bytes, roughly; bodies
/// are not in it, for they are read when there is room to write them.
pub(crate) const OUTBOX_MAX: usize = 64 * 1024 * 1024;

/// What rows of answers weigh: of messages, bodies apart, of topics, cursors apart, of dead letters, exchanges and bindings.
pub(crate) const MESSAGE_ROW: usize = 256;
pub(crate) const TOPIC_ROW: usize = 512;
pub(crate) const DEAD_ROW: usize = 1024;
pub(crate) const EXCHANGE_ROW: usize = 256;
pub(crate) const BINDING_ROW: usize = 1024;
/// The same of a run of leases.
const RUN: usize = mem::size_of::<LeasedRun>() + 64;

/// Something to tell a connection.
#[derive(Debug)]
pub(crate) enum Out {
    /// The answer of the request in this place.
    Reply { index: u32, reply: Reply },
    /// Messages for a consumer of the connection's session.
    Delivery { consumer: u32, epoch: Option<LeaderEpoch>, leases: Vec<LeasedRun> },
    /// For a consumer of an exclusive group.
    Standing { consumer: u32, standing: Standing },
    /// The connection's session was not extended in time.
    SessionExpired,
    /// Answer what was asked, then close.
    Drain,
}

/// Why a connection is closed; the client is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Close {
    pub(crate) code: Code,
    pub(crate) detail: String,
}

#[derive(Default)]
pub(crate) struct Outbox {
    waiting: Mutex<Waiting>,
    /// Receipts of the connection that named no current lease, since it was asked for them. They count when they are
    /// decided: a client need not take the answers.
    wrong_receipts: AtomicU32,
    unread: Unread,
    /// Requests of the connection that make dead letters, or come behind those that do, and are not decided.
    burying: AtomicUsize,
    wake: Notify,
}

/// What answers weigh that are not bytes yet: those of one connection, and those of all.
#[derive(Default)]
struct Unread {
    own: AtomicUsize,
    /// Of its own, those that may not be told yet.
    untold: AtomicUsize,
    of_all: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Waiting {
    items: Vec<Out>,
    weight: usize,
    /// Overtakes what waits, which a client that does not read would keep from ever being told.
    close: Option<Close>,
}

impl Outbox {
    /// One whose answers count among those of all.
    pub(crate) fn new(of_all: Arc<AtomicUsize>) -> Outbox {
        let [own, untold] = [(); 2].map(|()| AtomicUsize::new(0));
        Outbox { unread: Unread { own, untold, of_all }, ..Outbox::default() }
    }

    /// Requests in these places, or in none, have these answers, which are put in when they may be told.
    pub(crate) fn decided<'a>(&self, answers: impl Iterator<Item = (u32, &'a Reply)>) {
        let (mut unread, mut wrong) = (0, 0);
        for (index, reply) in answers {
            wrong = wrong_receipts(reply).saturating_add(wrong);
            if index != UNANSWERED {
                unread += weight(reply);
            }
        }
        if wrong > 0 {
            self.wrong_receipts.fetch_add(wrong, Ordering::Relaxed);
        }
        self.unread.untold.fetch_add(unread, Ordering::Relaxed);
        self.unread.add(unread);
    }

    /// Puts items in and wakes the connection.
    pub(crate) fn put(&self, items: impl Iterator<Item = Out>) {
        let mut waiting = self.lock();
        if waiting.close.is_some() {
            return;
        }
        let (mut told, mut unread) = (0, 0);
        for item in items.filter(Out::is_told) {
            waiting.weight += item.weight();
            match item {
                Out::Reply { .. } => told += item.unread(),
                _ => unread += item.unread(),
            }
            waiting.items.push(item);
        }
        self.unread.untold.fetch_sub(told, Ordering::Relaxed);
        self.unread.add(unread);
        if waiting.weight > OUTBOX_MAX {
            let detail = "the connection does not read what it asks for; read, or ask for less at a time".to_owned();
            waiting.close(Close { code: Code::Overloaded, detail });
        }
        drop(waiting);
        self.wake.notify_one();
    }

    /// Closes the connection, whatever waits.
    pub(crate) fn close(&self, close: Close) {
        self.lock().close(close);
        self.wake.notify_one();
    }

    /// Takes all that is there, for which `items` has to be empty.
    pub(crate) fn take(&self, items: &mut Vec<Out>) {
        assert!(items.is_empty());
        let mut waiting = self.lock();
        waiting.weight = 0;
        mem::swap(&mut waiting.items, items);
    }

    /// Of what was taken this became bytes, and counts as such from now on.
    pub(crate) fn turned(&self, item: &Out) {
        let unread = item.unread();
        self.unread.own.fetch_sub(unread, Ordering::Relaxed);
        self.unread.of_all.fetch_sub(unread, Ordering::Relaxed);
    }

    /// What answers weigh that are not bytes yet: those of this connection, and of all.
    pub(crate) fn unread(&self) -> (usize, usize) {
        (self.unread.own.load(Ordering::Relaxed), self.unread.of_all.load(Ordering::Relaxed))
    }

    /// What those of this connection weigh that are told: it is its client that leaves them unread.
    pub(crate) fn told(&self) -> usize {
        self.unread.own.load(Ordering::Relaxed).saturating_sub(self.unread.untold.load(Ordering::Relaxed))
    }

    /// The connection asks for something that makes dead letters, or has to come behind what does.
    pub(crate) fn buries(&self) {
        self.burying.fetch_add(1, Ordering::Relaxed);
    }

    /// One of those was decided.
    pub(crate) fn buried(&self) {
        self.burying.fetch_sub(1, Ordering::Release);
    }

    /// Whether some of those are undecided.
    pub(crate) fn is_burying(&self) -> bool {
        self.burying.load(Ordering::Acquire) > 0
    }

    /// How many of its receipts named no current lease since this was asked last.
    pub(crate) fn take_wrong_receipts(&self) -> u32 {
        match self.wrong_receipts.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.wrong_receipts.swap(0, Ordering::Relaxed),
        }
    }

    /// Why the connection is to be closed, if it is.
    pub(crate) fn closed(&self) -> Option<Close> {
        self.lock().close.clone()
    }

    /// Resolves when something was put in since the last time.
    pub(crate) async fn filled(&self) {
        self.wake.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Unread {
    fn add(&self, unread: usize) {
        self.own.fetch_add(unread, Ordering::Relaxed);
        self.of_all.fetch_add(unread, Ordering::Relaxed);
    }
}

impl Drop for Unread {
    /// What a connection was never told counts no more when it is gone.
    fn drop(&mut self) {
        self.of_all.fetch_sub(self.own.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Waiting {
    /// Nothing else will be told any more: the memory goes now and not when the client reads again.
    fn close(&mut self, close: Close) {
        self.close.get_or_insert(close);
        self.items = Vec::new();
        self.weight = 0;
    }
}

impl Out {
    /// Whether it is for anybody: a request that asked for no answer may get one all the same.
    fn is_told(&self) -> bool {
        !matches!(self, Out::Reply { index: UNANSWERED, .. })
    }

    /// Roughly the bytes that the item takes as a frame, bodies included.
    pub(crate) fn bytes(&self) -> usize {
        let bodies: usize = match self {
            Out::Delivery { leases, .. } | Out::Reply { reply: Reply::Received(leases), .. } => {
                leases.iter().map(|run| run.extent.length as usize).sum()
            }
            Out::Reply { reply: Reply::Messages(rows), .. } => {
                // Those behind what fits a frame come without.
                let all: usize = rows.iter().map(|row| row.extent.length as usize).sum();
                all.min(PAGE_BYTES_MAX)
            }
            Out::Reply { reply: Reply::Dead { rows, .. }, .. } => {
                rows.iter().map(|row| row.extent.length as usize).sum()
            }
            Out::Reply { .. } | Out::Standing { .. } | Out::SessionExpired | Out::Drain => 0,
        };
        self.weight() + bodies
    }

    /// What it counts among answers that are not bytes yet.
    fn unread(&self) -> usize {
        if matches!(self, Out::Delivery { .. }) { 0 } else { self.weight() }
    }

    /// Roughly the bytes that the item takes, bodies apart.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Out::Delivery { leases, .. } => mem::size_of::<Out>() + leases.len() * RUN,
            Out::Reply { reply, .. } => weight(reply),
            Out::Standing { .. } | Out::SessionExpired | Out::Drain => mem::size_of::<Out>(),
        }
    }
}

/// The same of an answer.
fn weight(reply: &Reply) -> usize {
    let rows = match reply {
        Reply::Received(runs) => runs.len() * RUN,
        Reply::Published { outcomes, topics, .. } => copies(outcomes, topics),
        Reply::Finished(outcomes) => size_of_val(&outcomes[..]),
        Reply::Forwarded { finished, published, topics } => size_of_val(&finished[..]) + copies(published, topics),
        Reply::Messages(rows) => rows.len() * MESSAGE_ROW,
        Reply::Namespaces { rows, .. } => rows.iter().map(NamespaceView::frame_bytes).sum(),
        Reply::Exchanges(rows) => rows.len() * EXCHANGE_ROW,
        Reply::Bindings(rows) => rows.len() * BINDING_ROW,
        Reply::Topics(rows) => rows.iter().map(|row| TOPIC_ROW + size_of_val(&row.cursors[..])).sum(),
        Reply::Dead { rows, .. } => rows.len() * DEAD_ROW,
        Reply::Refused { detail, .. } => detail.len(),
        Reply::Lost(_) | Reply::SessionBegun { .. } | Reply::Done | Reply::Count(_) => 0,
    };
    mem::size_of::<Out>() + rows
}

/// What the outcomes of messages weigh, with what is said of those that were refused and the topics that are named.
fn copies(outcomes: &[OutcomeRun<PublishOutcome>], topics: &[TopicName]) -> usize {
    let details = outcomes.iter().map(|run| match &run.outcome {
        PublishOutcome::Refused { detail, .. } => detail.len(),
        PublishOutcome::Queued { .. } | PublishOutcome::Duplicate { .. } | PublishOutcome::Coalesced { .. } => 0,
    });
    size_of_val(outcomes) + details.sum::<usize>() + topics.len() * 512
}

/// How many receipts an answer says to name no current lease, or none that the call may finish.
fn wrong_receipts(reply: &Reply) -> u32 {
    match reply {
        Reply::Lost(receipts) | Reply::Refused { receipts, .. } => *receipts,
        Reply::Finished(outcomes) | Reply::Forwarded { finished: outcomes, .. } => lost(outcomes),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use millpond_types::limits::{GROUPS_MAX, PRIORITIES};
    use millpond_types::{FinishOutcome, GroupCursors, Priority, TopicView};

    use super::*;

    /// Of a forward that was refused, each receipt and each message may have an outcome of its own, in a call of a few bytes.
    #[test]
    fn the_answer_to_a_forward_weighs_what_it_holds() {
        let outcomes = [FinishOutcome::Kept, FinishOutcome::LeaseLost].into_iter().cycle().take(10_000);
        let finished: Vec<_> = outcomes.map(|outcome| OutcomeRun { count: 1, outcome }).collect();
        let refused = PublishOutcome::Refused { code: Code::TopicFull, detail: "d".repeat(500) };
        let published = vec![OutcomeRun { count: 1, outcome: refused }; 100];
        let held = size_of_val(&finished[..]) + size_of_val(&published[..]) + 100 * 500;
        let weight = weight(&Reply::Forwarded { finished, published, topics: Vec::new() });
        assert!((held..held + 1000).contains(&weight), "{weight} of {held}");
    }

    /// Each group has cursors in each priority.
    #[test]
    fn the_answer_about_a_topic_weighs_its_cursors() {
        let zero = Default::default();
        let group = "g".repeat(60).as_str().try_into().unwrap();
        let priority = Priority::DEFAULT;
        let cursors = GroupCursors { group, priority, scan: zero, completion: zero, next: zero, lag: 0 };
        let cursors = vec![cursors; GROUPS_MAX * PRIORITIES];
        let held = size_of_val(&cursors[..]);
        let name = "t".try_into().unwrap();
        let row = TopicView { name, paused: false, counts: Default::default(), oldest: None, due: None, cursors };
        let weight = weight(&Reply::Topics(vec![row]));
        assert!((held..held + 1000).contains(&weight), "{weight} of {held}");
    }

    /// Answers that no request waits for are not told, and would stay where a client does not read.
    #[test]
    fn what_nobody_is_told_is_not_kept() {
        let outbox = Outbox::default();
        let runs = [(FinishOutcome::Done, 3), (FinishOutcome::LeaseLost, 4), (FinishOutcome::LeaseLost, 1)];
        let outcomes = runs.map(|(outcome, count)| OutcomeRun { outcome, count }).to_vec();
        let refused = Reply::Refused { code: Code::LimitExceeded, detail: "too many".to_owned(), receipts: 0 };
        let replies = [(UNANSWERED, Reply::Lost(2)), (UNANSWERED, refused), (0, Reply::Finished(outcomes))];
        outbox.decided(replies.iter().map(|(index, reply)| (*index, reply)));
        outbox.put(replies.into_iter().map(|(index, reply)| Out::Reply { index, reply }));
        let mut told = Vec::new();
        outbox.take(&mut told);
        assert!(matches!(told[..], [Out::Reply { index: 0, .. }]), "{told:?}");
        assert_eq!((outbox.take_wrong_receipts(), outbox.take_wrong_receipts()), (7, 0));
    }

    /// Whatever becomes of it: what is written, what was taken and not written, and what a connection leaves that is closed.
    #[test]
    fn all_that_counts_as_unread_is_counted_off() {
        let of_all = Arc::new(AtomicUsize::new(0));
        let outboxes = [(); 2].map(|()| Outbox::new(of_all.clone()));
        let answer = Reply::Finished(Vec::new());
        let reply = |index| Out::Reply { index, reply: answer.clone() };
        let delivery = Out::Delivery { consumer: 1, epoch: None, leases: Vec::new() };
        let one = reply(0).weight();
        for outbox in &outboxes {
            outbox.decided([0, 1, 2].into_iter().map(|index| (index, &answer)));
            assert_eq!((outbox.unread().0, outbox.told()), (3 * one, 0), "they may not be told yet");
            outbox.put([reply(0), reply(1), reply(2)].into_iter());
            assert_eq!((outbox.unread().0, outbox.told()), (3 * one, 3 * one));
        }
        outboxes[0].decided([(UNANSWERED, &answer)].into_iter());
        outboxes[0].put([delivery, reply(UNANSWERED)].into_iter());
        assert_eq!(outboxes[0].unread(), (3 * one, 6 * one), "deliveries have room of their own");
        let mut taken = Vec::new();
        outboxes[0].take(&mut taken);
        outboxes[0].turned(&taken[0]);
        outboxes[0].turned(&taken[3]);
        assert_eq!(outboxes[0].unread(), (2 * one, 5 * one));
        let [gone, closed] = outboxes;
        drop(gone);
        assert_eq!(closed.unread(), (3 * one, 3 * one));
        closed.close(Close { code: Code::Stopping, detail: String::new() });
        closed.decided([(3, &answer)].into_iter());
        closed.put([reply(3)].into_iter());
        drop(closed);
        assert_eq!(of_all.load(Ordering::Relaxed), 0);
    }
}
