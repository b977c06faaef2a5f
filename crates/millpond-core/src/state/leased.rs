//! What topics take that are leased from, for those cannot leave memory, and who holds how much of it. Which leases are
//! given depends on it, where there is little room; what a fact does never does.
//!
//! Messages that are leased together take little more than one of them, until some are finished, extended or let go and
//! others are not: whoever holds them may have each stand for itself. So each of them counts as if it did from the moment in
//! which it is leased, and nothing that is done with leases takes more than was counted.
//!
//! A holder is charged for each message that it leases: of the first in a topic for the topic as well, as it was then. So the
//! charges of all holders are about what the topics take, and a second one in a topic is cheap.

use core::mem::size_of;

use millpond_types::SessionId;

use crate::state::resident::LEASE_BYTES;
use crate::state::topic::{Lease, Topic};
use crate::state::{LeaseSlot, State};

#[derive(Default)]
pub(crate) struct Leased {
    /// Bytes that the topics in memory which are leased from take at the worst, as they were weighed last.
    pub(crate) bytes: usize,
    /// What the leases are charged that dispatch has given since: their topics are weighed at the end of the turn.
    pub(crate) given: usize,
    /// Bytes that leases are charged which heartbeats have left out since the start.
    pub(crate) left_out: usize,
    /// Whether that may have become less, or what a holder holds, since somebody looked.
    pub(crate) has_eased: bool,
}

impl State {
    /// About how many bytes the topics take that a session has leases of.
    pub(crate) fn bytes_held_by(&self, session: SessionId) -> usize {
        self.holders.get(&session).map_or(0, |holder| holder.bytes)
    }

    /// What a new lease is charged, or a part of one that was cut.
    pub(super) fn charge(&self, slot: LeaseSlot) -> u32 {
        let Lease { slot, count, .. } = self.leases[slot as usize];
        let topic = &self.topics[slot];
        // One with leases that is being read was not weighed yet.
        let of_topic = if topic.in_flight == 0 { topic.residence.bytes().max(size_of::<Topic>()) } else { 0 };
        // Runs that a start finds may have any number of messages. What is charged too little for one beyond all room is
        // taken back as it was charged.
        u32::try_from(of_topic + count as usize * LEASE_BYTES).unwrap_or(u32::MAX)
    }
}

impl Leased {
    /// Bytes that leased topics take at the worst, about.
    pub(crate) fn total(&self) -> usize {
        self.bytes + self.given
    }

    /// How many messages may be leased until that is as much as a ration: one at least, which goes beyond it.
    pub(crate) fn messages_until(&self, ration: usize) -> u32 {
        let messages = ration.saturating_sub(self.total()) / LEASE_BYTES;
        u32::try_from(messages).unwrap_or(u32::MAX).max(1)
    }

    /// The topics were weighed of which dispatch has given leases. They may take less than was thought.
    pub(crate) fn weighed(&mut self) {
        self.has_eased |= self.given > 0;
        self.given = 0;
    }
}
