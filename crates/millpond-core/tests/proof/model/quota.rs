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
    taken: Usage,
    given_back: BTreeMap<GroupNumber, Usage>,
    begun: BTreeMap<GroupNumber, u64>,
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
        let everywhere = self.everywhere(name);
        let coalesces = self.policy_of(name).coalesce != Coalesce::Off;
        if coalesces && (is_named || everywhere.iter().all(|place| self.slot(place).is_some())) {
            let latest = self.policy_of(name).coalesce == Coalesce::KeepLatest;
            return quotas.bytes.is_some_and(|most| latest && self.outgrows(most, &everywhere, size, pending));
        }
        let lacks_it = |place: &&Place| !is_named && !self.topics.contains_key(place);
        let begun: Vec<GroupNumber> = everywhere.iter().filter(lacks_it).map(|place| place.group).collect();
        // Where it is there, it is no topic more.
        let has_too_many = |group: &GroupNumber| {
            let given_back = pending.given_back.get(group).map_or(0, |usage| usage.topics);
            let more = 1 + pending.begun.get(group).copied().unwrap_or(0);
            quotas.topics.is_some_and(|most| self.usage(*group).topics + more > most + given_back)
        };
        // The group that holds most counts.
        let is_over = |quota: Option<u64>, of: fn(&Usage) -> u64, more: u64| {
            let used = |group: &GroupNumber| {
                let given_back = pending.given_back.get(group).map_or(0, of);
                (of(&self.usage(*group)) + of(&pending.taken)).saturating_sub(given_back)
            };
            quota.is_some_and(|most| self.groups.keys().map(used).max() > most.checked_sub(more))
        };
        if is_over(quotas.messages, |usage| usage.messages, 1)
            || is_over(quotas.bytes, |usage| usage.bytes, size)
            || begun.iter().any(has_too_many)
        {
            return true;
        }
        pending.taken.messages += 1;
        pending.taken.bytes += size;
        begun.into_iter().for_each(|group| *pending.begun.entry(group).or_default() += 1);
        pending.named.insert(name.clone());
        false
    }

    /// Whether a message is too large to take the place of those that wait; if it is not, what it takes more is taken.
    fn outgrows(&self, most: u64, everywhere: &[Place], size: u64, pending: &mut Pending) -> bool {
        let is_named = pending.named.contains(&everywhere[0].name);
        let mut taken = 0;
        for place in everywhere {
            let slot = self.slot(place).filter(|_| !is_named);
            let more = size.saturating_sub(slot.map_or(0, |key| self.topics[place].messages[&key].size));
            let given_back = pending.given_back.get(&place.group).map_or(0, |usage| usage.bytes);
            let used = (self.usage(place.group).bytes + pending.taken.bytes).saturating_sub(given_back);
            if more > 0 && used + more > most {
                return true;
            }
            taken = taken.max(more);
        }
        pending.taken.bytes += taken;
        false
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
