//! A message that the program publishes itself, and how messages become runs.

use bytes::Bytes;
use millpond_core::command::{DedupMark, PublishRun};
use millpond_core::dedup_hash;
use millpond_types::block::{self, PREFIX, Sizes, TooLarge};
use millpond_types::{Millis, NamespaceName, Priority, TopicName};

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

/// Neighbours with equal terms become one run.
pub(super) fn runs(namespace: &NamespaceName, messages: &[Message], key: HashKey) -> Result<Vec<PublishRun>, TooLarge> {
    messages.chunk_by(Message::goes_with).map(|messages| run(namespace, messages, key)).collect()
}

fn run(namespace: &NamespaceName, messages: &[Message], key: HashKey) -> Result<PublishRun, TooLarge> {
    let (mut bytes, mut ends, mut dedup) = (Vec::new(), Vec::new(), Vec::new());
    let first = &messages[0];
    for (index, message) in messages.iter().enumerate() {
        let start = bytes.len();
        let headers: Vec<_> = message.headers.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        block::push(&mut bytes, &message.dedup_id, &headers, &message.body)?;
        let checksum = crc32c::crc32c(&bytes[start + PREFIX..]);
        bytes[start..start + 4].copy_from_slice(&checksum.to_le_bytes());
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
