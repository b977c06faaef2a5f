//! Commands that need topics whose contents are in the store.
//!
//! A command is parked when a topic that it touches is cold, or when it comes behind a parked command: one that touches
//! a topic of the same name, or a batch of the same producer session. So commands on a topic are decided in the order in
//! which they came, also where the topic does not exist yet, and all others pass. Finishing is never parked, for a
//! leased message is never cold. The shell fetches what is wanted, late and in any order; a load decides what it was the
//! last thing missing for.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use millpond_types::{Filter, NamespaceName, ProducerId, TopicName, TopicNumber};

use crate::Core;
use crate::command::{Command, DeadWhich, Listing, Look, Publish, Ticket};
use crate::dispatch::scope::{ScopeSlot, Turn};
use crate::fact::{FactLog, NamespaceNumber};
use crate::page::TopicPage;
use crate::state::State;

/// Topics that dispatch alone may be waiting for at a time: enough to keep a store busy, few enough that a single
/// consumer does not call the whole of a sleeping backlog into memory.
const FETCH_AHEAD_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Parking {
    /// In the order in which they came.
    parked: BTreeMap<u64, Parked>,
    next: u64,
    /// Per thing that keeps commands in order the parked ones.
    queues: BTreeMap<Key, BTreeSet<u64>>,
    fetching: BTreeSet<TopicNumber>,
    wanted: Vec<TopicNumber>,
}

struct Parked {
    ticket: Ticket,
    command: Command,
    keys: BTreeSet<Key>,
}

/// What keeps commands in order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Topic(NamespaceNumber, TopicName),
    Producer(NamespaceNumber, ProducerId),
}

impl Core {
    /// Topics that something waits for, each told once. The shell drains it and hands each in with [`Core::load`].
    pub fn wanted(&mut self) -> &mut Vec<TopicNumber> {
        &mut self.parking.wanted
    }

    /// Hands in a topic that was wanted, as [`Core::evict`] gave it out, and decides what waited for nothing else.
    /// Belongs into a turn, beside its commands.
    pub fn load(&mut self, page: TopicPage, log: &mut dyn FactLog) {
        let number = page.number;
        let slot = self.state.topics.by_number(number).expect("only a topic that was evicted is loaded");
        assert!(self.state.topics[slot].is_cold(), "only a cold topic is loaded");
        let namespace = self.state.topics[slot].namespace;
        // Its messages were counted all the while.
        let counts = self.state.namespaces[namespace].counts;
        self.state.fill_topic(slot, page);
        self.state.namespaces[namespace].counts = counts;
        self.state.topics[slot].cold = None;
        self.state.topics.cold -= 1;
        self.parking.fetching.remove(&number);
        self.state.touch(slot);
        self.unpark(log);
    }

    /// Gives out the contents of a topic, to be kept in the store, if the topic can do without them for now: nothing of
    /// it has a deadline or is leased, and nothing waits for it.
    pub fn evict(&mut self, number: TopicNumber) -> Option<TopicPage> {
        let slot = self.state.topics.by_number(number)?;
        let topic = &self.state.topics[slot];
        let is_awaited = self.parking.queues.contains_key(&Key::Topic(topic.namespace, topic.name.clone()));
        if is_awaited || topic.is_cold() || topic.touched || topic.levels.iter().any(|level| level.has_deadlines()) {
            return None;
        }
        let ready = topic.highest_ready()?;
        let page = self.state.topic_page(slot);
        let topic = &mut self.state.topics[slot];
        topic.levels = Vec::new();
        topic.cold = Some(ready);
        self.state.topics.cold += 1;
        Some(page)
    }

    /// Whether a topic that something waits for is on its way.
    pub(crate) fn is_fetching(&self) -> bool {
        !self.parking.fetching.is_empty()
    }

    /// Asks for a cold topic whose turn it is, and for some that come behind it.
    pub(crate) fn fetch_ahead(&mut self, scope: ScopeSlot, turn: &Turn) {
        let mut next = Some(turn.slot);
        while let Some(slot) = next.filter(|_| self.parking.fetching.len() < FETCH_AHEAD_MAX) {
            if self.state.topics[slot].is_cold() {
                self.parking.want(self.state.topics[slot].number);
            }
            next = self.dispatcher.scopes.slots[scope as usize].behind(
                slot,
                turn.priority,
                &self.state,
                &self.dispatcher.reach,
            );
        }
    }

    /// Parks a command that cannot be decided now; hands it back if it can.
    pub(crate) fn park(&mut self, ticket: Ticket, command: Command) -> Option<Command> {
        if self.state.topics.cold == 0 && self.parking.parked.is_empty() {
            return Some(command);
        }
        let keys = self.state.keys_of(&command);
        let cold = self.state.cold_among(&keys);
        if cold.is_empty() && !keys.iter().any(|key| self.parking.queues.contains_key(key)) {
            return Some(command);
        }
        let id = self.parking.next;
        self.parking.next += 1;
        self.parking.put(id, Parked { ticket, command, keys }, cold);
        None
    }

