//! What is paused in a namespace: topics by name, and all those whose name begins with a prefix, which may be empty; and when
//! that is over.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound::{Included, Unbounded};

use millpond_types::{Pause, PausedTopics, TopicName, WallTime};

use crate::fact::NamespaceNumber;
use crate::state::{State, setup};
use crate::store::Name;

#[derive(Clone, Default)]
pub(crate) struct Pauses {
    /// With the times at which they are over.
    all: BTreeMap<PausedTopics, WallTime>,
    /// The prefixes that no other one covers. None of them begins with another, so of those that a name could begin
    /// with only the last one before it can be it.
    widest: BTreeSet<Vec<u8>>,
}

impl Pauses {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// When the pause of these topics is over, if there is one.
    pub(crate) fn until(&self, topics: &PausedTopics) -> Option<WallTime> {
        self.all.get(topics).copied()
    }

    /// Whether a topic is paused by its name.
    pub(crate) fn names(&self, topic: &TopicName) -> bool {
        !self.all.is_empty() && self.all.contains_key(&PausedTopics::from(topic))
    }

    /// Returns when the pause of the same topics would have been over, if there was one.
    pub(crate) fn insert(&mut self, Pause { topics, until }: Pause) -> Option<WallTime> {
        let start = topics.as_bytes();
        if topics.is_prefix() && self.covering(start).is_none() {
            self.widest.retain(|other| !other.starts_with(start));
            self.widest.insert(Vec::from(start));
        }
        // With the buffer of the new one, which others share.
        let before = self.all.remove(&topics);
        self.all.insert(topics, until);
        before
    }

    /// Returns when the pause would have been over, if there was one.
    pub(crate) fn remove(&mut self, topics: &PausedTopics) -> Option<WallTime> {
        let until = self.all.remove(topics);
        let start = topics.as_bytes();
        if topics.is_prefix() && self.widest.remove(start) {
            // Those that it covered are in force again, in order, so that a wider one comes before what it covers.
            let covered = self.all.range(topics..).map(|(other, _)| other);
            let covered = covered.take_while(|other| other.as_bytes().starts_with(start));
            for other in covered.filter(|other| other.is_prefix()) {
                if covering(&self.widest, other.as_bytes()).is_none() {
                    self.widest.insert(Vec::from(other.as_bytes()));
                }
            }
        }
        until
    }

    /// All of them, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Pause> {
        self.all.iter().map(|(topics, until)| Pause { topics: topics.clone(), until: *until })
    }

    /// Whether a topic of this name is paused.
    pub(crate) fn holds(&self, name: &TopicName) -> bool {
        self.names(name) || self.covering(name.as_bytes()).is_some()
    }

    /// The prefix because of which what begins with these bytes is paused, if any.
    pub(crate) fn covering(&self, name: &[u8]) -> Option<&[u8]> {
        if self.widest.is_empty() { None } else { covering(&self.widest, name) }
    }

    /// Where the next prefix that is paused begins, behind a key. Looks at all of them, for each read of the store.
    pub(crate) fn first_behind(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.widest.iter().map(|prefix| Name::bytes(prefix)).filter(|begin| **begin > *key).min()
    }
}

impl State {
    /// Topics are paused until a time, or resumed. Whether they were paused before.
    pub(crate) fn set_pause(
        &mut self,
        namespace: NamespaceNumber,
        topics: &PausedTopics,
        until: Option<WallTime>,
    ) -> bool {
        let topics = topics.detach();
        let pauses = &mut self.namespaces[namespace].paused;
        let before = match until {
            Some(until) => pauses.insert(Pause { topics: topics.clone(), until }),
            None => pauses.remove(&topics),
        };
        if let Some(before) = before {
            self.taken_back(setup::of_pause(&topics, before));
            self.pause_ends.remove(&(before, namespace, topics.clone()));
        }
        if let Some(until) = until {
            self.set_up(setup::of_pause(&topics, until));
            self.note_pause_end(namespace, Pause { topics, until });
        }
        before.is_some()
    }

    /// Takes note of when a pause is over.
    pub(crate) fn note_pause_end(&mut self, namespace: NamespaceNumber, Pause { topics, until }: Pause) {
        if until != WallTime::NEVER {
            self.pause_ends.insert((until, namespace, topics));
        }
    }

    /// A namespace is about to go, and with it what is paused there.
    pub(crate) fn forget_pause_ends(&mut self, namespace: NamespaceNumber) {
        for Pause { topics, until } in self.namespaces[namespace].paused.iter() {
            self.pause_ends.remove(&(until, namespace, topics));
        }
    }

    /// The next pause that is over by now.
    pub(crate) fn next_pause_over(&self) -> Option<(NamespaceNumber, PausedTopics)> {
        let (until, namespace, topics) = self.pause_ends.first()?;
        (*until <= self.now.wall).then(|| (*namespace, topics.clone()))
    }
}

fn covering<'a>(widest: &'a BTreeSet<Vec<u8>>, name: &[u8]) -> Option<&'a [u8]> {
    let last = widest.range::<[u8], _>((Unbounded, Included(name))).next_back();
    last.filter(|wide| name.starts_with(wide)).map(|wide| &wide[..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_prefix_is_found_as_a_walk_over_all_finds_it(
            steps in proptest::collection::vec(("[ab/]{0,4}", any::<bool>(), 0u8..3), 1..40),
        ) {
            let mut pauses = Pauses::default();
            let mut model: Vec<PausedTopics> = Vec::new();
            for (name, prefix, kind) in steps {
                let Ok(topics) = PausedTopics::new(name.into(), prefix) else { continue };
                match kind {
                    0 | 1 => {
                        pauses.insert(Pause { topics: topics.clone(), until: WallTime(u64::from(kind)) });
                        model.push(topics);
                    }
                    _ => {
                        pauses.remove(&topics);
                        model.retain(|one| *one != topics);
                    }
                }
                for name in ["a", "ab/a", "b/ba", "aab", "/", "bb"].map(|text| TopicName::try_from(text).unwrap()) {
                    prop_assert_eq!(pauses.holds(&name), model.iter().any(|one| one.covers(&name)), "{}", name);
                }
            }
        }
    }
}
