//! The turn of dispatch: ready topics meet hungry consumers.
//!
//! The order is that of `docs/semantics.md`: highest priority, then tenants in turn, then their topics in turn, then
//! messages that came back or fell due before those in line. A turn is `weight` messages.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use millpond_types::{Priority, Receipt};

use crate::Core;
use crate::dispatch::ConsumerSlot;
use crate::dispatch::consumer::Kind;
use crate::dispatch::rings::{Entry, Standing};
use crate::dispatch::scope::ScopeSlot;
use crate::fact::{Fact, FactLog};
use crate::output::{LeasedRun, Output, Reply};
use crate::state::topic::Front;
use crate::state::{State, TopicSlot};

/// Messages that a consumer is given before the next one's turn, so that a scarce supply is shared.
const SHARE: u32 = 32;

impl Core {
    /// Delivers what is ready to everyone with credit, answers receives, and lets empty topics vanish. Once a turn,
    /// after the commands and [`Core::advance`].
    pub fn dispatch(&mut self, log: &mut dyn FactLog) {
        self.dispatcher.scopes.fill(&self.state);
        self.enqueue_touched();
        let mut fed = Vec::new();
        for scope in self.dispatcher.scopes.take_stirred() {
            self.serve_scope(scope, &mut fed, log);
        }
        self.deliver(fed);
        self.answer_receives();
        self.vanish(log);
    }

    fn enqueue_touched(&mut self) {
        for i in 0..self.state.touched.len() {
            let slot = self.state.touched[i];
            self.dispatcher.scopes.enqueue(slot, &self.state);
        }
    }

    fn serve_scope(&mut self, scope: ScopeSlot, fed: &mut Vec<ConsumerSlot>, log: &mut dyn FactLog) {
        loop {
            let Some(place) = self.dispatcher.scopes.slots.get_mut(scope as usize) else { return };
            if place.rings.is_empty() {
                return;
            }
            let Some(slot) = place.hungry.pop_front() else { return };
            let before = self.dispatcher.consumers[slot as usize].got.len();
            let is_held_up = self.serve_consumer(scope, slot, log).is_break();
            let consumer = &mut self.dispatcher.consumers[slot as usize];
            if before == 0 && !consumer.got.is_empty() {
                fed.push(slot);
            }
            consumer.queued = consumer.is_hungry();
            if consumer.queued {
                self.dispatcher.scopes.slots[scope as usize].hungry.push_back(slot);
            }
            if is_held_up {
                return self.dispatcher.scopes.stir(scope);
            }
        }
    }

    /// Gives a consumer its share from a scope's rings. Breaks off where the next topic cannot even be fetched now.
    fn serve_consumer(&mut self, scope: ScopeSlot, consumer: ConsumerSlot, log: &mut dyn FactLog) -> ControlFlow<()> {
        let mut share = SHARE;
        while share > 0 && self.dispatcher.consumers[consumer as usize].is_hungry() {
            let rings = &mut self.dispatcher.scopes.slots[scope as usize].rings;
            let Some((priority, entry)) = rings.pop(|entry| standing(&self.state, entry)) else { break };
            let is_only = rings.is_empty_at(priority);
            if self.state.topics[entry.slot].is_cold() {
                // It comes back into the rings when it is loaded.
                if !self.fetch_for_dispatch(entry.slot) {
                    self.dispatcher.scopes.slots[scope as usize].rings.push_front(priority, entry);
                    return ControlFlow::Break(());
                }
                self.dispatcher.scopes.slots[scope as usize].rings.end_turn(priority, entry.tenant);
                continue;
            }
            let namespace = self.state.topics[entry.slot].namespace;
            let weight = self.state.namespaces[namespace].policy.weight;
            let turn = if entry.left > 0 { entry.left } else { weight };
            // With nobody else at this priority, every turn is its turn.
            let quota = if is_only { share } else { turn.min(share) };
            let served = self.serve_topic(entry.slot, priority, consumer, quota, log);
            share -= served;
            // The consumer's share or credit may have run out in mid-turn: the next one goes on with it.
            let left = if is_only { 0 } else { turn.saturating_sub(served) };
            let rings = &mut self.dispatcher.scopes.slots[scope as usize].rings;
            match standing(&self.state, &entry) {
                Standing::Ready(level) if left > 0 && level == priority => {
                    rings.push_front(level, Entry { left, ..entry })
                }
                Standing::Ready(level) => rings.push(level, Entry { left: 0, ..entry }),
                Standing::Unready | Standing::Gone => {}
            }
            rings.end_turn(priority, entry.tenant);
        }
        ControlFlow::Continue(())
    }

