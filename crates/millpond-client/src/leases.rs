//! The leases that a session holds, as runs.
//!
//! Invariant: no two runs overlap, and of the credit that a delivery used up exactly as much comes back over the life of
//! its run, however it is cut; what came back for leases that then did not end is owed. A run costs one entry, whether it
//! has one lease or thousands.

use std::collections::BTreeMap;

use millpond_types::{LeaseNumber, Receipt, TopicNumber};

/// Credit that was used up by deliveries: messages, and bytes of their blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Spent {
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
}

impl Spent {
    pub(crate) fn add(&mut self, more: Spent) {
        self.messages += more.messages;
        self.bytes += more.bytes;
    }

    /// Takes off as much of what is owed as there is.
    pub(crate) fn pay(&mut self, owed: &mut Spent) {
        let paid = Spent { messages: self.messages.min(owed.messages), bytes: self.bytes.min(owed.bytes) };
        for side in [self, owed] {
            side.messages -= paid.messages;
            side.bytes -= paid.bytes;
        }
    }
}

/// The leases held, by topic, group and lease number.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    runs: BTreeMap<(TopicNumber, u32, LeaseNumber), Run>,
    count: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    count: u32,
    /// The credit that its messages have used up and that was not given back: nothing once they were let go.
    bound: Spent,
    consumer: u32,
    /// Heartbeats name these leases as ones to let run out.
    let_go: bool,
    /// A request was sent that is to end them. Their credit was given back with it.
    ending: bool,
}

impl Run {
    /// The credit that its messages bind.
    fn binds(&self) -> Spent {
        if self.ending { Spent::default() } else { self.bound }
    }

    /// Splits off what lies behind the first `count` leases.
    fn split(&mut self, count: u32) -> Run {
        assert!(count < self.count, "a split leaves both sides something");
        let share = |whole: u64| (u128::from(whole) * u128::from(count) / u128::from(self.count)) as u64;
        let front = Spent { messages: share(self.bound.messages.into()) as u32, bytes: share(self.bound.bytes) };
        let back = Spent { messages: self.bound.messages - front.messages, bytes: self.bound.bytes - front.bytes };
        let behind = Run { count: self.count - count, bound: back, ..*self };
        (self.count, self.bound) = (count, front);
        behind
    }
}

impl Leases {
    /// How many runs.
    pub(crate) fn runs_len(&self) -> usize {
        self.runs.len()
    }

    /// Notes a run that was delivered to a consumer.
    pub(crate) fn insert(&mut self, first: Receipt, spent: Spent, consumer: u32) {
        let run = Run { count: spent.messages, bound: spent, consumer, let_go: false, ending: false };
        self.put((first.topic, first.group, first.lease), run);
    }

    pub(crate) fn contains(&self, receipt: &Receipt) -> bool {
        self.before((receipt.topic, receipt.group, receipt.lease.0))
            .is_some_and(|(key, run)| receipt.lease.0 - key.2.0 < u64::from(run.count))
    }

    /// Takes out those of `count` leases from `first` on that are held; `freed` is told of the credit they bound.
    pub(crate) fn remove(&mut self, first: Receipt, count: u32, mut freed: impl FnMut(u32, Spent)) {
        for (_, run) in self.cut_out(first, count) {
            freed(run.consumer, run.binds());
        }
    }

    /// Notes that a request was sent that is to end those of `count` leases from `first` on that are held; `freed` is told of the
    /// credit they bound.
    pub(crate) fn end(&mut self, first: Receipt, count: u32, mut freed: impl FnMut(u32, Spent)) {
        for (key, run) in self.cut_out(first, count) {
            freed(run.consumer, run.binds());
            self.put(key, Run { ending: true, ..run });
        }
    }

    /// Notes that the request did not end them; `bound` is told of the credit they bind again.
    pub(crate) fn keep(&mut self, first: Receipt, count: u32, mut bound: impl FnMut(u32, Spent)) {
        for (key, run) in self.cut_out(first, count) {
            if run.ending {
                bound(run.consumer, run.bound);
            }
            self.put(key, Run { ending: false, ..run });
        }
    }

