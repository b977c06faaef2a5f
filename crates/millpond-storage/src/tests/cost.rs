//! What a message to a fresh topic costs in the journal.

use std::sync::Arc;

use millpond_core::command::{Command, Level, ProducerBatch, Publish, Ticket};
use millpond_core::{Core, Now};
use millpond_types::{NamespaceName, ProducerId, RunTime, WallTime};

use super::calls;
use super::workload::options;
use crate::open;
use crate::twin::{SECTOR, TwinDisk};

const TOPICS: u64 = 10_000;
const BATCH: u64 = 1000;
/// Of the bytes that a message to a fresh topic takes on disk, the part that the journal may have; the rest is its entry
/// in the tree.
const BYTES_MAX: f64 = 68.0;

/// The names that load generators use: as long as an id, and alike in front.
fn name(i: u64) -> String {
    format!("tenant{:02}/{i:07}", i % 100)
}

#[test]
fn a_message_of_24_bytes_to_a_fresh_topic_takes_few_bytes_of_journal() {
    let mut opened = open::<Core>(Arc::new(TwinDisk::new(SECTOR)), &options()).unwrap();
    let now = Now { run: RunTime(1_000_000), wall: WallTime(1_795_000_000_000) };
    opened.start(now).unwrap();
    let mut bytes = 0;
    for sequence in 0..TOPICS / BATCH {
        let batch = sequence * BATCH..(sequence + 1) * BATCH;
        let runs: Vec<_> = batch.map(|i| calls::run(&name(i), &[], [&[7; 24][..]])).collect();
        let producer = ProducerBatch { id: ProducerId(u128::MAX / 3), instance: 1, sequence: sequence + 1 };
        let publish =
            Publish { namespace: NamespaceName::default(), producer: Some(producer), level: Level::Durable, runs };
        opened.core.set_time(now);
        opened.core.submit(Ticket(sequence), Command::Publish(publish), &mut opened.appender);
        bytes += opened.appender.seal(now).unwrap().bytes();
    }
    let each = bytes as f64 / TOPICS as f64;
    assert!(each <= BYTES_MAX, "{each} bytes a message");
}
