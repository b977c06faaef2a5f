//! What topics take that are leased from, for those cannot leave memory, and who holds how much of it. Which leases are
//! given depends on it, where there is little room; what a fact does never does.
//!
//! A holder is charged for each lease: of the first in a topic for the topic as well, as it was then. So the charges of all
//! holders are about what the topics take, and a second lease in a topic is cheap.

use core::mem::size_of;

use millpond_types::SessionId;

use crate::state::resident::LEASE_BYTES;
use crate::state::topic::{Lease, Topic};
use crate::state::{LeaseSlot, State, TopicSlot};

#[derive(Default)]
pub(crate) struct Leased {
    /// Bytes of the topics in memory that are leased from.
    pub(crate) bytes: usize,
    /// Bytes that leases without a session are charged.
    pub(crate) held_by_none: usize,
    /// Whether a holder has come to hold less, or all of them, since somebody looked.
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

    /// A topic takes so much from here on.
    pub(crate) fn weighs(&mut self, slot: TopicSlot, bytes: usize) {
        let topic = &mut self.topics[slot];
        let before = topic.residence.set_bytes(bytes);
        self.residents.bytes = self.residents.bytes - before + bytes;
        if topic.in_flight > 0 {
            self.leased.bytes = self.leased.bytes - before + bytes;
            self.leased.has_eased |= bytes < before;
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
    /// The number of leases of a topic changes.
    pub(crate) fn count(&mut self, topic: &mut Topic, change: i64) {
        let before = topic.in_flight;
        topic.in_flight = before.strict_add_signed(change);
        match (before, topic.in_flight) {
            (0, 1..) => self.bytes += topic.residence.bytes(),
            (1.., 0) => self.bytes -= topic.residence.bytes(),
            _ => {}
        }
    }
}
