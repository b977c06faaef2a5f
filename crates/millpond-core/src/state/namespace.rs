//! Namespaces: a policy, what is paused, the dead letters, the counts.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use bytes::Bytes;
use millpond_types::{Counts, MessageId, NamespaceName, Policy, TopicName, WallTime};

use crate::fact::{DeadReason, GroupNumber, Letter, NamespaceNumber};
use crate::page::{DeadPage, NamespacePage, RunPage};
use crate::state::pauses::Pauses;
use crate::store::SHELVES;

#[derive(Clone, Default)]
pub(crate) struct Namespaces {
    by_number: BTreeMap<NamespaceNumber, Namespace>,
    by_name: BTreeMap<NamespaceName, NamespaceNumber>,
}

#[derive(Clone)]
pub(crate) struct Namespace {
    pub(crate) name: NamespaceName,
    pub(crate) policy: Policy,
    pub(crate) version: u64,
    pub(crate) paused: Pauses,
    pub(crate) topics: u64,
    pub(crate) counts: Counts,
    /// How many topics have an entry in the store, in memory or not, by [`Shelf::index`](crate::store::Shelf::index).
    pub(crate) shelves: [u64; SHELVES],
    /// How many of these are not in memory.
    pub(crate) cold: [u64; SHELVES],
    pub(crate) dead: BTreeMap<(GroupNumber, MessageId), Dead>,
    /// The dead letters in the order in which they are listed.
    pub(crate) dead_by_topic: BTreeSet<(GroupNumber, TopicName, MessageId)>,
}

/// A dead letter.
#[derive(Clone)]
pub(crate) struct Dead {
    pub(crate) topic: TopicName,
    pub(crate) run: RunPage,
    pub(crate) deliveries: u32,
    pub(crate) failures: u32,
    pub(crate) reason: DeadReason,
    pub(crate) detail: Bytes,
    pub(crate) died: WallTime,
}

impl Dead {
    pub(crate) fn page(&self, namespace: NamespaceNumber, group: GroupNumber, id: MessageId) -> DeadPage {
        let Dead { topic, run, deliveries, failures, reason, detail, died } = self.clone();
        DeadPage { namespace, group, topic, id, run, deliveries, failures, reason, detail, died }
    }
}

impl Namespaces {
    pub(crate) fn number(&self, name: &NamespaceName) -> Option<NamespaceNumber> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn insert(&mut self, number: NamespaceNumber, namespace: Namespace) {
        let other = self.by_name.insert(namespace.name.clone(), number);
        assert!(other.is_none(), "a name belongs to one namespace");
        self.by_number.insert(number, namespace);
    }

    pub(crate) fn remove(&mut self, number: NamespaceNumber) {
        let gone = self.by_number.remove(&number).expect("only a namespace that is there is deleted");
        assert!(gone.topics == 0 && gone.dead.is_empty(), "only an empty namespace is deleted");
        self.by_name.remove(&gone.name);
    }

    pub(crate) fn get(&self, number: NamespaceNumber) -> Option<&Namespace> {
        self.by_number.get(&number)
    }

    pub(crate) fn get_mut(&mut self, number: NamespaceNumber) -> Option<&mut Namespace> {
        self.by_number.get_mut(&number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NamespaceNumber, &Namespace)> {
        self.by_number.iter().map(|(number, namespace)| (*number, namespace))
    }

    /// The namespace with the next higher number.
    pub(crate) fn after(&self, number: NamespaceNumber) -> Option<NamespaceNumber> {
        self.by_number.range(number.checked_add(1)?..).next().map(|(number, _)| *number)
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }
}

impl core::ops::Index<NamespaceNumber> for Namespaces {
    type Output = Namespace;
    fn index(&self, number: NamespaceNumber) -> &Namespace {
        self.by_number.get(&number).expect("the namespace of a topic exists")
    }
}

impl core::ops::IndexMut<NamespaceNumber> for Namespaces {
    fn index_mut(&mut self, number: NamespaceNumber) -> &mut Namespace {
        self.by_number.get_mut(&number).expect("the namespace of a topic exists")
    }
}

impl Namespace {
    pub(crate) fn new(name: NamespaceName, policy: Policy, version: u64) -> Namespace {
        Namespace {
            name,
            policy,
            version,
            paused: Pauses::default(),
            topics: 0,
            counts: Counts::default(),
            shelves: [0; SHELVES],
            cold: [0; SHELVES],
            dead: BTreeMap::new(),
            dead_by_topic: BTreeSet::new(),
        }
    }

    pub(crate) fn page(&self, number: NamespaceNumber) -> NamespacePage {
        NamespacePage {
            number,
            name: self.name.clone(),
            policy: self.policy.clone(),
            version: self.version,
            paused: self.paused.iter().cloned().collect(),
            counts: self.counts,
            topics: self.topics,
            shelves: self.shelves,
        }
    }

    pub(crate) fn insert_dead(&mut self, group: GroupNumber, id: MessageId, dead: Dead) {
        self.counts.dead += u64::from(dead.run.count);
        self.dead_by_topic.insert((group, dead.topic.clone(), id));
        let other = self.dead.insert((group, id), dead);
        assert!(other.is_none(), "a message dies once in a group");
    }

    pub(crate) fn remove_dead(&mut self, letter: &Letter) {
        let Letter { group, id, .. } = *letter;
        let dead = self.dead.remove(&(group, id)).expect("only a dead letter that is there ends");
        assert_eq!((&dead.topic, dead.run.extent()), (&letter.topic, letter.extent), "a fact says what the letter was");
        self.dead_by_topic.remove(&(group, dead.topic, id));
        self.counts.dead -= u64::from(dead.run.count);
    }

    /// The dead letters of a group in the order of topics, after a place in it.
    pub(crate) fn dead_after(
        &self,
        group: GroupNumber,
        after: Option<(TopicName, MessageId)>,
    ) -> impl Iterator<Item = (&TopicName, MessageId, &Dead)> {
        use core::ops::Bound::{Excluded, Unbounded};
        let from = after.map(|(topic, id)| Excluded((group, topic, id))).unwrap_or(Unbounded);
        let rows = self.dead_by_topic.range((from, Unbounded)).filter(move |row| row.0 == group);
        rows.map(move |(group, topic, id)| (topic, *id, &self.dead[&(*group, *id)]))
    }

    /// The ids of the dead letters that a predicate on their topics admits.
    pub(crate) fn dead_of(&self, group: GroupNumber, admits: impl Fn(&TopicName) -> bool) -> Vec<MessageId> {
        self.dead_after(group, None).filter(|(topic, ..)| admits(topic)).map(|(_, id, _)| id).collect()
    }
}
