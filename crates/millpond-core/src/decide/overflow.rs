//! `max_waiting`: how many messages of a topic wait, and which of them end where there are more.
//!
//! What is leased does not count, and may come back all the same.

use millpond_types::{EndReason, Priority, Sequence, TopicName};

use crate::Core;
use crate::fact::{Fact, FactLog, GroupNumber, NamespaceNumber};
use crate::state::TopicSlot;
use crate::state::topic::{AsideWhy, Front};
use crate::store::Want;

/// Beside as many as come, so many messages of a topic end at most because of one run that is published. Where the limit came
/// late, it takes some publishes until no more wait than may.
const DROP_MAX: u64 = 10_000;

impl Core {
    /// How many more messages may wait in a group's topic.
    pub(super) fn room_to_wait(&self, group: GroupNumber, name: &TopicName, limit: u32) -> u64 {
        let slot = self.state.topics.find(group, name);
        let waiting = slot.map_or(0, |slot| self.state.topics[slot].waiting());
        u64::from(limit).saturating_sub(waiting)
    }

    /// Ends so many messages that no more than `limit` wait in each group: those that come first at the lowest priority with one that is
    /// ready. Where nothing is ready, those by sequence.
    pub(super) fn drop_oldest(
        &mut self,
        namespace: NamespaceNumber,
        name: &TopicName,
        limit: u32,
        coming: u32,
        log: &mut dyn FactLog,
    ) {
        for at in 0..self.state.namespaces[namespace].groups.len() {
            let group = self.state.namespaces[namespace].groups[at];
            let slot = self.state.topics.find(group, name).expect("it was just published to");
            self.drop_from(slot, limit, u64::from(coming) + DROP_MAX, log);
        }
    }

    fn drop_from(&mut self, slot: TopicSlot, limit: u32, most: u64, log: &mut dyn FactLog) {
        let mut over = self.state.topics[slot].waiting().saturating_sub(u64::from(limit)).min(most);
        while over > 0 {
            let (priority, first, count) = self.first_to_drop(slot);
            let count = u32::try_from(over).map_or(count, |over| count.min(over));
            over -= u64::from(count);
            let topic = &self.state.topics[slot];
            let (topic, group, reason) = (topic.number, topic.group, EndReason::Dropped);
            self.commit(Fact::Ended { topic, group, priority, first, count, reason }, log);
        }
    }

    /// The run that is dropped first.
    fn first_to_drop(&self, slot: TopicSlot) -> (Priority, Sequence, u32) {
        let levels = &self.state.topics[slot].levels;
        let ready = levels.iter().find_map(|level| {
            let run = match level.front()? {
                Front::Line => level.line.front().expect("what a command needs is fetched before it is decided"),
                Front::Aside(first) => &level.aside[&first].run,
            };
            Some((level.priority, run.first, run.count))
        });
        ready.unwrap_or_else(|| {
            let mut aside = levels.iter().flat_map(|level| level.aside.values().map(|aside| (level.priority, aside)));
            let first = aside.find(|(_, aside)| !matches!(aside.state, AsideWhy::Leased(_)));
            let (priority, aside) = first.expect("more wait than may");
            (priority, aside.run.first, aside.run.count)
        })
    }

    /// Brings what `coming` more messages of a topic may let drop out of it.
    pub(super) fn bring_to_drop(
        &mut self,
        slot: TopicSlot,
        limit: u32,
        (runs, coming): (usize, u64),
    ) -> Result<(), Want> {
        let topic = &self.state.topics[slot];
        let over = (topic.waiting() + coming).saturating_sub(u64::from(limit)).min(coming + runs as u64 * DROP_MAX);
        let in_line: u64 = topic.levels.iter().map(|level| level.line.waiting()).sum();
        self.bring_lines(slot, over, 0..topic.levels.len())?;
        self.bring_aside(slot, over.saturating_sub(in_line))
    }

    /// The first messages aside, level by level, until so many of them are not leased.
    fn bring_aside(&mut self, slot: TopicSlot, mut left: u64) -> Result<(), Want> {
        for index in 0..self.state.topics[slot].levels.len() {
            let (priority, mut from) = (self.state.topics[slot].levels[index].priority, Sequence(0));
            while left > 0 {
                self.state.bring_next_aside(slot, priority, from, Sequence(u64::MAX))?;
                let Some((_, aside)) = self.state.topics[slot].levels[index].aside.range(from..).next() else { break };
                let is_leased = matches!(aside.state, AsideWhy::Leased(_));
                left = left.saturating_sub(if is_leased { 0 } else { aside.run.count.into() });
                from = aside.run.end();
            }
        }
        Ok(())
    }
}
