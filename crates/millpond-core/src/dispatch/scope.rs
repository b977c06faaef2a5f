//! Scopes: which topics a consumer can be served from. All topics of a namespace are one scope, each prefix in use is
//! one, and a list of names is one of its own consumer's. Each scope has rings; a topic that becomes ready is put into
//! those of every scope that admits it. A new scope is filled in slices, never by a walk in one turn.

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
    prefixes: Vec<(TopicName, ScopeSlot)>,
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
    Prefix(TopicName),
    List(Vec<TopicName>),
}

impl Scopes {
    /// The scopes that a filter stands for, made where they are not there. `None` if that needs more prefixes than a
    /// namespace may have in use.
    pub(crate) fn open(
        &mut self,
        namespace: NamespaceNumber,
        filter: &Filter,
        state: &State,
    ) -> Option<Vec<ScopeSlot>> {
        let found = match filter {
            Filter::All => Vec::from([self.all(namespace)]),
            Filter::Topics(names) => Vec::from([self.list(namespace, names, state)]),
            Filter::Prefixes(prefixes) => {
                let mut found: Vec<ScopeSlot> = Vec::new();
                for prefix in prefixes {
                    let scope = self.prefix(namespace, prefix, &found)?;
                    if !found.contains(&scope) {
                        found.push(scope);
                    }
                }
                found
            }
        };
        found.iter().for_each(|scope| self.slots[*scope as usize].users += 1);
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
        let admits = |(prefix, _): &&(TopicName, _)| topic.name.as_bytes().starts_with(prefix.as_bytes());
        let prefixes = home.prefixes.iter().filter(admits).map(|(_, scope)| scope);
        let lists = if home.lists.is_empty() { None } else { home.lists.get(&topic.name) };
        for scope in home.all.iter().chain(prefixes).chain(lists.into_iter().flatten()) {
            self.slots[*scope as usize].rings.push(priority, entry);
        }
    }

    /// A topic is gone.
    pub(crate) fn forget(&mut self, slot: TopicSlot) {
        self.slots.iter_mut().for_each(|(_, scope)| scope.rings.forget(slot));
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

    fn prefix(&mut self, namespace: NamespaceNumber, prefix: &TopicName, keep: &[ScopeSlot]) -> Option<ScopeSlot> {
        let home = self.homes.entry(namespace).or_default();
        if let Some((_, slot)) = home.prefixes.iter().find(|(known, _)| known == prefix) {
            return Some(*slot);
        }
        if home.prefixes.len() == PREFIXES_MAX {
            let is_idle = |slot: ScopeSlot| self.slots[slot as usize].users == 0 && !keep.contains(&slot);
            let idle = home.prefixes.iter().map(|(_, slot)| *slot).find(|slot| is_idle(*slot))?;
            self.remove(idle);
        }
        let slot = insert(&mut self.slots, namespace, Kind::Prefix(prefix.detach()));
        self.homes.entry(namespace).or_default().prefixes.push((prefix.detach(), slot));
        Some(slot)
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
                Kind::Prefix(prefix) => name.as_bytes().starts_with(prefix.as_bytes()),
                Kind::List(names) => names.contains(name),
            }
    }
}

fn insert(slots: &mut Slab<Scope>, namespace: NamespaceNumber, kind: Kind) -> ScopeSlot {
    let (rings, hungry) = (Rings::default(), VecDeque::new());
    slots.insert(Scope { namespace, kind, rings, hungry, users: 0, filling: Some(0) }) as ScopeSlot
}