    /// Forgets those that a request was to end.
    pub(crate) fn forget_ending(&mut self) {
        self.runs.retain(|_, run| !run.ending);
        self.count = self.runs.values().map(|run| u64::from(run.count)).sum();
    }

    /// Takes out all that a consumer holds.
    pub(crate) fn remove_all(&mut self, consumer: u32, mut freed: impl FnMut(u32, Spent)) {
        let mut removed = 0;
        self.runs.retain(|_, run| {
            let stays = run.consumer != consumer;
            if !stays {
                removed += u64::from(run.count);
                freed(run.consumer, run.binds());
            }
            stays
        });
        self.count -= removed;
    }

    /// Lets those of `count` leases from `first` on that are held run out; `freed` is told of the credit they bound.
    pub(crate) fn let_go(&mut self, first: Receipt, count: u32, mut freed: impl FnMut(u32, Spent)) {
        for (key, run) in self.cut_out(first, count) {
            freed(run.consumer, run.binds());
            self.put(key, Run { bound: Spent::default(), let_go: true, ..run });
        }
    }

    /// The credit that a consumer's leases bind.
    pub(crate) fn bound_by(&self, consumer: u32) -> Spent {
        let mut bound = Spent::default();
        self.runs.values().filter(|run| run.consumer == consumer).for_each(|run| bound.add(run.binds()));
        bound
    }

    /// All runs, as a resumed session names them.
    pub(crate) fn held(&self) -> Vec<(Receipt, u32)> {
        self.runs.iter().map(|(key, run)| (receipt(key), run.count)).collect()
    }

    /// The leases that heartbeats leave out, `most` at most.
    pub(crate) fn excepted(&self, most: usize) -> Vec<Receipt> {
        let runs = self.runs.iter().filter(|(_, run)| run.let_go);
        let leases = |(key, run): (&(TopicNumber, u32, LeaseNumber), &Run)| {
            let first = receipt(key);
            (0..u64::from(run.count)).map(move |i| Receipt { lease: LeaseNumber(first.lease.0 + i), ..first })
        };
        runs.flat_map(leases).take(most).collect()
    }

    /// Forgets all; how many there were.
    pub(crate) fn clear(&mut self) -> u64 {
        self.runs.clear();
        std::mem::take(&mut self.count)
    }

    fn put(&mut self, key: (TopicNumber, u32, LeaseNumber), run: Run) {
        self.count += u64::from(run.count);
        self.runs.insert(key, run);
    }

    fn before(
        &self,
        (topic, group, lease): (TopicNumber, u32, u64),
    ) -> Option<(&(TopicNumber, u32, LeaseNumber), &Run)> {
        let found = self.runs.range(..=(topic, group, LeaseNumber(lease))).next_back();
        found.filter(|(key, _)| (key.0, key.1) == (topic, group))
    }

    fn cut_out(&mut self, first: Receipt, count: u32) -> Vec<((TopicNumber, u32, LeaseNumber), Run)> {
        let (topic, group, start) = (first.topic, first.group, first.lease.0);
        let end = start.saturating_add(u64::from(count));
        // A run that begins before the cut is split at it, so that whole runs remain to be taken.
        for edge in [start, end] {
            let Some((&key, &run)) = self.before((topic, group, edge)) else { continue };
            let inside = edge - key.2.0;
            if inside > 0 && inside < u64::from(run.count) {
                let mut front = run;
                let behind = front.split(inside as u32);
                self.runs.insert(key, front);
                self.runs.insert((topic, group, LeaseNumber(edge)), behind);
            }
        }
        let range = (topic, group, LeaseNumber(start))..(topic, group, LeaseNumber(end));
        let taken: Vec<_> = self.runs.range(range).map(|(key, run)| (*key, *run)).collect();
        for (key, run) in &taken {
            self.runs.remove(key);
            self.count -= u64::from(run.count);
        }
        taken
    }
}

