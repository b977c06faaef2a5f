//! Starts from far behind a checkpoint, and from checkpoints that are no use; on real files.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use millpond_core::command::Command;
use millpond_core::{Core, Now};
use millpond_types::{NamespaceName, TopicName};

use super::calls;
use super::workload::{YEAR, check_extents, checkpoint, delay, state};
use crate::open::{CHECKPOINT_AFTER, CHECKPOINT_ENTRIES};
use crate::{Mark, OpenError, OpenOptions, Opened, RealDisk, Verdict, inspect, open};

/// Memory for topics that holds a few hundred of them.
const ROOM: usize = 256 * 1024;

fn options() -> OpenOptions {
    OpenOptions { segment_bytes: 256 * 1024, room: ROOM, ..OpenOptions::default() }
}

pub fn open_at(directory: &Path) -> Result<Opened, OpenError> {
    open(Arc::new(RealDisk::create(directory).unwrap()), &options())
}

/// A message to each topic of a range, in one turn.
pub fn publish(opened: &mut Opened, topics: std::ops::Range<u32>) {
    publish_body(opened, topics, &[7; 24]);
}

fn publish_body(opened: &mut Opened, topics: std::ops::Range<u32>, body: &[u8]) {
    let names = topics.map(|topic| format!("topic/{topic:08}"));
    turn(opened, calls::publish(names.map(|name| calls::run(&name, &[], [body])).collect()));
}

pub fn turn(opened: &mut Opened, command: Command) {
    calls::turn(opened, command);
    opened.appender.capture(&mut opened.core);
}

pub fn stop(mut opened: Opened) {
    let now = opened.core.now();
    let batch = opened.appender.mark(now, Mark::Stop).unwrap();
    opened.committer.write(batch).unwrap();
    opened.committer.sync().unwrap();
}

/// A start from as far behind a checkpoint as another one is due at, where messages of so many bytes went to `topics` topics in turn,
/// so many in a turn of the core. Returns how many entries of the tree it read, and how many facts it applied.
fn restart(topics: u32, size: usize, a_turn: u32) -> (u64, u64) {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let options = OpenOptions { room: ROOM, ..OpenOptions::default() };
        open::<Core>(Arc::new(RealDisk::create(directory.path()).unwrap()), &options).unwrap()
    };
    let mut opened = open();
    opened.start(Now::default()).unwrap();
    (0..topics).step_by(a_turn as usize).for_each(|at| publish(&mut opened, at..at + a_turn));
    checkpoint(&mut opened);
    let body = vec![7; size];
    let mut turns = (0..topics).step_by(a_turn as usize).cycle();
    while !opened.appender.checkpoint_due(&opened.core, false) {
        let at = turns.next().expect("they come again");
        publish_body(&mut opened, at..at + a_turn, &body);
    }
    let expected = state(&opened.core);
    stop(opened);
    let opened = open();
    let stats = opened.store.tree().stats();
    assert!(opened.report.checkpoint > 0, "{:?}", opened.report);
    assert!(opened.core.resident_bytes() <= 2 * ROOM, "{} bytes", opened.core.resident_bytes());
    let behind = opened.report.end - opened.report.checkpoint;
    assert!(behind >= CHECKPOINT_AFTER || opened.report.facts >= CHECKPOINT_ENTRIES as u64, "{:?}", opened.report);
    assert!(state(&opened.core) == expected);
    check_extents(&opened);
    (stats.keys_read + stats.keys_scanned, opened.report.facts)
}

#[test]
fn a_start_replays_a_long_journal_about_few_topics() {
    for (size, least) in [(512 * 1024, 500), (4 * 1024, 60_000)] {
        let (reads, facts) = restart(4, size, 4);
        assert!(reads < 100 && facts >= least, "{reads} entries read for {facts} facts");
    }
}

#[test]
fn a_start_fetches_the_cold_topics_that_each_fact_is_about() {
    let (reads, facts) = restart(CHECKPOINT_ENTRIES as u32, 24, 1000);
    assert!(reads <= facts + 1000, "{reads} entries read for {facts} facts");
}

