//! Applying facts: the only way in which the state changes, live and in replay.
//!
//! Nothing here decides. A fact that does not fit the state is a bug or a damaged journal, and stops the process.

mod aside;
mod copied;
mod finish;
mod lease;
pub(crate) mod moves;
mod office;
mod publish;
mod settle;
mod supersede;

use alloc::vec::Vec;

use millpond_types::{NamespaceName, PausedTopics, Priority, Sequence, TopicNumber};

use crate::apply::moves::Moving;
use crate::fact::{Fact, GroupNumber, NamespaceNumber};
use crate::output::{Extent, Notice};
use crate::page::{AgePage, OfficePage, Reached};
use crate::routing::Exchange;
use crate::state::State;
use crate::state::bucket::Draw;
use crate::state::group::Group;
use crate::state::line::InLine;
use crate::state::namespace::Namespace;
use crate::state::policies::Policies;
use crate::state::stored::Stored;
use crate::state::topic::Topic;
use crate::state::{TopicSlot, hash::Hashes, setup};
use crate::store::Key;

impl State {
    /// Makes a fact true. `position` is where the journal keeps it, as [`crate::fact::FactLog::append`] returned it.
    pub(crate) fn apply(&mut self, fact: &Fact, position: u64) {
        if let Some((topic, group)) = fact.topic() {
            self.for_each_of(topic, group, State::will_change);
        }
        match fact {
            Fact::Created { hash_key } => assert_eq!(*hash_key, self.hash_key, "a directory has one hash key"),
            Fact::Raised { floor } => self.numbers.raised = self.numbers.raised.max(*floor),
            Fact::NamespaceSet { number, name, policy, rules, version } => {
                self.numbers.next_namespace = self.numbers.next_namespace.max(number + 1);
                let policies = Policies::new(policy.clone(), rules.clone(), *version);
                self.set_policies(*number, name, policies);
                self.notify(|state| state.namespaces[*number].notice());
            }
            Fact::GroupCreated { group, namespace, name, start, kind } => {
                self.numbers.next_group = self.numbers.next_group.max(group + 1);
                self.namespaces[*namespace].groups.push(*group);
                self.set_up(setup::of_group(name));
                let office = OfficePage::of(*kind, self.numbers.epochs);
                self.groups.insert(*group, Group::new(*namespace, name.detach(), *start, office));
            }
            Fact::Copied { topic, group, messages, rest } => self.copied(self.slot(*topic, *group), messages, *rest),
            Fact::GroupReached { group, at, rest } => {
                self.groups[*group].starting = Some(Reached { at: at.clone(), rest: *rest });
            }
            Fact::GroupStarted { group } => {
                self.groups.started(*group);
                self.leased.has_eased = true;
            }
            Fact::TopicsSettled { group } => self.groups.settled(*group),
            Fact::OfficeTaken { group, session, epoch } => self.office_taken(*group, *session, *epoch),
            Fact::OfficeLeft { group, until } => self.office_left(*group, *until),
            Fact::HandedOver { group } => self.handed_over(*group),
            Fact::GroupEnding { group } => {
                self.groups.end(*group);
                self.leased.has_eased = true;
                let home = &mut self.namespaces[self.groups[*group].namespace];
                home.groups.retain(|other| other != group);
                home.ending.push(*group);
            }
            Fact::GroupDeleted { group } => {
                let home = &mut self.namespaces[self.groups[*group].namespace];
                home.ending.retain(|other| other != group);
                self.taken_back(setup::of_group(&self.groups[*group].name));
                self.groups.remove(*group);
            }
            Fact::NamespaceDeleted { number } => {
                let name = self.namespaces[*number].name.clone();
                self.notify(|_| Notice::NamespaceGone(name));
                let exchanges: Vec<_> = self.namespaces[*number].exchanges.keys().cloned().collect();
                exchanges.iter().for_each(|name| self.remove_exchange(*number, name));
                self.taken_back(self.weigh_setup_of(*number));
                self.forget_pause_ends(*number);
                self.namespaces.remove(*number).into_iter().for_each(|group| self.groups.remove(group));
                self.store.remove(&Key::Namespace(*number));
                self.remove_producers(*number);
            }
            Fact::ExchangeCreated { namespace, name, kind, unroutable, version } => {
                let (kind, unroutable, version) = (*kind, *unroutable, *version);
                let exchange = Exchange { kind, unroutable, version, bindings: Vec::new() };
                self.make_exchange(*namespace, name.detach(), exchange);
            }
            Fact::ExchangeDeleted { namespace, name } => self.remove_exchange(*namespace, name),
            Fact::Bound { namespace, exchange, binding, version } => {
                self.rebind(*namespace, exchange, *version, |exchange| {
                    let at = exchange.place(binding).expect_err("a binding is there once");
                    // With no room to grow: an exchange weighs what its bindings do.
                    exchange.bindings.reserve_exact(1);
                    exchange.bindings.insert(at, binding.detach());
                });
            }
            Fact::Unbound { namespace, exchange, binding, version } => {
                self.rebind(*namespace, exchange, *version, |exchange| {
                    let at = exchange.place(binding).expect("only a binding that is there ends");
                    exchange.bindings.remove(at);
                });
            }
            Fact::Paused { namespace, topics, until } => {
                let was_paused = self.set_pause(*namespace, topics, *until);
                if was_paused != until.is_some() {
                    self.refresh_paused(*namespace, topics);
                }
            }
            Fact::TopicCreated { topic, group, namespace, name, floor, lease } => {
                self.numbers.next_topic = self.numbers.next_topic.max(topic.0 + 1);
                self.groups[*group].topics += 1;
                let is_paused = self.namespaces[*namespace].paused.holds(name);
                let is_held = self.groups[*group].is_before(name);
                let derived =
                    (Hashes::of(self.hash_key, *group, name), is_paused, is_held, self.bounds_of(*topic, *group));
                let stored = Stored { epoch: self.epoch, ..Stored::default() };
                let home = (*group, *namespace);
                let topic = Topic::new(*topic, home, name.detach(), *floor, *lease, derived, stored);
                let slot = self.admit(topic);
                self.will_change(slot);
            }
            Fact::TopicRecalled { topic, group, .. } => {
                let slot = self.slot(*topic, *group);
                self.topics[slot].stored.epoch = self.epoch;
            }
            Fact::TopicVanished { topic, group } => {
                let slot = self.slot(*topic, *group);
                assert!(self.topics[slot].is_empty(), "only an empty topic vanishes");
                self.remove_topic_entry(slot);
                if self.topics[slot].is_touched() {
                    self.touched.retain(|touched| *touched != slot);
                }
                self.dismiss(slot);
                self.groups[*group].topics -= 1;
                if let Some(replayed) = &mut self.replayed {
                    replayed.remove(*topic, *group);
                }
            }
            Fact::Published { .. } => self.published(fact, position),
            Fact::ProducerBatch { namespace, producer, instance, sequence, at, outcomes } => {
                self.producer_batch((*namespace, *producer), (*instance, *sequence), *at, outcomes)
            }
            Fact::Leased { .. } => self.leased(fact),
            Fact::Drawn { topic, group, full, dry } => {
                self.drawn(self.slot(*topic, *group), Draw { full: *full, dry: *dry })
            }
            Fact::Aged { topic, group, level, raise } => {
                self.stands(self.slot(*topic, *group), AgePage { level: *level, raise: *raise })
            }
            Fact::Waits { topic, group, for_retry } => {
                let slot = self.slot(*topic, *group);
                self.topics[slot].waits_for_retry = *for_retry;
                self.touch(slot);
            }
            Fact::Refilled { topic, group } => self.refilled(self.slot(*topic, *group)),
            Fact::Extended { topic, group, lease, count, holder, duration, deadline } => {
                self.extended(self.slot(*topic, *group), *lease, *count, (*holder, *duration, *deadline))
            }
            Fact::Acked { topic, group, lease, count } => _ = self.done(self.slot(*topic, *group), *lease, *count),
            Fact::Delivered { topic, group, lease, count } => {
                let extent = self.done(self.slot(*topic, *group), *lease, *count);
                self.holdings.delivered.push(extent);
            }
            Fact::Returned { topic, group, lease, count, failed, place } => {
                self.returned(self.slot(*topic, *group), *lease, *count, *failed, *place)
            }
            Fact::Died { topic, group, which, reason, detail, at } => {
                self.died(self.slot(*topic, *group), *which, *reason, detail, *at)
            }
            Fact::Ripened { topic, group, priority, first, count } => {
                self.ripened(self.slot(*topic, *group), *priority, *first, *count)
            }
            Fact::Ended { topic, group, priority, first, count, reason } => {
                self.ended(self.slot(*topic, *group), *priority, (*first, *count), *reason)
            }
            Fact::Superseded { .. } => self.superseded(fact),
            Fact::Declined { group, count, .. } => self.groups[*group].tally.declined += u64::from(*count),
            Fact::Rescheduled { topic, group, priority, sequence, due } => {
                self.rescheduled(self.slot(*topic, *group), *priority, *sequence, *due)
            }
            Fact::Forgotten { namespace, hash } => self.forget(*namespace, *hash),
            Fact::Redriven { .. } => self.redriven(fact),
            Fact::DeadPurged { letter } => {
                self.remove_dead(letter);
                self.free_of(letter.group, letter.extent);
            }
            Fact::Moved { topic, priority, first, count, from, sizes, .. } => {
                let (of, mut moved) = (Moving { first: *first, count: *count, from: *from, sizes }, 0);
                self.for_each_of(*topic, None, |state, slot| moved += state.moved(slot, *priority, &of, position));
                assert!(moved > 0, "a fact moves messages of some group");
            }
            Fact::DeadMoved { letter, .. } => self.dead_moved(letter, position),
        }
    }

