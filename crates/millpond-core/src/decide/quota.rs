//! Quotas: what a namespace may hold, held against a publish before coalescing and overflow.
//!
//! Of several groups the one that holds most counts, so no group ever holds more by a publish; but of those alone that come to
//! hold more: in a group that has the topic none comes into being, and one that declines a message has no more of it. What is
//! let in in spite of a quota is told in the documents: a message that is given back, and a dead letter that is redriven.
//!
//! Where a publish is decided together with others, a trial counts what they would take, and what the leases that are
//! acked with them give back.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use millpond_types::{Code, Counted, LeaseNumber, NamespaceName, PublishOutcome, Quotas, TopicName, Usage};

use crate::Core;
use crate::decide::storing::{Part, Storing, Taking, Terms, Way, push};
use crate::fact::GroupNumber;
use crate::state::TopicSlot;

/// What a trial adds to what a namespace holds, and takes from it.
#[derive(Default)]
pub(super) struct Pending {
    /// What leases give back that are acked.
    credit: ByGroup,
    /// What messages take that were let in.
    taken: ByGroup,
    /// The topics that they are for, each with the bytes of the last of its messages.
    topics: BTreeMap<TopicName, u64>,
}

/// Usage by group.
#[derive(Default)]
struct ByGroup(Vec<(GroupNumber, Usage)>);

/// A quota that is used up.
struct Over {
    /// One of what is held.
    what: &'static str,
    /// What is held where it is most, what the call itself takes before and gives back counted.
    used: u64,
    /// What one more message takes.
    needs: u64,
    limit: u64,
    /// Whether the call itself takes or gives back something, of which nothing is done where it is refused.
    with_own: bool,
}

impl Core {
    /// Lets messages in as far as there is room for them, one by one, or says why not.
    pub(super) fn store_within(
        &mut self,
        quotas: &Quotas,
        mut part: Part<'_>,
        terms: &Terms,
        storing: &mut Storing<'_>,
    ) {
        while part.count() > 0 {
            match self.front_within(quotas, &part, terms, storing) {
                Ok(count) => {
                    let fitting = part.split_front(count);
                    if let Way::Trial(trial) = &mut storing.way {
                        let last = fitting.bytes(count - 1..count);
                        let named = trial.pending.topics.insert(fitting.run.topic.clone(), last);
                        for group in &self.state.namespaces[storing.namespace].groups {
                            let needs = self.needs_in(*group, &fitting, terms, named);
                            let taken = trial.pending.taken.of_mut(*group);
                            taken.messages += needs.messages;
                            taken.bytes += needs.bytes;
                            taken.topics += needs.topics;
                            if let Taking::One { latest: true } = terms.taking {
                                let replaced = self.waits_in(*group, &fitting, named).unwrap_or(0);
                                trial.pending.credit.of_mut(*group).bytes += replaced.saturating_sub(last);
                            }
                        }
                    }
                    self.store_fitting(fitting, terms, storing);
                }
                Err((count, over)) => {
                    drop(part.split_front(count));
                    self.over_quota += u64::from(count);
                    let outcome = over.refusal(&self.state.namespaces[storing.namespace].name);
                    push(&mut storing.outcomes, count, outcome);
                }
            }
        }
    }

    /// How many messages from the front there is room for, or how many there is none for.
    fn front_within(
        &self,
        quotas: &Quotas,
        part: &Part<'_>,
        terms: &Terms,
        storing: &Storing<'_>,
    ) -> Result<u32, (u32, Over)> {
        let count = part.count();
        let pending = if let Way::Trial(trial) = &storing.way { Some(&trial.pending) } else { None };
        let groups = &self.state.namespaces[storing.namespace].groups;
        let used_in = |group: GroupNumber, of: fn(&Usage) -> u64| {
            let held = of(&self.state.groups[group].usage());
            pending.map_or(held, |pending| {
                (held + of(&pending.taken.of(group))).saturating_sub(of(&pending.credit.of(group)))
            })
        };
        let named = pending.and_then(|pending| pending.topics.get(&part.run.topic)).copied();
        let with_own = pending.is_some_and(|pending| !pending.is_empty());
        let over = |what, limit: Option<u64>, of: fn(&Usage) -> u64| {
            let limit = limit?;
            let needs = groups.iter().map(|group| (*group, of(&self.needs_in(*group, part, terms, named))));
            let needs = needs.filter(|(_, needs)| *needs > 0).map(|(group, needs)| (used_in(group, of), needs));
            let (used, needs) = needs.filter(|(used, needs)| used + needs > limit).max()?;
            Some(Over { what, used, needs, limit, with_own })
        };
        if let Some(over) = over("topic", quotas.topics, |usage| usage.topics) {
            return Err((count, over));
        }
        if let Taking::One { .. } = terms.taking {
            // One by one where their bytes count, for one that is too large leaves the place to the next.
            let count = if quotas.bytes.is_some() { 1 } else { count };
            let over = over("message", quotas.messages, |usage| usage.messages)
                .or_else(|| over("byte", quotas.bytes, |usage| usage.bytes));
            return over.map_or(Ok(count), |over| Err((count, over)));
        }
        let used = |of: fn(&Usage) -> u64| groups.iter().map(|group| used_in(*group, of)).max().unwrap_or(0);
        let mut fitting = count;
        if let Some(limit) = quotas.messages {
            let used = used(|usage| usage.messages);
            match limit.saturating_sub(used) {
                0 => return Err((count, Over { what: "message", used, needs: 1, limit, with_own })),
                room => fitting = u64::from(fitting).min(room) as u32,
            }
        }
        if let Some(limit) = quotas.bytes {
            let used = used(|usage| usage.bytes);
            let room = limit.saturating_sub(used);
            if part.bytes(0..1) > room {
                let too_large = (0..count).map(|at| part.bytes(at..at + 1)).take_while(|bytes| *bytes > room);
                let (many, needs) = too_large.fold((0, u64::MAX), |(many, least), bytes| (many + 1, least.min(bytes)));
                return Err((many, Over { what: "byte", used, needs, limit, with_own }));
            }
            fitting = part.fitting(room).min(fitting);
        }
        Ok(fitting)
    }

