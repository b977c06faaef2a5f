//! Scopes: which topics a consumer can be served from. All topics of a namespace are one scope, and so is each set of
//! prefixes and each set of names in use: a consumer has one scope, so the order of dispatch holds over all that it asks
//! for, and consumers that ask for the same share it and its turns. Each scope has rings; a topic that becomes ready is
//! put into those of every scope that admits it. A new scope is filled in slices, never by a walk in one turn.
//!
//! Invariant: a scope with both a topic in its rings and a consumer with credit is among the *stirred*, so a turn looks
//! at what something has happened to and never at all scopes.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
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
/// Sets of names per namespace that nobody uses and that are kept all the same: a receive that comes again and again
/// finds the turns where the one before has left them.
const LISTS_IDLE_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Scopes {
    pub(crate) slots: Slab<Scope>,
    homes: BTreeMap<NamespaceNumber, Home>,
    /// Scopes that topics or consumers have come to.
    stirred: BTreeSet<ScopeSlot>,
    /// Scopes that are being filled.
    filling: BTreeSet<ScopeSlot>,
    /// The scope that is served first in the next turn, so that none always has the first pick.
    first: ScopeSlot,
}

/// The scopes of a namespace.
#[derive(Default)]
struct Home {
    all: Option<ScopeSlot>,
    prefixes: Vec<(Vec<TopicName>, ScopeSlot)>,
    lists: BTreeMap<Vec<TopicName>, ScopeSlot>,
    /// Per name the lists that it is in.
    listed: BTreeMap<TopicName, Vec<ScopeSlot>>,
    /// Lists that nobody uses, in the order in which they were left.
    idle_lists: VecDeque<ScopeSlot>,
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

    /// A consumer no longer uses the scope; `queued` is whether it stands among the hungry. A prefix stays filled for the
    /// next one, and so does a list, unless there are too many.
    pub(crate) fn close(&mut self, slot: ScopeSlot, consumer: ConsumerSlot, queued: bool) {
        let scope = &mut self.slots[slot as usize];
        if queued {
            // Receives give up in about the order in which they came, so this one stands near the front.
            let at = scope.hungry.iter().position(|hungry| *hungry == consumer);
            scope.hungry.remove(at.expect("a consumer that is queued stands among the hungry"));
        }
        scope.users -= 1;
        if scope.users == 0 && matches!(scope.kind, Kind::List(_)) {
            let idle = &mut self.homes.get_mut(&scope.namespace).expect("a scope has a home").idle_lists;
            idle.push_back(slot);
            if idle.len() > LISTS_IDLE_MAX {
                let oldest = idle.pop_front().expect("there are some");
                self.remove(oldest);
            }
        }
    }

    /// The scopes of a namespace that is deleted go with it.
    pub(crate) fn close_namespace(&mut self, namespace: NamespaceNumber) {
        if let Some(home) = self.homes.remove(&namespace) {
            let prefixes = home.prefixes.into_iter().map(|(_, slot)| slot);
            prefixes.chain(home.all).chain(home.lists.into_values()).for_each(|slot| self.remove(slot));
        }
    }

    /// A consumer with credit stands among the hungry of the scope.
    pub(crate) fn feed(&mut self, slot: ScopeSlot, consumer: ConsumerSlot) {
        self.slots[slot as usize].hungry.push_back(consumer);
        self.stirred.insert(slot);
    }

    /// Takes the scopes that something has happened to, in the order of this turn.
    pub(crate) fn take_stirred(&mut self) -> Vec<ScopeSlot> {
        let mut stirred: Vec<ScopeSlot> = core::mem::take(&mut self.stirred).into_iter().collect();
        let at = stirred.partition_point(|slot| *slot < self.first);
        stirred.rotate_left(at);
        self.first = stirred.first().map_or(self.first, |slot| slot + 1);
        stirred
    }

    /// Lets a scope be looked at again in the next turn.
    pub(crate) fn stir(&mut self, slot: ScopeSlot) {
        self.stirred.insert(slot);
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
        for scope in home.all.iter().chain(prefixes).chain(home.listing(&topic.name)) {
            self.slots[*scope as usize].rings.push(priority, entry);
            self.stirred.insert(*scope);
        }
    }

    /// A topic is gone. Its entries fall out of the rings where consumers take from them; rings that nobody takes from
    /// are filled anew when most of them is of topics that are gone.
    pub(crate) fn forget(&mut self, slot: TopicSlot, namespace: NamespaceNumber, name: &TopicName) {
        let Some(home) = self.homes.get(&namespace) else { return };
        let prefixes = home.prefixes.iter().map(|(_, scope)| scope);
        for scope_slot in home.all.iter().chain(prefixes).chain(home.listing(name)) {
            let scope = &mut self.slots[*scope_slot as usize];
            scope.rings.forget(slot);
            if scope.rings.is_mostly_gone() {
                (scope.rings, scope.filling) = (Rings::default(), Some(0));
                self.filling.insert(*scope_slot);
            }
        }
    }