    /// Decides the parked commands that can be decided, in the order in which they came.
    fn unpark(&mut self, log: &mut dyn FactLog) {
        let ids: Vec<u64> = self.parking.parked.keys().copied().collect();
        for id in ids {
            let keys = &self.parking.parked[&id].keys;
            let is_first = keys.iter().all(|key| self.parking.queues[key].first() == Some(&id));
            if !is_first || !self.state.cold_among(keys).is_empty() {
                continue;
            }
            let parked = self.parking.take(id);
            // Topics have come since, and some of those that it touches now may be cold.
            let keys = self.state.keys_of(&parked.command);
            let cold = self.state.cold_among(&keys);
            if cold.is_empty() {
                self.decide(parked.ticket, parked.command, log);
            } else {
                self.parking.put(id, Parked { keys, ..parked }, cold);
            }
        }
    }
}

impl Parking {
    pub(crate) fn want(&mut self, number: TopicNumber) {
        if self.fetching.insert(number) {
            self.wanted.push(number);
        }
    }

    fn put(&mut self, id: u64, parked: Parked, cold: Vec<TopicNumber>) {
        cold.into_iter().for_each(|number| self.want(number));
        for key in &parked.keys {
            self.queues.entry(key.clone()).or_default().insert(id);
        }
        self.parked.insert(id, parked);
    }

    fn take(&mut self, id: u64) -> Parked {
        let parked = self.parked.remove(&id).expect("a parked command is taken once");
        for key in &parked.keys {
            let queue = self.queues.get_mut(key).expect("a parked command stands in its queues");
            queue.remove(&id);
            if queue.is_empty() {
                self.queues.remove(key);
            }
        }
        parked
    }
}

impl State {
    fn cold_among(&self, keys: &BTreeSet<Key>) -> Vec<TopicNumber> {
        let topics = keys.iter().filter_map(|key| match key {
            Key::Topic(namespace, name) => Some(&self.topics[self.topics.find(*namespace, name)?]),
            Key::Producer(..) => None,
        });
        topics.filter(|topic| topic.is_cold()).map(|topic| topic.number).collect()
    }

    /// The topics whose contents a command needs, and what else keeps it in order.
    fn keys_of(&self, command: &Command) -> BTreeSet<Key> {
        let one = |topic: &TopicName| Vec::from([topic.clone()]);
        let (namespace, names) = match command {
            Command::Publish(publish) => {
                (&publish.namespace, publish.runs.iter().map(|run| run.topic.clone()).collect())
            }
            Command::Look(Look { topic, .. })
            | Command::Cancel { topic, .. }
            | Command::Reschedule { topic, .. }
            | Command::Forget { topic, .. }
            | Command::Topic(topic) => (&topic.namespace, one(&topic.name)),
            Command::Purge { namespace, filter: Filter::Topics(names) } => (namespace, names.clone()),
            Command::Purge { namespace, filter } => (namespace, self.names(namespace, |name| filter.admits(name))),
            Command::Topics(Listing { namespace, prefix, .. }) => {
                (namespace, self.names(namespace, |name| name.as_bytes().starts_with(prefix)))
            }
            Command::DeadRedrive { namespace, which: DeadWhich::One(topic, _), .. } => (namespace, one(topic)),
            Command::DeadRedrive { namespace, which: DeadWhich::Filter(filter), .. } => {
                (namespace, self.dead_names(namespace, filter))
            }
            // These touch no topic's contents, or only those of topics with leases, which are never cold.
            Command::Receive(_)
            | Command::Withdraw(_)
            | Command::Finish(_)
            | Command::SessionBegin(_)
            | Command::SessionLost(_)
            | Command::Heartbeat { .. }
            | Command::SessionEnd(_)
            | Command::Attach(_)
            | Command::Credit { .. }
            | Command::Detach { .. }
            | Command::Pause { .. }
            | Command::Resume { .. }
            | Command::NamespaceSet { .. }
            | Command::NamespaceDelete(_)
            | Command::Namespaces
            | Command::Stats(_)
            // It waits by itself for what it comes to.
            | Command::Top(_)
            | Command::DeadList { .. }
            | Command::DeadPurge { .. } => return BTreeSet::new(),
        };
        let Some(namespace) = self.namespaces.number(namespace) else { return BTreeSet::new() };
        let mut keys: BTreeSet<Key> = names.into_iter().map(|name| Key::Topic(namespace, name)).collect();
        if let Command::Publish(Publish { producer: Some(batch), .. }) = command {
            keys.insert(Key::Producer(namespace, batch.id));
        }
        keys
    }

    /// The names of a namespace's topics that a predicate admits.
    fn names(&self, namespace: &NamespaceName, admits: impl Fn(&TopicName) -> bool) -> Vec<TopicName> {
        let number = self.namespaces.number(namespace);
        let of_it = self.topics.iter().filter(|(_, topic)| Some(topic.namespace) == number);
        of_it.map(|(_, topic)| &topic.name).filter(|name| admits(name)).cloned().collect()
    }

    /// The topics that a filter's dead letters came from.
    fn dead_names(&self, namespace: &NamespaceName, filter: &Filter) -> Vec<TopicName> {
        let Some(number) = self.namespaces.number(namespace) else { return Vec::new() };
        let dead = self.namespaces[number].dead_by_topic.iter();
        dead.map(|(_, topic, _)| topic).filter(|topic| filter.admits(topic)).cloned().collect()
    }
}
