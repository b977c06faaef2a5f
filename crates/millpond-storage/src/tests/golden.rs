//! A small directory of each version of the format, kept in the repository as it was written: what is read of it stays the same.
//!
//! Whoever changes what is written so that these are not read any more raises [`FORMAT_VERSION`], keeps a directory of the new
//! version beside them, and reads both. `GOLDEN=make cargo test -p millpond-storage golden` makes one.

use std::fs;
use std::path::{Path, PathBuf};

use millpond_core::Now;
use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun, Receive};
use millpond_core::output::{Extent, Output, Reply};
use millpond_core::page::Page;
use millpond_types::block::{self};
use millpond_types::{Filter, GroupName, Millis, NamespaceName, Policy, Rules, TopicName};

use super::calls::{self, turn};
use super::restart::{open_at, stop};
use super::workload::checkpoint;
use crate::disk::Disk;
use crate::format::FORMAT_VERSION;
use crate::journal::segment::SegmentHeader;
use crate::{Opened, RealDisk, Verdict, inspect};

/// The topics on both sides of the checkpoint, with two messages each.
const TOPICS: usize = 12;

/// What is kept, and the checksum of all of it.
const KEPT: [(&str, u32); 3] =
    [("format-1", 0x1d25_1343), ("format-1-all", 0x3a33_b16a), ("format-1-first", 0xb828_d52b)];

#[test]
fn what_is_kept_of_each_version_of_the_format_is_as_it_was_written() {
    assert_eq!(FORMAT_VERSION, 1, "a new version has a directory of its own among these");
    let kept = golden().parent().unwrap().to_owned();
    let found = KEPT.map(|(name, _)| (name, checksum(&kept.join(name), 0)));
    assert_eq!(found, KEPT, "what is read has to change, and not what was written");
}

/// Of the names and contents of all files, in order.
fn checksum(directory: &Path, before: u32) -> u32 {
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap()).collect();
    entries.sort_by_key(|entry| entry.file_name());
    entries.into_iter().fold(before, |sum, entry| {
        let sum = crc32c::crc32c_append(sum, entry.file_name().as_encoded_bytes());
        match entry.file_type().unwrap().is_dir() {
            true => checksum(&entry.path(), sum),
            false => crc32c::crc32c_append(sum, &fs::read(entry.path()).unwrap()),
        }
    })
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/golden/format-1")
}

#[test]
fn a_directory_of_format_1_is_read() {
    if std::env::var("GOLDEN").is_ok_and(|what| what == "make") {
        make();
    }
    let directory = tempfile::tempdir().unwrap();
    copy(&golden(), directory.path());
    lengthen(directory.path());
    let mut told = Vec::new();
    let verdict = inspect(directory.path(), true, &mut told).unwrap();
    assert_eq!(verdict, Verdict::InOrder, "{}", String::from_utf8_lossy(&told));
    let opened = open_at(directory.path()).unwrap();
    assert!(opened.report.orderly && opened.report.checkpoint > 0, "{:?}", opened.report);
    assert_eq!(found(&opened), expected());
}

/// Namespace by namespace: the messages of each topic, and dead letters.
fn found(opened: &Opened) -> Vec<String> {
    let read = |extent: Extent| {
        let block = opened.reader.read(extent).unwrap();
        let bodies = block::messages(&block).map(|message| String::from_utf8(message.unwrap().body.to_vec()).unwrap());
        bodies.collect::<Vec<_>>().join(" ")
    };
    let mut found = Vec::new();
    for page in opened.core.pages() {
        match page {
            Page::Namespace(page) => found.push(format!("namespace {} of {} groups", page.name, page.groups.len())),
            Page::Topic(page) => {
                let runs = page.levels.iter().flat_map(|level| level.runs.iter().map(|run| run.extent()));
                let bodies: Vec<String> = runs.map(read).collect();
                found.push(format!("{}: {}", page.name, bodies.join(" ")));
            }
            Page::Dead(page) => {
                found.push(format!("dead {:?}: {}", page.reason, String::from_utf8_lossy(&page.detail)))
            }
            _ => {}
        }
    }
    found.sort();
    found
}

fn expected() -> Vec<String> {
    let mut expected: Vec<String> = (1..TOPICS).map(|topic| format!("t/{topic:02}: first second")).collect();
    expected.push("dead Rejected: no good".to_owned());
    expected.push("namespace default of 1 groups".to_owned());
    expected.push("namespace other of 2 groups".to_owned());
    expected.push("t/00: second".to_owned());
    expected.sort();
    expected
}

fn make() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = open_at(directory.path()).unwrap();
    opened.start(Now::default()).unwrap();
    let other = NamespaceName::try_from("other").unwrap();
    turn(
        &mut opened,
        Command::NamespaceSet {
            name: other.clone(),
            policy: Policy::default(),
            rules: Rules::default(),
            based_on: None,
        },
    );
    let group = GroupName::try_from("audit").unwrap();
    let (start, kind) = (millpond_types::Start::Latest, millpond_types::GroupKind::Shared);
    turn(&mut opened, Command::GroupCreate { namespace: other, name: group, start, kind });
    (0..TOPICS).for_each(|topic| drop(turn(&mut opened, publish(topic, "first"))));
    checkpoint(&mut opened);
    (0..TOPICS).for_each(|topic| drop(turn(&mut opened, publish(topic, "second"))));
    let outputs = turn(&mut opened, receive());
    let Some(Output::Reply { reply: Reply::Received(runs), .. }) = outputs.first() else { panic!("{outputs:?}") };
    let receipts = runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
    let verb = FinishVerb::Reject { reason: "no good".into() };
    turn(&mut opened, Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }));
    stop(opened);
    let _ = fs::remove_dir_all(golden());
    copy(directory.path(), &golden());
}

fn publish(topic: usize, body: &str) -> Command {
    calls::publish(vec![calls::run(&format!("t/{topic:02}"), &[(b"key", b"value")], [body.as_bytes()])])
}

fn receive() -> Command {
    Command::Receive(Receive {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::Topics(vec![TopicName::try_from("t/00").unwrap()]),
        messages: 1,
        bytes: u64::MAX,
        lease: None,
        wait: Millis::ZERO,
        at_most_once: false,
        request: None,
        call: 0,
    })
}

/// Gives the segments the length that they say they had.
pub fn lengthen(directory: &Path) {
    let disk = RealDisk::create(directory).unwrap();
    for name in disk.list().unwrap().iter().filter(|name| name.ends_with(".journal")) {
        let file = disk.open(name).unwrap();
        let length = SegmentHeader::read(file.as_ref()).unwrap().length;
        length.into_iter().for_each(|length| file.set_len(length).unwrap());
    }
}

/// Without what means nothing: the lock, the space taken ahead, and of a segment what was never written.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let (name, target) = (entry.file_name().to_string_lossy().into_owned(), to.join(entry.file_name()));
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if !name.starts_with("spare") {
            let mut bytes = fs::read(entry.path()).unwrap();
            if name.ends_with(".journal") {
                let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
                bytes.truncate(used.next_multiple_of(8));
            }
            fs::write(target, bytes).unwrap();
        }
    }
}