    /// Goes on filling new scopes, a slice each.
    pub(crate) fn fill(&mut self, state: &State) {
        let Scopes { slots, filling, stirred, .. } = self;
        filling.retain(|scope_slot| {
            let scope = &mut slots[*scope_slot as usize];
            let from = scope.filling.expect("it is among those that are filled");
            let to = from.saturating_add(FILL_SLICE);
            for slot in from..to.min(state.topics.end()) {
                let Some(topic) = state.topics.get(slot).filter(|topic| scope.admits(topic.namespace, &topic.name))
                else {
                    continue;
                };
                if let Some(priority) = topic.ready_level(&state.namespaces[topic.namespace].policy) {
                    let entry = Entry { slot, number: topic.number, tenant: topic.tenant, left: 0 };
                    scope.rings.push(priority, entry);
                    stirred.insert(*scope_slot);
                }
            }
            scope.filling = (to < state.topics.end()).then_some(to);
            scope.filling.is_some()
        });
    }

    pub(crate) fn is_filling(&self, scope: ScopeSlot) -> bool {
        self.slots[scope as usize].filling.is_some()
    }

    pub(crate) fn any_is_filling(&self) -> bool {
        !self.filling.is_empty()
    }

    /// Whether a consumer with credit stands idle in a scope that admits a topic. Only true in the middle of a turn.
    pub(crate) fn hungry_for(&self, topic: &Topic) -> bool {
        self.slots.iter().any(|(_, scope)| scope.admits(topic.namespace, &topic.name) && !scope.hungry.is_empty())
    }

    fn all(&mut self, namespace: NamespaceNumber) -> ScopeSlot {
        if let Some(slot) = self.homes.get(&namespace).and_then(|home| home.all) {
            return slot;
        }
        let slot = self.insert(namespace, Kind::All);
        self.homes.entry(namespace).or_default().all = Some(slot);
        slot
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
        let slot = self.insert(namespace, Kind::Prefixes(set.clone()));
        self.homes.entry(namespace).or_default().prefixes.push((set, slot));
        Some(slot)
    }

    fn prefixes_in_use(&self, namespace: NamespaceNumber) -> usize {
        self.homes.get(&namespace).map_or(0, |home| home.prefixes.iter().map(|(set, _)| set.len()).sum())
    }

    fn list(&mut self, namespace: NamespaceNumber, names: &[TopicName], state: &State) -> ScopeSlot {
        let mut set: Vec<TopicName> = names.to_vec();
        set.sort_unstable();
        set.dedup();
        let home = self.homes.entry(namespace).or_default();
        if let Some(slot) = home.lists.get(&set).copied() {
            home.idle_lists.retain(|idle| *idle != slot);
            return slot;
        }
        let set: Vec<TopicName> = set.iter().map(TopicName::detach).collect();
        let slot = self.insert(namespace, Kind::List(set.clone()));
        // A list is short, so it is filled at once.
        self.filling.remove(&slot);
        let scope = &mut self.slots[slot as usize];
        scope.filling = None;
        for topic_slot in set.iter().filter_map(|name| state.topics.find(namespace, name)) {
            let topic = &state.topics[topic_slot];
            if let Some(priority) = topic.ready_level(&state.namespaces[namespace].policy) {
                let entry = Entry { slot: topic_slot, number: topic.number, tenant: topic.tenant, left: 0 };
                scope.rings.push(priority, entry);
            }
        }
        let home = self.homes.entry(namespace).or_default();
        set.iter().for_each(|name| home.listed.entry(name.clone()).or_default().push(slot));
        home.lists.insert(set, slot);
        slot
    }

    fn insert(&mut self, namespace: NamespaceNumber, kind: Kind) -> ScopeSlot {
        let (rings, hungry) = (Rings::default(), VecDeque::new());
        let scope = Scope { namespace, kind, rings, hungry, users: 0, filling: Some(0) };
        let slot = self.slots.insert(scope) as ScopeSlot;
        self.filling.insert(slot);
        slot
    }

    fn remove(&mut self, slot: ScopeSlot) {
        let scope = self.slots.remove(slot as usize);
        self.stirred.remove(&slot);
        self.filling.remove(&slot);
        let Some(home) = self.homes.get_mut(&scope.namespace) else { return };
        home.prefixes.retain(|(_, other)| *other != slot);
        if let Kind::List(names) = scope.kind {
            home.lists.remove(&names);
            for name in names {
                let Some(scopes) = home.listed.get_mut(&name) else { continue };
                scopes.retain(|other| *other != slot);
                if scopes.is_empty() {
                    home.listed.remove(&name);
                }
            }
        }
    }
}

impl Home {
    /// The lists that a name is in.
    fn listing(&self, name: &TopicName) -> impl Iterator<Item = &ScopeSlot> {
        let lists = if self.listed.is_empty() { None } else { self.listed.get(name) };
        lists.into_iter().flatten()
    }
}

impl Scope {
    fn admits(&self, namespace: NamespaceNumber, name: &TopicName) -> bool {
        self.namespace == namespace
            && match &self.kind {
                Kind::All => true,
                Kind::Prefixes(prefixes) => begins_with_one(name, prefixes),
                Kind::List(names) => names.binary_search(name).is_ok(),
            }
    }
}

fn begins_with_one(name: &TopicName, prefixes: &[TopicName]) -> bool {
    prefixes.iter().any(|prefix| name.as_bytes().starts_with(prefix.as_bytes()))
}
