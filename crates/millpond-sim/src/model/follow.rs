//! What each fact does to the model.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::fact::{Fact, GroupNumber, NamespaceNumber, ReturnPlace, Victims};
use millpond_core::page::Reached;
use millpond_core::store::Name;
use millpond_types::{
    Coalesce, EndReason, ExchangeName, LeaseNumber, MessageId, NamespaceName, Policy, Priority, Receipt, Rules,
    RunTime, Sequence, TopicNumber,
};

use super::{Exchange, Given, Group, Home, Key, Message, Model, Office, Producer, State, Terms, Topic, TopicKey};

/// The sequences of a run.
pub fn sequences(first: Sequence, count: u32) -> impl Iterator<Item = Sequence> {
    (first.0..first.0 + u64::from(count)).map(Sequence)
}

impl Model {
    /// Takes a fact in that happens now.
    pub fn follow(&mut self, fact: &Fact, now: RunTime) {
        self.followed += 1;
        self.look_for_newest(fact);
        match fact {
            Fact::NamespaceSet { number, name, policy, rules, version } => {
                self.set_namespace(*number, name, policy, rules);
                self.namespaces.get_mut(number).expect("it was just set").version = *version;
                self.fit_buckets(*number, now);
            }
            Fact::NamespaceDeleted { number } => {
                self.namespaces.remove(number);
                self.groups.retain(|_, group| group.namespace != *number);
                self.producers.retain(|(namespace, _), _| namespace != number);
                self.dedups.retain(|_, (id, _)| self.homes[&id.topic] != *number);
            }
            Fact::GroupCreated { group, namespace, name, start, kind } => {
                let due = self.admitted(*namespace, *start);
                self.groups.insert(*group, Group { due, ..Group::new(*namespace, name.clone(), *start, *kind) });
            }
            Fact::GroupReached { group, at, rest } => {
                let of = self.group(*group);
                (of.reached, of.rest) = (at.clone(), *rest);
            }
            Fact::GroupStarted { group } => self.group(*group).is_starting = false,
            Fact::TopicsSettled { group } => self.group(*group).is_settling = false,
            Fact::GroupEnding { group } => self.group(*group).is_ending = true,
            Fact::GroupDeleted { group } => _ = self.groups.remove(group),
            Fact::Copied { topic, group, messages, rest } => {
                let is_saved = Reached::is_of_saved(messages, *rest);
                messages.iter().for_each(|copied| self.copied((*group, *topic), copied, is_saved));
                if !is_saved {
                    let of = self.topic(*group, *topic);
                    of.is_held = rest.is_some();
                    let place = if of.is_held { Name::bytes } else { Name::behind };
                    let reached = place(of.name.as_bytes());
                    let of = self.group(*group);
                    (of.reached, of.rest) = (reached, *rest);
                }
            }
            Fact::Paused { namespace, topics, until } => {
                let home = self.namespaces.get_mut(namespace).expect("a fact names a namespace that is there");
                match until {
                    Some(until) => _ = home.paused.insert(topics.clone(), *until),
                    None => _ = home.paused.remove(topics),
                }
            }
            Fact::TopicCreated { topic, group, namespace, name, floor, .. } => {
                self.homes.insert(*topic, *namespace);
                let of = &self.groups[group];
                let is_held = of.is_starting && Name::compare_key(name.as_bytes(), &of.reached).is_ge();
                let made = Topic {
                    name: name.clone(),
                    floor: Sequence(*floor),
                    next: Default::default(),
                    messages: Default::default(),
                    leases: Default::default(),
                    is_held,
                    is_limited: false,
                    bucket: Default::default(),
                    was_leased: false,
                    newest: None,
                };
                self.topics.insert((*group, *topic), made);
            }
            Fact::TopicVanished { topic, group } => _ = self.topics.remove(&(*group, *topic)),
            Fact::Published { .. } => self.published(fact),
            Fact::ProducerBatch { namespace, producer, instance, sequence, outcomes, .. } => {
                let session = self.producers.entry((*namespace, *producer)).or_default();
                if session.instance != *instance {
                    *session = Producer { instance: *instance, ..Producer::default() };
                }
                session.batches.insert(*sequence, outcomes.runs().collect());
            }
            Fact::Leased { topic, group, priority, first, count, lease, run, holder, duration, deadline } => {
                let epoch = self.groups[group].office.map(|office| office.epoch);
                let terms = Terms { holder: *holder, duration: *duration, deadline: *deadline, epoch };
                self.leased((*group, *topic), *priority, sequences(*first, *count), (*lease, *run, terms));
                self.draw((*group, *topic), *count, now);
            }
            Fact::Extended { topic, group, lease, count, holder, duration, deadline } => {
                let topic = self.topic(*group, *topic);
                for lease in lease.0..lease.0 + u64::from(*count) {
                    let key = topic.leases[&LeaseNumber(lease)];
                    let message = topic.messages.get_mut(&key).expect("a lease is of a message");
                    let Terms { epoch, .. } = message.terms;
                    message.terms = Terms { holder: *holder, duration: *duration, deadline: *deadline, epoch };
                }
            }
            Fact::OfficeTaken { group, session, epoch } => {
                let office = self.office(*group);
                (office.leader, office.epoch) = (Some(*session), *epoch);
            }
            Fact::OfficeLeft { group, until } => {
                let office = self.office(*group);
                (office.leader, office.outgoing) = (None, Some(*until));
            }
            Fact::HandedOver { group } => self.office(*group).outgoing = None,
            Fact::Drawn { topic, group, .. } => self.topic(*group, *topic).is_limited = true,
            Fact::Acked { topic, group, lease, count } | Fact::Delivered { topic, group, lease, count } => {
                self.end_leases((*group, *topic), *lease, *count, |_| None)
            }
            Fact::Returned { topic, group, lease, count, failed, place } => {
                let of = self.topic(*group, *topic);
                let (next, floor) = (of.next.clone(), of.floor);
                self.end_leases((*group, *topic), *lease, *count, |(key, message)| {
                    let state = match place {
                        ReturnPlace::Head => State::Back(Sequence(0)),
                        ReturnPlace::Tail => State::Back(next.get(&key.0).copied().unwrap_or(floor)),
                        ReturnPlace::At(due) => State::Retrying(*due),
                    };
                    Some(Message { failures: message.failures + u32::from(*failed), state, ..message })
                })
            }
            Fact::Died { topic, group, which, reason, detail, at } => {
                for (priority, sequence) in self.victims((*group, *topic), *which) {
                    let (of, id) = (&self.topics[&(*group, *topic)], MessageId { topic: *topic, priority, sequence });
                    let was = (&of.name, &of.messages[&(priority, sequence)]);
                    self.letters.died((*group, id), was, (*reason, detail, *at), self.followed);
                }
                self.remove((*group, *topic), *which);
            }
            Fact::Ripened { topic, group, priority, first, count } => {
                for sequence in sequences(*first, *count) {
                    self.of(*group, *topic, (*priority, sequence)).state = State::Back(Sequence(0));
                }
            }
            Fact::Ended { topic, group, priority, first, count, reason } => {
                let tally = &mut self.group(*group).tally;
                match reason {
                    EndReason::Dropped => tally.dropped += u64::from(*count),
                    EndReason::RetainedOut => tally.retained_out += u64::from(*count),
                    _ => {}
                }
                let which = Victims::Waiting { priority: *priority, first: *first, count: *count };
                self.remove((*group, *topic), which)
            }
            Fact::Superseded { topic, group, which, priority, by, failures, until, since } => {
                let (Victims::Leased { count, .. } | Victims::Waiting { count, .. }) = which;
                self.group(*group).tally.superseded += u64::from(*count);
                self.remove((*group, *topic), *which);
                if *failures > 0 || until.is_some() || since.is_some() {
                    let heir = self.of(*group, *topic, (*priority, *by));
                    heir.failures = *failures;
                    heir.since = since.unwrap_or(heir.since);
                    match until {
                        Some(due) => heir.state = State::Retrying(*due),
                        // It has been looked at.
                        None if heir.state == State::InLine => heir.state = State::Back(*by),
                        None => {}
                    }
                }
            }
            Fact::Rescheduled { topic, group, priority, sequence, due } => {
                let message = self.of(*group, *topic, (*priority, *sequence));
                (message.state, message.since) = (State::Delayed(*due), *due);
            }
            Fact::Declined { group, count, .. } => self.group(*group).tally.declined += u64::from(*count),
            Fact::Forgotten { hash, .. } => _ = self.dedups.remove(hash),
            Fact::Redriven { letter, topic, sequence, published, since, dedup } => {
                self.letters.left((letter.group, letter.id), self.followed);
                let id = MessageId { topic: *topic, priority: letter.id.priority, sequence: *sequence };
                if let Some(of) = dedup {
                    self.dedups.insert(of.hash, (id, of.until));
                }
                self.tags.extend(self.tags.get(&letter.id).map(|tag| (id, *tag)));
                self.lengths.insert(id, self.lengths[&letter.id]);
                self.arrive(id, 1, |group| group == letter.group, &Message::redriven(*published, *since));
            }
            Fact::DeadPurged { letter } => self.letters.left((letter.group, letter.id), self.followed),
            Fact::ExchangeCreated { namespace, name, kind, unroutable, .. } => {
                let (kind, unroutable, bindings) = (*kind, *unroutable, Default::default());
                self.exchanges(*namespace).insert(name.clone(), Exchange { kind, unroutable, bindings });
            }
            Fact::ExchangeDeleted { namespace, name } => _ = self.exchanges(*namespace).remove(name),
            Fact::Bound { namespace, exchange, binding, .. } => {
                self.exchanges(*namespace).get_mut(exchange).expect("it is there").bindings.insert(binding.clone());
            }
            Fact::Unbound { namespace, exchange, binding, .. } => {
                self.exchanges(*namespace).get_mut(exchange).expect("it is there").bindings.remove(binding);
            }
            Fact::Created { .. }
            | Fact::Raised { .. }
            | Fact::TopicRecalled { .. }
            | Fact::Aged { .. }
            | Fact::Waits { .. }
            | Fact::Refilled { .. }
            | Fact::Moved { .. }
            | Fact::DeadMoved { .. } => {}
        }
    }

