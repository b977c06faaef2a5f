//! What a topic that is not in memory costs in the tree: one entry, in which all of it is, and whose key is both its place among
//! those that are ready and what it is found by. No count, no list and no index of names is written beside it.

use std::collections::BTreeSet;

use super::calls;
use super::drain::{Bare, Counting};

/// Of several tenants, some of them with many topics.
const TOPICS: u64 = 5000;
const BATCH: u32 = 1000;
/// Entries that each checkpoint has whatever has changed: the numbers, among which is where time stands, and the namespace, with
/// what its groups count.
const ALWAYS: u64 = 2;

fn name(topic: u64) -> String {
    format!("tenant{:02}/{topic:07}", topic % 7)
}

/// A message for each of the topics, in an order that is not that of their names.
fn publish_to_each(bare: &mut Bare) {
    let topics: Vec<u64> = (0..TOPICS).map(|at| at * 1237 % TOPICS).collect();
    assert_eq!(topics.iter().collect::<BTreeSet<_>>().len() as u64, TOPICS);
    for topics in topics.chunks(BATCH as usize) {
        let runs = topics.iter().map(|topic| calls::run(&name(*topic), &[], [&b"body"[..]]));
        bare.turn(calls::publish(runs.collect()));
    }
}

#[test]
fn a_publish_to_a_cold_topic_puts_one_entry_and_its_drain_removes_one() {
    let directory = tempfile::tempdir().unwrap();
    let tree = Counting::open(directory.path());
    let mut bare = Bare::over(tree.clone());
    bare.core.set_room(0);
    bare.checkpoint();
    assert_eq!(tree.take_changes(), (ALWAYS, 0), "nothing has happened");
    // The first brings each into being, and the second finds it on the disk.
    for message in 1..=2 {
        publish_to_each(&mut bare);
        assert_eq!((bare.core.resident_count(), bare.core.cold_count()), (0, TOPICS), "all have left memory");
        bare.checkpoint();
        assert_eq!(tree.take_changes(), (TOPICS + ALWAYS, 0), "message {message} of each");
    }
    let mut finished = 0;
    while finished < 2 * TOPICS {
        finished += u64::from(bare.receive_and_ack(BATCH));
    }
    bare.checkpoint();
    assert_eq!((bare.core.cold_count(), tree.take_changes()), (0, (ALWAYS, TOPICS)), "all are drained");
}
