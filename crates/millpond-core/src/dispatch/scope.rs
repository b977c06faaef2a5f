//! Scopes: which topics a consumer can be served from. All topics of a namespace are one scope, each set of prefixes in
//! use is one, and a list of names is one of its own consumer's: a consumer has one scope, so the order of dispatch holds
//! over all that it asks for. Each scope has rings; a topic that becomes ready is put into those of every scope that
//! admits it. A new scope is filled in slices, never by a walk in one turn.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use millpond_types::limits::PREFIXES_MAX;
use millpond_types::{Filter, TopicName};
use slab::Slab;

use crate::dispatch::ConsumerSlot;
use crate::dispatch::rings::{Entry, Rings};
use crate::fact::NamespaceNumber;
use crate::state::topic::Topic;
use crate::state::{State, TopicSlot};

/// A scope's place in memory.
pub(crate) type ScopeSlot = u32;

/// Topics looked at in one turn while a scope is filled: a fraction of a millisecond.
const FILL_SLICE: u32 = 4096;

#[derive(Default)]
pub(crate) struct Scopes {
    pub(crate) slots: Slab<Scope>,
    homes: BTreeMap<NamespaceNumber, Home>,
}

/// The scopes of a namespace.
#[derive(Default)]
struct Home {
    all: Option<ScopeSlot>,
    prefixes: Vec<(Vec<TopicName>, ScopeSlot)>,
    lists: BTreeMap<TopicName, Vec<ScopeSlot>>,
}

pub(crate) struct Scope {
    namespace: NamespaceNumber,
    kind: Kind,
    pub(crate) rings: Rings,
    /// Consumers with credit, in the order of their turns.
    pub(crate) hungry: VecDeque<ConsumerSlot>,
    /// Consumers attached, hungry or not.
    users: usize,
    /// The next topic slot to look at, while it is being filled.
    filling: Option<TopicSlot>,
}

enum Kind {
    All,
    Prefixes(Vec<TopicName>),
    List(Vec<TopicName>),
}

impl Scopes {
    /// The scope that a filter stands for, made where it is not there. `None` if that needs more prefixes than a
    /// namespace may have in use.
    pub(crate) fn open(&mut self, namespace: NamespaceNumber, filter: &Filter, state: &State) -> Option<ScopeSlot> {
        let found = match filter {
            Filter::All => self.all(namespace),
            Filter::Topics(names) => self.list(namespace, names, state),
            Filter::Prefixes(prefixes) => self.prefixes(namespace, prefixes)?,
        };
        self.slots[found as usize].users += 1;
        Some(found)
    }

    /// A consumer no longer uses the scope. A list goes with its consumer; a prefix stays filled for the next one.
    pub(crate) fn close(&mut self, slot: ScopeSlot, consumer: ConsumerSlot) {
        let scope = &mut self.slots[slot as usize];
        scope.hungry.retain(|hungry| *hungry != consumer);
        scope.users -= 1;
        if scope.users == 0 && matches!(scope.kind, Kind::List(_)) {
            self.remove(slot);
        }
    }

    /// The scopes of a namespace that is deleted go with it.
    pub(crate) fn close_namespace(&mut self, namespace: NamespaceNumber) {
        if let Some(home) = self.homes.remove(&namespace) {
            let prefixes = home.prefixes.into_iter().map(|(_, slot)| slot);
            prefixes.chain(home.all).for_each(|slot| _ = self.slots.remove(slot as usize));
        }
    }

    /// Puts a topic that is ready into the rings of every scope that admits it.
    pub(crate) fn enqueue(&mut self, slot: TopicSlot, state: &State) {
        let topic = &state.topics[slot];
        let Some(home) = self.homes.get(&topic.namespace) else { return };
        let policy = &state.namespaces[topic.namespace].policy;
        let Some(priority) = topic.ready_level(policy) else { return };
        let entry = Entry { slot, number: topic.number, tenant: topic.tenant, left: 0 };
        let admits = |(prefixes, _): &&(Vec<TopicName>, _)| begins_with_one(&topic.name, prefixes);
        let prefixes = home.prefixes.iter().filter(admits).map(|(_, scope)| scope);
        let lists = if home.lists.is_empty() { None } else { home.lists.get(&topic.name) };
        for scope in home.all.iter().chain(prefixes).chain(lists.into_iter().flatten()) {
            self.slots[*scope as usize].rings.push(priority, entry);
        }
    }

    /// A topic is gone. Its entries fall out of the rings where consumers take from them; rings that nobody takes from
    /// are filled anew when most of them is of topics that are gone.
    pub(crate) fn forget(&mut self, slot: TopicSlot) {
        for (_, scope) in &mut self.slots {
            scope.rings.forget(slot);
            if scope.rings.is_mostly_gone() {
                (scope.rings, scope.filling) = (Rings::default(), Some(0));
            }
        }
    }

