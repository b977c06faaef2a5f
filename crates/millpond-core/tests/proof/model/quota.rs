//! What the namespace may hold.

use std::collections::BTreeMap;

use millpond_core::command::{PublishRun, ReceiptRun};
use millpond_core::fact::GroupNumber;
use millpond_types::{Coalesce, TopicName, block};

use super::finish::each;
use super::{Model, Place};

/// What others of the same decision take, and what its acks give back in each group.
#[derive(Default)]
pub(super) struct Pending {
    taken: BTreeMap<GroupNumber, Usage>,
    given_back: BTreeMap<GroupNumber, Usage>,
    /// The topics that others are for, each with the size of the last of them.
    named: BTreeMap<TopicName, u64>,
}

#[derive(Clone, Copy, Default)]
struct Usage {
    messages: u64,
    bytes: u64,
    topics: u64,
}

/// Bytes of one message of a run.
pub(super) fn size(run: &PublishRun, index: u32) -> u64 {
    block::messages(&run.block).nth(index as usize).unwrap().unwrap().length as u64
}

impl Model {
    /// Whether there is no room for a message; if there is, it is taken.
    pub(super) fn is_over_quota(&self, name: &TopicName, size: u64, pending: &mut Pending) -> bool {
        let quotas = self.policy.quotas;
        let named = pending.named.get(name).copied();
        let places = self.everywhere(name);
        let needs: Vec<(GroupNumber, Usage)> =
            places.iter().map(|place| (place.group, self.needs(place, size, named))).collect();
        // Each group counts that would hold more.
        let is_over = |quota: Option<u64>, of: fn(&Usage) -> u64| {
            let used = |group: &GroupNumber| {
                let (taken, given_back) =
                    (pending.taken.get(group).map_or(0, of), pending.given_back.get(group).map_or(0, of));
                (of(&self.usage(*group)) + taken).saturating_sub(given_back)
            };
            let is_over = |most| needs.iter().any(|(group, needs)| of(needs) > 0 && used(group) + of(needs) > most);
            quota.is_some_and(is_over)
        };
        if is_over(quotas.messages, |usage| usage.messages)
            || is_over(quotas.bytes, |usage| usage.bytes)
            || is_over(quotas.topics, |usage| usage.topics)
        {
            return true;
        }
        for (group, needs) in needs {
            let taken = pending.taken.entry(group).or_default();
            taken.messages += needs.messages;
            taken.bytes += needs.bytes;
            taken.topics += needs.topics;
        }
        if self.policy_of(name).coalesce == Coalesce::KeepLatest {
            for place in &places {
                let replaced = self.waits(place, named).unwrap_or(0);
                pending.given_back.entry(place.group).or_default().bytes += replaced.saturating_sub(size);
            }
        }
        pending.named.insert(name.clone(), size);
        false
    }

    /// What a group needs for a message of a topic, for which others of the same decision may be.
    fn needs(&self, place: &Place, size: u64, named: Option<u64>) -> Usage {
        let topics = u64::from(named.is_none() && !self.topics.contains_key(place));
        let (messages, bytes) = match (self.policy_of(&place.name).coalesce, self.waits(place, named)) {
            (Coalesce::KeepFirst, Some(_)) => (0, 0),
            (Coalesce::KeepLatest, Some(waiting)) => (0, size.saturating_sub(waiting)),
            _ => (1, size),
        };
        Usage { messages, bytes, topics }
    }

    /// The size of the message that waits where one is enough, or will once those are stored that are named.
    fn waits(&self, place: &Place, named: Option<u64>) -> Option<u64> {
        named.or_else(|| self.slot(place).map(|key| self.topics[place].messages[&key].size))
    }

    fn usage(&self, group: GroupNumber) -> Usage {
        let topics = || self.topics.iter().filter(|(place, _)| place.group == group).map(|(_, topic)| topic);
        let alive = topics().flat_map(|topic| topic.messages.values());
        let dead = self.dead.iter().filter(|((place, _), _)| place.group == group).map(|(_, dead)| &dead.message);
        let all: Vec<u64> = alive.chain(dead).map(|message| message.size).collect();
        Usage { messages: all.len() as u64, bytes: all.iter().sum(), topics: topics().count() as u64 }
    }

    /// What acks give back.
    pub(super) fn given_back(&self, receipts: &[ReceiptRun], runs: &[PublishRun]) -> Pending {
        let mut pending = Pending::default();
        let acked: Vec<_> = receipts.iter().flat_map(each).filter_map(|receipt| self.leased(receipt)).collect();
        for (place, key) in &acked {
            let of_group = pending.given_back.entry(place.group).or_default();
            of_group.messages += 1;
            of_group.bytes += self.topics[place].messages[key].size;
        }
        for (place, topic) in &self.topics {
            let of_it = acked.iter().filter(|(of, _)| of == place).count();
            let is_emptied = of_it > 0 && of_it == topic.messages.len();
            if is_emptied && runs.iter().all(|run| run.topic != place.name) {
                pending.given_back.entry(place.group).or_default().topics += 1;
            }
        }
        pending
    }
}
