//! Namespaces: a policy, what is paused, the counts.

use alloc::collections::BTreeMap;

use millpond_types::{Counts, NamespaceName, Policy};

use crate::fact::NamespaceNumber;
use crate::page::NamespacePage;
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
        assert!(gone.topics == 0 && gone.counts.dead == 0, "only an empty namespace is deleted");
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
}