    /// The slot of a topic that a fact names.
    pub(crate) fn slot(&self, number: TopicNumber, group: GroupNumber) -> TopicSlot {
        self.topics.by_number(number, group).expect("a fact names a topic that exists")
    }

    /// Does something with a topic in one group, or in all of them that are not being deleted, in their order.
    fn for_each_of(
        &mut self,
        number: TopicNumber,
        group: Option<GroupNumber>,
        mut act: impl FnMut(&mut State, TopicSlot),
    ) {
        if let Some(group) = group {
            return act(self, self.slot(number, group));
        }
        let mut next = self.topics.siblings(number).next();
        assert!(next.is_some(), "a fact names a topic that exists");
        while let Some(slot) = next {
            next = self.topics[slot].siblings.next;
            if !self.groups[self.topics[slot].group].is_ending {
                act(self, slot);
            }
        }
    }

    /// Bytes of the block of this fact are needed by the group of a topic.
    fn keep(&mut self, slot: TopicSlot, bytes: u32) {
        self.keep_of(self.topics[slot].group, bytes);
    }

    /// The group of a topic needs a piece of the journal that another group needs already.
    fn share(&mut self, slot: TopicSlot, extent: Extent) {
        let group = self.topics[slot].group;
        self.groups[group].bytes += u64::from(extent.length);
        self.holdings.shared.push((group, extent));
    }

