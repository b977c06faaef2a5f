//! What the namespace may hold.

use std::collections::{BTreeMap, BTreeSet};

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
    named: BTreeSet<TopicName>,
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
        let is_named = pending.named.contains(name);
        let needs = self.everywhere(name).into_iter().map(|place| (place.group, self.needs(&place, size, is_named)));
        let needs: Vec<(GroupNumber, Usage)> = needs.collect();
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
        pending.named.insert(name.clone());
        false
    }

    /// What a group needs for a message of a topic, for which others of the same decision may be.
    fn needs(&self, place: &Place, size: u64, is_named: bool) -> Usage {
        let topics = u64::from(!is_named && !self.topics.contains_key(place));
        let waits = self.slot(place).filter(|_| !is_named);
        let (messages, bytes) = match self.policy_of(&place.name).coalesce {
            Coalesce::KeepFirst if is_named || waits.is_some() => (0, 0),
            Coalesce::KeepLatest if is_named => (0, size),
            Coalesce::KeepLatest if let Some(key) = waits => {
                (0, size.saturating_sub(self.topics[place].messages[&key].size))
            }
            _ => (1, size),
        };
        Usage { messages, bytes, topics }
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
