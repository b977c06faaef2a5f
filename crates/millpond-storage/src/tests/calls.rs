//! What the tests ask of a core: publishes and receives.

use bytes::Bytes;
use millpond_core::command::{Command, Level, Publish, PublishRun, Receive};
use millpond_types::block::{self, Sizes};
use millpond_types::{Filter, GroupName, Millis, NamespaceName, Priority, TopicName};

/// Headers without a meaning.
pub type Headers<'a> = &'a [(&'a [u8], &'a [u8])];

/// Messages with these bodies, as a session makes them from a frame.
pub fn run<'a>(topic: &str, headers: Headers<'_>, bodies: impl IntoIterator<Item = &'a [u8]>) -> PublishRun {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    for body in bodies {
        let begin = bytes.len();
        block::push(&mut bytes, b"", headers, body).unwrap();
        let checksum = crc32c::crc32c(&bytes[begin + block::PREFIX..]);
        bytes[begin..begin + 4].copy_from_slice(&checksum.to_le_bytes());
        ends.push(bytes.len() as u32);
    }
    PublishRun {
        topic: TopicName::try_from(topic).unwrap(),
        priority: Priority::DEFAULT,
        delay: Millis::ZERO,
        ttl: None,
        count: ends.len() as u32,
        block: Bytes::from(bytes),
        sizes: Sizes::from_ends(&ends),
        dedup: Vec::new(),
        too_large: Vec::new(),
    }
}

pub fn publish(runs: Vec<PublishRun>) -> Command {
    let namespace = NamespaceName::default();
    Command::Publish(Publish { namespace, producer: None, level: Level::Durable, runs })
}

/// A receive that does not wait.
pub fn receive(messages: u32) -> Command {
    Command::Receive(Receive {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::All,
        messages,
        bytes: u64::MAX,
        lease: None,
        wait: Millis::ZERO,
        at_most_once: false,
        request: None,
    })
}
