//! A message to publish, to a topic or to an exchange.

use std::time::Duration;

use bytes::Bytes;
use millpond_types::{ExchangeName, Millis, Priority, RoutingKey, TopicName};

/// A message to publish, made with its topic and body and refined from there. Cheap to clone.
///
/// ```
/// # use std::time::Duration;
/// # use millpond_client::{Message, Priority};
/// let message = Message::new("acme/orders".try_into().unwrap(), "{\"order\": 17}")
///     .priority(Priority::HIGHEST)
///     .delay(Duration::from_secs(5))
///     .dedup_id("order-17")
///     .header("content-type", "application/json");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message<To = TopicName> {
    pub(crate) to: To,
    pub(crate) body: Bytes,
    pub(crate) priority: Priority,
    pub(crate) delay: Millis,
    pub(crate) ttl: Option<Millis>,
    pub(crate) dedup_id: Bytes,
    pub(crate) headers: Vec<(Bytes, Bytes)>,
}

/// A message for an exchange, which routes it by its key, or by its headers.
///
/// ```
/// # use millpond_client::Message;
/// let message = Message::routed("events".try_into().unwrap(), "order.paid.eu".try_into().unwrap(), "{\"order\": 17}")
///     .dedup_id("order-17-paid")
///     .header("content-type", "application/json");
/// ```
pub type Routed = Message<(ExchangeName, RoutingKey)>;

impl Message {
    /// A message of the default priority, ready at once.
    pub fn new(topic: TopicName, body: impl Into<Bytes>) -> Message {
        Message::of(topic, body.into())
    }

    /// The topic that it goes to.
    pub fn topic(&self) -> &TopicName {
        &self.to
    }
}

impl Routed {
    /// A message of the default priority, ready at once. The key may be empty where the exchange does not ask for one.
    pub fn routed(exchange: ExchangeName, key: RoutingKey, body: impl Into<Bytes>) -> Routed {
        Message::of((exchange, key), body.into())
    }
}

impl<To> Message<To> {
    fn of(to: To, body: Bytes) -> Message<To> {
        let (dedup_id, headers) = (Bytes::new(), Vec::new());
        Message { to, body, priority: Priority::DEFAULT, delay: Millis::ZERO, ttl: None, dedup_id, headers }
    }

    /// 9 goes first; the default is 4.
    pub fn priority(mut self, priority: Priority) -> Message<To> {
        self.priority = priority;
        self
    }

    /// How long the message stays invisible, in whole milliseconds.
    pub fn delay(mut self, delay: Duration) -> Message<To> {
        self.delay = millis(delay);
        self
    }

    /// How long after its publishing the message is worth delivering, zero for ever. The namespace's policy says so where
    /// this does not.
    pub fn ttl(mut self, ttl: Duration) -> Message<To> {
        self.ttl = Some(millis(ttl));
        self
    }

    /// Of all messages that are published to a topic with this id within the policy's window, one is stored. An empty
    /// id is none; the longest has 255 bytes.
    pub fn dedup_id(mut self, dedup_id: impl Into<Bytes>) -> Message<To> {
        self.dedup_id = dedup_id.into();
        self
    }

    /// Adds a header. All headers of a message have at most 16 KiB together, and a key at most 255 bytes.
    pub fn header(mut self, key: impl Into<Bytes>, value: impl Into<Bytes>) -> Message<To> {
        self.headers.push((key.into(), value.into()));
        self
    }

    /// Its body.
    pub fn body(&self) -> &Bytes {
        &self.body
    }
}

/// A duration as the protocol has it; a fraction of a millisecond counts as a whole one, so that none becomes zero.
pub(crate) fn millis(duration: Duration) -> Millis {
    Millis(u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}
