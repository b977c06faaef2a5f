//! Whether what the core dispatched is what the order of dispatch allows: the highest priority first, of all or of the
//! tenant whose turn it is, inside a topic
//! exactly the next message, no tenant and no topic overtaken by more than a turn, no limit or credit overrun, and
//! nothing left ready that a consumer could have had.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use millpond_core::fact::GroupNumber;
use millpond_core::output::LeasedRun;
use millpond_types::{Dispatch, Filter, Policy, Priority, TopicName};

use super::{Consumer, InRun, Key, Message, Model, Place, State, Who};

/// Per scope, priority and waiting one, what others were given since it began to wait.
#[derive(Default)]
pub struct Waits(BTreeMap<(Scope, Priority, Waiting), BTreeMap<Waiting, u32>>);

/// Consumers of a group that share one set of turns.
type Scope = (GroupNumber, Asked);

/// What they ask for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Asked {
    All,
    Prefixes(BTreeSet<TopicName>),
    List(BTreeSet<TopicName>),
}

/// One that takes turns with its like: a tenant with tenants, a topic with those of its tenant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Waiting {
    Tenant(Vec<u8>),
    Topic(TopicName),
}

impl Waits {
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl Model {
    /// Takes note of a run that the core leased, and holds it against the rules.
    pub fn leased_run(&mut self, who: Who, run: &LeasedRun, bodies: &[String]) {
        let at = self.consumers.iter().position(|consumer| consumer.who == who).expect("a consumer that is there");
        let consumer = &self.consumers[at];
        let place = &Place { group: consumer.group, name: run.topic.clone() };
        self.in_run = self.in_run.take().filter(|of| (of.who, &of.place) == (who, place));
        let (priority, count) = (run.priority, u64::from(run.count));
        assert!(consumer.admits(place), "{place} is not asked for by {:?}", consumer.filter);
        let stand = self.ready_level(place).expect("what is leased is ready");
        // What comes behind in a run goes with its first message.
        let stand = self.in_run.as_ref().map_or(stand, |of| of.stand);
        assert_eq!(self.next_up(place), Some(priority), "what goes next of {place}");
        // Of its own messages, those behind in a run may be older than the first, which fell due after them.
        let competes = |other: &Place| !self.is_fair() || other.name.tenant() == place.name.tenant();
        let competes = |other: &&Place| *other != place && consumer.admits(other) && competes(other);
        for other in self.topics.keys().filter(competes) {
            assert!(self.ready_level(other) <= Some(stand), "{other} goes before {place}");
        }
        assert!(count <= self.room(place), "{place} has no room for {count} more leases");
        assert!(count <= self.tokens(place), "{place} has no tokens for {count} more leases");
        let lease = self.high_water.max(self.raised);
        if self.policy_of(&place.name).run > 1 && !consumer.at_most_once {
            let left = self.in_run.as_ref().map_or(u64::from(self.policy_of(&place.name).run), |of| of.left) - count;
            let first = self.in_run.as_ref().map_or(run.receipt.lease, |of| of.first);
            assert_eq!(run.run, Some(first), "the run that it is of");
            self.in_run = Some(InRun { who, place: place.clone(), first, left, stand });
        } else {
            assert_eq!(run.run, None, "it is of no run");
        }
        let topic = &self.topics[place];
        let receipt = (run.receipt.topic, run.receipt.group, run.receipt.lease.0);
        assert_eq!(receipt, (topic.number, place.group, lease), "the next lease number");

        let of_priority = self.ready(place).into_iter().filter(|((of, _), _)| *of == priority);
        let next: Vec<_> = of_priority.take(run.count as usize).collect();
        let size = next.iter().map(|(_, message)| message.size as i64).sum::<i64>();
        assert!(consumer.messages >= count && consumer.bytes > 0, "there is credit");
        let is_exact = matches!(consumer.who, Who::Once { .. }) && consumer.has_got;
        assert!(size <= consumer.bytes || count == 1 && !is_exact, "the bytes fit, or it is one message");
        for (n, (key, message)) in (0..).zip(next) {
            assert_eq!(key, (priority, run.first.0 + n), "the next message of {place}");
            assert_eq!(message.body, bodies[n as usize], "the body that was published");
            let facts = (run.published.0, run.deliveries, run.failures);
            assert_eq!(facts, (message.published, message.deliveries + 1, message.failures), "what is told of it");
        }
        let (scope, holder) = (consumer.scope(), consumer.holder());
        let duration = consumer.lease.unwrap_or(self.policy_of(&place.name).lease.0);
        for n in 0..count {
            self.count_turn(&scope, &place.name, stand);
            let (of_run, deadline) = (run.run.map(|first| first.0), self.run + duration);
            let state = State::Leased { lease: lease + n, run: of_run, holder, duration, deadline };
            let message = self.message(place, (priority, run.first.0 + n));
            (message.state, message.deliveries) = (state, message.deliveries + 1);
        }
        if self.consumers[at].at_most_once {
            for sequence in run.first.0..run.first.0 + count {
                self.save(place, (priority, sequence));
                self.take(place, (priority, sequence));
            }
        }
        let is_limited = self.policy_of(&place.name).rate.is_some();
        let topic = self.topics.get_mut(place).unwrap();
        topic.tokens.leased += if is_limited { count } else { 0 };
        self.high_water = self.high_water.max(lease + count);
        let consumer = &mut self.consumers[at];
        consumer.messages -= count;
        consumer.bytes -= size;
        consumer.has_got = true;
        self.refresh_waits();
    }

    /// The dispatch is over: the receives that must have been answered, and with how many messages in all.
    pub fn dispatched(&mut self, got: &BTreeMap<u64, u64>) -> BTreeSet<u64> {
        self.in_run = None;
        for consumer in &self.consumers {
            let is_done = matches!(consumer.who, Who::Once { ticket, .. } if got.contains_key(&ticket));
            if consumer.messages > 0 && consumer.bytes > 0 && !is_done {
                let ready =
                    self.topics.keys().find(|place| consumer.admits(place) && self.ready_level(place).is_some());
                assert_eq!(ready, None, "is ready, and {:?} has credit", consumer.who);
            }
        }
        let run = self.run;
        let answered = |consumer: &Consumer| match consumer.who {
            Who::Once { ticket, until } => (got.contains_key(&ticket) || until <= run).then_some(ticket),
            Who::Attached { .. } => None,
        };
        let tickets = self.consumers.iter().filter_map(answered).collect();
        self.consumers.retain(|consumer| answered(consumer).is_none());
        tickets
    }

    /// Forgets the waits of those who are not ready any more. Due after every change.
    pub fn refresh_waits(&mut self) {
        let mut waits = std::mem::take(&mut self.waits.0);
        waits.retain(|(scope, priority, waiting), _| self.ready_in(scope, *priority).contains(waiting));
        self.waits.0 = waits;
    }

    /// The level at which a topic can deliver now: the highest that any of its heads was raised to.
    fn ready_level(&self, place: &Place) -> Option<Priority> {
        let is_starting = self.groups[&place.group].start.is_some();
        if is_starting || self.is_paused(&place.name) || self.room(place) == 0 || !self.has_token(place) {
            return None;
        }
        self.heads(place).into_iter().map(|(level, ..)| level).max()
    }

    /// The priority whose messages go next.
    fn next_up(&self, place: &Place) -> Option<Priority> {
        let next = self.heads(place).into_iter().max();
        next.map(|(_, _, priority)| priority)
    }

    /// What is next at each priority that competes: the level that it was raised to, since when it waits, and its priority.
    fn heads(&self, place: &Place) -> Vec<(Priority, Reverse<u64>, Priority)> {
        let policy = self.policy_of(&place.name);
        let mut heads: Vec<(Key, &Message)> = Vec::new();
        for head in self.ready(place) {
            let is_first = heads.last().is_none_or(|(of, _)| of.0 != head.0.0);
            if is_first {
                heads.push(head);
            }
        }
        let is_one = policy.is_strict() || policy.ageing.is_none();
        heads.truncate(if is_one { 1 } else { usize::MAX });
        heads.into_iter().map(|head| self.rank(&policy, head)).collect()
    }

    /// The level that a message is raised to where it is next at its priority, since when it waits, and its priority.
    fn rank(&self, policy: &Policy, ((priority, _), message): (Key, &Message)) -> (Priority, Reverse<u64>, Priority) {
        let steps = policy.ageing.map_or(0, |step| self.wall.saturating_sub(message.since) / step.0);
        let level = Priority::new((priority.level() as u64 + steps).min(9) as u8).unwrap();
        (level, Reverse(message.since), priority)
    }

    /// What of a topic is ready in the order in which it would go now.
    pub(super) fn in_order(&self, place: &Place) -> Vec<(Key, &Message)> {
        let (policy, mut left) = (self.policy_of(&place.name), self.ready(place));
        if policy.is_strict() {
            return left;
        }
        let mut found = Vec::new();
        while !left.is_empty() {
            let heads = (0..left.len()).filter(|at| *at == 0 || left[at - 1].0.0 != left[*at].0.0);
            let first = heads.max_by_key(|at| self.rank(&policy, left[*at])).unwrap();
            found.push(left.remove(first));
        }
        found
    }

    fn room(&self, place: &Place) -> u64 {
        let topic = &self.topics[place];
        let count =
            |is: &dyn Fn(&Message) -> bool| topic.messages.values().filter(|message| is(message)).count() as u64;
        let leased = count(&|message| matches!(message.state, State::Leased { .. }));
        let retrying = count(&|message| matches!(message.state, State::Retrying(_)));
        match self.policy_of(&place.name).leases_at_a_time() {
            None => u64::MAX,
            Some(1) if retrying > 0 => 0,
            Some(1) if leased == 0 => u64::from(self.policy_of(&place.name).run),
            Some(1) => self.in_run.as_ref().filter(|of| of.place == *place).map_or(0, |of| of.left),
            Some(limit) => u64::from(limit).saturating_sub(leased),
        }
    }

    fn is_fair(&self) -> bool {
        self.policy.dispatch == Dispatch::Fair
    }

    fn count_turn(&mut self, scope: &Scope, name: &TopicName, priority: Priority) {
        let most = self.policy.weight.max(self.policy_of(name).run);
        let served = [Waiting::Tenant(name.tenant().to_vec()), Waiting::Topic(name.clone())];
        for waiting in self.ready_in(scope, priority) {
            let rival = match &waiting {
                Waiting::Tenant(_) => &served[0],
                Waiting::Topic(topic) if topic.tenant() == name.tenant() => &served[1],
                Waiting::Topic(_) => continue,
            };
            let at = match &waiting {
                Waiting::Tenant(_) if self.is_fair() => Priority::HIGHEST,
                _ => priority,
            };
            let turns = self.waits.0.entry((scope.clone(), at, waiting.clone())).or_default();
            if served.contains(&waiting) {
                turns.clear();
                continue;
            }
            let turn = turns.entry(rival.clone()).or_default();
            *turn += 1;
            assert!(*turn <= most, "{rival:?} has more than a turn while {waiting:?} waits");
        }
    }

    /// The tenants and topics of a scope that could deliver at a priority.
    fn ready_in(&self, scope: &Scope, priority: Priority) -> BTreeSet<Waiting> {
        let (group, asked) = scope;
        let admits = |place: &Place| match asked {
            _ if place.group != *group => false,
            Asked::All => true,
            Asked::Prefixes(prefixes) => prefixes.iter().any(|p| place.name.as_bytes().starts_with(p.as_bytes())),
            Asked::List(names) => names.contains(&place.name),
        };
        let is_ready = |place: &&Place| admits(place) && self.ready_level(place) == Some(priority);
        let topics = self.topics.keys().filter(is_ready).map(|place| Waiting::Topic(place.name.clone()));
        // Where tenants come before priorities, they wait for each other whatever the priority.
        let waits =
            |place: &&Place| is_ready(place) || self.is_fair() && admits(place) && self.ready_level(place).is_some();
        let tenants = self.topics.keys().filter(waits).map(|place| Waiting::Tenant(place.name.tenant().to_vec()));
        topics.chain(tenants).collect()
    }
}

impl Consumer {
    fn holder(&self) -> u64 {
        match self.who {
            Who::Attached { session, .. } => session,
            Who::Once { .. } => 0,
        }
    }

    fn scope(&self) -> Scope {
        let asked = match &self.filter {
            Filter::All => Asked::All,
            Filter::Topics(names) => Asked::List(names.iter().cloned().collect()),
            Filter::Prefixes(prefixes) => Asked::Prefixes(prefixes.iter().cloned().collect()),
        };
        (self.group, asked)
    }

    fn admits(&self, place: &Place) -> bool {
        place.group == self.group && self.filter.admits(&place.name)
    }
}
