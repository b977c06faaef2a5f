//! Groups that are being deleted: all that they hold ends, a slice a turn, and then they are gone.
//!
//! What is left of a group tells how far this has come, so a start goes on with it and nothing is kept for that.

use alloc::vec::Vec;

use millpond_types::{EndReason, Priority, Sequence};

use super::{SLICE, WRITING};
use crate::Core;
use crate::fact::{Fact, FactLog, ReturnPlace};
use crate::page::DeadPage;
use crate::state::TopicSlot;
use crate::state::topic::{AsideWhy, Topic};
use crate::store::{Key, Range, Want};

/// Topics, or dead letters, that are fetched at a time.
const FETCHED: u32 = 256;

/// What is waited for before a group that ends can go on.
#[derive(Default)]
pub(crate) struct Ending {
    waits: Option<Want>,
}

impl Ending {
    /// Whether this is what is waited for.
    pub(crate) fn wait_for(&self, want: &Want) -> bool {
        self.waits.as_ref() == Some(want)
    }
}

impl Core {
    /// Whether there is a group to end, and nothing that has to be waited for.
    pub(crate) fn has_groups_to_end(&self) -> bool {
        self.ending.waits.is_none() && self.state.groups.ending().next().is_some()
    }

    /// Goes on with the first group that is being deleted.
    pub(crate) fn end_groups(&mut self, log: &mut dyn FactLog) {
        if !self.has_groups_to_end() {
            return;
        }
        let group = self.state.groups.ending().next().expect("there is one");
        let mut left = SLICE;
        let slots: Vec<TopicSlot> = self.state.topics.of_group(group).take(SLICE).collect();
        for slot in &slots {
            if let Err(want) = self.end_topic(*slot, &mut left, log) {
                return self.wait_to_end(want);
            }
            if left == 0 {
                return;
            }
        }
        if !slots.is_empty() {
            // They vanish at the end of the turn.
            return;
        }
        let of = &self.state.groups[group];
        if let Some(shelf) = of.cold_shelves().next() {
            let bound = |name: &[u8]| Key::topic_bound(group, shelf, name);
            let range = Range { from: bound(&[]), until: bound(&[u8::MAX]), limit: FETCHED };
            self.wait_to_end(Want::Range(range));
        } else if of.counts.dead > 0 {
            let bound = |name: &[u8]| Key::dead_bound(of.namespace, group, name);
            let range = Range { from: bound(&[]), until: bound(&[u8::MAX]), limit: FETCHED };
            self.wait_to_end(Want::Range(range));
        } else {
            self.commit(Fact::GroupDeleted { group }, log);
        }
    }

    /// What was waited for has come, with the dead letters among it. Topics are in memory by now, if nobody has them.
    pub(crate) fn arrived_for_ending(&mut self, want: &Want, letters: Vec<DeadPage>, log: &mut dyn FactLog) {
        if !self.ending.wait_for(want) {
            return;
        }
        self.ending.waits = None;
        for letter in letters {
            let Some(letter) = self.state.letter_by_now(letter) else { continue };
            self.commit(Fact::DeadPurged { letter: letter.letter() }, log);
            self.jobs.letter_changed((letter.group, letter.id), None);
        }
        // At once, for what has come may not find room until the next turn.
        self.end_groups(log);
    }

    fn wait_to_end(&mut self, want: Want) {
        self.ending.waits = Some(want.clone());
        self.want(want);
    }

    /// Ends what a topic holds, or as much as there is room for. An error tells what has to be fetched first.
    fn end_topic(&mut self, slot: TopicSlot, left: &mut usize, log: &mut dyn FactLog) -> Result<(), Want> {
        self.give_all_back(slot, left, log);
        for index in 0..self.state.topics[slot].levels.len() {
            let priority = self.state.topics[slot].levels[index].priority;
            while *left > 0
                && let Some((first, count)) = self.first_run(slot, priority)?
            {
                let Topic { number: topic, group, .. } = self.state.topics[slot];
                let reason = EndReason::Purged;
                self.commit(Fact::Ended { topic, group, priority, first, count, reason }, log);
                *left = left.saturating_sub(WRITING);
            }
        }
        // So that it vanishes, if nothing has happened to it.
        self.state.touch(slot);
        Ok(())
    }

    /// Whoever holds leases has lost them.
    fn give_all_back(&mut self, slot: TopicSlot, left: &mut usize, log: &mut dyn FactLog) {
        while *left > 0
            && let Some((lease, lease_slot)) = self.state.topics[slot].leases.first_key_value()
        {
            let Topic { number: topic, group, .. } = self.state.topics[slot];
            let (lease, count) = (*lease, self.state.leases[*lease_slot as usize].count);
            self.commit(Fact::Returned { topic, group, lease, count, failed: false, place: ReturnPlace::Head }, log);
            *left = left.saturating_sub(WRITING);
        }
    }

    /// The run at the front of a line, or else one that is aside.
    fn first_run(&mut self, slot: TopicSlot, priority: Priority) -> Result<Option<(Sequence, u32)>, Want> {
        let front = self.state.topics[slot].level(priority).and_then(|level| level.line.first());
        if let Some(first) = front {
            self.state.bring(slot, priority, first)?;
            let level = self.state.topics[slot].level(priority).expect("it was just looked at");
            let run = level.line.front().expect("it was just brought");
            return Ok(Some((run.first, run.count)));
        }
        let level = self.state.topics[slot].level(priority);
        let aside = level.and_then(|level| level.aside.values().next());
        let aside = aside.inspect(|aside| assert!(!matches!(aside.state, AsideWhy::Leased(_)), "all were given back"));
        Ok(aside.map(|aside| (aside.run.first, aside.run.count)))
    }
}
