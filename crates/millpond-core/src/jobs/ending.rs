//! Groups that are being deleted: all that they hold ends, topics in the order of their names and then dead letters, and
//! then they are gone.
//!
//! What is left of a group tells how far this has come, so after a restart a job begins anew with that and nothing is kept for it.

use alloc::vec::Vec;

use millpond_types::{EndReason, Priority, Sequence, TopicNumber};

use super::coming::{Coming, Next};
use super::dead::DeadJob;
use super::walk::Walk;
use super::{Needs, Step, Task, WRITING};
use crate::Core;
use crate::fact::{Fact, FactLog, GroupNumber, ReturnPlace};
use crate::output::Reply;
use crate::state::TopicSlot;
use crate::state::topic::{AsideWhy, Topic};
use crate::store::Want;

#[derive(Default)]
pub(super) struct EndJob {
    /// Topics that come next.
    coming: Coming,
    /// The one that it has come to.
    current: Option<TopicNumber>,
    /// Throws away the dead letters, when all topics were gone over.
    letters: Option<DeadJob>,
}

impl EndJob {
    pub(super) fn begin() -> (Walk, Task) {
        (Walk::of_all(), Task::Ending(EndJob::default()))
    }

    pub(super) fn letters(&mut self) -> Option<&mut DeadJob> {
        self.letters.as_mut()
    }
}

impl Core {
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
        while *left > 0 && job.letters.is_none() {
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
                Next::End => job.letters = Some(DeadJob::purge_all(self.state.groups[group].namespace, group)),
            }
        }
        let Some(letters) = &mut job.letters else { return Step::Later };
        match self.dead_step(letters, group, left, needs, log) {
            Step::Done(_) if self.state.groups[group].is_empty() => {
                self.commit(Fact::GroupDeleted { group }, log);
                Step::Done(Ok(Reply::Done))
            }
            // Its last topics vanish then.
            Step::Done(_) => Step::NextTurn,
            step => step,
        }
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
        self.state.came(slot);
        Ok(self.state.topics[slot].is_empty())
    }

    /// Whoever holds leases has lost them.
    fn give_all_back(&mut self, slot: TopicSlot, left: &mut usize, log: &mut dyn FactLog) {
        while *left > 0
            && let Some((lease, lease_slot)) = self.state.topics[slot].leases.iter().next()
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
        self.state.bring_next_aside(slot, priority, Sequence(0), Sequence(u64::MAX))?;
        let level = self.state.topics[slot].level(priority);
        let aside = level.and_then(|level| level.aside.values().next());
        let aside = aside.inspect(|aside| assert!(!matches!(aside.state, AsideWhy::Leased(_)), "all were given back"));
        Ok(aside.map(|aside| (aside.run.first, aside.run.count)))
    }
}
