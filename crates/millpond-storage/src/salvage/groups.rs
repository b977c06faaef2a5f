//! What there is of namespaces and their groups, as far as a journal's records tell.
//!
//! Every group has messages of its own to do. A group of which no record tells is taken for that called `default`, which every
//! namespace has; what no record says that a group has declined it has.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::fact::{Fact, GroupNumber, NamespaceNumber};
use millpond_types::{
    GroupKind, GroupName, LeaderEpoch, NamespaceName, Policy, Priority, Rules, Sequence, Start, TopicName, TopicNumber,
};

use super::held::Held;
use super::seen::{Seen, Stretch};

/// See the module.
#[derive(Default)]
pub struct Groups {
    pub namespaces: BTreeMap<NamespaceNumber, (NamespaceName, Policy, Rules)>,
    /// The namespaces and the names of topics.
    pub homes: BTreeMap<TopicNumber, (NamespaceNumber, TopicName)>,
    /// Messages of which it is known in which groups they were published, or where they have moved to since.
    pub seen: BTreeMap<TopicNumber, Seen>,
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
    /// Messages that it was given as it started.
    given: BTreeMap<TopicNumber, Seen>,
    /// Whether a record tells that it has all that it starts with.
    has_started: bool,
    /// Whether records are missing that may have told what it was given.
    misses: bool,
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
        let told = Told::by(&fact);
        match whose(&fact) {
            Whose::Nobody => self.default.note(fact, position, &[]),
            Whose::Group(group) if self.deleted.contains(&group) => {}
            Whose::Group(group) => {
                let vanished = if let Fact::TopicVanished { topic, .. } = fact { Some(topic) } else { None };
                match self.others.get_mut(&group) {
                    Some(other) => other.note(fact, position),
                    None => self.default.note(fact, position, &[]),
                }
                // Its number comes back no more, but in dead letters, which tell its name themselves.
                if let Some(topic) = vanished.filter(|topic| self.held().all(|held| !held.topics.contains_key(topic))) {
                    self.homes.remove(&topic);
                    self.seen.remove(&topic);
                }
            }
            Whose::Topic(topic, except) => {
                let home = self.homes.get(&topic).map(|(namespace, _)| *namespace);
                let lacks = match (&told, self.seen.get(&topic)) {
                    (Some(Told { priority, all, .. }), Some(seen)) => seen.lacks(*priority, *all),
                    (told, _) => told.iter().map(|told| told.all).collect(),
                };
                for (number, other) in &mut self.others {
                    if Some(other.namespace) == home && !except.contains(number) {
                        let lacks = told.as_ref().map_or(Vec::new(), |told| other.lacks(told, &lacks));
                        other.held.note(fact.clone(), position, &lacks);
                    }
                }
                if !except.iter().any(|group| self.defaults.contains(group)) {
                    self.default.note(fact, position, &lacks);
                }
                // Where it is not known whose it is, others than `default` may have it all the same.
                if home.is_none() && !self.others.is_empty() {
                    return;
                }
            }
        }
        if let Some(Told { topic, priority, all }) = told {
            self.seen.entry(topic).or_default().add(priority, all);
        }
    }

    /// Records are missing between those so far and those that follow.
    pub fn miss_records(&mut self) {
        self.others.values_mut().for_each(|other| other.misses |= !other.has_started);
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
            Fact::GroupCreated { group, namespace, name, start, kind } if *name != GroupName::default() => {
                let (name, kind) = (name.clone(), *kind);
                let (held, given, has_started) = (Held::default(), BTreeMap::new(), *start == Start::Latest);
                let other = Other { namespace: *namespace, name, kind, held, given, has_started, misses: false };
                self.others.insert(*group, other);
            }
            Fact::GroupCreated { group, .. } => _ = self.defaults.insert(*group),
            Fact::GroupStarted { group } => {
                self.others.get_mut(group).into_iter().for_each(|other| other.has_started = true);
            }
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

impl Other {
    fn note(&mut self, fact: Fact, position: u64) {
        match &fact {
            Fact::Copied { topic, messages, .. } => {
                let given = self.given.entry(*topic).or_default();
                messages.iter().for_each(|copied| given.add(copied.priority, (copied.run.first, copied.run.end())));
            }
            Fact::TopicVanished { topic, .. } => _ = self.given.remove(topic),
            _ => {}
        }
        self.held.note(fact, position, &[]);
    }

    /// Those of some messages of which no record tells whether the group has them. `lacks` are those of which none tells of any
    /// group.
    fn lacks(&self, Told { topic, priority, all }: &Told, lacks: &[Stretch]) -> Vec<Stretch> {
        let lacks = if self.misses { &[*all][..] } else { lacks };
        match self.given.get(topic) {
            Some(given) => lacks.iter().flat_map(|part| given.lacks(*priority, *part)).collect(),
            None => lacks.to_vec(),
        }
    }
}

/// Messages of which a fact tells, whichever groups they are in.
struct Told {
    topic: TopicNumber,
    priority: Priority,
    all: Stretch,
}

impl Told {
    fn by(fact: &Fact) -> Option<Told> {
        let (topic, priority, first, count) = match fact {
            Fact::Published { topic, priority, first, count, .. }
            | Fact::Moved { topic, priority, first, count, .. } => (*topic, *priority, *first, *count),
            Fact::Redriven { letter, topic, sequence, .. } => (*topic, letter.id.priority, *sequence, 1),
            _ => return None,
        };
        let end = Sequence(first.0.saturating_add(count.into()));
        Some(Told { topic, priority, all: (first, end) })
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

#[cfg(test)]
mod tests;
