//! Commands that need topics whose contents are in the store.
//!
//! A command is parked when a topic that it touches is cold, or when an earlier command is parked on one: per topic,
//! commands are decided in the order in which they came, and all others pass. The shell fetches what is wanted, late and
//! in any order; a load decides what it was the last thing missing for.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use millpond_types::TopicNumber;

use crate::Core;
use crate::command::{Command, Ticket, TopicRef};
use crate::fact::FactLog;
use crate::page::TopicPage;
use crate::state::TopicSlot;

#[derive(Default)]
pub(crate) struct Parking {
    parked: BTreeMap<u64, Parked>,
    next: u64,
    /// Per topic the parked commands that touch it, in order.
    queues: BTreeMap<TopicNumber, VecDeque<u64>>,
    /// Topics being fetched.
    fetching: BTreeMap<TopicNumber, ()>,
    wanted: Vec<TopicNumber>,
}

struct Parked {
    ticket: Ticket,
    command: Command,
    topics: Vec<TopicNumber>,
}

impl Core {
    /// Topics that something waits for, each told once. The shell drains it and hands each in with [`Core::load`].
    pub fn wanted(&mut self) -> &mut Vec<TopicNumber> {
        &mut self.parking.wanted
    }

    /// Hands in a topic that was wanted, as [`Core::evict`] gave it out, and decides what waited for nothing else.
    pub fn load(&mut self, page: TopicPage, log: &mut dyn FactLog) {
        let number = page.number;
        let slot = self.state.topics.by_number(number).expect("only a topic that was evicted is loaded");
        assert!(self.state.topics[slot].cold, "only a cold topic is loaded");
        let namespace = self.state.topics[slot].namespace;
        // Its messages were counted all the while.
        let counts = self.state.namespaces[namespace].counts;
        self.state.fill_topic(slot, page);
        self.state.namespaces[namespace].counts = counts;
        self.state.topics[slot].cold = false;
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
        let is_busy = topic.cold || topic.is_empty() || topic.touched || self.parking.queues.contains_key(&number);
        if is_busy || topic.levels.iter().any(|level| level.has_deadlines()) {
            return None;
        }
        let page = self.state.topic_page(slot);
        let topic = &mut self.state.topics[slot];
        topic.levels = Vec::new();
        topic.cold = true;
        self.state.topics.cold += 1;
        Some(page)
    }

    /// Whether a topic that something waits for is on its way.
    pub(crate) fn is_fetching(&self) -> bool {
        !self.parking.fetching.is_empty()
    }

    /// Asks for a cold topic.
    pub(crate) fn want(&mut self, slot: TopicSlot) {
        let number = self.state.topics[slot].number;
        if self.parking.fetching.insert(number, ()).is_none() {
            self.parking.wanted.push(number);
        }
    }

    /// Parks a command that cannot be decided now; hands it back if it can.
    pub(crate) fn park(&mut self, ticket: Ticket, command: Command) -> Option<Command> {
        if self.state.topics.cold == 0 && self.parking.parked.is_empty() {
            return Some(command);
        }
        let slots = self.touched_by(&command);
        let blocks = |slot: &TopicSlot| {
            let topic = &self.state.topics[*slot];
            topic.cold || self.parking.queues.contains_key(&topic.number)
        };
        if !slots.iter().any(blocks) {
            return Some(command);
        }
        let id = self.parking.next;
        self.parking.next += 1;
        for slot in &slots {
            if self.state.topics[*slot].cold {
                self.want(*slot);
            }
        }
        let topics: Vec<TopicNumber> = slots.iter().map(|slot| self.state.topics[*slot].number).collect();
        for number in &topics {
            self.parking.queues.entry(*number).or_default().push_back(id);
        }
        self.parking.parked.insert(id, Parked { ticket, command, topics });
        None
    }

    /// Decides the parked commands that can be decided, in the order in which they came.
    fn unpark(&mut self, log: &mut dyn FactLog) {
        let ids: Vec<u64> = self.parking.parked.keys().copied().collect();
        for id in ids {
            let parked = &self.parking.parked[&id];
            let is_free = parked.topics.iter().all(|number| {
                let is_first = self.parking.queues[number].front() == Some(&id);
                is_first && self.state.topics.by_number(*number).is_none_or(|slot| !self.state.topics[slot].cold)
            });
            if !is_free {
                continue;
            }
            let parked = self.parking.parked.remove(&id).expect("seen just now");
            for number in &parked.topics {
                let queue = self.parking.queues.get_mut(number).expect("a parked command stands in its queues");
                queue.pop_front();
                if queue.is_empty() {
                    self.parking.queues.remove(number);
                }
            }
            self.decide(parked.ticket, parked.command, log);
        }
    }

    /// The topics whose contents a command needs, each once.
    fn touched_by(&self, command: &Command) -> Vec<TopicSlot> {
        let find = |topic: &TopicRef| {
            let namespace = self.state.namespaces.number(&topic.namespace)?;
            self.state.topics.find(namespace, &topic.name)
        };
        let mut slots: Vec<TopicSlot> = match command {
            Command::Publish(publish) => {
                let namespace = self.state.namespaces.number(&publish.namespace);
                let of_run = |run: &crate::command::PublishRun| self.state.topics.find(namespace?, &run.topic);
                publish.runs.iter().filter_map(of_run).collect()
            }
            Command::Finish(finish) => {
                finish.receipts.iter().filter_map(|run| self.state.topics.by_number(run.first.topic)).collect()
            }
            Command::Look(look) => find(&look.topic).into_iter().collect(),
            Command::Cancel { topic, .. } | Command::Reschedule { topic, .. } | Command::Topic(topic) => {
                find(topic).into_iter().collect()
            }
            Command::Purge { namespace, filter } => {
                self.state.namespaces.number(namespace).map_or(Vec::new(), |number| self.admitted(number, filter))
            }
            Command::Topics(listing) => {
                let number = self.state.namespaces.number(&listing.namespace);
                let of_it = self.state.topics.iter().filter(|(_, topic)| Some(topic.namespace) == number);
                of_it.map(|(slot, _)| slot).collect()
            }
            Command::DeadRedrive { namespace, .. } => {
                let number = self.state.namespaces.number(namespace);
                let of_it = self.state.topics.iter().filter(|(_, topic)| Some(topic.namespace) == number);
                of_it.map(|(slot, _)| slot).collect()
            }
            // These touch no topic's contents, or only those of topics with leases, which are never cold.
            Command::Receive(_)
            | Command::Withdraw(_)
            | Command::SessionBegin(_)
            | Command::SessionLost(_)
            | Command::Heartbeat { .. }
            | Command::SessionEnd(_)
            | Command::Attach(_)
            | Command::Credit { .. }
            | Command::Detach { .. }
            | Command::Pause { .. }
            | Command::Resume { .. }
            | Command::Forget { .. }
            | Command::NamespaceSet { .. }
            | Command::NamespaceDelete(_)
            | Command::Namespaces
            | Command::Stats(_)
            | Command::DeadList { .. }
            | Command::DeadPurge { .. } => Vec::new(),
        };
        slots.sort_unstable();
        slots.dedup();
        slots
    }
}
