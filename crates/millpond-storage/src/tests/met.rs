//! Damage in the tree that no start sees, and that is met while the broker runs; on real files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use millpond_core::Now;
use millpond_core::command::Command;
use millpond_core::page::Page;
use millpond_core::store::{Range, Want};
use millpond_types::{Filter, NamespaceName};

use super::restart::{open_at, publish, stop, turn};
use super::workload::{checkpoint, options, state};
use crate::damaged::NOTE;
use crate::disk::Disk;
use crate::tree::TreeError;
use crate::twin::{SECTOR, TwinDisk};
use crate::{Failure, OpenError, Opened, Scrubbed, Trouble, Verdict, open};

const TOPICS: u32 = 5_000;

/// A directory with many topics in its checkpoint; without its first segment where `short`.
fn made(directory: &Path, short: bool) -> Vec<Page> {
    let mut opened = open_at(directory).unwrap();
    opened.start(Now::default()).unwrap();
    while short && opened.reader.written() < 1024 * 1024 {
        publish(&mut opened, 0..500);
        let (namespace, filter) = (NamespaceName::default(), Filter::All);
        turn(&mut opened, Command::Purge { namespace, filter, group: None });
    }
    (0..TOPICS).step_by(500).for_each(|at| publish(&mut opened, at..at + 500));
    checkpoint(&mut opened);
    let expected = state(&opened.core);
    stop(opened);
    assert_eq!(directory.join("0000000000000000.journal").exists(), !short);
    expected
}

/// Flips a byte in the middle of the tree's only table, among topics that no start reads; returns the table, as it was.
fn damage(directory: &Path) -> (PathBuf, Vec<u8>) {
    let mut tables = std::fs::read_dir(directory.join("tree/tables")).unwrap().map(|entry| entry.unwrap().path());
    let table = tables.next().unwrap();
    assert!(tables.next().is_none(), "one table");
    let whole = std::fs::read(&table).unwrap();
    let mut bytes = whole.clone();
    bytes[whole.len() / 2] ^= 0x55;
    std::fs::write(&table, bytes).unwrap();
    (table, whole)
}

/// What the writer does when what the core wants cannot be read.
fn meet_in_a_read(opened: &Opened) -> Failure {
    let everything = Range { from: vec![1], until: vec![u8::MAX], limit: u32::MAX };
    let error = opened.store.read(vec![Want::Range(everything)]).err().expect("a block is damaged");
    assert!(matches!(error, TreeError::Damaged(_)), "{error}");
    opened.appender.unreadable(error)
}

/// What the scrub comes to, whose pass ends there.
fn meet_in_the_scrub(opened: &mut Opened) -> Result<Trouble, Failure> {
    let error = loop {
        match opened.housekeeper.scrub() {
            Scrubbed::Piece => {}
            Scrubbed::Checkpoint(error) => break error,
            other => panic!("{other:?}"),
        }
    };
    assert!(matches!(opened.housekeeper.scrub(), Scrubbed::Pass));
    opened.housekeeper.trouble_of(error)
}

/// What the housekeeper comes to, and what it tells meanwhile, until the committer is dropped at the first it tells.
fn keep_house(opened: Opened) -> (Result<(), Failure>, Vec<Trouble>) {
    let Opened { housekeeper, committer, .. } = opened;
    let (told, hears) = channel();
    let kept = thread::spawn(move || housekeeper.run(|trouble| told.send(trouble).unwrap()));
    let mut heard: Vec<_> = hears.recv().into_iter().collect();
    drop(committer);
    let kept = kept.join().unwrap();
    heard.extend(hears);
    (kept, heard)
}

/// Publishes wait for checkpoints where there is no more room for what changes. Who has a lower priority than others cannot take
/// it back without a privilege, and where the others are always busy they would wait for minutes.
#[cfg(target_os = "linux")]
#[test]
fn the_thread_that_publishes_wait_for_keeps_its_priority() {
    let directory = tempfile::tempdir().unwrap();
    let Opened { housekeeper, committer, .. } = open_at(directory.path()).unwrap();
    // It ends as soon as it has begun.
    drop(committer);
    let niceness = || {
        let told = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        told.rsplit(')').next().unwrap().split(' ').nth(17).unwrap().to_owned()
    };
    let before_and_after = move || {
        let before = niceness();
        housekeeper.run(|_| {}).unwrap();
        (before, niceness())
    };
    let (before, after) = thread::spawn(before_and_after).join().unwrap();
    assert_eq!(after, before);
}

fn says(failure: &impl ToString, words: &[&str], not: &[&str]) {
    let said = failure.to_string();
    assert!(words.iter().all(|word| said.contains(word)) && !not.iter().any(|word| said.contains(word)), "{said}");
}

fn inspect(directory: &Path) -> (Verdict, String) {
    let mut told = Vec::new();
    let verdict = crate::inspect(directory, false, &mut told).unwrap();
    (verdict, String::from_utf8(told).unwrap())
}

