//! Producer sessions: what makes a publish that is repeated after a lost connection harmless.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use millpond_types::limits::PRODUCER_WINDOW;
use millpond_types::{Millis, OutcomeRun, PublishOutcome, WallTime};

/// A session idle for so long is forgotten: a client that was away longer begins a new one.
pub(crate) const PRODUCER_EXPIRY: Millis = Millis(7 * 24 * 60 * 60 * 1000);

#[derive(Clone)]
pub(crate) struct Producer {
    pub(crate) instance: u32,
    pub(crate) used: WallTime,
    /// The last batches, in order, without a gap.
    pub(crate) batches: VecDeque<(u64, Vec<OutcomeRun<PublishOutcome>>)>,
}

impl Producer {
    pub(crate) fn new(instance: u32) -> Producer {
        Producer { instance, used: WallTime(0), batches: VecDeque::new() }
    }

    /// The number of the last batch; zero before the first.
    pub(crate) fn last(&self) -> u64 {
        self.batches.back().map_or(0, |(sequence, _)| *sequence)
    }

    /// What was told of a batch, if that is still known.
    pub(crate) fn outcomes(&self, sequence: u64) -> Option<&Vec<OutcomeRun<PublishOutcome>>> {
        self.batches.iter().find(|(number, _)| *number == sequence).map(|(_, outcomes)| outcomes)
    }

    pub(crate) fn push(&mut self, sequence: u64, outcomes: Vec<OutcomeRun<PublishOutcome>>) {
        assert!(self.batches.is_empty() || sequence == self.last() + 1, "batches follow one by one");
        if self.batches.len() == PRODUCER_WINDOW {
            self.batches.pop_front();
        }
        self.batches.push_back((sequence, outcomes));
    }

    pub(crate) fn is_forgotten(&self, now: WallTime) -> bool {
        self.used + PRODUCER_EXPIRY <= now
    }
}
