//! Quotas: what a namespace may hold, held against a publish before coalescing and overflow.
//!
//! Of several groups the one that holds most counts, so no group ever holds more by a publish. Of topics it is the one that
//! holds most of those that have not this one, for in the others none comes into being. What is let in in spite of a quota is told in the documents: a message that is given back, and a dead letter that is redriven.
//!
//! Where a publish is decided together with others, a trial counts what they would take, and what the leases that are
//! acked with them give back.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use millpond_types::{Code, LeaseNumber, NamespaceName, PublishOutcome, Quotas, TopicName, Usage};

use crate::Core;
use crate::decide::storing::{Part, Storing, Taking, Terms, Way, push};
use crate::fact::GroupNumber;
use crate::state::TopicSlot;

/// What a trial adds to what a namespace holds, and takes from it.
#[derive(Default)]
pub(super) struct Pending {
    /// What leases give back that are acked, by group.
    credit: Vec<(GroupNumber, Usage)>,
    /// What messages take that were let in, in each group; but not the topics.
    taken: Usage,
    /// The topics that they are for.
    topics: BTreeSet<TopicName>,
    /// How many of these come into being, by group.
    begun: Vec<(GroupNumber, u64)>,
}

/// A quota that is used up.
struct Over {
    what: &'static str,
    used: u64,
    limit: u64,
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
                Ok((count, needs)) => {
                    let fitting = part.split_front(count);
                    if let Way::Trial(trial) = &mut storing.way {
                        let topic = &fitting.run.topic;
                        let groups = self.state.namespaces[storing.namespace].groups.iter().copied();
                        let begun = groups.filter(|group| self.state.topics.find(*group, topic).is_none());
                        trial.pending.take(topic, begun, needs);
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

    /// How many messages from the front there is room for and what they need, or how many there is none for.
    fn front_within(
        &self,
        quotas: &Quotas,
        part: &Part<'_>,
        terms: &Terms,
        storing: &Storing<'_>,
    ) -> Result<(u32, Usage), (u32, Over)> {
        let (count, topic) = (part.count(), &part.run.topic);
        let pending = if let Way::Trial(trial) = &storing.way { Some(&trial.pending) } else { None };
        let groups = &self.state.namespaces[storing.namespace].groups;
        let used_in = |group: GroupNumber, of: fn(&Usage) -> u64| {
            let (held, taken) = (self.state.groups[group].usage(), pending.map_or(0, |pending| of(&pending.taken)));
            (of(&held) + taken).saturating_sub(pending.map_or(0, |pending| of(&pending.credit_of(group))))
        };
        let used = |of: fn(&Usage) -> u64| groups.iter().map(|group| used_in(*group, of)).max().unwrap_or(0);
        let is_named = pending.is_some_and(|pending| pending.topics.contains(topic));
        let slot = |group: &GroupNumber| self.state.topics.find(*group, topic);
        if let Some(limit) = quotas.topics.filter(|_| !is_named) {
            let begun = |group| pending.map_or(0, |pending| pending.begun_in(group));
            let topics_in = |group: &GroupNumber| used_in(*group, |usage| usage.topics) + begun(*group);
            let most = groups.iter().filter(|group| slot(group).is_none()).map(topics_in).max();
            if let Some(used) = most.filter(|used| *used >= limit) {
                return Err((count, Over { what: "topics", used, limit }));
            }
        }
        if let Taking::One { latest } = terms.taking {
            let waits = |group: &GroupNumber| slot(group).and_then(|slot| self.waiting(slot)).is_some();
            // Of those of this same call nothing is stored yet, and what they take is counted.
            let replaced = |group: &GroupNumber| {
                let waiting = slot(group).filter(|_| !is_named).and_then(|slot| self.waiting(slot));
                waiting.map_or(0, |waiting| waiting.bytes())
            };
            if is_named || groups.iter().all(waits) {
                // It takes the place of another one, or that one stands for it.
                let limit = quotas.bytes.filter(|_| latest);
                return limit.map_or(Ok((count, Usage::default())), |limit| {
                    // One by one, for each takes the place of the one before.
                    let room = |group: &GroupNumber| (used_in(*group, |usage| usage.bytes), replaced(group));
                    in_place(part.bytes(0..1), groups.iter().map(room), limit)
                        .map(|needs| (1, needs))
                        .map_err(|over| (1, over))
                });
            }
            let (count, kept) = match (latest, quotas.bytes) {
                (true, Some(_)) => (1, 0),
                (true, None) => (count, count - 1),
                (false, _) => (count, 0),
            };
            let needs = Usage { messages: 1, bytes: part.bytes(kept..kept + 1), ..Usage::default() };
            let over = |what, limit: Option<u64>, used, needs| {
                limit.filter(|limit| used + needs > *limit).map(|limit| Over { what, used, limit })
            };
            let over = over("messages", quotas.messages, used(|usage| usage.messages), 1)
                .or_else(|| over("bytes", quotas.bytes, used(|usage| usage.bytes), needs.bytes));
            return over.map_or(Ok((count, needs)), |over| Err((count, over)));
        }
        let mut fitting = count;
        if let Some(limit) = quotas.messages {
            let used = used(|usage| usage.messages);
            match limit.saturating_sub(used) {
                0 => return Err((count, Over { what: "messages", used, limit })),
                room => fitting = u64::from(fitting).min(room) as u32,
            }
        }
        if let Some(limit) = quotas.bytes {
            let used = used(|usage| usage.bytes);
            let room = limit.saturating_sub(used);
            if part.bytes(0..1) > room {
                let too_large = (0..count).take_while(|at| part.bytes(*at..at + 1) > room).count();
                return Err((too_large as u32, Over { what: "bytes", used, limit }));
            }
            fitting = part.fitting(room).min(fitting);
        }
        Ok((fitting, Usage { messages: fitting.into(), bytes: part.bytes(0..fitting), ..Usage::default() }))
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
            let credit = pending.credit_for(topic.group);
            credit.messages += u64::from(*count);
            credit.bytes += u64::from(bytes);
            acked.push((*slot, u64::from(*count)));
        }
        acked.sort_unstable();
        for leases in acked.chunk_by(|a, b| a.0 == b.0) {
            let topic = &self.state.topics[leases[0].0];
            let acked: u64 = leases.iter().map(|(_, count)| count).sum();
            let is_emptied = acked == topic.waiting() + topic.in_flight && !self.state.is_kept_empty(topic);
            pending.credit_for(topic.group).topics += u64::from(is_emptied && !to.contains(&topic.name));
        }
        pending
    }

    /// How many messages were refused so far because of a quota.
    pub fn over_quota(&self) -> u64 {
        self.over_quota
    }
}

/// What a message of so many bytes needs that takes the place of another one in each group, of which it is told how many bytes
/// are used and how many the other one has.
fn in_place(bytes: u64, groups: impl Iterator<Item = (u64, u64)>, limit: u64) -> Result<Usage, Over> {
    let mut needs = Usage::default();
    for (used, replaced) in groups {
        let more = bytes.saturating_sub(replaced);
        if more > 0 && used + more > limit {
            return Err(Over { what: "bytes", used, limit });
        }
        needs.bytes = needs.bytes.max(more);
    }
    Ok(needs)
}

impl Pending {
    fn credit_of(&self, group: GroupNumber) -> Usage {
        self.credit.iter().find(|(of, _)| *of == group).map(|(_, credit)| *credit).unwrap_or_default()
    }

