//! Which message stands for the newest of a topic that coalesces: for what was published last, whether that was stored or
//! declined, and what has taken its place since. It does so until it has ended.

use millpond_core::fact::{Fact, Victims};
use millpond_types::{Coalesce, MessageId};

use super::follow::sequences;
use super::{Key, Model, TopicKey};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Newest {
    /// Messages that were published up to and with it, in all topics.
    pub at: u64,
    /// Who stands for it.
    pub stands: Key,
}

impl Model {
    /// A fact is about to be taken in.
    pub(super) fn look_for_newest(&mut self, fact: &Fact) {
        match fact {
            Fact::Published { topic, except, priority, first, count, .. } => {
                for sequence in sequences(*first, *count) {
                    self.published += 1;
                    let id = MessageId { topic: *topic, priority: *priority, sequence };
                    self.order.insert(id, self.published);
                    let held = self.groups.keys().filter(|group| !except.contains(group)).map(|group| (*group, *topic));
                    held.collect::<Vec<_>>().into_iter().for_each(|key| self.newest_is(key, (*priority, sequence)));
                }
            }
            Fact::Declined { topic, group, count } => {
                self.published += u64::from(*count);
                let key = (*group, *topic);
                if let Some(stands) = self.stands_for_declined(key) {
                    self.newest_is(key, stands);
                }
            }
            Fact::Acked { topic, group, lease, count } | Fact::Delivered { topic, group, lease, count } => {
                self.is_over((*group, *topic), Victims::Leased { lease: *lease, count: *count }, None);
            }
            Fact::Died { topic, group, which, .. } => self.is_over((*group, *topic), *which, None),
            Fact::Ended { topic, group, priority, first, count, .. } => {
                let which = Victims::Waiting { priority: *priority, first: *first, count: *count };
                self.is_over((*group, *topic), which, None);
            }
            Fact::Superseded { topic, group, which, priority, by, .. } => {
                self.is_over((*group, *topic), *which, Some((*priority, *by)));
            }
            _ => {}
        }
    }

    /// Who waits where a newcomer is declined.
    pub fn stands_for_declined(&self, key: TopicKey) -> Option<Key> {
        self.topics.get(&key)?.waiting().map(|(key, _)| *key).max_by_key(|of| self.order_of(key, *of))
    }

    /// How many were published before a message and with it; zero for one that was redriven.
    pub fn order_of(&self, (_, topic): TopicKey, (priority, sequence): Key) -> u64 {
        self.order.get(&MessageId { topic, priority, sequence }).copied().unwrap_or(0)
    }

    fn newest_is(&mut self, key: TopicKey, stands: Key) {
        let at = self.published;
        let is_one_enough = |topic: &super::Topic| self.home(key.0).policy_of(&topic.name).coalesce != Coalesce::Off;
        if self.topics.get(&key).is_some_and(is_one_enough) && !self.groups[&key.0].is_ending {
            self.topic(key.0, key.1).newest = Some(Newest { at, stands });
        }
    }

    /// Messages end, or another one stands for them.
    fn is_over(&mut self, key: TopicKey, which: Victims, by: Option<Key>) {
        if self.stands_among(key, which).is_some() {
            let topic = self.topic(key.0, key.1);
            topic.newest = topic.newest.zip(by).map(|(newest, stands)| Newest { stands, ..newest });
        }
    }

    /// Whoever stands for the newest of a topic, if it is one of these.
    pub fn stands_among(&self, key: TopicKey, which: Victims) -> Option<Newest> {
        let newest = self.topics.get(&key)?.newest?;
        self.victims(key, which).contains(&newest.stands).then_some(newest)
    }
}
