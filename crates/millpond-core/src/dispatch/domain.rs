//! Which topics a scope is of. All topics, and those with one of a set of prefixes, are ranges of the order of topics.
//! The topics of a list lie anywhere in it, so a list keeps what its own are offered at. [`super::view`] steps through
//! them.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;

use millpond_types::limits::{FILTER_MAX, PRIORITIES};
use millpond_types::{Priority, TopicName, TopicNumber};

use crate::dispatch::living;
use crate::dispatch::reach::Reach;
use crate::dispatch::stretches::{END, Span};
use crate::fact::GroupNumber;
use crate::state::setup::BUFFER;
use crate::state::topics::Edge;
use crate::state::{State, TopicSlot};
use crate::store::Name;

/// Names of a list asked for at once: each is a read of its own.
const UNSEEN_AT_ONCE: usize = 64;

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
    /// Those that may stand on the shelf of a priority and not in memory.
    unseen: BTreeSet<(Priority, u16)>,
}

const _: () = assert!(FILTER_MAX <= u16::MAX as usize, "the index of a name in a list is a u16");

/// A topic that had a turn, in memory or not.
#[derive(Clone)]
pub(crate) struct Cursor {
    pub(crate) slot: TopicSlot,
    /// With the number it tells this topic from a later one in the same slot: siblings have one number.
    pub(crate) group: GroupNumber,
    pub(crate) number: TopicNumber,
    pub(crate) tenant: u64,
    pub(crate) name: TopicName,
}

impl Domain {
    pub(crate) fn admits(&self, name: &TopicName) -> bool {
        match self {
            Domain::All => true,
            Domain::Prefixes(prefixes) => covers(prefixes, name),
            Domain::List(list) => list.find(name).is_some(),
        }
    }

    /// About what a scope of it takes, but for the one of all topics.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Domain::All => 0,
            Domain::Prefixes(prefixes) => living::of_scope(prefixes.iter()),
            Domain::List(list) => living::of_scope(list.names().iter()),
        }
    }

    /// The ranges of names that it is made of, from a key on. A list is of none.
    pub(crate) fn spans(&self, from: &[u8]) -> Vec<Span> {
        let spans = match self {
            Domain::All => vec![Span { from: Vec::new(), until: vec![END] }],
            Domain::Prefixes(prefixes) => prefixes.iter().map(|prefix| Span::of_prefix(prefix.as_bytes())).collect(),
            Domain::List(_) => Vec::new(),
        };
        let left = spans.into_iter().filter(|span| *span.until > *from);
        left.map(|span| Span { from: span.from.max(from.to_vec()), ..span }).collect()
    }
}

impl List {
    /// `names` are in the order of names.
    pub(crate) fn new(names: Vec<TopicName>, group: GroupNumber, state: &State, reach: &Reach) -> List {
        let (mut levels, mut offered, mut unseen) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for (at, name) in (0..).zip(&names) {
            let slot = state.topics.find(group, name);
            let level = slot.and_then(|slot| state.topics[slot].offered);
            offered.extend(level.map(|level| (level, at)));
            levels.push(level);
            if slot.is_none() {
                unseen.extend(reach.priorities(group).map(|priority| (priority, at)));
            }
        }
        List { names, levels, offered, unseen }
    }

    pub(crate) fn names(&self) -> &[TopicName] {
        &self.names
    }

    /// Takes note of what a topic in memory is offered at now.
    pub(crate) fn set(&mut self, name: &TopicName, level: Option<Priority>) {
        let at = self.find(name).expect("a list is told of its own topics");
        if !self.unseen.is_empty() {
            // It is in memory, so it is on no shelf but there.
            for priority in (0..PRIORITIES as u8).filter_map(Priority::new) {
                self.unseen.remove(&(priority, at as u16));
            }
        }
        let before = core::mem::replace(&mut self.levels[at], level);
        if let Some(before) = before {
            self.offered.remove(&(before, at as u16));
        }
        if let Some(level) = level {
            self.offered.insert((level, at as u16));
        }
    }

