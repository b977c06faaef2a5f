//! What is paused in a namespace: topics by name, and all those whose name begins with a prefix.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Bound::{Included, Unbounded};

use millpond_types::TopicName;

use crate::store::Name;

#[derive(Clone, Default)]
pub(crate) struct Pauses {
    /// Names, and prefixes where the flag is set.
    all: BTreeSet<(TopicName, bool)>,
    /// The prefixes that no other one covers. None of them begins with another, so of those that a name could begin
    /// with only the last one before it can be it.
    widest: BTreeSet<Vec<u8>>,
}

impl Pauses {
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn contains(&self, name: &TopicName, prefix: bool) -> bool {
        !self.all.is_empty() && self.all.contains(&(name.clone(), prefix))
    }

    pub(crate) fn insert(&mut self, name: TopicName, prefix: bool) {
        if prefix && self.covering(name.as_bytes()).is_none() {
            self.widest.retain(|other| !other.starts_with(name.as_bytes()));
            self.widest.insert(Vec::from(name.as_bytes()));
        }
        self.all.insert((name, prefix));
    }

    pub(crate) fn remove(&mut self, name: &TopicName, prefix: bool) {
        self.all.remove(&(name.clone(), prefix));
        if prefix && self.widest.remove(name.as_bytes()) {
            // Those that it covered are in force again, in order, so that a wider one comes before what it covers.
            let covered = self.all.range((name.clone(), false)..);
            let covered = covered.take_while(|(other, _)| other.as_bytes().starts_with(name.as_bytes()));
            for (other, _) in covered.filter(|(_, prefix)| *prefix) {
                if covering(&self.widest, other.as_bytes()).is_none() {
                    self.widest.insert(Vec::from(other.as_bytes()));
                }
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(TopicName, bool)> {
        self.all.iter()
    }

    /// Whether a topic of this name is paused.
    pub(crate) fn holds(&self, name: &TopicName) -> bool {
        self.contains(name, false) || self.covering(name.as_bytes()).is_some()
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
            steps in proptest::collection::vec(("[ab/]{1,4}", any::<bool>(), 0u8..3), 1..40),
        ) {
            let mut pauses = Pauses::default();
            let mut model: Vec<(TopicName, bool)> = Vec::new();
            for (name, prefix, kind) in steps {
                let name = TopicName::try_from(&name[..]).unwrap();
                match kind {
                    0 | 1 => {
                        pauses.insert(name.clone(), prefix);
                        model.push((name.clone(), prefix));
                    }
                    _ => {
                        pauses.remove(&name, prefix);
                        model.retain(|one| *one != (name.clone(), prefix));
                    }
                }
                for name in ["a", "ab/a", "b/ba", "aab", "/", "bb"].map(|text| TopicName::try_from(text).unwrap()) {
                    let holds = |(one, prefix): &(TopicName, bool)| match prefix {
                        true => name.as_bytes().starts_with(one.as_bytes()),
                        false => *one == name,
                    };
                    prop_assert_eq!(pauses.holds(&name), model.iter().any(holds), "{}", name);
                }
            }
        }
    }
}
