//! `max_waiting`: how many messages of a topic wait, and which of them end where there are more.
//!
//! What is leased does not count, and may come back all the same.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use millpond_types::{EndReason, Priority, Sequence, TopicName};

use crate::Core;
use crate::fact::{Fact, FactLog, GroupNumber, NamespaceNumber};
use crate::state::TopicSlot;
use crate::state::topic::{AsideWhy, Front};
use crate::store::Want;

/// Beside as many as come, so many messages end at most because of one publish, of all its topics and in all groups. Where the
/// limit came late, it takes some publishes until no more wait than may.
const DROP_MAX: u64 = 10_000;

/// What is dropped because of the publish that is decided next. A topic that it drops from keeps messages that wait, so its slot
/// stays its own meanwhile.
pub(crate) struct Dropping {
    /// How many that wait may end because of as many as come, in all groups. Of a publish for which that is too much, which is
    /// refused, nothing else is reckoned.
    pub(super) ends: u64,
    /// How many more may end beside as many as come.
    left: u64,
    /// How many go on waiting in topics that are so far over their limit that this publish may not bring them down to it. It
    /// is the same for whatever the publish is cut into, and what is fetched is reckoned by it too.
    floors: BTreeMap<TopicSlot, u64>,
    /// Before these, all that is aside at a level is leased. Nothing comes back while a publish is decided.
    passed: BTreeMap<(TopicSlot, Priority), Sequence>,
}

impl Default for Dropping {
    fn default() -> Dropping {
        Dropping { ends: 0, left: DROP_MAX, floors: BTreeMap::new(), passed: BTreeMap::new() }
    }
}

impl Dropping {
    /// How many messages of a topic go on waiting.
    fn floor(&self, slot: TopicSlot, limit: u32) -> u64 {
        self.floors.get(&slot).copied().unwrap_or(limit.into())
    }
}

impl Core {
    /// The groups of a namespace that `max_waiting` counts for in a topic: all but those whose start has still to come to it. They
    /// take what any other one does, and drop nothing: what others finish adds to what waits there.
    pub(super) fn limited(&self, namespace: NamespaceNumber, name: &TopicName) -> impl Iterator<Item = GroupNumber> {
        let groups = &self.state.groups;
        self.state.namespaces[namespace].groups.iter().copied().filter(|group| !groups[*group].is_before(name))
    }

    /// How many more messages may wait in a group's topic.
    pub(super) fn room_to_wait(&self, group: GroupNumber, name: &TopicName, limit: u32) -> u64 {
        let slot = self.state.topics.find(group, name);
        let waiting = slot.map_or(0, |slot| self.state.topics[slot].waiting());
        u64::from(limit).saturating_sub(waiting)
    }

    /// Ends so many messages that no more than `limit` wait in each group, as far as one publish may: those that come first at the
    /// lowest priority with one that is ready. Where nothing is ready, those by sequence.
    pub(super) fn drop_oldest(
        &mut self,
        namespace: NamespaceNumber,
        name: &TopicName,
        limit: u32,
        log: &mut dyn FactLog,
    ) {
        for group in self.limited(namespace, name).collect::<Vec<_>>() {
            let slot = self.state.topics.find(group, name).expect("it was just published to");
            self.drop_from(slot, limit, log);
        }
    }

    fn drop_from(&mut self, slot: TopicSlot, limit: u32, log: &mut dyn FactLog) {
        let mut over = self.state.topics[slot].waiting().saturating_sub(self.dropping.floor(slot, limit));
        while over > 0 {
            let (priority, first, count) = self.first_ready(slot).unwrap_or_else(|| self.first_at_rest(slot));
            let count = u32::try_from(over).map_or(count, |over| count.min(over));
            over -= u64::from(count);
            let topic = &self.state.topics[slot];
            let (topic, group, reason) = (topic.number, topic.group, EndReason::Dropped);
            self.commit(Fact::Ended { topic, group, priority, first, count, reason }, log);
        }
    }

    /// The run that is dropped first, if one is ready.
    fn first_ready(&self, slot: TopicSlot) -> Option<(Priority, Sequence, u32)> {
        let is_strict = self.state.policy(slot).is_strict();
        self.state.topics[slot].levels.iter().find_map(|level| {
            let run = match level.front(is_strict)? {
                Front::Line => level.line.front().expect("what a command needs is fetched before it is decided"),
                Front::Aside(first) => &level.aside[&first].run,
            };
            Some((level.priority, run.first, run.count))
        })
    }

    /// The same where none is ready. What is leased is passed over once, however many are dropped because of a publish.
    fn first_at_rest(&mut self, slot: TopicSlot) -> (Priority, Sequence, u32) {
        let level = self.state.topics[slot].levels.iter().find(|level| level.rests > 0);
        let level = level.expect("what a command needs is fetched before it is decided");
        let passed = self.dropping.passed.entry((slot, level.priority)).or_default();
        let mut aside = level.aside.range(*passed..).map(|(_, aside)| aside);
        let run = &aside.find(|aside| aside.state.rests()).expect("a level counts what rests in memory").run;
        *passed = run.first;
        (level.priority, run.first, run.count)
    }

    /// How many messages that wait in a group's topic may end because of `coming` more.
    pub(super) fn may_drop(&self, slot: TopicSlot, limit: u32, coming: u64) -> u64 {
        let waiting = self.state.topics[slot].waiting();
        coming.saturating_sub(u64::from(limit).saturating_sub(waiting)).min(waiting)
    }

    /// Brings what `coming` more messages of a topic may let drop out of it: all that a publish brings to it.
    pub(super) fn bring_to_drop(&mut self, slot: TopicSlot, limit: u32, coming: u64) -> Result<(), Want> {
        let topic = &self.state.topics[slot];
        let waiting = topic.waiting();
        let too_many = waiting.saturating_sub(limit.into());
        let end = too_many.min(self.dropping.left);
        self.dropping.left -= end;
        if end < too_many {
            self.dropping.floors.insert(slot, waiting - end);
        }
        let over = (waiting + coming).saturating_sub(self.dropping.floor(slot, limit));
        let in_line: u64 = topic.levels.iter().map(|level| level.line.waiting()).sum();
        self.bring_lines(slot, over, 0..topic.levels.len())?;
        self.bring_aside(slot, over.saturating_sub(in_line))
    }

    /// The first messages aside, level by level, until so many of them are not leased. Where none are in the store there is
    /// nothing to look for.
    fn bring_aside(&mut self, slot: TopicSlot, mut left: u64) -> Result<(), Want> {
        let levels = &self.state.topics[slot].levels;
        let last = (0..levels.len()).rfind(|index| levels[*index].resting.is_some());
        let Some(last) = last.filter(|_| left > 0) else { return Ok(()) };
        for index in 0..=last {
            let mut from = Sequence(0);
            loop {
                let level = &self.state.topics[slot].levels[index];
                let piece = level.resting_from(from).next().map(|piece| piece.first);
                let before = level.aside.range(from..piece.unwrap_or(Sequence(u64::MAX)));
                for (_, aside) in before.filter(|(_, aside)| !matches!(aside.state, AsideWhy::Leased(_))) {
                    left = left.saturating_sub(aside.run.count.into());
                    if left == 0 {
                        return Ok(());
                    }
                }
                let (Some(first), priority) = (piece, level.priority) else { break };
                self.state.bring_piece(slot, priority, first)?;
                from = first;
            }
        }
        Ok(())
    }
}
