//! A small directory of the present format, with each kind of fact in its journal, and in what is read of it each kind of entry but
//! the notes of what falls due, which a core does not tell. It is kept in the repository beside that: `golden/format-1-all` and
//! `golden/format-1-all.txt`.
//!
//! `GOLDEN=make cargo test -p millpond-storage golden_all` makes both anew, under the rule of [`super::golden`]; with `GOLDEN=told`
//! the text alone, for when it is told in another way.

mod making;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use millpond_core::command::Command;
use millpond_core::output::Extent;
use millpond_core::page::Page;
use millpond_core::{LevelBounds, Now};
use millpond_types::block;
use tempfile::TempDir;

use super::calls::turn;
use super::golden::{copy, lengthen};
use super::restart::{open_at, stop};
use super::workload::{check_extents, checkpoint};
use crate::codec::{Source, decode_fact};
use crate::{OpenOptions, Opened, RealDisk, Verdict, inspect, open};

/// Files small enough that the directory has several.
const SEGMENT: u64 = 16 * 1024;
/// Lines so short in memory that some of one lies in pieces.
const SHORT: LevelBounds = LevelBounds { head: 2, tail: 2, piece: 4, resting: 3, out_of_line: 64 };

/// Each kind of fact, by its name.
#[rustfmt::skip]
const FACTS: [&str; 44] = [
    "Acked", "Aged", "Bound", "Copied", "Created", "DeadMoved", "DeadPurged", "Declined", "Delivered", "Died",
    "Drawn", "Ended", "ExchangeCreated", "ExchangeDeleted", "Extended", "Forgotten", "GroupCreated", "GroupDeleted",
    "GroupEnding", "GroupReached", "GroupStarted", "HandedOver", "Leased", "Moved", "NamespaceDeleted",
    "NamespaceSet", "OfficeLeft", "OfficeTaken", "Paused", "ProducerBatch", "Published", "Raised", "Redriven",
    "Refilled", "Rescheduled", "Returned", "Ripened", "Superseded", "TopicCreated", "TopicRecalled", "TopicVanished",
    "TopicsSettled", "Unbound", "Waits",
];

/// Kinds that share a name with another: what is redriven or superseded as older versions have written it, and the waits that are
/// not for a retry.
const SAME_NAMED: usize = 3;

#[test]
fn each_kind_of_fact_that_is_read_is_among_them() {
    let is_known = |kind: &u8| {
        let bytes = Bytes::from(vec![*kind]);
        let read = decode_fact(&mut Source::new(&bytes));
        !read.is_err_and(|error| error.to_string().contains("unknown kind"))
    };
    assert_eq!((0..=u8::MAX).filter(is_known).count(), FACTS.len() + SAME_NAMED);
}

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/golden").join(name)
}

#[test]
fn a_directory_of_format_1_with_something_of_everything_is_read() {
    let golden = std::env::var("GOLDEN");
    if golden.as_deref() == Ok("make") {
        make();
    }
    let (_directory, opened, told) = read("format-1-all");
    // What a fact holds may have the name of another: its own stands behind its position.
    let facts = told.lines().filter(|line| line.starts_with("fact "));
    let kinds: BTreeSet<_> = facts.filter_map(|line| line.split_whitespace().nth(2)).collect();
    let missing: Vec<_> = FACTS.iter().filter(|fact| !kinds.contains(**fact)).collect();
    assert!(missing.is_empty(), "no {missing:?} among the facts");
    let found = found(&opened);
    if golden.is_ok() {
        fs::write(place("format-1-all.txt"), &found).unwrap();
    }
    same(&found, "format-1-all.txt");
}

/// As it was written two days before the other one, and what was read of it then: the bodies, and how many pages of each kind.
#[test]
fn a_directory_of_format_1_as_it_was_first_written_in_full_is_read() {
    let (_directory, opened, _) = read("format-1-first");
    let mut pages = BTreeMap::new();
    opened.core.pages().for_each(|page| *pages.entry(kind(&page)).or_insert(0) += 1);
    let pages: String = pages.iter().map(|(kind, count)| format!("pages {kind} {count}\n")).collect();
    same(&(bodies(&opened) + &pages), "format-1-first.txt");
}