    fn set_namespace(&mut self, number: u32, name: &NamespaceName, policy: &Policy, rules: &Rules) {
        let made = Home::new(name.clone(), policy.clone(), rules.clone());
        let Some(before) = self.namespaces.insert(number, made) else { return };
        let home = self.namespaces.get_mut(&number).expect("it was just put there");
        (home.paused, home.exchanges) = (before.paused.clone(), before.exchanges.clone());
        let is_settling = home.settles_unlike(&before);
        for group in self.groups.values_mut().filter(|group| group.namespace == number) {
            group.is_settling |= is_settling;
            group.is_mixed = true;
        }
        self.excuse(number, &before);
    }

    /// What starting groups may go without, for one message stood for all in its topic by a policy that is over.
    fn excuse(&mut self, namespace: NamespaceNumber, before: &Home) {
        let coalesced = self.topics.iter().filter(|(_, topic)| before.policy_of(&topic.name).coalesce != Coalesce::Off);
        let coalesced: BTreeSet<TopicNumber> = coalesced.map(|((_, number), _)| *number).collect();
        for group in self.groups.values_mut().filter(|group| group.namespace == namespace && group.is_starting) {
            group.excused.extend(group.due.iter().filter(|id| coalesced.contains(&id.topic)));
        }
    }

    fn leased(
        &mut self,
        (group, number): TopicKey,
        priority: Priority,
        which: impl Iterator<Item = Sequence>,
        (lease, run, terms): (LeaseNumber, Option<LeaseNumber>, Terms),
    ) {
        let leased_at = self.published;
        let topic = self.topics.get_mut(&(group, number)).expect("a fact names a topic that is there");
        topic.was_leased = true;
        for (lease, sequence) in (lease.0..).map(LeaseNumber).zip(which) {
            let message = topic.messages.get_mut(&(priority, sequence)).expect("it was held against the model");
            message.state = State::Leased(lease);
            message.deliveries += 1;
            message.leased_at = leased_at;
            (message.last_lease, message.terms) = (Some((lease, run)), terms);
            topic.leases.insert(lease, (priority, sequence));
            let given = Given::new((number, &topic.name), (priority, sequence), message);
            self.given.insert(Receipt { group, topic: number, lease }, given);
        }
    }