fn receipt(&(topic, group, lease): &(TopicNumber, u32, LeaseNumber)) -> Receipt {
    Receipt { topic, group, lease }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(lease: u64) -> Receipt {
        Receipt { topic: TopicNumber(1), group: 0, lease: LeaseNumber(lease) }
    }

    fn spent(messages: u32, bytes: u64) -> Spent {
        Spent { messages, bytes }
    }

    fn removed(leases: &mut Leases, first: u64, count: u32) -> Spent {
        let mut sum = Spent::default();
        leases.remove(at(first), count, |_, spent| sum.add(spent));
        sum
    }

    #[test]
    fn all_credit_comes_back_however_a_run_is_cut() {
        for cuts in [vec![(10, 7)], vec![(12, 1), (10, 2), (13, 4)], vec![(16, 1), (10, 6)], vec![(0, 12), (12, 100)]] {
            let mut leases = Leases::default();
            leases.insert(at(10), spent(7, 100), 3);
            let mut sum = Spent::default();
            for &(first, count) in &cuts {
                sum.add(removed(&mut leases, first, count));
            }
            assert_eq!((sum, leases.count, leases.runs_len()), (spent(7, 100), 0, 0), "{cuts:?}");
        }
    }

    #[test]
    fn what_is_not_held_is_neither_found_nor_freed() {
        let mut leases = Leases::default();
        leases.insert(at(10), spent(3, 30), 1);
        assert_eq!(removed(&mut leases, 13, 5), Spent::default());
        assert_eq!(removed(&mut leases, 1, 9), Spent::default());
        let other_topic = Receipt { topic: TopicNumber(2), ..at(11) };
        assert!(leases.contains(&at(12)) && !leases.contains(&at(13)) && !leases.contains(&at(9)));
        assert!(!leases.contains(&other_topic));
        assert_eq!(removed(&mut leases, 11, 1), spent(1, 10));
        assert!(!leases.contains(&at(11)) && leases.contains(&at(12)) && leases.contains(&at(10)));
        assert_eq!(leases.count, 2);
    }

    #[test]
    fn leases_let_go_are_excepted_and_bind_no_credit() {
        let mut leases = Leases::default();
        leases.insert(at(10), spent(4, 40), 1);
        let mut freed = Spent::default();
        leases.let_go(at(11), 2, |_, spent| freed.add(spent));
        assert_eq!(freed, spent(2, 20));
        assert_eq!(leases.excepted(10), [at(11), at(12)]);
        assert_eq!(leases.excepted(1), [at(11)]);
        assert_eq!(leases.bound_by(1), spent(2, 20));
        assert_eq!(leases.held(), [(at(10), 1), (at(11), 2), (at(13), 1)]);
        assert_eq!(removed(&mut leases, 10, 4), spent(2, 20));
    }

    #[test]
    fn what_a_request_did_not_end_binds_its_credit_again() {
        let mut leases = Leases::default();
        leases.insert(at(10), spent(4, 40), 1);
        let (mut freed, mut owed) = (Spent::default(), Spent::default());
        leases.end(at(11), 2, |_, spent| freed.add(spent));
        assert_eq!((freed, leases.bound_by(1)), (spent(2, 20), spent(2, 20)));
        assert!(leases.contains(&at(11)), "it is held until it is over");
        leases.keep(at(10), 2, |_, spent| owed.add(spent));
        assert_eq!((owed, leases.bound_by(1)), (spent(1, 10), spent(3, 30)), "only one of these was to end");
        assert_eq!(removed(&mut leases, 12, 1), Spent::default(), "its credit was given back before");
        leases.end(at(13), 1, |_, _| {});
        leases.forget_ending();
        assert_eq!((leases.held(), leases.count), (vec![(at(10), 1), (at(11), 1)], 2));
        let mut returned = spent(3, 5);
        returned.pay(&mut owed);
        assert_eq!((returned, owed), (spent(2, 0), spent(0, 5)));
    }
}
