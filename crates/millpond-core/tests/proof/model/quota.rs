//! What the namespace may hold.

use std::collections::BTreeSet;

use millpond_core::command::{PublishRun, ReceiptRun};
use millpond_types::{Coalesce, TopicName, block};

use super::Model;
use super::finish::each;

/// What others of the same decision take, and what its acks give back.
#[derive(Default)]
pub(super) struct Pending {
    messages: i64,
    bytes: i64,
    topics: i64,
    named: BTreeSet<TopicName>,
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
        let coalesces = self.policy_of(name).coalesce != Coalesce::Off;
        if coalesces && (is_named || self.topics.contains_key(name) && self.slot(name).is_some()) {
            return false;
        }
        let alive = || self.topics.values().flat_map(|topic| topic.messages.values());
        let all = || alive().chain(self.dead.values().map(|dead| &dead.message));
        let messages = all().count() as i64 + pending.messages;
        let bytes = all().map(|message| message.size as i64).sum::<i64>() + pending.bytes;
        let is_new = !self.topics.contains_key(name) && !is_named;
        let topics = self.topics.len() as i64 + pending.topics;
        let over =
            |quota: Option<u64>, held: i64, more: u64| quota.is_some_and(|most| held + more as i64 > most as i64);
        if over(quotas.messages, messages, 1)
            || over(quotas.bytes, bytes, size)
            || is_new && over(quotas.topics, topics, 1)
        {
            return true;
        }
        pending.messages += 1;
        pending.bytes += size as i64;
        pending.topics += i64::from(is_new);
        pending.named.insert(name.clone());
        false
    }

    /// What acks give back.
    pub(super) fn given_back(&self, receipts: &[ReceiptRun], runs: &[PublishRun]) -> Pending {
        let mut pending = Pending::default();
        let acked: Vec<_> = receipts.iter().flat_map(each).filter_map(|receipt| self.leased(receipt)).collect();
        for (name, key) in &acked {
            pending.messages -= 1;
            pending.bytes -= self.topics[name].messages[key].size as i64;
        }
        for (name, topic) in &self.topics {
            let of_it = acked.iter().filter(|(of, _)| of == name).count();
            let is_emptied = of_it > 0 && of_it == topic.messages.len() && runs.iter().all(|run| run.topic != *name);
            pending.topics -= i64::from(is_emptied);
        }
        pending
    }
}