    /// One of its topics has left memory for a shelf.
    pub(crate) fn evicted(&mut self, name: &TopicName, priority: Priority) {
        self.set(name, None);
        let at = self.find(name).expect("a list is told of its own topics");
        self.unseen.insert((priority, at as u16));
    }

    /// One of its names was looked for on a shelf: if it was there, it is in memory now.
    pub(crate) fn seen(&mut self, name: &TopicName, priority: Priority) {
        let at = self.find(name).expect("a list is told of its own topics");
        self.unseen.remove(&(priority, at as u16));
    }

    /// Names between two edges that may not be in memory, but for some.
    pub(crate) fn unseen(
        &self,
        edge: Edge<'_>,
        until: Option<Edge<'_>>,
        priority: Priority,
        but: impl Fn(&TopicName) -> bool,
    ) -> Vec<Span> {
        let from = self.index(edge);
        let until = until.map_or(u16::MAX, |until| self.index(until));
        let names = self.unseen.range((priority, from)..(priority, until)).map(|(_, at)| &self.names[usize::from(*at)]);
        names.filter(|name| !but(name)).take(UNSEEN_AT_ONCE).map(Span::of).collect()
    }

    fn find(&self, name: &TopicName) -> Option<usize> {
        self.names.binary_search_by(|other| Name::compare(other.as_bytes(), name.as_bytes())).ok()
    }

    fn index(&self, edge: Edge<'_>) -> u16 {
        self.names.partition_point(|name| edge.is_behind(name.as_bytes())) as u16
    }

    /// The first of its names from an edge on that offers something at a priority.
    pub(crate) fn next(&self, edge: Edge<'_>, priority: Priority) -> Option<&TopicName> {
        let (level, at) = self.offered.range((priority, self.index(edge))..).next()?;
        (*level == priority).then(|| &self.names[usize::from(*at)])
    }
}

impl Cursor {
    pub(crate) fn at(slot: TopicSlot, state: &State) -> Cursor {
        let topic = &state.topics[slot];
        Cursor { slot, group: topic.group, number: topic.number, tenant: topic.hashes.tenant, name: topic.name.clone() }
    }

    /// What its name takes.
    pub(super) fn buffer(&self) -> usize {
        BUFFER + self.name.as_bytes().len()
    }

    /// Whether the topic is still in its place in memory.
    pub(crate) fn is_there(&self, state: &State) -> bool {
        state.topics.get(self.slot).is_some_and(|topic| (topic.group, topic.number) == (self.group, self.number))
    }
}

/// Whether a name begins with one of some prefixes, which stand in order and of which none begins with another. Names that begin
/// with one stand together, from itself on: so there is one that has to be looked at.
pub(super) fn covers(prefixes: &[TopicName], name: &TopicName) -> bool {
    let behind = prefixes.partition_point(|prefix| Name::compare(prefix.as_bytes(), name.as_bytes()).is_le());
    let last = behind.checked_sub(1).map(|at| prefixes[at].as_bytes());
    last.is_some_and(|prefix| name.as_bytes().starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    #[test]
    fn the_one_prefix_is_found_that_a_name_begins_with() {
        let parts = ["", "a", "b", "/", "a/", "a!", "é"];
        let texts: Vec<String> = parts.iter().flat_map(|one| parts.map(|two| [one, two].concat())).collect();
        let names: Vec<TopicName> = texts.iter().filter_map(|text| TopicName::try_from(text.as_str()).ok()).collect();
        for one in &names {
            let begins = |a: &TopicName, b: &TopicName| a.as_bytes().starts_with(b.as_bytes());
            for two in names.iter().filter(|two| !begins(one, two) && !begins(two, one)) {
                let mut prefixes = [one.clone(), two.clone()];
                prefixes.sort_by(|a, b| Name::compare(a.as_bytes(), b.as_bytes()));
                for name in &names {
                    let one_begins = prefixes.iter().any(|prefix| begins(name, prefix));
                    assert_eq!(covers(&prefixes, name), one_begins, "{prefixes:?} {name:?}");
                }
            }
        }
    }
}
