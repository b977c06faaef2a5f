//! How much goes at a rate, and how much is kept of what nobody takes.

use std::collections::{BTreeMap, HashSet};

use millpond_client::{LeaseNumber, MessageId};

use super::Ledger;
use crate::load::{KEEP, KEPT, RATE_BURST, RATE_PER_SECOND, RATED};

impl<'a> Ledger<'a> {
    /// Up to any delivery, no more of its topic have gone than a full bucket holds, and what has come since anything was
    /// published. A bucket that a crash has filled is found where there is always something that waits for it.
    pub(super) fn judge_rates(&mut self) {
        let asked = |((space, _), asks): (&(&str, _), &Vec<super::Ask>)| (*space == RATED).then(|| asks[0].at);
        let Some(begun) = self.asks.iter().filter_map(asked).min() else { return };
        let mut topics: BTreeMap<(&str, &str), BTreeMap<LeaseNumber, u64>> = BTreeMap::new();
        for seen in self.seen.iter().filter(|seen| seen.place.space == RATED) {
            topics.entry((seen.place.group, seen.topic)).or_default().insert(seen.lease, seen.at);
        }
        for ((group, topic), deliveries) in topics {
            for (index, (lease, at)) in deliveries.into_iter().enumerate() {
                // A token that is nearly there when somebody looks, and is counted in the millisecond after.
                let most = RATE_BURST + RATE_PER_SECOND * at.saturating_sub(begun) / 1_000 + 1;
                if index as u64 >= most {
                    self.broken(format!("{RATED} {group} {topic}: lease {} is one too many for its rate", lease.0));
                    break;
                }
            }
        }
    }

    /// What has to be kept to the end: the newest, and half as many as are kept for certain, for what is asked for first is
    /// not always stored first.
    pub(super) fn kept(&self) -> HashSet<MessageId> {
        let asked = self.asks.iter().filter(|((space, _), _)| *space == KEPT);
        let mut asked: Vec<(u64, &str)> = asked.map(|((_, tag), asks)| (asks[0].at, *tag)).collect();
        asked.sort_unstable();
        let newest = asked.iter().rev().take(KEEP / 2);
        newest.filter_map(|(_, tag)| self.ids.get(&(KEPT, *tag)).copied()).collect()
    }
}
