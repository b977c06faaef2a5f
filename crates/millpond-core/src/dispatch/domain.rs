//! Which topics a scope is of, and how it steps through those of them that offer something, in the order of names.
//!
//! All topics, and those with one of a set of prefixes, are ranges of the order of topics. The topics of a list lie
//! anywhere in it, so a list keeps what its own are offered at.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Ordering;

use millpond_types::limits::FILTER_MAX;
use millpond_types::{Priority, TopicName, TopicNumber};

use crate::fact::NamespaceNumber;
use crate::state::order::offer;
use crate::state::topics::Edge;
use crate::state::{State, TopicSlot};
use crate::store::Name;

pub(crate) enum Domain {
    All,
    /// In the order of names, none of which begins with another.
    Prefixes(Vec<TopicName>),
    List(List),
}

/// A set of names, with what their topics are offered at.
pub(crate) struct List {
    /// In the order of names.
    names: Vec<TopicName>,
    levels: Vec<Option<Priority>>,
    /// Those that offer something, by priority and index.
    offered: BTreeSet<(Priority, u16)>,
}

const _: () = assert!(FILTER_MAX <= u16::MAX as usize, "the index of a name in a list is a u16");

/// A topic that had a turn, in memory or not.
#[derive(Clone)]
pub(crate) struct Cursor {
    pub(crate) slot: TopicSlot,
    /// Tells this topic from a later one in the same slot.
    pub(crate) number: TopicNumber,
    pub(crate) tenant: u64,
    pub(crate) name: TopicName,
}

/// Where to look for the next topic.
#[derive(Clone, Copy)]
pub(crate) enum From<'a> {
    Start,
    Behind(&'a Cursor),
    TenantEnd(&'a Cursor),
}

/// The topics of a domain that are offered at a priority.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) state: &'a State,
    pub(crate) namespace: NamespaceNumber,
    pub(crate) domain: &'a Domain,
    pub(crate) priority: Priority,
}

impl Domain {
    pub(crate) fn admits(&self, name: &TopicName) -> bool {
        match self {
            Domain::All => true,
            Domain::Prefixes(prefixes) => prefixes.iter().any(|prefix| begins_with(name, prefix)),
            Domain::List(list) => list.find(name).is_some(),
        }
    }
}

impl List {
    /// `names` are in the order of names.
    pub(crate) fn new(names: Vec<TopicName>, namespace: NamespaceNumber, state: &State) -> List {
        let levels = names.iter().map(|name| state.topics[state.topics.find(namespace, name)?].offered);
        let levels: Vec<_> = levels.collect();
        let offered = (0..).zip(&levels).filter_map(|(at, level)| Some(((*level)?, at))).collect();
        List { names, levels, offered }
    }

    pub(crate) fn names(&self) -> &[TopicName] {
        &self.names
    }

    /// Takes note of what a topic is offered at now.
    pub(crate) fn set(&mut self, name: &TopicName, level: Option<Priority>) {
        let at = self.find(name).expect("a list is told of its own topics");
        let before = core::mem::replace(&mut self.levels[at], level);
        if let Some(before) = before {
            self.offered.remove(&(before, at as u16));
        }
        if let Some(level) = level {
            self.offered.insert((level, at as u16));
        }
    }

    fn find(&self, name: &TopicName) -> Option<usize> {
        self.names.binary_search_by(|other| Name::compare(other.as_bytes(), name.as_bytes())).ok()
    }

    fn next(&self, edge: Edge<'_>, priority: Priority) -> Option<&TopicName> {
        let from = self.names.partition_point(|name| edge.is_behind(name.as_bytes()));
        let (level, at) = self.offered.range((priority, from as u16)..).next()?;
        (*level == priority).then(|| &self.names[usize::from(*at)])
    }
}

impl Cursor {
    pub(crate) fn at(slot: TopicSlot, state: &State) -> Cursor {
        let topic = &state.topics[slot];
        Cursor { slot, number: topic.number, tenant: topic.tenant, name: topic.name.clone() }
    }