    /// Goes on filling new scopes, a slice each.
    pub(crate) fn fill(&mut self, state: &State) {
        for (_, scope) in &mut self.slots {
            let Some(from) = scope.filling else { continue };
            let to = from.saturating_add(FILL_SLICE);
            for slot in from..to.min(state.topics.end()) {
                let Some(topic) = state.topics.get(slot).filter(|topic| scope.admits(topic.namespace, &topic.name))
                else {
                    continue;
                };
                if let Some(priority) = topic.ready_level(&state.namespaces[topic.namespace].policy) {
                    let entry = Entry { slot, number: topic.number, tenant: topic.tenant, left: 0 };
                    scope.rings.push(priority, entry);
                }
            }
            scope.filling = (to < state.topics.end()).then_some(to);
        }
    }

    pub(crate) fn is_filling(&self, scope: ScopeSlot) -> bool {
        self.slots[scope as usize].filling.is_some()
    }

    pub(crate) fn any_is_filling(&self) -> bool {
        self.slots.iter().any(|(_, scope)| scope.filling.is_some())
    }

    /// Whether a consumer with credit stands idle in a scope that admits a topic. Only true in the middle of a turn.
    pub(crate) fn hungry_for(&self, topic: &Topic) -> bool {
        self.slots.iter().any(|(_, scope)| scope.admits(topic.namespace, &topic.name) && !scope.hungry.is_empty())
    }

    fn all(&mut self, namespace: NamespaceNumber) -> ScopeSlot {
        let home = self.homes.entry(namespace).or_default();
        *home.all.get_or_insert_with(|| insert(&mut self.slots, namespace, Kind::All))
    }

    fn prefixes(&mut self, namespace: NamespaceNumber, prefixes: &[TopicName]) -> Option<ScopeSlot> {
        // In order and without those that another one covers, so that equal sets are one scope.
        let mut set: Vec<TopicName> = prefixes.iter().map(TopicName::detach).collect();
        set.sort_unstable();
        set.dedup_by(|name, before| name.as_bytes().starts_with(before.as_bytes()));
        let known = |home: &Home| home.prefixes.iter().find(|(known, _)| *known == set).map(|(_, slot)| *slot);
        if let Some(slot) = self.homes.get(&namespace).and_then(known) {
            return Some(slot);
        }
        while self.prefixes_in_use(namespace) + set.len() > PREFIXES_MAX {
            let home = self.homes.get(&namespace)?;
            let mut slots = home.prefixes.iter().map(|(_, slot)| *slot);
            let idle = slots.find(|slot| self.slots[*slot as usize].users == 0)?;
            self.remove(idle);
        }
        let slot = insert(&mut self.slots, namespace, Kind::Prefixes(set.clone()));
        self.homes.entry(namespace).or_default().prefixes.push((set, slot));
        Some(slot)
    }

    fn prefixes_in_use(&self, namespace: NamespaceNumber) -> usize {
        self.homes.get(&namespace).map_or(0, |home| home.prefixes.iter().map(|(set, _)| set.len()).sum())
    }

    fn list(&mut self, namespace: NamespaceNumber, names: &[TopicName], state: &State) -> ScopeSlot {
        let names: Vec<TopicName> = names.iter().map(TopicName::detach).collect();
        let slot = insert(&mut self.slots, namespace, Kind::List(names.clone()));
        let scope = &mut self.slots[slot as usize];
        // A list is short, so it is filled at once.
        scope.filling = None;
        for topic_slot in names.iter().filter_map(|name| state.topics.find(namespace, name)) {
            let topic = &state.topics[topic_slot];
            if let Some(priority) = topic.ready_level(&state.namespaces[namespace].policy) {
                let entry = Entry { slot: topic_slot, number: topic.number, tenant: topic.tenant, left: 0 };
                scope.rings.push(priority, entry);
            }
        }
        let home = self.homes.entry(namespace).or_default();
        for name in names {
            let scopes = home.lists.entry(name).or_default();
            if !scopes.contains(&slot) {
                scopes.push(slot);
            }
        }
        slot
    }

    fn remove(&mut self, slot: ScopeSlot) {
        let scope = self.slots.remove(slot as usize);
        let Some(home) = self.homes.get_mut(&scope.namespace) else { return };
        home.prefixes.retain(|(_, other)| *other != slot);
        if let Kind::List(names) = scope.kind {
            for name in names {
                let Some(scopes) = home.lists.get_mut(&name) else { continue };
                scopes.retain(|other| *other != slot);
                if scopes.is_empty() {
                    home.lists.remove(&name);
                }
            }
        }
    }
}

impl Scope {
    fn admits(&self, namespace: NamespaceNumber, name: &TopicName) -> bool {
        self.namespace == namespace
            && match &self.kind {
                Kind::All => true,
                Kind::Prefixes(prefixes) => begins_with_one(name, prefixes),
                Kind::List(names) => names.contains(name),
            }
    }
}

fn begins_with_one(name: &TopicName, prefixes: &[TopicName]) -> bool {
    prefixes.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
}

fn insert(slots: &mut Slab<Scope>, namespace: NamespaceNumber, kind: Kind) -> ScopeSlot {
    let (rings, hungry) = (Rings::default(), VecDeque::new());
    slots.insert(Scope { namespace, kind, rings, hungry, users: 0, filling: Some(0) }) as ScopeSlot
}