/// A directory with a checkpoint and some messages behind it; without its first segment where `short`.
fn made(directory: &Path, short: bool) -> Vec<millpond_core::page::Page> {
    let mut opened = open_at(directory).unwrap();
    opened.start(Now::default()).unwrap();
    publish(&mut opened, 0..500);
    while short && opened.reader.written() < 1024 * 1024 {
        publish(&mut opened, 0..500);
        let purge = millpond_types::Filter::All;
        turn(&mut opened, Command::Purge { namespace: NamespaceName::default(), filter: purge, group: None });
    }
    publish(&mut opened, 0..50);
    checkpoint(&mut opened);
    publish(&mut opened, 40..60);
    let expected = state(&opened.core);
    stop(opened);
    assert_eq!(directory.join("0000000000000000.journal").exists(), !short);
    expected
}

/// The largest file of the tree: its only table.
fn damage_tree(directory: &Path) {
    let table = table(directory);
    let mut bytes = std::fs::read(&table).unwrap();
    bytes.iter_mut().step_by(7).for_each(|byte| *byte ^= 1);
    std::fs::write(table, bytes).unwrap();
}

#[test]
fn a_checkpoint_that_is_no_use_is_made_anew_while_all_of_the_journal_is_there() {
    for gone in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let expected = made(directory.path(), false);
        match gone {
            true => std::fs::remove_dir_all(directory.path().join("tree")).unwrap(),
            false => damage_tree(directory.path()),
        }
        let opened = open_at(directory.path()).unwrap();
        assert_eq!(opened.report.checkpoint, 0);
        assert!(state(&opened.core) == expected);
        assert_eq!(directory.path().join("tree.damaged").exists(), !gone);
    }
}

/// Something else than a whole table in the place of one, and of the tree.
#[test]
fn a_checkpoint_is_made_anew_whatever_stands_in_its_place() {
    type Wound = (&'static str, fn(&Path));
    let wounds: [Wound; 7] = [
        ("a table is empty", |place| std::fs::write(table(place), "").unwrap()),
        ("a table is short", |place| std::fs::write(table(place), [7; 20]).unwrap()),
        ("a table is gone", |place| std::fs::remove_file(table(place)).unwrap()),
        ("a table is a directory", |place| {
            let table = table(place);
            std::fs::remove_file(&table).unwrap();
            std::fs::create_dir(table).unwrap();
        }),
        ("a stranger lies beside the tables", |place| std::fs::write(place.join("tree/tables/abc"), "x").unwrap()),
        ("the tables are a file", |place| {
            std::fs::remove_dir_all(place.join("tree/tables")).unwrap();
            std::fs::write(place.join("tree/tables"), "x").unwrap();
        }),
        ("the tree is a file", |place| {
            std::fs::remove_dir_all(place.join("tree")).unwrap();
            std::fs::write(place.join("tree"), "x").unwrap();
        }),
    ];
    for (what, wound) in wounds {
        let directory = tempfile::tempdir().unwrap();
        let expected = made(directory.path(), false);
        wound(directory.path());
        // What an earlier start has put aside, or somebody else has put there.
        std::fs::write(directory.path().join("tree.damaged"), "x").unwrap();
        let named = directory.path().join("tree").display().to_string();
        let mut told = Vec::new();
        let verdict = inspect(directory.path(), false, &mut told).unwrap();
        let told = String::from_utf8(told).unwrap();
        assert!(verdict == Verdict::Damaged && told.contains(&named), "{what}: {told}");
        let opened = open_at(directory.path()).unwrap_or_else(|error| panic!("{what}: {error}"));
        let rebuilt = opened.report.rebuilt.clone().unwrap_or_default();
        assert!(rebuilt.contains(&named), "{what}: {rebuilt}");
        assert!(state(&opened.core) == expected, "{what}");
    }
}

/// The largest of the tree's tables.
fn table(directory: &Path) -> std::path::PathBuf {
    let tables = std::fs::read_dir(directory.join("tree/tables")).unwrap().map(|entry| entry.unwrap().path());
    tables.max_by_key(|path| path.metadata().unwrap().len()).unwrap()
}

#[test]
fn a_start_is_refused_where_the_checkpoint_alone_knew_and_salvaging_helps() {
    for gone in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let messages =
            |core: &Core| core.pages().filter(|page| matches!(page, millpond_core::page::Page::Topic(_))).count();
        made(directory.path(), true);
        match gone {
            true => std::fs::remove_dir_all(directory.path().join("tree")).unwrap(),
            false => damage_tree(directory.path()),
        }
        for _ in 0..2 {
            let error = open_at(directory.path()).err().expect("nothing knows the numbers any more").to_string();
            for word in ["tree", "--salvage", "dedup ids", "producer sessions"] {
                assert!(error.contains(word), "{error}");
            }
        }
        let to = tempfile::tempdir().unwrap();
        let mut told = Vec::new();
        crate::salvage(directory.path(), to.path(), &mut told).unwrap();
        let opened = open_at(to.path()).unwrap();
        assert_eq!(messages(&opened.core), 60, "{}", String::from_utf8_lossy(&told));
    }
}