    /// Takes tokens of its rate from a topic, if it has one.
    fn draw(&mut self, (group, topic): TopicKey, count: u32, now: RunTime) {
        let rate = self.home(group).policy_of(&self.topics[&(group, topic)].name).rate;
        self.topic(group, topic).bucket.draw(rate.as_ref(), count, now);
    }

    /// The rates of a namespace may be others: in no bucket is more missing than it holds.
    fn fit_buckets(&mut self, namespace: NamespaceNumber, now: RunTime) {
        let is_of = |group: &GroupNumber| self.groups[group].namespace == namespace;
        let keys: Vec<TopicKey> = self.topics.keys().filter(|(group, _)| is_of(group)).copied().collect();
        keys.into_iter().for_each(|key| self.draw(key, 0, now));
    }

    /// What becomes of the messages of some leases.
    fn end_leases(
        &mut self,
        (group, topic): TopicKey,
        first: LeaseNumber,
        count: u32,
        becomes: impl Fn((Key, Message)) -> Option<Message>,
    ) {
        let topic = self.topic(group, topic);
        for lease in (first.0..first.0 + u64::from(count)).map(LeaseNumber) {
            let key = topic.leases.remove(&lease).expect("it was held against the model");
            let message = topic.messages.remove(&key).expect("a lease is of a message");
            topic.messages.extend(becomes((key, message)).map(|message| (key, message)));
        }
    }

