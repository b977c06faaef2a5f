//! What a message to a fresh topic costs in the journal.

use std::sync::Arc;

use bytes::Bytes;
use millpond_core::command::{Command, Level, ProducerBatch, Publish, PublishRun, Ticket};
use millpond_core::{Core, Now};
use millpond_types::block::{self, Sizes};
use millpond_types::{Millis, NamespaceName, Priority, ProducerId, RunTime, TopicName, WallTime};

use super::workload::options;
use crate::open;
use crate::twin::{SECTOR, TwinDisk};

const TOPICS: u64 = 10_000;
const BATCH: u64 = 1000;
/// Of the bytes that a message to a fresh topic takes on disk, the part that the journal may have; the rest is its entry
/// in the tree.
const BYTES_MAX: f64 = 68.0;

/// The names that load generators use: as long as an id, and alike in front.
fn name(i: u64) -> TopicName {
    TopicName::try_from(format!("tenant{:02}/{i:07}", i % 100).as_str()).unwrap()
}

#[test]
fn a_message_of_24_bytes_to_a_fresh_topic_takes_few_bytes_of_journal() {
    let mut opened = open::<Core>(Arc::new(TwinDisk::new(SECTOR)), &options()).unwrap();
    let now = Now { run: RunTime(1_000_000), wall: WallTime(1_795_000_000_000) };
    opened.start(now).unwrap();
    let mut block = Vec::new();
    block::push(&mut block, b"", &[], &[7; 24]).unwrap();
    let block = Bytes::from(block);
    let mut bytes = 0;
    for sequence in 0..TOPICS / BATCH {
        let runs = (sequence * BATCH..(sequence + 1) * BATCH).map(|i| PublishRun {
            topic: name(i),
            priority: Priority::DEFAULT,
            delay: Millis::ZERO,
            ttl: None,
            count: 1,
            sizes: Sizes::Uniform(block.len() as u32),
            block: block.clone(),
            dedup: Vec::new(),
            too_large: Vec::new(),
        });
        let producer = ProducerBatch { id: ProducerId(u128::MAX / 3), instance: 1, sequence: sequence + 1 };
        let publish = Publish {
            namespace: NamespaceName::default(),
            producer: Some(producer),
            level: Level::Durable,
            runs: runs.collect(),
        };
        opened.core.set_time(now);
        opened.core.submit(Ticket(sequence), Command::Publish(publish), &mut opened.appender);
        bytes += opened.appender.seal(now).unwrap().bytes();
    }
    let each = bytes as f64 / TOPICS as f64;
    assert!(each <= BYTES_MAX, "{each} bytes a message");
}