    fn credit_for(&mut self, group: GroupNumber) -> &mut Usage {
        let known = self.credit.iter().position(|(of, _)| *of == group);
        let at = known.unwrap_or_else(|| {
            self.credit.push((group, Usage::default()));
            self.credit.len() - 1
        });
        &mut self.credit[at].1
    }

    fn begun_in(&self, group: GroupNumber) -> u64 {
        self.begun.iter().find(|(of, _)| *of == group).map_or(0, |(_, begun)| *begun)
    }

    /// Messages are let in, whose topic comes into being in these groups unless it is one of those before.
    fn take(&mut self, topic: &TopicName, begun: impl Iterator<Item = GroupNumber>, needs: Usage) {
        self.taken.messages += needs.messages;
        self.taken.bytes += needs.bytes;
        if !self.topics.insert(topic.clone()) {
            return;
        }
        for group in begun {
            match self.begun.iter_mut().find(|(of, _)| *of == group) {
                Some((_, begun)) => *begun += 1,
                None => self.begun.push((group, 1)),
            }
        }
    }
}

impl Over {
    fn refusal(&self, namespace: &NamespaceName) -> PublishOutcome {
        let Over { what, used, limit } = self;
        let detail = format!(
            "namespace {namespace} holds {used} {what} and may hold {limit}: finish or purge some, or raise quota-{what}"
        );
        PublishOutcome::Refused { code: Code::QuotaExceeded, detail }
    }
}
