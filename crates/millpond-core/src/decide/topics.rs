//! Topics: shown and paused; and dedup ids forgotten. What goes over many of them is in [`crate::jobs`].

use alloc::format;
use alloc::vec::Vec;

use millpond_types::limits::PAGE_MAX;
use millpond_types::{Code, GroupCursors, NamespaceName, PausedTopics, TopicView};

use crate::Core;
use crate::command::TopicRef;
use crate::decide::Refusal;
use crate::fact::{Fact, FactLog};
use crate::output::Reply;
use crate::state::setup;

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

    pub(super) fn pause(
        &mut self,
        namespace: &NamespaceName,
        topics: PausedTopics,
        paused: bool,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(namespace)?;
        let known = self.state.namespaces[namespace].paused.contains(&topics);
        if known != paused {
            // All of them always may: whoever has to is in a hurry, and it is one.
            let is_all = topics == PausedTopics::all();
            if paused && !is_all && self.state.namespaces[namespace].paused.len() >= PAGE_MAX {
                return Err((
                    Code::LimitExceeded,
                    format!("at most {PAGE_MAX} topics and prefixes are paused at a time; pause a prefix"),
                ));
            }
            if paused {
                self.check_setup(setup::of_pause(&topics))?;
            }
            let topic = topics.topic();
            self.commit(Fact::Paused { namespace, topics, paused }, log);
            if !paused {
                for group in &self.state.namespaces[namespace].groups {
                    self.dispatcher.resumed(*group, topic.as_ref());
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
}
