//! A message that the program publishes itself, and how messages become runs.

use bytes::Bytes;
use millpond_core::command::{self, DedupMark, Level, PublishRun, Route};
use millpond_core::dedup_hash;
use millpond_types::block::{self, PREFIX, Sizes, TooLarge};
use millpond_types::{ExchangeName, Millis, NamespaceName, Priority, RoutingKey, TopicName};

use crate::convert::request::HashKey;

/// A message to publish. Made with [`Message::new`], its other fields are set as wanted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    /// The topic.
    pub topic: TopicName,
    /// The body.
    pub body: Bytes,
    /// Keys and values, at most 16 KiB together.
    pub headers: Vec<(Bytes, Bytes)>,
    /// The priority.
    pub priority: Priority,
    /// How long it stays invisible; zero for not at all.
    pub delay: Millis,
    /// How long it is worth delivering; the policy's where `None`.
    pub ttl: Option<Millis>,
    /// What tells it from a repeat, at most 255 bytes; empty for nothing.
    pub dedup_id: Bytes,
}

impl Message {
    /// A message with a body and defaults for the rest.
    pub fn new(topic: TopicName, body: impl Into<Bytes>) -> Message {
        Message {
            topic,
            body: body.into(),
            headers: Vec::new(),
            priority: Priority::DEFAULT,
            delay: Millis::ZERO,
            ttl: None,
            dedup_id: Bytes::new(),
        }
    }

    fn goes_with(&self, other: &Message) -> bool {
        let terms = |m: &Message| (m.priority, m.delay, m.ttl);
        self.topic == other.topic && terms(self) == terms(other)
    }
}

/// A message for an exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Routed {
    /// The exchange.
    pub exchange: ExchangeName,
    /// What it is routed by.
    pub key: RoutingKey,
    /// Its body.
    pub body: Bytes,
    /// Its headers.
    pub headers: Vec<(Bytes, Bytes)>,
    /// 9 goes first.
    pub priority: Priority,
    /// How long it stays invisible; zero for not at all.
    pub delay: Millis,
    /// How long it is worth delivering; the policy's where `None`, and zero for ever.
    pub ttl: Option<Millis>,
    /// Empty for none.
    pub dedup_id: Bytes,
}

impl Routed {
    /// A message with a body and defaults for the rest.
    pub fn new(exchange: ExchangeName, key: RoutingKey, body: impl Into<Bytes>) -> Routed {
        let (headers, dedup_id) = (Vec::new(), Bytes::new());
        let (body, priority, delay, ttl) = (body.into(), Priority::DEFAULT, Millis::ZERO, None);
        Routed { exchange, key, body, headers, priority, delay, ttl, dedup_id }
    }

    pub(super) fn command(self, namespace: NamespaceName) -> Result<Route, TooLarge> {
        let mut block = Vec::new();
        push(&mut block, &self.dedup_id, &self.headers, &self.body)?;
        let Routed { exchange, key, priority, delay, ttl, .. } = self;
        let message = command::Routed { priority, delay, ttl, block: block.into(), too_large: None };
        Ok(Route::new(namespace, (exchange, key), message, None, Level::Durable))
    }
}

/// Appends a message with its checksum.
fn push(bytes: &mut Vec<u8>, dedup_id: &[u8], headers: &[(Bytes, Bytes)], body: &[u8]) -> Result<(), TooLarge> {
    let start = bytes.len();
    let headers: Vec<_> = headers.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    block::push(bytes, dedup_id, &headers, body)?;
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
        push(&mut bytes, &message.dedup_id, &message.headers, &message.body)?;
        ends.push(u32::try_from(bytes.len()).map_err(|_| TooLarge("a publish has at most 4 MiB"))?);
        if !message.dedup_id.is_empty() {
            let hash = dedup_hash(key, namespace, &message.topic, &message.dedup_id);
            dedup.push(DedupMark { index: index as u32, hash });
        }
    }
    Ok(PublishRun {
        topic: first.topic.clone(),
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
