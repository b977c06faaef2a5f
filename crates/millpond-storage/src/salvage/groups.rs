//! What there is of namespaces and their groups, as far as a journal's records tell.
//!
//! Every group has messages of its own to do. A group of which no record tells is taken for that called `default`, which every
//! namespace has; what no record says that a group has declined it has.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::fact::{Fact, GroupNumber, NamespaceNumber};
use millpond_types::{GroupKind, GroupName, LeaderEpoch, NamespaceName, Policy, Rules, TopicName, TopicNumber};

use super::held::Held;

/// See the module.
#[derive(Default)]
pub struct Groups {
    pub namespaces: BTreeMap<NamespaceNumber, (NamespaceName, Policy, Rules)>,
    /// The namespaces and the names of topics.
    pub homes: BTreeMap<TopicNumber, (NamespaceNumber, TopicName)>,
    /// What the groups called `default` have to do.
    pub default: Held,
    /// The others that were not deleted.
    pub others: BTreeMap<GroupNumber, Other>,
    /// The highest epoch that any leader had.
    pub epoch: LeaderEpoch,
    /// The groups called `default` that a record tells of.
    defaults: BTreeSet<GroupNumber>,
    /// Groups that were deleted.
    deleted: BTreeSet<GroupNumber>,
    /// Above every number that is known to have been given out in these.
    floor: u64,
}

/// A group that is not called `default`.
pub struct Other {
    pub namespace: NamespaceNumber,
    pub name: GroupName,
    pub kind: GroupKind,
    pub held: Held,
}

/// Whose business a fact is.
enum Whose {
    /// That of one group.
    Group(GroupNumber),
    /// That of all groups of the topic's namespace, but for these.
    Topic(TopicNumber, Vec<GroupNumber>),
    /// Nobody's, or it is about numbers.
    Nobody,
}

impl Groups {
    /// Takes note of a fact. `position` is where its block stands.
    pub fn note(&mut self, fact: Fact, position: u64) {
        self.note_setup(&fact);
        match whose(&fact) {
            Whose::Nobody => self.default.note(fact, position),
            Whose::Group(group) if self.deleted.contains(&group) => {}
            Whose::Group(group) => match self.others.get_mut(&group) {
                Some(other) => other.held.note(fact, position),
                None => self.default.note(fact, position),
            },
            Whose::Topic(topic, except) => {
                let home = self.homes.get(&topic).map(|(namespace, _)| *namespace);
                for (number, other) in &mut self.others {
                    if Some(other.namespace) == home && !except.contains(number) {
                        other.held.note(fact.clone(), position);
                    }
                }
                if !except.iter().any(|group| self.defaults.contains(group)) {
                    self.default.note(fact, position);
                }
            }
        }
    }

    /// Above every number that is known to have been given out.
    pub fn floor(&self) -> u64 {
        let others = self.others.values().map(|other| other.held.floor);
        others.chain([self.default.floor, self.floor]).max().unwrap_or(0)
    }

    fn note_setup(&mut self, fact: &Fact) {
        match fact {
            Fact::NamespaceSet { number, name, policy, rules, .. } => {
                self.namespaces.insert(*number, (name.clone(), policy.clone(), rules.clone()));
            }
            Fact::NamespaceDeleted { number } => _ = self.namespaces.remove(number),
            Fact::GroupCreated { group, namespace, name, kind, .. } if *name != GroupName::default() => {
                let (name, kind) = (name.clone(), *kind);
                self.others.insert(*group, Other { namespace: *namespace, name, kind, held: Held::default() });
            }
            Fact::GroupCreated { group, .. } => _ = self.defaults.insert(*group),
            Fact::GroupEnding { group } | Fact::GroupDeleted { group } => {
                self.deleted.insert(*group);
                if let Some(other) = self.others.remove(group) {
                    self.floor = self.floor.max(other.held.floor);
                }
            }
            Fact::OfficeTaken { epoch, .. } => self.epoch = self.epoch.max(*epoch),
            Fact::TopicCreated { topic, namespace, name, .. } | Fact::TopicRecalled { topic, namespace, name, .. } => {
                self.homes.insert(*topic, (*namespace, name.clone()));
            }
            Fact::Redriven { letter, .. } | Fact::DeadPurged { letter } => {
                self.homes.entry(letter.id.topic).or_insert_with(|| (letter.namespace, letter.topic.clone()));
            }
            Fact::DeadMoved { letter, .. } => {
                self.homes.entry(letter.id.topic).or_insert_with(|| (letter.namespace, letter.topic.clone()));
            }
            _ => {}
        }
    }
}

fn whose(fact: &Fact) -> Whose {
    match fact {
        Fact::TopicCreated { group, .. } => Whose::Group(*group),
        Fact::Redriven { letter, .. } | Fact::DeadPurged { letter } => Whose::Group(letter.group),
        Fact::DeadMoved { letter, .. } => Whose::Group(letter.group),
        Fact::Published { topic, except, .. } => Whose::Topic(*topic, except.clone()),
        fact => match fact.topic() {
            Some((_, Some(group))) => Whose::Group(group),
            Some((topic, None)) => Whose::Topic(topic, Vec::new()),
            None => Whose::Nobody,
        },
    }
}
