//! What dispatch is told of topics that leave memory and come back.

use alloc::vec::Vec;

use millpond_types::{Priority, TopicName};

use crate::dispatch::Dispatcher;
use crate::fact::GroupNumber;
use crate::state::topic::Topic;
use crate::store::{Key, KeyBytes, Name, Range, Shelf, Want};

impl Dispatcher {
    /// What has to be read, each told once.
    pub(crate) fn wanted(&mut self) -> &mut Vec<Want> {
        self.reach.wanted()
    }

    /// Topics stand on a shelf and not in memory, when service begins.
    pub(crate) fn found_cold(&mut self, group: GroupNumber, shelf: Shelf, topics: u64) {
        if let Shelf::Ready(priority) = shelf {
            self.reach.add(group, priority, topics);
        }
    }

    /// A topic leaves memory for a shelf. What is paused by its name is passed over there as it is in memory, so that it
    /// is not read again and again.
    pub(crate) fn evicted(&mut self, topic: &Topic, shelf: Shelf, is_paused: bool) {
        if let Shelf::Ready(priority) = shelf {
            if is_paused {
                self.reach.pass_over(topic.group, priority);
            } else {
                self.reach.add(topic.group, priority, 1);
                self.reach.forget(topic.group, priority, &topic.name);
            }
            self.scopes.evicted(topic, priority, is_paused);
        }
    }

    /// A topic of a shelf has come into memory.
    pub(crate) fn loaded(&mut self, group: GroupNumber, shelf: Shelf, name: &TopicName) {
        if let Shelf::Ready(priority) = shelf {
            self.reach.loaded(group, priority);
            self.scopes.seen(group, priority, name);
        }
    }

    /// A range that was asked for has been read, and what was found of it is in memory: all, or those before the `rest`.
    pub(crate) fn range_loaded(&mut self, range: &Range, rest: Option<&KeyBytes>) {
        self.reach.know(&range.from, rest.unwrap_or(&range.until));
        self.reach.answered(range);
        if let Some((group, priority, name)) = only_name(range) {
            self.scopes.seen(group, priority, &name);
        }
    }

    /// What was paused by prefix, or a topic that was paused by its name, goes on.
    pub(crate) fn resumed(&mut self, group: GroupNumber, topic: Option<&TopicName>) {
        if let Some(name) = topic {
            let priorities: Vec<Priority> = self.reach.priorities(group).collect();
            priorities.into_iter().for_each(|priority| self.reach.forget(group, priority, name));
        }
        self.scopes.reopen(group, &self.reach);
    }
}

/// The name that a range is of, if it is of one alone.
fn only_name(range: &Range) -> Option<(GroupNumber, Priority, TopicName)> {
    let (group, shelf, bytes) = Key::parse_topic_bound(&range.from)?;
    let Shelf::Ready(priority) = shelf else { return None };
    let name = Name::parse(bytes)?;
    let (_, _, until) = Key::parse_topic_bound(&range.until)?;
    (until == Name::behind(name.as_bytes())).then_some((group, priority, name))
}
