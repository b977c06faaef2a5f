use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millpond_core::page::{DedupPage, Page, ProducerPage};
use millpond_core::store::{Key, Shelf};
use millpond_types::limits::PRODUCER_EXPIRY;
use millpond_types::{MessageId, Priority, ProducerId, Sequence, TopicName, TopicNumber, WallTime};
use tempfile::TempDir;

use super::*;
use crate::codec::encode_entry;
use crate::twin::Seed;

mod damage;
mod killed;
mod paced;

const OPTIONS: TreeOptions = TreeOptions { cache_bytes: 1 << 20, quiet: Duration::ZERO };

type Changes = BTreeMap<KeyBytes, Option<Vec<u8>>>;

fn open(directory: &TempDir) -> LsmTree {
    LsmTree::open(directory.path(), OPTIONS).unwrap()
}

fn compactor(tree: &Arc<dyn Tree>) -> Compactor {
    let its = tree.clone();
    Compactor::start(tree.clone(), move || its.compact_step()).unwrap()
}

fn head(position: u64) -> CommitHead {
    let rest = Bytes::from(position.to_string());
    CommitHead { position, epoch: position + 1, start: 1, wall: WallTime(position), directory: 5, rest }
}

fn commit(tree: &dyn Tree, position: u64, changes: &Changes) -> Result<(), TreeError> {
    let mut changes = changes.iter().map(|(key, value)| (&key[..], value.as_deref()));
    tree.commit(&head(position), &mut changes)
}

fn topic(namespace: u32, name: &str) -> KeyBytes {
    let name = TopicName::try_from(name).unwrap();
    Key::Topic { group: namespace, shelf: Shelf::Ready(Priority::DEFAULT), name }.bytes()
}

fn everything(tree: &dyn Tree) -> Scanned {
    tree.scan(&Range { from: FIRST_KEY.to_vec(), until: vec![255], limit: u32::MAX }).unwrap()
}

/// Draws a commit over few keys, so that each is put, replaced and removed often.
fn draw_changes(seed: &mut Seed) -> Changes {
    let namespace = (Key::Namespace(0).bytes(), Some(b"there".to_vec()));
    let draw = |seed: &mut Seed| {
        let key = topic(0, &format!("topic-{:04}", seed.below(3000)));
        let value = (seed.below(3) > 0).then(|| seed.draw().to_be_bytes()[..seed.below(9) as usize].to_vec());
        (key, value)
    };
    (0..seed.below(1500)).map(|_| draw(seed)).chain([namespace]).collect()
}

fn draw_range(seed: &mut Seed) -> Range {
    let mut bound = || topic(0, &format!("topic-{:04}", seed.below(3000)));
    let (from, until) = (bound(), bound());
    Range { from, until, limit: seed.below(400) as u32 }
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn the_tree_does_what_its_model_does() {
    for round in 0..4 {
        let mut seed = Seed::new(round);
        let directory = TempDir::new().unwrap();
        let (mut tree, model) = (open(&directory), MemoryTree::default());
        for position in 1..60 {
            match seed.below(8) {
                0 => {
                    drop(tree);
                    tree = open(&directory);
                }
                1..=2 => while tree.compact_step().unwrap() {},
                _ => {
                    let changes = draw_changes(&mut seed);
                    commit(&tree, position, &changes).unwrap();
                    commit(&model, position, &changes).unwrap();
                }
            }
            assert_eq!(tree.head(), model.head());
            let range = draw_range(&mut seed);
            assert_eq!(tree.scan(&range).unwrap(), model.scan(&range).unwrap(), "seed {round} at {position}");
            let keys: Vec<_> = (0..200).map(|key| topic(0, &format!("topic-{:04}", key * 16))).collect();
            assert_eq!(tree.get_many(&keys).unwrap(), model.get_many(&keys).unwrap(), "seed {round} at {position}");
        }
        tree.verify().unwrap();
        assert_eq!(everything(&tree), everything(&model));
    }
}

#[test]
fn a_copy_taken_at_work_opens_with_a_whole_commit() {
    let (directory, copies) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let tree = open(&directory);
    let mut seed = Seed::new(9);
    let mut states = vec![(None, Scanned { entries: Vec::new(), complete: true })];
    for position in 1..6 {
        // As a power cut in mid-commit would leave it: the files at some moment, here between any two entries.
        let changes = draw_changes(&mut seed);
        let (at, to) = (seed.below(changes.len() as u64) as usize, copies.path().join(position.to_string()));
        let mut entries = changes.iter().enumerate().map(|(index, (key, value))| {
            if index == at {
                copy(directory.path(), &to);
            }
            (&key[..], value.as_deref())
        });
        tree.commit(&head(position), &mut entries).unwrap();
        let found = LsmTree::open(&to, OPTIONS).unwrap();
        let (expected_head, expected) = states.last().unwrap();
        assert_eq!((&found.head(), &everything(&found)), (expected_head, expected), "before commit {position}");
        states.push((tree.head(), everything(&tree)));
    }
}

#[test]
fn what_has_expired_goes_when_levels_are_merged() {
    let directory = TempDir::new().unwrap();
    let trees: [&dyn Tree; 2] = [&open(&directory), &MemoryTree::default()];
    let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(1) };
    let entry = |page: Page| {
        let mut value = Vec::new();
        encode_entry(&page, &mut value);
        (Key::of(&page, Shelf::Idle).bytes(), Some(value))
    };
    let dedup = |namespace, hash, until| entry(Page::Dedup(DedupPage { namespace, hash, id, until: WallTime(until) }));
    let producer = |id, used| {
        let (id, used) = (ProducerId(id), WallTime(used));
        entry(Page::Producer(ProducerPage { namespace: 0, id, instance: 1, used, last: 0, batches: Vec::new() }))
    };
    let now = PRODUCER_EXPIRY.0 + 100;
    let changes = Changes::from([
        (Key::Namespace(0).bytes(), Some(Vec::new())),
        (Key::Namespace(1).bytes(), Some(Vec::new())),
        (topic(0, "stays"), Some(Vec::new())),
        dedup(0, 1, now - 1),
        dedup(0, 2, now),
        dedup(0, 3, u64::MAX),
        dedup(1, 4, u64::MAX),
        producer(1, 99),
        producer(2, 100),
    ]);
    for tree in trees {
        commit(tree, 1, &changes).unwrap();
        while tree.compact_step().unwrap() {}
        assert_eq!(everything(tree).entries.len(), changes.len(), "all of it counts yet");
        // Enough commits for their runs to be merged.
        for position in now..now + 8 {
            commit(tree, position, &Changes::from([(Key::Namespace(1).bytes(), None)])).unwrap();
            if position == now {
                continue;
            }
            while tree.compact_step().unwrap() {}
        }
        let keys: Vec<_> = everything(tree).entries.into_iter().map(|(key, _)| key).collect();
        let left = [dedup(0, 3, 0).0, Key::Namespace(0).bytes(), topic(0, "stays")];
        assert_eq!(keys.len(), left.len(), "{keys:?}");
        assert!(left.iter().all(|key| keys.iter().any(|found| found == key)), "{keys:?}");
    }
}

