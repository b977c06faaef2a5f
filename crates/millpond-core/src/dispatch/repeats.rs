//! One-shot receives that may be asked for again, because the answer to the first may have been lost.
//!
//! What was told is remembered for a short while and within bounds, in memory alone: after a restart, or where others
//! have taken the room, a repeat is a receive like any other, and the leases of the first run out. Whether those are
//! still current is for the caller to see.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use millpond_types::limits::RECEIVE_REPEAT;
use millpond_types::{RequestId, RunTime};

use crate::command::Ticket;
use crate::fact::NamespaceNumber;
use crate::output::LeasedRun;

/// Answers remembered at most: a hundred a second for all of the time.
const ANSWERS_MAX: usize = 4096;
/// Runs of them all, of some 200 bytes each.
const RUNS_MAX: usize = 32 * 1024;

/// What a receive is asked for again by.
pub(crate) type RepeatKey = (NamespaceNumber, RequestId);

#[derive(Default)]
pub(crate) struct Repeats {
    /// Receives that wait.
    waiting: BTreeMap<RepeatKey, Ticket>,
    told: BTreeMap<RepeatKey, Told>,
    /// What was told, by the time at which it is forgotten.
    order: VecDeque<(RunTime, u64, RepeatKey)>,
    runs: usize,
    answers: u64,
}

struct Told {
    /// Counts answers, so that one which was told later under the same key is not forgotten with the earlier.
    answer: u64,
    leases: Vec<LeasedRun>,
}

impl Repeats {
    pub(super) fn asked(&mut self, key: RepeatKey, ticket: Ticket) {
        self.waiting.insert(key, ticket);
    }

    pub(super) fn over(&mut self, key: RepeatKey) {
        self.waiting.remove(&key);
    }

    /// The receive of this key that still waits.
    pub(crate) fn waits(&self, key: RepeatKey) -> Option<Ticket> {
        self.waiting.get(&key).copied()
    }

    /// What a receive was told, if that is still known.
    pub(crate) fn told(&mut self, key: RepeatKey, now: RunTime) -> &[LeasedRun] {
        self.forget(now);
        self.told.get(&key).map_or(&[], |told| &told.leases)
    }

    pub(super) fn answered(&mut self, key: RepeatKey, leases: &[LeasedRun], now: RunTime) {
        self.answers += 1;
        self.runs += leases.len();
        let before = self.told.insert(key, Told { answer: self.answers, leases: leases.to_vec() });
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
            repeats.answered(key(n), &[], RunTime(0));
        }
        assert_eq!((repeats.told.len(), repeats.order.len()), (ANSWERS_MAX, ANSWERS_MAX));
        // One that is told again is forgotten at its own time.
        repeats.answered(key(2 * ANSWERS_MAX - 1), &[], RunTime(1));
        repeats.forget(RunTime(0) + RECEIVE_REPEAT);
        assert_eq!((repeats.told.len(), repeats.order.len()), (1, 1));
        repeats.forget(RunTime(1) + RECEIVE_REPEAT);
        assert_eq!((repeats.told.len(), repeats.order.len(), repeats.runs), (0, 0, 0));
    }
}
