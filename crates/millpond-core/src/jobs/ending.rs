//! Groups that are being deleted: all that they hold ends, topics in the order of their names and then dead letters, and
//! then they are gone.
//!
//! What is left of a group tells how far this has come, so after a restart a job begins anew with that and nothing is kept for it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use millpond_types::{EndReason, Priority, Sequence, TopicNumber};

use super::coming::{Coming, Next};
use super::walk::Walk;
use super::{Asked, Needs, Step, Task, WRITING};
use crate::Core;
use crate::fact::{Fact, FactLog, GroupNumber, ReturnPlace};
use crate::output::Reply;
use crate::page::{DeadPage, Page};
use crate::state::topic::{AsideWhy, Topic};
use crate::state::{State, TopicSlot};
use crate::store::{Key, KeyBytes, Range, Want};

/// Dead letters that are fetched at a time.
const FETCHED: u32 = 256;

#[derive(Default)]
pub(super) struct EndJob {
    /// Topics that come next.
    coming: Coming,
    /// The one that it has come to.
    current: Option<TopicNumber>,
    /// Set when all topics were gone over: what is read then are dead letters.
    is_at_letters: bool,
    /// Those that were read.
    letters: VecDeque<DeadPage>,
}

impl EndJob {
    /// Takes dead letters that were read. Entries of topics are handed back.
    pub(super) fn take(
        &mut self,
        entries: Vec<(KeyBytes, Page)>,
        state: &mut State,
    ) -> Result<(), Vec<(KeyBytes, Page)>> {
        if !self.is_at_letters {
            return Err(entries);
        }
        let letters = entries.into_iter().map(|(_, page)| match page {
            Page::Dead(letter) => letter,
            page => panic!("among dead letters there is nothing else: {page:?}"),
        });
        self.letters.extend(letters.filter_map(|letter| state.letter_by_now(letter)));
        Ok(())
    }

    /// The letters that were read.
    pub(super) fn letters(&mut self) -> &mut VecDeque<DeadPage> {
        &mut self.letters
    }
}

impl Core {
    /// Whether there is a group to end, and nobody goes on with that.
    pub(crate) fn has_groups_to_end(&self) -> bool {
        let is_going_on = || self.jobs.queue.iter().any(|job| matches!(job.task, Task::Ending(_)));
        self.state.groups.ending().next().is_some() && !is_going_on()
    }

    /// Begins with the first group that is being deleted.
    pub(crate) fn end_groups(&mut self) {
        if self.has_groups_to_end() {
            let group = self.state.groups.ending().next().expect("there is one");
            self.jobs.put(Asked::ByState, group, Walk::of_all(), Task::Ending(EndJob::default()));
        }
    }

    pub(super) fn end_step(
        &mut self,
        job: &mut EndJob,
        walk: &mut Walk,
        group: GroupNumber,
        left: &mut usize,
        needs: &mut Needs,
        log: &mut dyn FactLog,
    ) -> Step {
        if self.state.groups.get(group).is_none() {
            // It was empty, and its namespace was deleted.
            return Step::Done(Ok(Reply::Done));
        }
        while *left > 0 && !job.is_at_letters {
            if let Some(topic) = job.current {
                match self.end_topic(topic, group, left, log) {
                    Err(want) => return Step::Waits(Vec::from([want])),
                    Ok(false) => return Step::Later,
                    Ok(true) => job.current = None,
                }
                continue;
            }
            match self.come_to_next(&mut job.coming, walk, group, left, needs, |_| true) {
                Next::Topic(name) => {
                    let slot = self.state.topics.find(group, &name);
                    job.current = slot.map(|slot| self.state.topics[slot].number);
                }
                Next::Waits(wants) => return Step::Waits(wants),
                Next::Later => return Step::Later,
                Next::End => job.is_at_letters = true,
            }
        }
        self.end_letters(job, group, left, log)
    }

    /// Ends dead letters, and then the group.
    fn end_letters(&mut self, job: &mut EndJob, group: GroupNumber, left: &mut usize, log: &mut dyn FactLog) -> Step {
        while *left > 0 {
            if let Some(letter) = job.letters.pop_front() {
                self.commit(Fact::DeadPurged { letter: letter.letter() }, log);
                self.jobs.letter_changed((letter.group, letter.id), None);
                *left = left.saturating_sub(WRITING);
                continue;
            }
            let of = &self.state.groups[group];
            if of.counts.dead > 0 {
                let bound = |name: &[u8]| Key::dead_bound(of.namespace, group, name);
                let range = Range { from: bound(&[]), until: bound(&[u8::MAX]), limit: FETCHED };
                return Step::Waits(Vec::from([Want::Range(range)]));
            }
            if of.is_empty() {
                self.commit(Fact::GroupDeleted { group }, log);
                return Step::Done(Ok(Reply::Done));
            }
            // Its last topics vanish at the end of the turn.
            *left = 0;
        }
        Step::Later
    }

    /// Ends what a topic holds, or as much as there is room for. True if that is all; an error tells what has to be fetched
    /// before.
    fn end_topic(
        &mut self,
        topic: TopicNumber,
        group: GroupNumber,
        left: &mut usize,
        log: &mut dyn FactLog,
    ) -> Result<bool, Want> {
        // It may have vanished in the turn before.
        let Some(slot) = self.state.topics.by_number(topic, group) else { return Ok(true) };
        self.give_all_back(slot, left, log);
        for index in 0..self.state.topics[slot].levels.len() {
            let priority = self.state.topics[slot].levels[index].priority;
            while *left > 0
                && let Some((first, count)) = self.first_run(slot, priority)?
            {
                self.commit(Fact::Ended { topic, group, priority, first, count, reason: EndReason::Purged }, log);
                *left = left.saturating_sub(WRITING);
            }
        }
        // So that it vanishes, if nothing has happened to it.
        self.state.touch(slot);
        Ok(self.state.topics[slot].is_empty())
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
