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
    /// That of no group: it is about numbers, or about nothing that is kept here.
    Nobody,
}

impl Groups {
    /// Takes note of a fact. `position` is where its block stands.
    pub fn note(&mut self, fact: Fact, position: u64) {
        self.note_setup(&fact);
        match whose(&fact) {
            Whose::Nobody => self.default.note(fact, position),
            Whose::Group(group) if self.deleted.contains(&group) => {}
            Whose::Group(group) => {
                let vanished = if let Fact::TopicVanished { topic, .. } = fact { Some(topic) } else { None };
                match self.others.get_mut(&group) {
                    Some(other) => other.held.note(fact, position),
                    None => self.default.note(fact, position),
                }
                // Its number comes back no more, but in dead letters, which tell its name themselves.
                if let Some(topic) = vanished.filter(|topic| self.held().all(|held| !held.topics.contains_key(topic))) {
                    self.homes.remove(&topic);
                }
            }
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
        self.held().map(|held| held.floor).fold(self.floor, u64::max)
    }

    fn held(&self) -> impl Iterator<Item = &Held> {
        self.others.values().map(|other| &other.held).chain([&self.default])
    }

    fn delete(&mut self, group: GroupNumber) {
        self.deleted.insert(group);
        if let Some(other) = self.others.remove(&group) {
            self.floor = self.floor.max(other.held.floor);
        }
    }

    fn note_setup(&mut self, fact: &Fact) {
        match fact {
            Fact::NamespaceSet { number, name, policy, rules, .. } => {
                self.namespaces.insert(*number, (name.clone(), policy.clone(), rules.clone()));
            }
            Fact::NamespaceDeleted { number } => {
                self.namespaces.remove(number);
                let of = self.others.iter().filter(|(_, other)| other.namespace == *number).map(|(group, _)| *group);
                of.collect::<Vec<_>>().into_iter().for_each(|group| self.delete(group));
            }
            Fact::GroupCreated { group, namespace, name, kind, .. } if *name != GroupName::default() => {
                let (name, kind) = (name.clone(), *kind);
                self.others.insert(*group, Other { namespace: *namespace, name, kind, held: Held::default() });
            }
            Fact::GroupCreated { group, .. } => _ = self.defaults.insert(*group),
            Fact::GroupEnding { group } | Fact::GroupDeleted { group } => self.delete(*group),
            Fact::OfficeTaken { epoch, .. } => self.epoch = self.epoch.max(*epoch),
            Fact::TopicCreated { topic, namespace, name, .. } | Fact::TopicRecalled { topic, namespace, name, .. } => {
                self.homes.insert(*topic, (*namespace, name.detach()));
            }
            Fact::Redriven { letter, .. } | Fact::DeadPurged { letter } => {
                self.homes.entry(letter.id.topic).or_insert_with(|| (letter.namespace, letter.topic.detach()));
            }
            Fact::DeadMoved { letter, .. } => {
                self.homes.entry(letter.id.topic).or_insert_with(|| (letter.namespace, letter.topic.detach()));
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
