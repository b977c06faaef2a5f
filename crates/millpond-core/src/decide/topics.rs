//! Topics: listed, shown, paused, purged; and dedup ids forgotten.

use alloc::format;
use alloc::vec::Vec;
use core::cmp::Ordering;

use millpond_types::limits::PAGE_MAX;
use millpond_types::{
    Code, Counts, EndReason, Filter, GroupCursors, NamespaceName, Priority, Sequence, TopicView, WallTime,
};

use crate::Core;
use crate::command::{Listing, TopicRef};
use crate::decide::Refusal;
use crate::decide::receive::check_filter;
use crate::fact::{Fact, FactLog, GroupNumber};
use crate::output::Reply;
use crate::state::TopicSlot;
use crate::state::pauses::Pauses;
use crate::state::topic::{AsideWhy, Topic};
use crate::state::topics::Edge;
use crate::store::Name;

impl Core {
    pub(super) fn topics(&mut self, listing: Listing) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(&listing.namespace)?;
        let limit = (listing.limit as usize).clamp(1, PAGE_MAX);
        let pauses = &self.state.namespaces[namespace].paused;
        let prefix = &listing.prefix[..];
        let from = match listing.after.is_empty() || Name::compare(&listing.after, prefix) == Ordering::Less {
            true => Edge::Before(prefix),
            false => Edge::Behind(&listing.after),
        };
        let found = self.state.topics.walk(self.default_group(namespace), from).map(|(_, topic)| topic);
        let page = found.take_while(|topic| topic.name.as_bytes().starts_with(prefix)).take(limit);
        Ok(Reply::Topics(page.map(|topic| view(topic, pauses)).collect()))
    }

    pub(super) fn topic(&mut self, topic: &TopicRef) -> Result<Reply, Refusal> {
        let slot = self.topic_of(topic)?;
        let pauses = &self.state.namespaces[self.state.topics[slot].namespace].paused;
        let siblings = self.state.topics.siblings(self.state.topics[slot].number).map(|slot| &self.state.topics[slot]);
        let cursors = siblings.flat_map(|topic| topic.levels.iter().rev().map(move |level| (topic.group, level)));
        let cursors = cursors.filter(|(group, _)| !self.state.groups[*group].is_ending);
        let cursors = cursors.map(|(group, level)| GroupCursors {
            group: self.state.groups[group].name.clone(),
            priority: level.priority,
            scan: level.scan(),
            completion: level.completion(),
            next: level.next,
        });
        Ok(Reply::Topics(Vec::from([TopicView {
            cursors: cursors.collect(),
            ..view(&self.state.topics[slot], pauses)
        }])))
    }

    pub(super) fn pause(
        &mut self,
        topic: TopicRef,
        prefix: bool,
        paused: bool,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(&topic.namespace)?;
        let known = self.state.namespaces[namespace].paused.contains(&topic.name, prefix);
        if known != paused {
            if paused && self.state.namespaces[namespace].paused.len() >= PAGE_MAX {
                return Err((
                    Code::LimitExceeded,
                    format!("at most {PAGE_MAX} topics and prefixes are paused at a time; pause a prefix"),
                ));
            }
            self.commit(Fact::Paused { namespace, name: topic.name, prefix, paused }, log);
            if prefix && !paused {
                for group in &self.state.namespaces[namespace].groups {
                    self.dispatcher.resumed(*group);
                }
            }
        }
        Ok(Reply::Done)
    }

    pub(super) fn forget(&mut self, topic: &TopicRef, hash: u128, log: &mut dyn FactLog) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(&topic.namespace)?;
        let known = self.state.remembered(namespace, hash).is_some();
        if known {
            self.commit(Fact::Forgotten { namespace, hash }, log);
        }
        Ok(Reply::Count(u64::from(known)))
    }

    pub(super) fn purge(
        &mut self,
        namespace: &NamespaceName,
        filter: &Filter,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(namespace)?;
        check_filter(filter)?;
        let mut purged = 0;
        for group in self.state.namespaces[namespace].groups.clone() {
            for slot in self.admitted(group, filter) {
                purged += self.purge_topic(slot, log);
            }
        }
        Ok(Reply::Count(purged))
    }

    /// The topics that a filter admits, in the order of their names: their places in memory are of no meaning.
    pub(crate) fn admitted(&self, group: GroupNumber, filter: &Filter) -> Vec<TopicSlot> {
        let mut slots: Vec<TopicSlot> = match filter {
            Filter::All => return self.begins_with(group, b"").collect(),
            Filter::Topics(names) => names.iter().filter_map(|name| self.state.topics.find(group, name)).collect(),
            Filter::Prefixes(prefixes) => {
                prefixes.iter().flat_map(|prefix| self.begins_with(group, prefix.as_bytes())).collect()
            }
        };
        let name = |slot: TopicSlot| self.state.topics[slot].name.as_bytes();
        slots.sort_unstable_by(|a, b| Name::compare(name(*a), name(*b)));
        slots.dedup();
        slots
    }

    fn begins_with<'a>(&'a self, group: GroupNumber, prefix: &'a [u8]) -> impl Iterator<Item = TopicSlot> + 'a {
        let found = self.state.topics.walk(group, Edge::Before(prefix));
        found.take_while(move |(_, topic)| topic.name.as_bytes().starts_with(prefix)).map(|(slot, _)| slot)
    }

    fn purge_topic(&mut self, slot: TopicSlot, log: &mut dyn FactLog) -> u64 {
        let Topic { number, group, .. } = self.state.topics[slot];
        let mut purged = 0;
        for index in 0..self.state.topics[slot].levels.len() {
            let level = &self.state.topics[slot].levels[index];
            let priority = level.priority;
            let aside = level.aside.values().filter(|aside| !matches!(aside.state, AsideWhy::Leased(_)));
            let aside: Vec<_> = aside.map(|aside| (aside.run.first, aside.run.count)).collect();
            let mut aside = aside.into_iter();
            // From its front, so that a long line is never in memory as a whole.
            while let Some((first, count)) = self.front_of_line(slot, priority).or_else(|| aside.next()) {
                let reason = EndReason::Purged;
                self.commit(Fact::Ended { topic: number, group, priority, first, count, reason }, log);
                purged += u64::from(count);
            }
        }
        purged
    }

    /// The run at the front of a line.
    fn front_of_line(&mut self, slot: TopicSlot, priority: Priority) -> Option<(Sequence, u32)> {
        let first = self.state.topics[slot].level(priority)?.line.first()?;
        self.state.bring(slot, priority, first).expect("what a command needs is fetched before it is decided");
        let run = self.state.topics[slot].level(priority)?.line.front()?;
        Some((run.first, run.count))
    }
}

/// What a listing shows of a topic.
pub(crate) fn view(topic: &Topic, pauses: &Pauses) -> TopicView {
    let mut counts = Counts::default();
    let mut oldest = None;
    let mut waits = |published: WallTime| oldest = Some(oldest.map_or(published, |oldest| published.min(oldest)));
    for level in &topic.levels {
        counts.waiting += level.line.waiting();
        level.line.oldest().into_iter().for_each(&mut waits);
        for aside in level.aside.values() {
            let count = u64::from(aside.run.count);
            match aside.state {
                AsideWhy::Ready { .. } => {
                    counts.waiting += count;
                    waits(aside.run.published);
                }
                AsideWhy::Delayed { .. } => counts.delayed += count,
                AsideWhy::Retrying { .. } => counts.retrying += count,
                AsideWhy::Leased(_) => counts.leased += count,
            }
        }
    }
    // Not what the topic knows of it: a sweep may still be on its way.
    let paused = pauses.holds(&topic.name);
    TopicView { name: topic.name.clone(), paused, counts, oldest, cursors: Vec::new() }
}