fn is_noted(directory: &Path) -> bool {
    directory.join(NOTE).exists()
}

fn is_aside(directory: &Path) -> bool {
    directory.join("tree.damaged").exists()
}

/// What is wrong, with which file, and what comes next.
fn is_named(failure: &impl ToString, table: &Path) {
    let table = table.display().to_string();
    says(failure, &["the checkpoint in ", "is damaged", &table, "offset"], &["once the disk is in order"]);
}

#[test]
fn damage_that_is_met_is_mended_by_the_next_start() {
    for by in ["a read", "a merge", "the scrub"] {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path();
        let expected = made(place, false);
        let (table, _) = damage(place);
        let mut opened = open_at(place).unwrap();
        assert!(opened.report.checkpoint > 0 && opened.report.rebuilt.is_none(), "no start sees it");
        let failure = match by {
            "a read" => {
                let failure = meet_in_a_read(&opened);
                let (verdict, told) = inspect(place);
                assert!(verdict == Verdict::Damaged && told.contains("in use") && told.contains(NOTE), "{told}");
                drop(opened);
                failure
            }
            "a merge" => keep_house(opened).0.expect_err("while the journal is still whole, it is time to stop"),
            _ => {
                let failure = meet_in_the_scrub(&mut opened).expect_err("likewise");
                drop(opened);
                failure
            }
        };
        is_named(&failure, &table);
        says(&failure, &["Restart the broker", "made anew"], &["--salvage"]);
        assert!(is_noted(place));
        let (verdict, told) = inspect(place);
        assert!(verdict == Verdict::Damaged && !told.contains("in use") && told.contains(NOTE), "{told}");

        let opened = open_at(place).unwrap();
        let rebuilt = opened.report.rebuilt.as_ref().expect("the tree is made anew");
        assert!(rebuilt.contains(table.to_str().unwrap()), "{rebuilt}");
        assert!(opened.report.checkpoint == 0 && state(&opened.core) == expected);
        assert!(!is_noted(place) && is_aside(place));
        drop(opened);
        assert!(open_at(place).unwrap().report.rebuilt.is_none());
    }
}

#[test]
fn damage_that_is_met_is_refused_by_the_next_start_where_the_checkpoint_alone_knew() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    made(place, true);
    let (table, whole) = damage(place);
    // Who has to be told nothing of that block is served on: after a stop nobody is.
    let (kept, heard) = keep_house(open_at(place).unwrap());
    kept.unwrap();
    let [Trouble::Checkpoint(failure)] = &heard[..] else { panic!("{heard:?}") };
    let lost = ["--salvage", "dedup ids", "producer sessions", "groups", "pauses", "leases"];
    is_named(failure, &table);
    says(failure, &lost, &["Restart the broker"]);
    assert!(is_noted(place));

    for _ in 0..2 {
        let error = open_at(place).err().expect("nothing knows the numbers any more");
        is_named(&error, &table);
        says(&error, &lost, &[]);
        assert!(is_noted(place) && !is_aside(place), "nothing was changed");
    }
    // A person who puts the table back is not asked to do more.
    std::fs::write(&table, whole).unwrap();
    let opened = open_at(place).unwrap();
    assert!(opened.report.checkpoint > 0 && !is_noted(place) && !is_aside(place));
    drop(opened);

    damage(place);
    let opened = open_at(place).unwrap();
    let failure = meet_in_a_read(&opened);
    is_named(&failure, &table);
    says(&failure, &lost, &["Restart the broker"]);
    drop(opened);
    assert!(matches!(open_at(place), Err(OpenError::CheckpointDamaged { .. })));
}

#[test]
fn the_note_outlives_a_power_cut_and_goes_where_the_tree_is_whole() {
    for seed in 0..20 {
        let disk = TwinDisk::new(SECTOR);
        let is_noted = || disk.list().unwrap().iter().any(|name| name == NOTE);
        let opened: Opened = open(Arc::new(disk.clone()), &options()).unwrap();
        opened.appender.unreadable(TreeError::Damaged("a bit of memory".into()));
        disk.crash(seed);
        drop(opened);
        assert!(is_noted());
        let opened: Opened = open(Arc::new(disk.clone()), &options()).unwrap();
        assert!(opened.report.rebuilt.is_none() && !is_noted());
        drop(opened);
        disk.crash(seed);
        assert!(!is_noted());
    }
}

/// The place for the note is taken from the reserve.
#[test]
fn the_note_is_left_on_a_full_disk() {
    let disk = TwinDisk::new(SECTOR);
    let opened: Opened = open(Arc::new(disk.clone()), &options()).unwrap();
    disk.set_capacity(Some(disk.used()));
    let failure = opened.appender.unreadable(TreeError::Damaged("a bit of memory".into()));
    says(&failure, &["a bit of memory"], &["failed"]);
    assert!(disk.list().unwrap().iter().any(|name| name == NOTE));
}
