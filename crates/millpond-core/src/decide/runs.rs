//! Runs: in strict order, messages that were leased together and are finished one after another.
//!
//! A lease knows the first of the run that it was given in, and the leases of a run have numbers that follow each other: so
//! they are its order. It stays a run until all of it is over, whatever the policy says by then; and what was leased before
//! a policy of runs came is of none.

use alloc::collections::BTreeMap;

use bytes::Bytes;
use millpond_types::{FinishOutcome, LeaseNumber, Priority};

use crate::Core;
use crate::fact::{DeadReason, FactLog, ReturnPlace};
use crate::state::{LeaseSlot, TopicSlot};

/// Leases of runs that a call has named so far: of each topic from which number on how many. Kept in order, for a call names
/// thousands, and each of them asks for those of its own run.
pub(super) type Named = BTreeMap<(TopicSlot, LeaseNumber), u32>;

impl Core {
    /// Sees to it that all of what may be leased as a run is in memory, for how much that is depends on nothing else. False
    /// if it has to be waited for.
    pub(crate) fn bring_run(&mut self, slot: TopicSlot, priority: Priority, count: u32) -> bool {
        let level = self.state.topics[slot].levels.iter().position(|level| level.priority == priority);
        let Some(level) = level else { return true };
        let brought = self.bring_lines(slot, u64::from(count), level..level + 1);
        brought.map_err(|want| self.want(want)).is_ok()
    }

    /// The run that a lease is of, by its first lease.
    fn run_of(&self, slot: TopicSlot, lease: LeaseNumber) -> Option<LeaseNumber> {
        let of = self.state.topics[slot].lease(lease).expect("the lease is current");
        self.state.leases[of as usize].run
    }

    /// Whether nothing of its run has to be finished before a lease.
    pub(super) fn is_next_of_run(&self, slot: TopicSlot, of: LeaseSlot, lease: LeaseNumber) -> bool {
        let first_of = |run| self.state.topics[slot].leases.range(run..).next().map(|(first, _)| *first);
        self.state.leases[of as usize].run.is_none_or(|run| first_of(run) >= Some(lease))
    }

    /// Whether nothing of their run has to be finished before so many leases, once those are that were named before them. They
    /// are named with that.
    pub(super) fn is_next_after(
        &self,
        slot: TopicSlot,
        of: LeaseSlot,
        (lease, count): (LeaseNumber, u32),
        named: &mut Named,
    ) -> bool {
        let Some(run) = self.state.leases[of as usize].run else { return true };
        let before = self.state.topics[slot].leases.range(run..lease);
        let before: u64 =
            before.map(|(first, of)| u64::from(self.state.leases[*of as usize].count).min(lease.0 - first.0)).sum();
        let acked: u64 = named.range((slot, run)..(slot, lease)).map(|(_, count)| u64::from(*count)).sum();
        named.insert((slot, lease), count);
        before == acked
    }

    /// A lease has run out, or its session has. Of a run only the first message has failed: nothing behind it was begun. How many
    /// dead letters that has made.
    pub(crate) fn run_out(&mut self, slot: TopicSlot, lease: LeaseNumber, count: u32, log: &mut dyn FactLog) -> usize {
        let run = self.run_of(slot, lease);
        let count = if run.is_some() { 1 } else { count };
        let outcome = self.fail(slot, (lease, count), None, (DeadReason::LeaseExpired, Bytes::new()), log);
        letters(&outcome, count) + self.give_back_rest(slot, run, lease, log)
    }

    /// Gives back what a session held, unless it came back with what was before it in its run. How many dead letters that has
    /// made.
    pub(crate) fn release_held(
        &mut self,
        slot: TopicSlot,
        lease: LeaseNumber,
        count: u32,
        log: &mut dyn FactLog,
    ) -> usize {
        if !self.state.is_leased(slot, lease) {
            return 0;
        }
        let run = self.run_of(slot, lease);
        let outcome = self.give_back(slot, lease, count, false, ReturnPlace::Head, log);
        letters(&outcome, count) + self.give_back_rest(slot, run, lease, log)
    }

    /// Gives back what was leased in a run behind a lease that has come back or died, for it may not be worked on before
    /// that, and who has it was told to go on in order. It has not failed. How many dead letters that has made.
    pub(super) fn give_back_rest(
        &mut self,
        slot: TopicSlot,
        run: Option<LeaseNumber>,
        ended: LeaseNumber,
        log: &mut dyn FactLog,
    ) -> usize {
        let mut made = 0;
        if run.is_none() {
            return made;
        }
        while let Some((lease, of)) = self.state.topics[slot].leases.range(ended..).next() {
            let (lease, of) = (*lease, &self.state.leases[*of as usize]);
            let count = of.count;
            if of.run != run {
                break;
            }
            made += letters(&self.give_back(slot, lease, count, false, ReturnPlace::Head, log), count);
        }
        made
    }
}

/// How many dead letters have become of messages with which this was done.
fn letters(outcome: &FinishOutcome, count: u32) -> usize {
    if *outcome == FinishOutcome::Dead { count as usize } else { 0 }
}
