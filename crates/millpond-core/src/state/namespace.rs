//! Namespaces: policies, what is paused, the groups.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Bound::{Excluded, Unbounded};

use millpond_types::{ExchangeName, NamespaceName};

use crate::fact::{GroupNumber, NamespaceNumber};
use crate::output::Notice;
use crate::page::NamespacePage;
use crate::routing::Exchange;
use crate::state::group::Groups;
use crate::state::pauses::Pauses;
use crate::state::policies::Policies;

#[derive(Clone, Default)]
pub(crate) struct Namespaces {
    by_number: BTreeMap<NamespaceNumber, Namespace>,
    by_name: BTreeMap<NamespaceName, NamespaceNumber>,
    /// Those whose groups are not to keep all that they hold.
    retaining: BTreeSet<NamespaceNumber>,
}

#[derive(Clone)]
pub(crate) struct Namespace {
    pub(crate) name: NamespaceName,
    pub(crate) policies: Policies,
    pub(crate) paused: Pauses,
    pub(crate) exchanges: BTreeMap<ExchangeName, Arc<Exchange>>,
    /// Its groups, in the order of their numbers. The first is `default`.
    pub(crate) groups: Vec<GroupNumber>,
    /// Those that are being deleted, and that nobody finds any more.
    pub(crate) ending: Vec<GroupNumber>,
}

impl Namespaces {
    pub(crate) fn number(&self, name: &NamespaceName) -> Option<NamespaceNumber> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn insert(&mut self, number: NamespaceNumber, namespace: Namespace) {
        let other = self.by_name.insert(namespace.name.clone(), number);
        assert!(other.is_none(), "a name belongs to one namespace");
        self.note_retention(number, &namespace.policies);
        self.by_number.insert(number, namespace);
    }

    /// Returns the groups that it had, those among them that were being deleted: nobody is to go on with these.
    pub(crate) fn remove(&mut self, number: NamespaceNumber) -> Vec<GroupNumber> {
        let gone = self.by_number.remove(&number).expect("only a namespace that is there is deleted");
        self.by_name.remove(&gone.name);
        self.retaining.remove(&number);
        [gone.groups, gone.ending].concat()
    }

    /// A namespace has other policies. Returns those before.
    pub(crate) fn set_policies(&mut self, number: NamespaceNumber, policies: Policies) -> Policies {
        self.note_retention(number, &policies);
        core::mem::replace(&mut self[number].policies, policies)
    }

    /// Those whose groups are not to keep all that they hold, in the order of their numbers.
    pub(crate) fn retaining(&self) -> impl Iterator<Item = NamespaceNumber> {
        self.retaining.iter().copied()
    }

    fn note_retention(&mut self, number: NamespaceNumber, policies: &Policies) {
        match policies.base.retention.is_any() {
            true => _ = self.retaining.insert(number),
            false => _ = self.retaining.remove(&number),
        }
    }

    pub(crate) fn get(&self, number: NamespaceNumber) -> Option<&Namespace> {
        self.by_number.get(&number)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (NamespaceNumber, &Namespace)> {
        self.by_number.iter().map(|(number, namespace)| (*number, namespace))
    }

    /// Those whose names come after this one, in the order of their names.
    pub(crate) fn after(&self, name: Option<&NamespaceName>) -> impl Iterator<Item = &Namespace> {
        let from = name.map_or(Unbounded, Excluded);
        self.by_name.range((from, Unbounded)).map(|(_, number)| &self[*number])
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
    pub(crate) fn new(name: NamespaceName, policies: Policies) -> Namespace {
        let (paused, exchanges) = (Pauses::default(), BTreeMap::new());
        Namespace { name, policies, paused, exchanges, groups: Vec::new(), ending: Vec::new() }
    }

    /// What edges have to know of it.
    pub(crate) fn notice(&self) -> Notice {
        Notice::Namespace { name: self.name.clone(), connections: self.policies.base.quotas.connections }
    }

    pub(crate) fn page(&self, number: NamespaceNumber, groups: &Groups) -> NamespacePage {
        NamespacePage {
            number,
            name: self.name.clone(),
            policy: self.policies.base.clone(),
            rules: self.policies.rules.clone(),
            version: self.policies.version,
            paused: self.paused.iter().collect(),
            groups: self.groups.iter().chain(&self.ending).map(|number| groups[*number].page(*number)).collect(),
        }
    }
}