    /// What messages need in a group, or where one message is enough, the first of them. A topic that is named is one that
    /// others of the same call are for, with the bytes of the last of them: nothing of those is stored yet, and what they take
    /// is counted.
    fn needs_in(&self, group: GroupNumber, part: &Part<'_>, terms: &Terms, named: Option<u64>) -> Usage {
        let slot = self.state.topics.find(group, &part.run.topic);
        let topics = u64::from(slot.is_none() && named.is_none());
        let Taking::One { latest } = terms.taking else {
            let (messages, bytes) = (part.count().into(), part.bytes(0..part.count()));
            return Usage { messages, bytes, topics, ..Usage::default() };
        };
        let bytes = part.bytes(0..1);
        let (messages, bytes) = match self.waits_in(group, part, named) {
            Some(waiting) if latest => (0, bytes.saturating_sub(waiting)),
            Some(_) => (0, 0),
            None => (1, bytes),
        };
        Usage { messages, bytes, topics, ..Usage::default() }
    }

    /// The bytes of the one that waits in a group where one message is enough, or will once those are stored that the same call
    /// names.
    fn waits_in(&self, group: GroupNumber, part: &Part<'_>, named: Option<u64>) -> Option<u64> {
        let waiting = || self.waiting(self.state.topics.find(group, &part.run.topic)?).map(|waiting| waiting.bytes());
        named.or_else(waiting)
    }

    /// What leases give back that are about to be acked, and with them the topics that hold nothing else, unless something
    /// is published to them.
    pub(super) fn given_back(&self, leases: &[(TopicSlot, LeaseNumber, u32)], to: &BTreeSet<&TopicName>) -> Pending {
        let mut pending = Pending::default();
        let mut acked: Vec<(TopicSlot, u64)> = Vec::new();
        for (slot, number, count) in leases {
            let topic = &self.state.topics[*slot];
            let lease = &self.state.leases[topic.lease(*number).expect("the lease is current") as usize];
            let run = &topic.level(lease.priority).expect("a lease has a level").aside[&lease.first].run;
            let first = run.index + (number.0 - lease.number.0) as u32;
            let bytes = run.sizes.offset(first + count) - run.sizes.offset(first);
            let credit = pending.credit.of_mut(topic.group);
            credit.messages += u64::from(*count);
            credit.bytes += u64::from(bytes);
            acked.push((*slot, u64::from(*count)));
        }
        acked.sort_unstable();
        for leases in acked.chunk_by(|a, b| a.0 == b.0) {
            let topic = &self.state.topics[leases[0].0];
            let acked: u64 = leases.iter().map(|(_, count)| count).sum();
            let is_emptied = acked == topic.waiting() + topic.in_flight && !self.state.is_kept_empty(topic);
            pending.credit.of_mut(topic.group).topics += u64::from(is_emptied && !to.contains(&topic.name));
        }
        pending
    }

    /// How many messages were refused so far because of a quota.
    pub fn over_quota(&self) -> u64 {
        self.over_quota
    }
}

impl Pending {
    fn is_empty(&self) -> bool {
        self.credit.0.is_empty() && self.taken.0.is_empty()
    }
}

impl ByGroup {
    fn of(&self, group: GroupNumber) -> Usage {
        self.0.iter().find(|(of, _)| *of == group).map(|(_, usage)| *usage).unwrap_or_default()
    }

    fn of_mut(&mut self, group: GroupNumber) -> &mut Usage {
        let known = self.0.iter().position(|(of, _)| *of == group);
        let at = known.unwrap_or_else(|| {
            self.0.push((group, Usage::default()));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}

impl Over {
    fn refusal(&self, namespace: &NamespaceName) -> PublishOutcome {
        let Over { what, used, needs, limit, with_own } = self;
        // No list shows a topic that is kept by its rate alone.
        let kept = match *what {
            "topic" => " (one with a rate stays until its bucket is full, also with nothing left of it)",
            _ => "",
        };
        let used = Counted(*used, what);
        let holds = if *with_own {
            format!("with what the same call stores and acks, namespace {namespace} would hold {used}")
        } else {
            format!("namespace {namespace} holds {used}")
        };
        let detail = format!(
            "{holds} and may hold {limit}, and this needs {needs} more: finish or purge some{kept}, or raise quota-{what}s"
        );
        PublishOutcome::Refused { code: Code::QuotaExceeded, detail }
    }
}
