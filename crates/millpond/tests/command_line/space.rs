//! Space that is short, and space that comes back: what happens to topics that do not fit into memory, and to the few
//! messages that would pin a segment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use millpond_client::{Batch, Client, Level, Message, NamespaceName};
use millpond_storage::tree::{CommitHead, LsmTree, Tree, TreeError, TreeOptions};
use tempfile::TempDir;

use crate::broker::{Broker, serve};
use crate::small_disk::SmallDisk;
use crate::starving::in_runtime;

const MIB: usize = 1 << 20;
/// Topics of a publish.
const BATCH: usize = 1000;

#[test]
fn a_disk_that_fills_under_a_checkpoint_loses_no_topic() {
    let Some(disk) = SmallDisk::mount(256) else { return };
    let place = disk.path("data");
    // So little memory that topics go to the disk, and checkpoints come one after another.
    let mut command = serve(&place);
    command.args(["--memory", "64MiB"]);
    let broker = Broker::run(&mut command);
    let mut stored = Stored::default();
    while stored.next < 40 * BATCH {
        assert!(publish(&broker, &mut stored), "there is room still");
    }
    // Others take what room there is. The broker goes on until what it had set aside is full as well.
    let ballast = disk.path("ballast");
    fill(&ballast);
    while publish(&broker, &mut stored) {}
    broker.call(&["publish", "default/t/more", "x"]).failed(1, &["disk_full"]);
    // Long enough for the checkpoints that are due to fail, and to be tried again.
    std::thread::sleep(Duration::from_secs(3));
    take(&broker, 10 * BATCH, &mut stored);
    std::fs::remove_file(&ballast).unwrap();
    let is_back = (0..400).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        publish(&broker, &mut stored)
    });
    assert!(is_back, "there is room again, and publishes are refused");
    drop(broker);
    let broker = Broker::run(&mut command);
    let left = stored.topics.len();
    take(&broker, left, &mut stored);
    assert_eq!(broker.counts("default")["unfinished"], 0);
}

/// A merge needs room for what it merges beside what there is. Without it everything stays as it was, and it is made up for
/// when there is room.
#[test]
fn a_disk_that_fills_under_a_merge_loses_no_entry() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let place = disk.path("tree");
    let open = || LsmTree::open(&place, TreeOptions::default()).unwrap();
    let tree = open();
    let mut random = 1u64;
    let mut value = || {
        // Of no use to who would make it smaller.
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as u8
        };
        (0..1024).map(|_| next()).collect::<Vec<u8>>()
    };
    let mut expected = BTreeMap::new();
    for position in 0..6 {
        let run: BTreeMap<Vec<u8>, Vec<u8>> = (0..2000u32).map(|n| (key(n * 6 + position), value())).collect();
        let mut changes = run.iter().map(|(key, value)| (&key[..], Some(&value[..])));
        tree.commit(&CommitHead { position: position.into(), ..CommitHead::default() }, &mut changes).unwrap();
        expected.extend(run);
    }
    let is_whole = |tree: &LsmTree| {
        let keys: Vec<_> = expected.keys().cloned().collect();
        let found = tree.get_many(&keys).unwrap();
        assert!(expected.values().zip(&found).all(|(value, found)| found.as_deref() == Some(&value[..])));
        tree.verify().unwrap();
    };
    let files = || std::fs::read_dir(place.join("tables")).unwrap().count() as u64;
    let ballast = disk.path("ballast");
    fill(&ballast);
    // The commits have left some of their own, and a merge writes five MiB at least.
    for _ in 0..3 {
        assert!(matches!(tree.compact_step(), Err(TreeError::Full(_))), "{:?}", tree.stats());
        assert_eq!((tree.stats().fresh_runs, files()), (6, tree.stats().tables), "others need what it had taken");
        is_whole(&tree);
    }
    drop(tree);
    let tree = open();
    is_whole(&tree);
    std::fs::remove_file(&ballast).unwrap();
    while tree.compact_step().unwrap() {}
    let stats = tree.stats();
    assert!(stats.fresh_runs < 6, "{stats:?}");
    is_whole(&tree);
    assert_eq!(files(), stats.tables);
}

/// That of a topic, as far as a tree looks at it.
fn key(number: u32) -> Vec<u8> {
    [&[3, 0, 0, 0, 0, 4][..], format!("topic-{number:06}").as_bytes()].concat()
}

