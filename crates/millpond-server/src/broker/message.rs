//! A message that the program publishes itself, and how messages become runs.

use bytes::Bytes;
use millpond_core::command::{self, DedupMark, Level, PublishRun, Route};
use millpond_core::dedup_hash;
use millpond_types::block::{self, PREFIX, Sizes, TooLarge};
use millpond_types::{ExchangeName, Millis, NamespaceName, Priority, RoutingKey, TopicName};

use crate::convert::request::HashKey;

/// A message to publish. Made with [`Message::new`] or [`Message::routed`], its other fields are set as wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message<To = TopicName> {
    /// Where it goes.
    pub to: To,
    /// The body.
    pub body: Bytes,
    /// Keys and values, at most 16 KiB together.
    pub headers: Vec<(Bytes, Bytes)>,
    /// 9 goes first.
    pub priority: Priority,
    /// How long it stays invisible; zero for not at all.
    pub delay: Millis,
    /// How long it is worth delivering; the policy's where `None`, and zero for ever.
    pub ttl: Option<Millis>,
    /// What tells it from a repeat, at most 255 bytes; empty for nothing.
    pub dedup_id: Bytes,
}

/// A message for an exchange, and what it is routed by.
pub type Routed = Message<(ExchangeName, RoutingKey)>;

impl Message {
    /// A message for a topic, with a body and defaults for the rest.
    pub fn new(topic: TopicName, body: impl Into<Bytes>) -> Message {
        Message::of(topic, body.into())
    }

    fn goes_with(&self, other: &Message) -> bool {
        let terms = |m: &Message| (m.priority, m.delay, m.ttl);
        self.to == other.to && terms(self) == terms(other)
    }
}

impl Routed {
    /// A message for an exchange, with a body and defaults for the rest.
    pub fn routed(exchange: ExchangeName, key: RoutingKey, body: impl Into<Bytes>) -> Routed {
        Message::of((exchange, key), body.into())
    }

    pub(super) fn command(self, namespace: NamespaceName) -> Result<Route, TooLarge> {
        let mut block = Vec::new();
        push(&mut block, &self)?;
        let Message { to, priority, delay, ttl, .. } = self;
        let message = command::Routed { priority, delay, ttl, block: block.into(), too_large: None };
        Ok(Route::new(namespace, to, message, None, Level::Durable))
    }
}

impl<To> Message<To> {
    fn of(to: To, body: Bytes) -> Message<To> {
        let (headers, dedup_id) = (Vec::new(), Bytes::new());
        Message { to, body, headers, priority: Priority::DEFAULT, delay: Millis::ZERO, ttl: None, dedup_id }
    }
}

/// Appends a message with its checksum.
fn push<To>(bytes: &mut Vec<u8>, message: &Message<To>) -> Result<(), TooLarge> {
    let start = bytes.len();
    let headers: Vec<_> = message.headers.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    block::push(bytes, &message.dedup_id, &headers, &message.body)?;
    let checksum = crc32c::crc32c(&bytes[start + PREFIX..]);
    bytes[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// Neighbours with equal terms become one run.
pub(super) fn runs(namespace: &NamespaceName, messages: &[Message], key: HashKey) -> Result<Vec<PublishRun>, TooLarge> {
    messages.chunk_by(Message::goes_with).map(|messages| run(namespace, messages, key)).collect()
}

fn run(namespace: &NamespaceName, messages: &[Message], key: HashKey) -> Result<PublishRun, TooLarge> {
    let (mut bytes, mut ends, mut dedup) = (Vec::new(), Vec::new(), Vec::new());
    let first = &messages[0];
    for (index, message) in messages.iter().enumerate() {
        push(&mut bytes, message)?;
        ends.push(u32::try_from(bytes.len()).map_err(|_| TooLarge("a publish has at most 4 MiB"))?);
        if !message.dedup_id.is_empty() {
            let hash = dedup_hash(key, namespace, &message.to, &message.dedup_id);
            dedup.push(DedupMark { index: index as u32, hash });
        }
    }
    Ok(PublishRun {
        topic: first.to.clone(),
        priority: first.priority,
        delay: first.delay,
        ttl: first.ttl,
        count: messages.len() as u32,
        block: bytes.into(),
        sizes: Sizes::from_ends(&ends),
        dedup,
        too_large: Vec::new(),
    })
}
