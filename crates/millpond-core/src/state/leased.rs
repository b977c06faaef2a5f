//! What topics take that are leased from, for those cannot leave memory, and who holds how much of it. Which leases are
//! given depends on it, where there is little room; what a fact does never does.
//!
//! A holder is charged for each lease: of the first in a topic for the topic as well, as it was then. So the charges of all
//! holders are about what the topics take, and a second lease in a topic is cheap.

use core::mem::size_of;

use millpond_types::SessionId;

use crate::state::resident::LEASE_BYTES;
use crate::state::topic::{Lease, Topic};
use crate::state::{LeaseSlot, State};

#[derive(Default)]
pub(crate) struct Leased {
    /// Bytes of the topics in memory that are leased from, as they were weighed last.
    pub(crate) bytes: usize,
    /// What the leases are charged that dispatch has given since: their topics are weighed at the end of the turn.
    pub(crate) given: usize,
    /// Bytes that leases without a session are charged.
    pub(crate) held_by_none: usize,
    /// Whether that may have become less, or what a holder holds, since somebody looked.
    pub(crate) has_eased: bool,
}

impl State {
    /// About how many bytes the topics take that a session has leases of; with no session, those of receives.
    pub(crate) fn bytes_held_by(&self, session: SessionId) -> usize {
        match session {
            SessionId(0) => self.leased.held_by_none,
            session => self.holders.get(&session).map_or(0, |holder| holder.bytes),
        }
    }

    /// What a new lease is charged.
    pub(super) fn charge(&self, slot: LeaseSlot) -> u32 {
        let Lease { slot, .. } = self.leases[slot as usize];
        let topic = &self.topics[slot];
        // One with leases that is being read was not weighed yet.
        let of_topic = if topic.in_flight == 0 { topic.residence.bytes().max(size_of::<Topic>()) } else { 0 };
        u32::try_from(of_topic + LEASE_BYTES).unwrap_or(u32::MAX)
    }
}

impl Leased {
    /// Bytes that leased topics take, about.
    pub(crate) fn total(&self) -> usize {
        self.bytes + self.given
    }

    /// The topics were weighed of which dispatch has given leases. They may take less than was thought.
    pub(crate) fn weighed(&mut self) {
        self.has_eased |= self.given > 0;
        self.given = 0;
    }
}
