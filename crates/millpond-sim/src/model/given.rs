//! What was given: what a lease says of its message, whatever has become of both since. A client may hear of it much later.

use millpond_types::{LeaseNumber, MessageId, Priority, Sequence, TopicName, TopicNumber, WallTime};

use super::Message;

/// What is to be told of a message with its lease.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    /// Which it is.
    pub id: MessageId,
    /// The name of its topic.
    pub topic: TopicName,
    /// When it was published.
    pub published: WallTime,
    /// Times it was delivered, this one included.
    pub deliveries: u32,
    /// Failures before.
    pub failures: u32,
    /// The first lease of its run, if any.
    pub run: Option<LeaseNumber>,
}

impl Given {
    pub(super) fn new(
        (topic, name): (TopicNumber, &TopicName),
        (priority, sequence): (Priority, Sequence),
        message: &Message,
    ) -> Given {
        let Message { published, deliveries, failures, last_lease, .. } = *message;
        let (id, run) = (MessageId { topic, priority, sequence }, last_lease.and_then(|(_, run)| run));
        Given { id, topic: name.clone(), published, deliveries, failures, run }
    }
}