    /// Leases up to `quota` messages of one topic and priority to a consumer; returns how many.
    fn serve_topic(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        consumer_slot: ConsumerSlot,
        quota: u32,
        log: &mut dyn FactLog,
    ) -> u32 {
        let mut served = 0;
        while served < quota {
            let consumer = &self.dispatcher.consumers[consumer_slot as usize];
            let topic = &self.state.topics[slot];
            let policy = &self.state.namespaces[topic.namespace].policy;
            let level = topic.level(priority).expect("a ready level is there");
            let room = u32::try_from(topic.room(policy)).unwrap_or(u32::MAX);
            let allowed = (quota - served).min(consumer.messages).min(room);
            let Some(front) = level.front().filter(|_| allowed > 0 && consumer.is_hungry()) else { break };
            let (run, tries) = match front {
                Front::Line => (&level.runs[0], (0, 0)),
                Front::Aside(first) => {
                    let aside = &level.aside[&first];
                    (&aside.run, (aside.deliveries, aside.failures))
                }
            };
            let count = allowed.min(run.count).min(run.fitting(consumer.bytes).max(1));
            let part = run.clone().split_front(count);
            let duration = consumer.lease.unwrap_or(policy.lease);
            let fact = Fact::Leased {
                topic: topic.number,
                group: consumer.group,
                priority,
                first: part.first,
                count,
                lease: millpond_types::LeaseNumber(topic.next_lease.0.max(self.state.numbers.raised)),
                holder: consumer.holder(),
                duration,
                deadline: self.state.now.run + duration,
            };
            let Fact::Leased { lease, .. } = fact else { unreachable!("made above") };
            let leased = LeasedRun {
                topic: topic.name.clone(),
                receipt: Receipt { topic: topic.number, group: consumer.group, lease },
                priority,
                first: part.first,
                count,
                published: part.published,
                deliveries: tries.0 + 1,
                failures: tries.1,
                extent: part.extent(),
                sizes: (part.sizes.clone(), part.index),
            };
            self.commit(fact, log);
            let consumer = &mut self.dispatcher.consumers[consumer_slot as usize];
            consumer.messages -= count;
            consumer.bytes = consumer.bytes.saturating_sub(u64::from(leased.extent.length));
            consumer.got.push(leased);
            served += count;
        }
        served
    }

    fn deliver(&mut self, fed: Vec<ConsumerSlot>) {
        for slot in fed {
            let consumer = &mut self.dispatcher.consumers[slot as usize];
            let leases = core::mem::take(&mut consumer.got);
            match consumer.kind {
                Kind::Attached { session, number } => {
                    self.outputs.push(Output::Delivery { session, consumer: number, leases });
                }
                Kind::Once { ticket, .. } => {
                    self.outputs.push(Output::Reply { ticket, reply: Reply::Received(leases) });
                    self.dispatcher.remove(slot);
                }
            }
        }
    }

    /// Answers receives whose time is up, unless something that could be theirs is still being looked for.
    fn answer_receives(&mut self) {
        let now = self.state.now.run;
        let up: Vec<_> = self.dispatcher.waiting.iter().copied().take_while(|(until, _)| *until <= now).collect();
        for (_, slot) in up {
            if self.is_fetching() || !self.dispatcher.has_seen_all(slot) {
                continue;
            }
            let Kind::Once { ticket, .. } = self.dispatcher.remove(slot).kind else {
                unreachable!("only receives wait")
            };
            self.outputs.push(Output::Reply { ticket, reply: Reply::Received(Vec::new()) });
        }
    }

    /// Topics that something happened to go back into the rings if they are ready, and vanish if nothing is left.
    fn vanish(&mut self, log: &mut dyn FactLog) {
        for slot in core::mem::take(&mut self.state.touched) {
            let topic = &mut self.state.topics[slot];
            topic.touched = false;
            if topic.is_empty() {
                let (number, namespace, name) = (topic.number, topic.namespace, topic.name.clone());
                self.commit(Fact::TopicVanished { topic: number }, log);
                self.dispatcher.scopes.forget(slot, namespace, &name);
            } else {
                self.dispatcher.scopes.enqueue(slot, &self.state);
            }
        }
    }
}

/// What has become of the topic of an entry in the rings.
fn standing(state: &State, entry: &Entry) -> Standing {
    let Some(topic) = state.topics.get(entry.slot).filter(|topic| topic.number == entry.number) else {
        return Standing::Gone;
    };
    topic.ready_level(&state.namespaces[topic.namespace].policy).map_or(Standing::Unready, Standing::Ready)
}
