//! The namespaces that the ledger leaves alone: those of the candidates and of the subscribers, whose messages come and go
//! in several groups.
//!
//! Nothing of them goes back with the journal: no number of a topic is ever given out again, and one of a namespace or a group that
//! was lost is another's from when that is made.

use std::collections::BTreeSet;

use millpond_core::fact::{Fact, GroupNumber, NamespaceNumber};
use millpond_types::TopicNumber;

use crate::{candidates, subscribers};

#[derive(Default)]
pub(super) struct Aside {
    namespaces: BTreeSet<NamespaceNumber>,
    groups: BTreeSet<GroupNumber>,
    topics: BTreeSet<TopicNumber>,
}

impl Aside {
    /// Whether a fact is about those namespaces alone.
    pub(super) fn takes(&mut self, fact: &Fact) -> bool {
        match fact {
            Fact::NamespaceSet { number, name, .. }
                if [candidates::NAMESPACE, subscribers::NAMESPACE].contains(&name.as_str()) =>
            {
                self.namespaces.insert(*number);
                true
            }
            Fact::GroupCreated { group, namespace, .. } if self.namespaces.contains(namespace) => {
                self.groups.insert(*group);
                true
            }
            Fact::NamespaceSet { number, .. } => {
                self.namespaces.remove(number);
                false
            }
            Fact::GroupCreated { group, .. } => {
                self.groups.remove(group);
                false
            }
            Fact::TopicCreated { topic, group, .. } if self.groups.contains(group) => {
                self.topics.insert(*topic);
                true
            }
            Fact::DeadPurged { letter } => self.groups.contains(&letter.group),
            Fact::DeadMoved { letter, .. } => self.groups.contains(&letter.group),
            fact => fact.topic().is_some_and(|(topic, _)| self.topics.contains(&topic)),
        }
    }

    /// Whether a group is of one of them.
    pub(super) fn holds(&self, group: GroupNumber) -> bool {
        self.groups.contains(&group)
    }
}
