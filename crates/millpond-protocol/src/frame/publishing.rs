//! What a publish holds.

use bytes::Bytes;
use millpond_types::{ExchangeName, Millis, NamespaceName, Priority, ProducerId, Receipt, RoutingKey, TopicName};

/// Messages to store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Publish<B = Bytes> {
    /// The namespace.
    pub namespace: NamespaceName,
    /// When to confirm.
    pub level: Level,
    /// The batch's place in a producer session, if the client keeps one.
    pub producer: Option<ProducerBatch>,
    /// The messages.
    pub runs: Vec<PublishRun<B>>,
}

/// Leases to ack and messages to store, as one decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forward<B = Bytes> {
    /// The receipts: each names the first of so many leases of consecutive numbers. No lease is named twice.
    pub receipts: Vec<(Receipt, u32)>,
    /// The namespace of the messages; the leases may be of any.
    pub namespace: NamespaceName,
    /// The messages.
    pub runs: Vec<PublishRun<B>>,
}

/// Leases to ack and a message for an exchange, as one decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ForwardRoute<B = Bytes> {
    /// The receipts, as in [`Forward`].
    pub receipts: Vec<(Receipt, u32)>,
    /// The namespace of the exchange; the leases may be of any.
    pub namespace: NamespaceName,
    /// The exchange.
    pub exchange: ExchangeName,
    /// What the message is routed by.
    pub key: RoutingKey,
    /// The priority.
    pub priority: Priority,
    /// The delay, zero for none.
    pub delay: Millis,
    /// The TTL; the policy's where `None`.
    pub ttl: Option<Millis>,
    /// The message ([`millpond_types::block`]), exactly one.
    pub block: B,
}

/// A message for an exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route<B = Bytes> {
    /// The namespace.
    pub namespace: NamespaceName,
    /// When to confirm.
    pub level: Level,
    /// Its place in a producer session, if the client keeps one.
    pub producer: Option<ProducerBatch>,
    /// The exchange.
    pub exchange: ExchangeName,
    /// What it is routed by.
    pub key: RoutingKey,
    /// The priority.
    pub priority: Priority,
    /// The delay, zero for none.
    pub delay: Millis,
    /// The TTL; the policy's where `None`.
    pub ttl: Option<Millis>,
    /// The message ([`millpond_types::block`]), exactly one.
    pub block: B,
}

/// When a publish is confirmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Level {
    /// When synced.
    #[default]
    Durable,
    /// When written.
    Buffered,
    /// Never.
    None,
}

/// A batch's place in its producer session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProducerBatch {
    /// The producer, drawn at random by the client once for its life.
    pub id: ProducerId,
    /// A higher instance fences the lower.
    pub instance: u32,
    /// Counts the batches of the instance from 1. A repeat gets the first outcome again.
    pub sequence: u64,
}

/// Consecutive messages of one topic with equal options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PublishRun<B = Bytes> {
    /// The topic.
    pub topic: TopicName,
    /// The priority.
    pub priority: Priority,
    /// The delay, zero for none.
    pub delay: Millis,
    /// The TTL; the policy's where `None`.
    pub ttl: Option<Millis>,
    /// The messages ([`millpond_types::block`]), at least one.
    pub block: B,
}
