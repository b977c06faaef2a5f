//! Topics: shown and paused; and dedup ids forgotten. What goes over many of them is in [`crate::jobs`].

use alloc::format;
use alloc::vec::Vec;

use millpond_types::limits::PAGE_MAX;
use millpond_types::{Code, GroupCursors, Millis, NamespaceName, PausedTopics, TopicView, WallTime};

use crate::Core;
use crate::command::TopicRef;
use crate::decide::Refusal;
use crate::fact::{Fact, FactLog, NamespaceNumber};
use crate::output::Reply;
use crate::state::setup;

/// Pauses that are ended in one turn because their time is over. Each may be of all topics that there are, which are gone over bit
/// by bit, and is told to all groups of its namespace.
const PAUSES_ENDED_MAX: usize = 10;

impl Core {
    pub(super) fn topic(&mut self, topic: &TopicRef) -> Result<Reply, Refusal> {
        let slot = self.topic_of(topic)?;
        let found = &self.state.topics[slot];
        let paused = self.state.namespaces[found.namespace].paused.holds(&found.name);
        let siblings = self.state.topics.siblings(found.number).map(|slot| &self.state.topics[slot]);
        let siblings = siblings.filter(|topic| !self.state.groups[topic.group].is_ending);
        let cursors = siblings.flat_map(|topic| topic.levels.iter().rev().map(move |level| (topic, level)));
        let cursors = cursors.map(|(topic, level)| {
            // Of a topic that is held, messages may still come before all that is there.
            let (scan, completion) =
                if topic.is_held { Default::default() } else { (level.scan(), level.completion()) };
            let (priority, next, lag) = (level.priority, level.next, level.held());
            GroupCursors { group: self.state.groups[topic.group].name.clone(), priority, scan, completion, next, lag }
        });
        let mut cursors: Vec<_> = cursors.collect();
        // They may wait for a client that does not read, and are weighed as they are.
        cursors.shrink_to_fit();
        Ok(Reply::Topics(Vec::from([TopicView { paused, cursors, ..found.view(self.state.now) }])))
    }

    /// Pauses topics for a time, or until they are resumed.
    pub(super) fn pause(
        &mut self,
        namespace: &NamespaceName,
        topics: PausedTopics,
        lasts: Option<Millis>,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(namespace)?;
        if lasts == Some(Millis::ZERO) {
            let detail = "a pause lasts for a time of at least 1 ms, or until it is taken back; resume does that";
            return Err((Code::ArgumentInvalid, detail.into()));
        }
        let until = lasts.map_or(WallTime::NEVER, |lasts| self.state.now.wall + lasts);
        let pauses = &self.state.namespaces[namespace].paused;
        let known = pauses.until(&topics);
        if known == Some(until) {
            return Ok(Reply::Done);
        }
        // All of them always may: whoever has to is in a hurry, and it is one.
        if known.is_none() && topics != PausedTopics::all() && pauses.len() >= PAGE_MAX {
            return Err((
                Code::LimitExceeded,
                format!("at most {PAGE_MAX} topics and prefixes are paused at a time; pause a prefix"),
            ));
        }
        let before = known.map_or(0, |known| setup::of_pause(&topics, known));
        self.check_setup(setup::of_pause(&topics, until).saturating_sub(before))?;
        self.commit(Fact::Paused { namespace, topics, until: Some(until) }, log);
        Ok(Reply::Done)
    }

    pub(super) fn resume(
        &mut self,
        namespace: &NamespaceName,
        topics: PausedTopics,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(namespace)?;
        if self.state.namespaces[namespace].paused.until(&topics).is_some() {
            self.end_pause(namespace, topics, log);
        }
        Ok(Reply::Done)
    }

    /// Ends pauses whose time is over, the next ones with the next turn where they are many.
    pub(crate) fn end_pauses(&mut self, log: &mut dyn FactLog) {
        for _ in 0..PAUSES_ENDED_MAX {
            let Some((namespace, topics)) = self.state.next_pause_over().filter(|_| !self.is_time_held) else { break };
            self.end_pause(namespace, topics, log);
        }
    }

    fn end_pause(&mut self, namespace: NamespaceNumber, topics: PausedTopics, log: &mut dyn FactLog) {
        let topic = topics.topic();
        self.commit(Fact::Paused { namespace, topics, until: None }, log);
        for group in &self.state.namespaces[namespace].groups {
            self.dispatcher.resumed(*group, topic.as_ref());
        }
    }

    pub(super) fn forget(&mut self, topic: &TopicRef, hash: u128, log: &mut dyn FactLog) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(&topic.namespace)?;
        let known = self.state.remembered(namespace, hash).is_some();
        if known {
            self.commit(Fact::Forgotten { namespace, hash }, log);
        }
        Ok(Reply::Count(u64::from(known)))
    }
}
