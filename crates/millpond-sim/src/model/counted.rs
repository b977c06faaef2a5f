//! What a group holds, counted by a walk.

use millpond_core::fact::GroupNumber;
use millpond_types::{MessageId, Usage};

use super::Model;

impl Model {
    /// What a group holds of what the quotas of its namespace limit.
    pub fn usage(&self, group: GroupNumber) -> Usage {
        let held = self.topics_of(group).flat_map(|(topic, of)| {
            of.messages.keys().map(move |(priority, sequence)| MessageId {
                topic,
                priority: *priority,
                sequence: *sequence,
            })
        });
        let dead = self.letters.current().filter(|((of, _), _)| *of == group).map(|((_, id), _)| id);
        let lengths = held.chain(dead).map(|id| u64::from(self.lengths[&id]));
        let (messages, bytes) = lengths.fold((0, 0), |(messages, bytes), length| (messages + 1, bytes + length));
        Usage { messages, bytes, topics: self.topics_of(group).count() as u64, connections: 0 }
    }
}