    /// The group of a topic needs a piece of the journal no more.
    fn free(&mut self, slot: TopicSlot, extent: Extent) {
        self.free_of(self.topics[slot].group, extent);
    }

    fn keep_of(&mut self, group: GroupNumber, bytes: u32) {
        self.groups[group].bytes += u64::from(bytes);
        self.holdings.store(group, bytes);
    }

    fn free_of(&mut self, group: GroupNumber, extent: Extent) {
        self.groups[group].bytes -= u64::from(extent.length);
        self.holdings.freed.push((group, extent));
    }

    fn set_policies(&mut self, number: NamespaceNumber, name: &NamespaceName, policies: Policies) {
        self.set_up(setup::of_namespace(name, &policies.rules));
        if self.namespaces.get(number).is_none() {
            return self.namespaces.insert(number, Namespace::new(name.clone(), policies));
        }
        let before = self.namespaces.set_policies(number, policies);
        self.taken_back(setup::of_namespace(name, &before.rules));
        let namespace = &self.namespaces[number];
        if namespace.policies.settles_unlike(&before) {
            let version = namespace.policies.version;
            namespace.groups.iter().for_each(|group| self.groups.unsettle(*group, version));
        }
        // All else of a policy counts when a topic is next touched, but a topic that waits for room hears of more room.
        if namespace.policies.holds_back_unlike(&before) {
            self.sweep_prefix(number, b"");
        }
    }

    /// Lets the topics that a pause or its end is about know of it: one, or bit by bit all with a prefix.
    fn refresh_paused(&mut self, namespace: u32, topics: &PausedTopics) {
        let Some(name) = topics.topic() else { return self.sweep_prefix(namespace, topics.as_bytes()) };
        let Namespace { groups, ending, paused, .. } = &self.namespaces[namespace];
        let is_paused = paused.holds(&name);
        let slots: Vec<_> = groups.iter().chain(ending).filter_map(|group| self.topics.find(*group, &name)).collect();
        for slot in slots {
            self.topics[slot].paused = is_paused;
            self.came(slot);
        }
    }

    /// Where the messages of a fact are, in memory by now.
    fn place_of(&mut self, slot: TopicSlot, priority: Priority, first: Sequence) -> Place {
        let line = self.topics[slot].level(priority).and_then(|level| level.line.front());
        if line.is_some_and(|run| run.contains(first)) {
            // As it is for most of what is leased.
            return Place::Line;
        }
        self.bring(slot, priority, first).expect("what a fact needs is fetched before it is applied");
        self.where_is(slot, priority, first).expect("a fact names unfinished messages")
    }

    /// Where a message is; `None` if it is finished. Nobody asks before the piece that it may be in is in memory, or is known to hold
    /// it.
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

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec;

    use bytes::Bytes;
    use millpond_types::{GroupKind, GroupName, Policy, Rules, Start};

    use super::*;
    use crate::store::MemoryStore;

    /// A name that came in a frame is a part of what a connection had read, which may be megabytes.
    #[test]
    fn the_name_of_a_group_keeps_nothing_of_the_frame_that_it_came_in() {
        let mut state = State::new([1, 2], Box::new(MemoryStore::default()));
        let (policy, rules) = (Policy::default(), Rules::default());
        state.apply(&Fact::NamespaceSet { number: 0, name: NamespaceName::default(), policy, rules, version: 1 }, 0);
        let frame = Bytes::from(vec![b'g'; 4096]);
        let name = GroupName::new(frame.slice(100..110)).unwrap();
        let (start, kind) = (Start::Latest, GroupKind::Shared);
        state.apply(&Fact::GroupCreated { group: 1, namespace: 0, name: name.clone(), start, kind }, 0);
        assert_eq!(state.groups[1].name, name);
        assert!(!frame.as_ptr_range().contains(&state.groups[1].name.as_bytes().as_ptr()));
    }
}
