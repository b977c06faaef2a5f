//! What a group holds, counted by a walk.

use millpond_core::fact::GroupNumber;
use millpond_types::{Counts, MessageId, Usage};

use super::{Model, State};

impl Model {
    /// How many messages of a group are in each state.
    pub fn counts(&self, group: GroupNumber) -> Counts {
        let mut counts = Counts::default();
        for message in self.topics_of(group).flat_map(|(_, topic)| topic.messages.values()) {
            *match message.state {
                State::InLine | State::Back(_) => &mut counts.waiting,
                State::Delayed(_) => &mut counts.delayed,
                State::Retrying(_) => &mut counts.retrying,
                State::Leased(_) => &mut counts.leased,
            } += 1;
        }
        counts.dead = self.letters.of(group).count() as u64;
        counts
    }

    /// What a group holds of what the quotas of its namespace limit.
    pub fn usage(&self, group: GroupNumber) -> Usage {
        let held = self.topics_of(group).flat_map(|(topic, of)| {
            of.messages.keys().map(move |(priority, sequence)| MessageId {
                topic,
                priority: *priority,
                sequence: *sequence,
            })
        });
        let lengths = held.chain(self.letters.of(group)).map(|id| u64::from(self.lengths[&id]));
        let (messages, bytes) = lengths.fold((0, 0), |(messages, bytes), length| (messages + 1, bytes + length));
        Usage { messages, bytes, topics: self.topics_of(group).count() as u64, connections: 0 }
    }
}
