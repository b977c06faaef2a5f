//! One-shot receives that may be asked for again, because the answer to the first may have been lost.
//!
//! What was told is remembered for a short while and within bounds, in memory alone: after a restart, or where others
//! have taken the room, a repeat is a receive like any other, and the leases of the first run out. Whether those are
//! still current is for the caller to see.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use millpond_types::limits::RECEIVE_REPEAT;
use millpond_types::{RequestId, RunTime};

use crate::command::{Receive, Ticket};
use crate::fact::{GroupNumber, NamespaceNumber};
use crate::output::LeasedRun;

/// Answers remembered at most: a hundred a second for all of the time.
const ANSWERS_MAX: usize = 4096;
/// Runs of them all, of some 200 bytes each.
const RUNS_MAX: usize = 32 * 1024;

/// What a receive is asked for again by.
pub(crate) type RepeatKey = (NamespaceNumber, RequestId);

/// A receive with a request id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Repeatable {
    pub(crate) key: RepeatKey,
    /// Which of the calls with this key it is.
    pub(crate) call: u64,
    /// What it asks for.
    wish: Wish,
    messages: u32,
}

/// What has to be the same in a repeat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wish {
    group: GroupNumber,
    /// The hash of its filter.
    filter: u64,
    at_most_once: bool,
}

impl Repeatable {
    pub(crate) fn new(key: RepeatKey, group: GroupNumber, filter: u64, receive: &Receive) -> Repeatable {
        let wish = Wish { group, filter, at_most_once: receive.at_most_once };
        Repeatable { key, call: receive.call, wish, messages: receive.messages }
    }

    /// Whether it asks for what another does, or for more messages.
    pub(crate) fn repeats(&self, first: &Repeatable) -> bool {
        self.wish == first.wish && self.messages >= first.messages
    }
}

#[derive(Default)]
pub(crate) struct Repeats {
    /// Receives that wait.
    waiting: BTreeMap<RepeatKey, (Ticket, Repeatable)>,
    told: BTreeMap<RepeatKey, Told>,
    /// What was told, by the time at which it is forgotten.
    order: VecDeque<(RunTime, u64, RepeatKey)>,
    runs: usize,
    answers: u64,
}

struct Told {
    /// Counts answers, so that one which was told later under the same key is not forgotten with the earlier.
    answer: u64,
    /// The last call that was told them.
    call: u64,
    leases: Vec<LeasedRun>,
}

impl Repeats {
    pub(super) fn asked(&mut self, ticket: Ticket, receive: Repeatable) {
        self.waiting.insert(receive.key, (ticket, receive));
    }

    pub(super) fn over(&mut self, key: RepeatKey) {
        self.waiting.remove(&key);
    }

    /// The receive of this key that still waits.
    pub(crate) fn waits(&self, key: RepeatKey) -> Option<(Ticket, Repeatable)> {
        self.waiting.get(&key).copied()
    }

    /// What a receive was told, if that is still known.
    pub(crate) fn told(&mut self, key: RepeatKey, now: RunTime) -> &[LeasedRun] {
        self.forget(now);
        self.told.get(&key).map_or(&[], |told| &told.leases)
    }

    /// The last call with this key that waits or was told leases, if it is known.
    pub(crate) fn last_call(&self, key: RepeatKey) -> Option<u64> {
        let waits = self.waiting.get(&key).map(|(_, receive)| receive.call);
        waits.or_else(|| self.told.get(&key).map(|told| told.call))
    }

    /// What was told under this key is another call's from here on.
    pub(crate) fn told_again(&mut self, receive: Repeatable) {
        if let Some(told) = self.told.get_mut(&receive.key) {
            told.call = receive.call;
        }
    }

    /// What is delivered at most once has ended, and nobody is told it again.
    pub(super) fn answered(&mut self, receive: Repeatable, leases: &[LeasedRun], now: RunTime) {
        if !receive.wish.at_most_once {
            self.remember((receive.key, receive.call), leases, now);
        }
    }

    fn remember(&mut self, (key, call): (RepeatKey, u64), leases: &[LeasedRun], now: RunTime) {
        self.answers += 1;
        self.runs += leases.len();
        let before = self.told.insert(key, Told { answer: self.answers, call, leases: leases.to_vec() });
        self.runs -= before.map_or(0, |before| before.leases.len());
        self.order.push_back((now + RECEIVE_REPEAT, self.answers, key));
        self.forget(now);
    }

    fn forget(&mut self, now: RunTime) {
        while let Some(&(until, answer, key)) = self.order.front()
            && (until <= now || self.order.len() > ANSWERS_MAX || self.runs > RUNS_MAX)
        {
            self.order.pop_front();
            if self.told.get(&key).is_some_and(|told| told.answer == answer) {
                self.runs -= self.told.remove(&key).map_or(0, |told| told.leases.len());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let mut repeats = Repeats::default();
        let key = |n: usize| (0, RequestId(n as u128));
        for n in 0..2 * ANSWERS_MAX {
            repeats.remember((key(n), 0), &[], RunTime(0));
        }
        assert_eq!((repeats.told.len(), repeats.order.len()), (ANSWERS_MAX, ANSWERS_MAX));
        // One that is told again is forgotten at its own time.
        repeats.remember((key(2 * ANSWERS_MAX - 1), 0), &[], RunTime(1));
        repeats.forget(RunTime(0) + RECEIVE_REPEAT);
        assert_eq!((repeats.told.len(), repeats.order.len()), (1, 1));
        repeats.forget(RunTime(1) + RECEIVE_REPEAT);
        assert_eq!((repeats.told.len(), repeats.order.len(), repeats.runs), (0, 0, 0));
    }
}