/// A message that waits keeps the first segment, and those between went one by one.
#[test]
fn a_start_does_without_no_checkpoint_where_the_journal_has_a_gap() {
    for gone in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let mut opened = open_at(directory.path()).unwrap();
        opened.start(Now::default()).unwrap();
        let mut pin = calls::publish(vec![calls::run("pin", &[], [&[7; 24][..]])]);
        delay(&mut pin, YEAR);
        turn(&mut opened, pin);
        while opened.reader.written() < 1024 * 1024 {
            publish(&mut opened, 0..500);
            let filter = millpond_types::Filter::Prefixes(vec![TopicName::try_from("topic/").unwrap()]);
            turn(&mut opened, Command::Purge { namespace: NamespaceName::default(), filter, group: None });
        }
        publish(&mut opened, 0..50);
        checkpoint(&mut opened);
        stop(opened);
        let segments = || {
            let names = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().ends_with(".journal")).count()
        };
        assert!(directory.path().join("0000000000000000.journal").exists() && segments() < 4, "{}", segments());
        match gone {
            true => std::fs::remove_dir_all(directory.path().join("tree")).unwrap(),
            false => damage_tree(directory.path()),
        }
        let before = segments();
        for _ in 0..2 {
            let error = open_at(directory.path()).err().expect("the checkpoint alone knew what is gone").to_string();
            let mut told = Vec::new();
            let verdict = crate::inspect(directory.path(), false, &mut told).unwrap();
            let told = String::from_utf8(told).unwrap();
            assert!(verdict == crate::Verdict::Damaged && !told.contains("--cut-journal"), "{told}");
            assert!(
                error.contains("tree") && error.contains("--salvage") && !error.contains("--cut-journal"),
                "{error}"
            );
        }
        assert!(segments() == before && !directory.path().join("tree.damaged").exists(), "nothing was changed");
    }
}

/// The checkpoint's list of tables was put back as it had been before, so that the library would take newer ones for leftovers.
#[test]
fn an_inspection_and_a_salvage_remove_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    let mut opened = open_at(directory.path()).unwrap();
    opened.start(Now::default()).unwrap();
    publish(&mut opened, 0..50);
    checkpoint(&mut opened);
    let current = std::fs::read(tree.join("current")).unwrap();
    let version = format!("v{}", u64::from_le_bytes(*current.first_chunk().unwrap()));
    let list = std::fs::read(tree.join(&version)).unwrap();
    publish(&mut opened, 0..500);
    checkpoint(&mut opened);
    stop(opened);
    std::fs::write(tree.join("current"), current).unwrap();
    std::fs::write(tree.join(version), list).unwrap();
    let files = || {
        let of = |path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<BTreeSet<_>>();
        [of(tree.clone()), of(tree.join("tables"))]
    };
    let before = files();
    crate::inspect(directory.path(), false, &mut Vec::new()).unwrap();
    assert_eq!(files(), before);
    crate::salvage(directory.path(), tempfile::tempdir().unwrap().path(), &mut Vec::new()).unwrap();
    assert_eq!(files(), before);
}
