//! Applying facts: the only way in which the state changes, live and in replay.
//!
//! Nothing here decides. A fact that does not fit the state is a bug or a damaged journal, and stops the process.

mod aside;
mod finish;
mod lease;
mod moves;
mod publish;
mod settle;

use millpond_types::{LeaseNumber, Priority, Sequence, TopicName};

use crate::fact::Fact;
use crate::state::State;
use crate::state::line::InLine;
use crate::state::namespace::Namespace;
use crate::state::stored::Stored;
use crate::state::topic::Topic;
use crate::state::{TopicSlot, hash::tenant_hash};
use crate::store::Key;

impl State {
    /// Makes a fact true. `position` is where the journal keeps it, as [`crate::fact::FactLog::append`] returned it.
    pub(crate) fn apply(&mut self, fact: &Fact, position: u64) {
        if let Some(topic) = fact.topic() {
            self.will_change(self.slot(topic));
        }
        match fact {
            Fact::Created { hash_key } => assert_eq!(*hash_key, self.hash_key, "a directory has one hash key"),
            Fact::Raised { floor } => self.numbers.raised = self.numbers.raised.max(*floor),
            Fact::NamespaceSet { number, name, policy, version } => {
                self.numbers.next_namespace = self.numbers.next_namespace.max(number + 1);
                match self.namespaces.get_mut(*number) {
                    Some(namespace) => (namespace.policy, namespace.version) = (policy.clone(), *version),
                    None => self.namespaces.insert(*number, Namespace::new(name.clone(), policy.clone(), *version)),
                }
                self.sweep_prefix(*number, b"");
            }
            Fact::NamespaceDeleted { number } => {
                self.namespaces.remove(*number);
                self.store.remove(&Key::Namespace(*number));
                self.remove_producers(*number);
            }
            Fact::Paused { namespace, name, prefix, paused } => {
                let pauses = &mut self.namespaces[*namespace].paused;
                match paused {
                    true => pauses.insert(name.detach(), *prefix),
                    false => pauses.remove(name, *prefix),
                }
                self.refresh_paused(*namespace, name, *prefix);
            }
            Fact::TopicCreated { topic, namespace, name, floor } => {
                self.numbers.next_topic = self.numbers.next_topic.max(topic.0 + 1);
                let home = &mut self.namespaces[*namespace];
                home.topics += 1;
                let derived = (tenant_hash(self.hash_key, name.tenant()), home.paused.holds(name), self.bounds);
                let stored = Stored { epoch: self.epoch, ..Stored::default() };
                let next_lease = LeaseNumber(*floor);
                let topic = Topic::new(*topic, *namespace, name.detach(), *floor, next_lease, derived, stored);
                let slot = self.admit(topic);
                self.will_change(slot);
            }
            Fact::TopicRecalled { topic, .. } => {
                let slot = self.slot(*topic);
                self.topics[slot].stored.epoch = self.epoch;
            }
            Fact::TopicVanished { topic } => {
                let slot = self.slot(*topic);
                assert!(self.topics[slot].is_empty(), "only an empty topic vanishes");
                self.remove_topic_entry(slot);
                let topic = self.dismiss(slot);
                if topic.touched {
                    self.touched.retain(|touched| *touched != slot);
                }
                self.namespaces[topic.namespace].topics -= 1;
            }
            Fact::Published { .. } => self.published(fact, position),
            Fact::ProducerBatch { namespace, producer, instance, sequence, at, outcomes } => {
                self.producer_batch((*namespace, *producer), (*instance, *sequence), *at, outcomes)
            }
            Fact::Leased { .. } => self.leased(fact),
            Fact::Extended { topic, lease, count, holder, duration, deadline, .. } => {
                self.extended(*topic, *lease, *count, *holder, *duration, *deadline)
            }
            Fact::Acked { topic, lease, count, .. } => self.acked(*topic, *lease, *count),
            Fact::Returned { topic, lease, count, failed, place, .. } => {
                self.returned(*topic, *lease, *count, *failed, *place)
            }
            Fact::Died { topic, group, which, reason, detail, at } => {
                self.died(*topic, *group, *which, *reason, detail, *at)
            }
            Fact::Ripened { topic, priority, first, count, .. } => self.ripened(*topic, *priority, *first, *count),
            Fact::Ended { topic, priority, first, count, .. } => self.ended(*topic, *priority, *first, *count),
            Fact::Rescheduled { topic, priority, sequence, due, .. } => {
                self.rescheduled(*topic, *priority, *sequence, *due)
            }
            Fact::Forgotten { namespace, hash } => self.forget(*namespace, *hash),
            Fact::Redriven { .. } => self.redriven(fact),
            Fact::DeadPurged { letter } => {
                self.remove_dead(letter);
                self.freed.push(letter.extent);
            }
            Fact::Moved { topic, priority, first, count, sizes, .. } => {
                self.moved(*topic, *priority, (*first, *count), (position, sizes))
            }
            Fact::DeadMoved { letter, .. } => self.dead_moved(letter, position),
        }
    }

    /// The slot of a topic that a fact names.
    pub(crate) fn slot(&self, number: millpond_types::TopicNumber) -> TopicSlot {
        self.topics.by_number(number).expect("a fact names a topic that exists")
    }

    /// Lets the topics that a pause or its end is about know of it: one, or bit by bit all with a prefix.
    fn refresh_paused(&mut self, namespace: u32, name: &TopicName, prefix: bool) {
        if prefix {
            return self.sweep_prefix(namespace, name.as_bytes());
        }
        if let Some(slot) = self.topics.find(namespace, name) {
            self.topics[slot].paused = self.namespaces[namespace].paused.holds(name);
            self.touch(slot);
        }
    }

    /// Where the messages of a fact are, in memory by now.
    fn place_of(&mut self, slot: TopicSlot, priority: Priority, first: Sequence) -> Place {
        self.bring(slot, priority, first).expect("what a fact needs is fetched before it is applied");
        self.where_is(slot, priority, first).expect("a fact names unfinished messages")
    }

    /// Where a message is; `None` if it is finished. Nobody asks before its piece of the line is in memory.
    pub(crate) fn where_is(&self, slot: TopicSlot, priority: Priority, sequence: Sequence) -> Option<Place> {
        let level = self.topics[slot].level(priority)?;
        if let Some((first, _)) = level.aside_of(sequence) {
            return Some(Place::Aside(first));
        }
        (level.line.find(sequence) != InLine::Absent).then_some(Place::Line)
    }
}

/// Where a message is in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// In line.
    Line,
    /// In the entry aside with this first sequence.
    Aside(Sequence),
}