/// What was confirmed and not taken.
#[derive(Default)]
struct Stored {
    topics: BTreeSet<String>,
    next: usize,
}

/// Publishes to a batch of further topics; whether there was room for them.
fn publish(broker: &Broker, stored: &mut Stored) -> bool {
    let names: Vec<String> = (stored.next..).take(BATCH).map(|n| format!("t/{n:08}")).collect();
    stored.next += BATCH;
    let mut batch = Batch::builder();
    for name in &names {
        batch.push(&Message::new(name.as_str().try_into().unwrap(), vec![b'x'; 200])).unwrap();
    }
    let outcomes = in_runtime(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        client.publish_batch(&NamespaceName::default(), Level::Durable, &batch.build()).await.unwrap()
    });
    if outcomes.queued() == BATCH {
        stored.topics.extend(names);
    } else {
        assert_eq!(outcomes.queued(), 0, "a batch for which there is no room is refused whole");
    }
    outcomes.queued() == BATCH
}

/// Receives and acks so many messages.
fn take(broker: &Broker, count: usize, stored: &mut Stored) {
    let mut taken = 0;
    while taken < count {
        let max = (count - taken).min(10_000).to_string();
        for message in broker.json(&["receive", "default", "--max", &max, "--wait", "30s", "--ack"]) {
            let topic = message["topic"].as_str().unwrap();
            assert!(stored.topics.remove(topic), "{topic} was not stored, or was taken before");
            taken += 1;
        }
    }
}

/// Takes all the room of a disk.
fn fill(file: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(file).unwrap();
    while file.write_all(&vec![0; MIB]).is_ok() {}
}

#[test]
fn killed_while_it_moves_messages_it_keeps_each_once() {
    /// Messages of a MiB each: half as much again as may be pinned before anything is moved.
    const BULK: usize = 1536;
    /// After so many of them comes one that stays.
    const EVERY: usize = 8;
    const KILLS: u64 = 40;
    /// Within such a time of quiet a drain's space is back.
    const QUIET: Duration = Duration::from_secs(5 * 60);
    let directory = TempDir::new().unwrap();
    let mut command = serve(directory.path());
    let mut broker = Broker::run(&mut command);
    in_runtime(async {
        let (client, namespace) = (Client::connect(broker.address.as_str()).await.unwrap(), NamespaceName::default());
        let bulk = Message::new("bulk".try_into().unwrap(), vec![b'x'; MIB]);
        for n in 0..BULK / EVERY {
            let kept = Message::new("kept".try_into().unwrap(), n.to_string());
            client.publish(&namespace, kept).await.unwrap();
            let three = Batch::try_from(vec![bulk.clone(); 3]).unwrap();
            for _ in 0..EVERY.div_ceil(3) {
                client.publish_batch(&namespace, Level::Durable, &three).await.unwrap();
            }
        }
    });
    let before = bytes(directory.path());
    broker.ok(&["purge", "default/bulk"]);
    for kill in 0..KILLS {
        std::thread::sleep(Duration::from_millis(40 * (kill % 20)));
        drop(broker);
        broker = Broker::run(&mut command);
    }
    let is_back = (0..QUIET.as_millis() / 100).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        // What it counts no more may be there for a moment, where the disk has much to do.
        let bound = space(&broker, "bound");
        space(&broker, "total").is_some_and(|total| Some(total.max(bytes(directory.path()))) <= bound)
    });
    let (after, bound) = (bytes(directory.path()), space(&broker, "bound").unwrap());
    assert!(is_back && bound < before, "{before} bytes, then {after} where it may be {bound}");
    let kept = broker.json(&["receive", "default", "--max", "1000", "--ack"]);
    let bodies: Vec<&str> = kept.iter().map(|message| message["body"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..BULK / EVERY).map(|n| n.to_string()).collect();
    assert_eq!(bodies, expected);
}

/// What a broker says that its directory takes, may take or has alive, in bytes, as soon as it has looked.
fn space(broker: &Broker, of: &str) -> Option<u64> {
    let name = format!("millpond_space_bytes{{of=\"{of}\"}} ");
    broker.metrics().lines().find_map(|line| Some(line.strip_prefix(&name)?.parse().unwrap()))
}

/// Bytes of the segments of a directory that are in use.
fn bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).unwrap().filter_map(Result::ok);
    let segments = files.filter(|file| file.path().extension().is_some_and(|kind| kind == "journal"));
    segments.filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
}