#[test]
fn a_removed_entry_leaves_nothing_behind_in_time() {
    let directory = TempDir::new().unwrap();
    let tree = open(&directory);
    let name = |index: u64| topic(0, &format!("{index:06}"));
    let namespace = (Key::Namespace(0).bytes(), Some(Vec::new()));
    let all = (0..5000).map(|index| (name(index), Some(vec![1; 20]))).chain([namespace]).collect();
    commit(&tree, 1, &all).unwrap();
    while tree.compact_step().unwrap() {}
    commit(&tree, 2, &(0..4990).map(|index| (name(index), None)).collect()).unwrap();
    let range = Range { from: name(0), until: name(9999), limit: u32::MAX };
    assert_eq!(tree.weigh(&range).unwrap(), 5000 + 4990);
    while tree.compact_step().unwrap() {}
    assert_eq!(tree.weigh(&range).unwrap(), 10, "entries and tombstones are gone");
    assert_eq!(tree.scan(&range).unwrap().entries.len(), 10);
    assert_eq!(tree.stats().tombstones, 0);
}

#[test]
fn the_model_fails_where_it_is_told_to() {
    let tree = MemoryTree::default();
    let changes = Changes::from([(topic(0, "a"), Some(vec![1]))]);
    tree.plan(0, TreeFault::Full);
    assert!(matches!(commit(&tree, 1, &changes), Err(TreeError::Full(_))));
    assert_eq!(tree.head(), None);
    commit(&tree, 2, &changes).unwrap();
    tree.plan(1, TreeFault::ErrorAfterCommit);
    assert_eq!(tree.get_many(&[topic(0, "a")]).unwrap(), [Some(Bytes::from_static(&[1]))]);
    assert!(matches!(commit(&tree, 3, &Changes::new()), Err(TreeError::Io(_))));
    assert!(matches!(commit(&tree, 4, &changes), Err(TreeError::Poisoned)));
    tree.crash();
    assert_eq!(tree.head(), Some(head(3)), "it had taken place");
    commit(&tree, 4, &changes).unwrap();
}

#[test]
fn the_compactor_works_unasked_and_ends_when_told() {
    let directory = TempDir::new().unwrap();
    let tree: Arc<dyn Tree> = Arc::new(open(&directory));
    let compactor = compactor(&tree);
    for position in 1..9 {
        commit(tree.as_ref(), position, &draw_changes(&mut Seed::new(position))).unwrap();
        compactor.wake();
    }
    let waiting = std::time::Instant::now();
    while tree.stats().fresh_runs > 3 {
        assert!(waiting.elapsed() < Duration::from_secs(60), "{:?}", tree.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(compactor.take_failure().is_none());
}

#[test]
fn a_step_that_fails_is_told() {
    let tree: Arc<dyn Tree> = Arc::new(MemoryTree::default());
    let compactor = Compactor::start(tree, || Err(TreeError::Poisoned)).unwrap();
    let waiting = std::time::Instant::now();
    while !matches!(compactor.take_failure(), Some(TreeError::Poisoned)) {
        assert!(waiting.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
}