/// Inspects a copy of a directory that is kept and starts from it: where that is, what it holds, and what was told of it.
fn read(name: &str) -> (TempDir, Opened, String) {
    let directory = tempfile::tempdir().unwrap();
    copy(&place(name), directory.path());
    lengthen(directory.path());
    let mut told = Vec::new();
    let verdict = inspect(directory.path(), true, &mut told).unwrap();
    let told = String::from_utf8(told).unwrap();
    assert_eq!(verdict, Verdict::InOrder, "{told}");
    let opened = open_at(directory.path()).unwrap();
    assert!(opened.report.orderly && opened.report.checkpoint > 0 && opened.report.facts > 10, "{:?}", opened.report);
    check_extents(&opened);
    (directory, opened, told)
}

fn same(found: &str, name: &str) {
    let expected = fs::read_to_string(place(name)).unwrap();
    for (line, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(found, expected, "line {}", line + 1);
    }
    assert_eq!(found.lines().count(), expected.lines().count());
}

/// All that the broker keeps, a page a line, and the bodies.
fn found(opened: &Opened) -> String {
    let (mut found, mut kinds) = (String::new(), BTreeSet::new());
    for page in opened.core.pages() {
        kinds.insert(kind(&page));
        writeln!(found, "{page:?}").unwrap();
    }
    let all = ["dead", "dedup", "exchange", "namespace", "numbers", "piece", "producer", "topic"];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all, "each kind is there");
    found + &bodies(opened)
}

/// The bodies of all messages, a run a line.
fn bodies(opened: &Opened) -> String {
    let mut bodies = Vec::new();
    opened.core.extents(&mut |_, extent: Extent| {
        let block = opened.reader.read(extent).unwrap();
        let texts = block::messages(&block).map(|message| String::from_utf8(message.unwrap().body.to_vec()).unwrap());
        bodies.push(texts.map(|text| text.trim_end().to_owned()).collect::<Vec<_>>().join(" "));
    });
    bodies.sort();
    bodies.iter().map(|body| format!("body {body}\n")).collect()
}

fn kind(page: &Page) -> &'static str {
    match page {
        Page::Numbers(_) => "numbers",
        Page::Namespace(_) => "namespace",
        Page::Topic(_) => "topic",
        Page::Dead(_) => "dead",
        Page::Dedup(_) => "dedup",
        Page::Producer(_) => "producer",
        Page::Due(_) => "due",
        Page::Piece(_) => "piece",
        Page::Exchange(_) => "exchange",
    }
}

fn make() {
    let directory = tempfile::tempdir().unwrap();
    let options = OpenOptions { segment_bytes: SEGMENT, bounds: SHORT, ..OpenOptions::default() };
    let open = || -> Opened { open(Arc::new(RealDisk::create(directory.path()).unwrap()), &options).unwrap() };
    let mut opened = open();
    opened.start(Now::default()).unwrap();
    turn(&mut opened, Command::Namespaces { after: None });
    // As by a crash: the next start raises all numbers.
    drop(opened);
    let mut opened = open();
    opened.start(Now::default()).unwrap();
    making::set_up(&mut opened);
    // The same on both sides of a checkpoint: what comes behind it is read from the journal.
    making::work(&mut opened, "old");
    checkpoint(&mut opened);
    making::work(&mut opened, "new");
    making::end(&mut opened);
    stop(opened);
    let files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let segments = files.filter(|name| name.to_string_lossy().ends_with(".journal")).count();
    assert!(segments > 2, "{segments} segments");
    let _ = fs::remove_dir_all(place("format-1-all"));
    copy(directory.path(), &place("format-1-all"));
}
