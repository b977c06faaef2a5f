//! Runs: in strict order, messages that were leased together and are finished one after another.
//!
//! Where the policy leases runs, the leases of a topic are one run, for the next begins when nothing of it is left. So their
//! numbers are its order, and nothing has to be kept of it.

use bytes::Bytes;
use millpond_types::{LeaseNumber, Priority};

use crate::Core;
use crate::fact::{DeadReason, FactLog, ReturnPlace};
use crate::state::TopicSlot;

impl Core {
    /// Sees to it that all of what may be leased as a run is in memory, for how much that is depends on nothing else. False
    /// if it has to be waited for.
    pub(crate) fn bring_run(&mut self, slot: TopicSlot, priority: Priority, count: u32) -> bool {
        let level = self.state.topics[slot].levels.iter().position(|level| level.priority == priority);
        let Some(level) = level.filter(|_| self.state.policy(slot).leases_runs()) else { return true };
        let brought = self.bring_lines(slot, u64::from(count), level..level + 1);
        brought.map_err(|want| self.want(want)).is_ok()
    }

    /// Whether nothing of its run has to be finished before a lease.
    pub(super) fn is_next_of_run(&self, slot: TopicSlot, lease: LeaseNumber) -> bool {
        let is_first = || self.state.topics[slot].leases.first_key_value().is_some_and(|(first, _)| *first >= lease);
        !self.state.policy(slot).leases_runs() || is_first()
    }

    /// Whether nothing of its run has to be finished before a lease, once these are.
    pub(super) fn is_next_after(
        &self,
        slot: TopicSlot,
        lease: LeaseNumber,
        acked: &[(TopicSlot, LeaseNumber, u32)],
    ) -> bool {
        if !self.state.policy(slot).leases_runs() {
            return true;
        }
        let before = self.state.topics[slot].leases.range(..lease);
        let before: u64 =
            before.map(|(first, of)| u64::from(self.state.leases[*of as usize].count).min(lease.0 - first.0)).sum();
        let acked = acked.iter().filter(|(of, number, _)| *of == slot && *number < lease);
        before == acked.map(|(_, _, count)| u64::from(*count)).sum::<u64>()
    }

    /// A lease has run out, or its session has. Of a run only the first message has failed: nothing behind it was begun.
    pub(crate) fn run_out(&mut self, slot: TopicSlot, lease: LeaseNumber, count: u32, log: &mut dyn FactLog) {
        let count = if self.state.policy(slot).leases_runs() { 1 } else { count };
        self.fail(slot, lease, count, DeadReason::LeaseExpired, Bytes::new(), log);
        self.give_back_rest(slot, lease, log);
    }

    /// Gives back what a session held, unless it came back with what was before it in its run.
    pub(super) fn release_held(&mut self, slot: TopicSlot, lease: LeaseNumber, count: u32, log: &mut dyn FactLog) {
        if self.state.is_leased(slot, lease) {
            self.give_back(slot, lease, count, false, ReturnPlace::Head, log);
            self.give_back_rest(slot, lease, log);
        }
    }

    /// Gives back what was leased in a run behind a lease that has come back or died, for it may not be worked on before
    /// that, and who has it was told to go on in order. It has not failed.
    pub(super) fn give_back_rest(&mut self, slot: TopicSlot, ended: LeaseNumber, log: &mut dyn FactLog) {
        if !self.state.policy(slot).leases_runs() {
            return;
        }
        while let Some((lease, of)) = self.state.topics[slot].leases.range(ended..).next() {
            let (lease, count) = (*lease, self.state.leases[*of as usize].count);
            self.give_back(slot, lease, count, false, ReturnPlace::Head, log);
        }
    }
}
