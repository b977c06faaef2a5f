//! The namespace that the ledger leaves alone: that of the candidates, whose messages come and go in two groups.
//!
//! Nothing of it goes back with the journal: the namespace is made before anything can be lost, and no number of a topic
//! is ever given out again.

use std::collections::BTreeSet;

use millpond_core::fact::{Fact, GroupNumber, NamespaceNumber};
use millpond_types::TopicNumber;

use crate::candidates;

#[derive(Default)]
pub(super) struct Aside {
    namespace: Option<NamespaceNumber>,
    groups: BTreeSet<GroupNumber>,
    topics: BTreeSet<TopicNumber>,
}

impl Aside {
    /// Whether a fact is about that namespace alone.
    pub(super) fn takes(&mut self, fact: &Fact) -> bool {
        match fact {
            Fact::NamespaceSet { number, name, .. } if name.as_str() == candidates::NAMESPACE => {
                self.namespace = Some(*number);
                true
            }
            Fact::GroupCreated { group, namespace, .. } if self.namespace == Some(*namespace) => {
                self.groups.insert(*group);
                true
            }
            Fact::TopicCreated { topic, group, .. } if self.groups.contains(group) => {
                self.topics.insert(*topic);
                true
            }
            fact => fact.topic().is_some_and(|(topic, _)| self.topics.contains(&topic)),
        }
    }

    /// Whether a group is of that namespace.
    pub(super) fn holds(&self, group: GroupNumber) -> bool {
        self.groups.contains(&group)
    }
}