    /// The messages that a fact names by their leases or by themselves, as far as they are there.
    pub fn victims(&self, key: TopicKey, which: Victims) -> Vec<Key> {
        let Some(topic) = self.topics.get(&key) else { return Vec::new() };
        match which {
            Victims::Leased { lease, count } => {
                let leases = topic.leases.range(lease..LeaseNumber(lease.0 + u64::from(count)));
                leases.map(|(_, key)| *key).collect()
            }
            Victims::Waiting { priority, first, count } => {
                let keys = sequences(first, count).map(|sequence| (priority, sequence));
                keys.filter(|key| topic.messages.get(key).is_some_and(|message| !message.is_leased())).collect()
            }
        }
    }

    fn remove(&mut self, of: TopicKey, which: Victims) {
        let victims = self.victims(of, which);
        self.is_due_again(of, &victims);
        let topic = self.topic(of.0, of.1);
        topic.messages.retain(|key, _| !victims.contains(key));
        topic.leases.retain(|_, key| !victims.contains(key));
    }

    pub(super) fn group(&mut self, group: GroupNumber) -> &mut Group {
        self.groups.get_mut(&group).expect("a fact names a group that is there")
    }

    fn office(&mut self, group: GroupNumber) -> &mut Office {
        self.group(group).office.as_mut().expect("a fact names an office that is there")
    }

    pub(super) fn topic(&mut self, group: GroupNumber, topic: TopicNumber) -> &mut Topic {
        self.topics.get_mut(&(group, topic)).expect("a fact names a topic that is there")
    }

    fn of(&mut self, group: GroupNumber, topic: TopicNumber, key: Key) -> &mut Message {
        self.topic(group, topic).messages.get_mut(&key).expect("it was held against the model")
    }

    fn exchanges(&mut self, namespace: u32) -> &mut BTreeMap<ExchangeName, Exchange> {
        &mut self.namespaces.get_mut(&namespace).expect("a fact names a namespace that is there").exchanges
    }
}
