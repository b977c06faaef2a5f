//! The numbers that outlive what they name.

use millpond_types::LeaderEpoch;

use crate::fact::{GroupNumber, NamespaceNumber};

/// High-water marks. Nothing is kept per absent topic: a topic that comes (back) into being starts above them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Numbers {
    /// The next topic's number.
    pub(crate) next_topic: u64,
    /// The next namespace's number.
    pub(crate) next_namespace: NamespaceNumber,
    /// The next group's number.
    pub(crate) next_group: GroupNumber,
    /// Above every sequence and every lease number ever given out.
    pub(crate) high_water: u64,
    /// The highest epoch that an office ever had.
    pub(crate) epochs: LeaderEpoch,
    /// Whatever is given out now is at least this; set at a start after anything but an orderly stop.
    pub(crate) raised: u64,
}

/// How far a start after a crash raises all numbers. At level `buffered` an id is told before it is synced, and at most
/// 64 MiB of journal are ever written and not synced, so fewer than 64 Mi / 9 messages can have been told and lost.
pub(crate) const RAISE: u64 = 1 << 24;

impl Numbers {
    /// The number for a new topic.
    pub(crate) fn topic(&self) -> u64 {
        self.next_topic.max(self.raised)
    }

    /// Where the sequences and leases of a new topic begin.
    pub(crate) fn floor(&self) -> u64 {
        self.high_water.max(self.raised)
    }

    /// Takes note of a sequence or lease number that was given out.
    pub(crate) fn note(&mut self, end: u64) {
        self.high_water = self.high_water.max(end);
    }
}