    /// Whether the topic is still in its place in memory.
    fn is_there(&self, state: &State) -> bool {
        state.topics.get(self.slot).is_some_and(|topic| topic.number == self.number)
    }
}

impl View<'_> {
    /// The first topic from a place on.
    pub(crate) fn next(&self, from: From<'_>) -> Option<TopicSlot> {
        let mut found = self.raw_next(from)?;
        // A sweep tells the topics of a pause by prefix of it. Until it has been there, they are passed over.
        while !self.state.sweeps.is_empty()
            && let Some(prefix) = self.state.namespaces[self.namespace].paused.covering(&self.state.topics[found].name)
        {
            found = self.within(self.seek(Edge::PrefixEnd(prefix.as_bytes()))?)?;
        }
        Some(found)
    }

    /// The first of all.
    pub(crate) fn first(&self) -> Option<TopicSlot> {
        self.next(From::Start)
    }

    /// Whether a topic is the only one.
    pub(crate) fn is_only(&self, slot: TopicSlot) -> bool {
        let behind = match self.domain {
            Domain::List(_) => self.next(From::Behind(&Cursor::at(slot, self.state))),
            _ => {
                self.state.topics.order.next_after(slot, offer(Some(self.priority))).and_then(|slot| self.within(slot))
            }
        };
        behind.is_none() && self.first() == Some(slot)
    }

    /// Whether a topic is still there and offered.
    pub(crate) fn offers(&self, cursor: &Cursor) -> bool {
        cursor.is_there(self.state) && self.state.topics[cursor.slot].offered == Some(self.priority)
    }

    pub(crate) fn tenant(&self, slot: TopicSlot) -> u64 {
        self.state.topics[slot].tenant
    }

    fn raw_next(&self, from: From<'_>) -> Option<TopicSlot> {
        let (topics, wanted) = (&self.state.topics, offer(Some(self.priority)));
        let edge = match from {
            From::Start => match self.domain {
                Domain::All => return topics.order.first(self.namespace, wanted),
                Domain::Prefixes(prefixes) => Edge::Before(prefixes[0].as_bytes()),
                Domain::List(_) => Edge::Before(b""),
            },
            From::Behind(last) => match self.domain {
                Domain::All | Domain::Prefixes(_) if last.is_there(self.state) => {
                    return self.within(topics.order.next_after(last.slot, wanted)?);
                }
                _ => Edge::Behind(last.name.as_bytes()),
            },
            From::TenantEnd(last) => Edge::TenantEnd(last.name.tenant()),
        };
        self.within(self.seek(edge)?)
    }

    /// The first topic from an edge on, which may lie between the ranges of the domain.
    fn seek(&self, edge: Edge<'_>) -> Option<TopicSlot> {
        let topics = &self.state.topics;
        if let Domain::List(list) = self.domain {
            let name = list.next(edge, self.priority)?;
            return Some(topics.find(self.namespace, name).expect("only topics in memory are offered"));
        }
        topics.order.next(topics.seek(self.namespace, edge)?, offer(Some(self.priority)))
    }

    /// The first topic in the domain, from one on that may not be.
    fn within(&self, mut slot: TopicSlot) -> Option<TopicSlot> {
        let Domain::Prefixes(prefixes) = self.domain else { return Some(slot) };
        loop {
            let name = &self.state.topics[slot].name;
            let is_over = |prefix: &TopicName| {
                !begins_with(name, prefix) && Name::compare(prefix.as_bytes(), name.as_bytes()) == Ordering::Less
            };
            let prefix = prefixes.get(prefixes.partition_point(is_over))?;
            if begins_with(name, prefix) {
                return Some(slot);
            }
            slot = self.seek(Edge::Before(prefix.as_bytes()))?;
        }
    }
}

fn begins_with(name: &TopicName, prefix: &TopicName) -> bool {
    name.as_bytes().starts_with(prefix.as_bytes())
}
