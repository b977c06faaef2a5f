//! What is salvaged of directories that cannot be started.

mod groups;

use std::collections::BTreeMap;
use std::sync::Arc;

use millpond_core::Core;
use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun};
use millpond_core::output::{Extent, Output, Reply};
use millpond_core::page::Page;
use millpond_types::TopicName;
use millpond_types::block;

use super::calls::receive;
use super::workload::{Workload, options, publish};
use crate::disk::Disk;
use crate::format::Format;
use crate::journal::segment::{SegmentHeader, segment_base, segment_name};
use crate::twin::{Fault, SECTOR, Seed, TwinDisk};
use crate::{Mark, OpenError, Opened, Reader, Verdict, inspect_disk, open, salvage_disk};

/// Bodies of all messages, by topic and in order.
type Bodies = BTreeMap<TopicName, Vec<Vec<u8>>>;

fn bodies(core: &Core, reader: &Reader) -> Bodies {
    let mut bodies = Bodies::new();
    for page in core.pages() {
        let Page::Topic(topic) = page else { continue };
        for level in topic.levels {
            let aside = level.aside.into_iter().map(|aside| aside.run);
            let mut runs: Vec<_> = level.runs.into_iter().chain(aside).collect();
            runs.sort_by_key(|run| run.first);
            for run in runs {
                let block = reader.read(run.extent()).unwrap();
                let messages = block::messages(&block).map(|message| message.unwrap().body.to_vec());
                bodies.entry(topic.name.clone()).or_default().extend(messages);
            }
        }
    }
    bodies
}

/// Salvages into a fresh directory, and starts there.
fn salvaged(from: &TwinDisk) -> (Opened, String) {
    let (to, mut told) = (TwinDisk::new(SECTOR), Vec::new());
    salvage_disk(Arc::new(from.clone()), Arc::new(to.clone()), &options(), &mut told).unwrap();
    (open(Arc::new(to), &options()).unwrap(), String::from_utf8(told).unwrap())
}

/// A workload until so many steps and its messages.
fn worked(seed: u64, steps: u32) -> (TwinDisk, Bodies, u64) {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), seed);
    let mut opened = workload.open().unwrap();
    (0..steps).for_each(|_| workload.step(&mut opened).unwrap());
    workload.mark(&mut opened, Mark::Stop).unwrap();
    let numbers = opened.core.numbers();
    (workload.disk, bodies(&opened.core, &opened.reader), numbers.high_water.max(numbers.next_topic))
}

#[test]
fn all_messages_come_over_in_order_and_with_higher_numbers() {
    let mut held = 0;
    for seed in 0..20 {
        // Few enough that every record is still there: what comes over is what was there.
        let (disk, before, high_water) = worked(seed, 40);
        held += u32::from(!before.is_empty());
        let (opened, told) = salvaged(&disk);
        assert_eq!(bodies(&opened.core, &opened.reader), before, "{told}");
        for page in opened.core.pages() {
            if let Page::Topic(topic) = page {
                assert!(topic.number.0 > high_water);
                let aside = topic.levels.iter().flat_map(|level| &level.aside).map(|aside| &aside.run);
                let mut runs = topic.levels.iter().flat_map(|level| &level.runs).chain(aside);
                assert!(runs.all(|run| run.first.0 > high_water));
            }
        }
    }
    assert!(held > 10, "{held}");
}

/// Two copies of a directory, put together from different times.
#[test]
fn a_file_that_begins_within_a_segment_hides_nothing() {
    let (disk, before, _) = worked(7, 40);
    let files = disk.snapshot();
    let bases: Vec<u64> = files.keys().filter_map(|name| segment_base(name)).collect();
    assert!(bases.len() > 1 && !before.is_empty(), "{bases:?}");
    let mut skipped = 0;
    for base in (0..*bases.last().unwrap()).step_by(8).filter(|base| base % 56 == 0 && !bases.contains(base)) {
        let disk = TwinDisk::from_snapshot(SECTOR, &files);
        let name = segment_name(base);
        let file = disk.create(&name).unwrap();
        let directory = options().identity.directory;
        SegmentHeader { start: 1, base, directory, length: None }.write(file.as_ref()).unwrap();
        let (opened, told) = salvaged(&disk);
        assert_eq!(bodies(&opened.core, &opened.reader), before, "{told}");
        assert!(told.contains(&format!("SKIPPED     {name}: ")), "{told}");
        skipped += 1;
    }
    assert!(skipped > 10, "{skipped}");
}

#[test]
fn dead_letters_stay_dead_and_topics_without_a_name_get_one() {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), 3);
    let mut opened = workload.open().unwrap();
    let mut seed = Seed::new(8);
    for _ in 0..30 {
        workload.turn(&mut opened, publish(&mut seed)).unwrap();
    }
    let outputs = workload.turn(&mut opened, receive(3)).unwrap();
    let [Output::Reply { reply: Reply::Received(runs), .. }] = &outputs[..] else { panic!("{outputs:?}") };
    let receipts = runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
    let verb = FinishVerb::Reject { reason: "no good".into() };
    workload.turn(&mut opened, Command::Finish(Finish { verb, receipts, confirm: true, namespace: None })).unwrap();
    workload.mark(&mut opened, Mark::Stop).unwrap();
    let dead = |core: &Core| {
        let letters = core.pages().filter_map(|page| if let Page::Dead(dead) = page { Some(dead) } else { None });
        let mut letters: Vec<_> = letters.map(|dead| (dead.topic, dead.detail, dead.reason, dead.died)).collect();
        letters.sort();
        letters
    };
    let letters = dead(&opened.core);
    drop(opened);
    assert_eq!(letters.len(), 3);
    assert_eq!(dead(&salvaged(&workload.disk).0.core), letters);
    // Without the segment in which the topics came into being.
    let mut files = workload.disk.snapshot();
    files.remove("0000000000000000.journal").unwrap();
    let (opened, told) = salvaged(&TwinDisk::from_snapshot(SECTOR, &files));
    assert!(told.contains("nameless "), "{told}");
    let bodies = bodies(&opened.core, &opened.reader);
    assert!(bodies.keys().any(|name| name.as_bytes().starts_with(b"salvaged/")), "{told}");
}

#[test]
fn nothing_that_was_waiting_is_missing_though_records_are() {
    let mut gone = 0;
    for seed in 0..20 {
        let (disk, before, _) = worked(seed, 400);
        gone += u32::from(!disk.snapshot().contains_key("0000000000000000.journal"));
        let (opened, told) = salvaged(&disk);
        let after = bodies(&opened.core, &opened.reader);
        let all: Vec<_> = after.values().flatten().collect();
        for body in before.values().flatten() {
            assert!(all.contains(&body), "{told}");
        }
    }
    assert!(gone > 10, "the beginning of the journal is gone in most: {gone}");
}

#[test]
fn damage_costs_what_it_hits_alone() {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), 3);
    let mut opened = workload.open().unwrap();
    let mut seed = Seed::new(8);
    for _ in 0..60 {
        workload.turn(&mut opened, publish(&mut seed)).unwrap();
    }
    workload.mark(&mut opened, Mark::Stop).unwrap();
    let (before, mut extents) = (bodies(&opened.core, &opened.reader), Vec::new());
    opened.core.extents(&mut |_, extent: Extent| extents.push(extent));
    drop(opened);
    let disk = workload.disk;
    extents.sort_by_key(|extent| extent.position);
    let messages = |bodies: &Bodies| bodies.values().map(Vec::len).sum::<usize>();
    // Names, checkpoints and headers do not matter; the record that is hit does.
    let files = disk.snapshot();
    let (name, base) = files.keys().filter_map(|name| Some((name, name.strip_suffix(".journal")?))).nth(1).unwrap();
    let base = u64::from_str_radix(base, 16).unwrap();
    disk.flip("FORMAT", 30, 1);
    disk.flip(name, 10, 1);
    let hit = extents.iter().find(|extent| extent.position > base + 3000).unwrap();
    disk.flip(name, 4096 + hit.position - base + 5, 1);
    let (opened, told) = salvaged(&disk);
    assert!(told.contains(&format!("SKIPPED     {name} from offset ")), "{told}");
    let after = messages(&bodies(&opened.core, &opened.reader));
    assert!((messages(&before) - 6..messages(&before)).contains(&after), "a batch of five at most is lost");
}

#[test]
fn a_format_file_of_another_directory_hides_nothing() {
    let (disk, before, _) = worked(7, 40);
    disk.remove("FORMAT").unwrap();
    Format { directory: 17 }.write(&disk).unwrap();
    let (opened, told) = salvaged(&disk);
    assert_eq!(bodies(&opened.core, &opened.reader), before, "{told}");
}

/// The lines that tell of what is not there.
fn lacking(told: &str) -> Vec<String> {
    let words = ["SKIPPED", "MISSING", "taken back", "torn tail"];
    told.lines().filter(|line| words.iter().any(|word| line.starts_with(word))).map(str::to_owned).collect()
}

/// A directory in order: the first segment and some behind it hold messages, then some are gone that did not, then others;
/// and a checkpoint.
fn with_a_gap() -> TwinDisk {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), 4);
    let mut opened = workload.open().unwrap();
    let mut seed = Seed::new(5);
    workload.publish_some(&mut opened, &mut seed, 20, true);
    workload.publish_some(&mut opened, &mut seed, 40, false);
    workload.drain(&mut opened);
    workload.publish_some(&mut opened, &mut seed, 30, true);
    workload.checkpoint(&mut opened);
    workload.publish_some(&mut opened, &mut seed, 50, false);
    workload.mark(&mut opened, Mark::Stop).unwrap();
    workload.disk
}

#[test]
fn what_is_not_there_is_told_with_what_may_be_gone_with_it() {
    let whole = with_a_gap();
    let files = whole.snapshot();
    let names: Vec<&String> = files.keys().filter(|name| name.ends_with(".journal")).collect();
    let told = |without: &[&String], with_checkpoint: bool| {
        let mut files = files.clone();
        files.retain(|name, _| !without.contains(&name));
        let disk = TwinDisk::from_snapshot(SECTOR, &files);
        lacking(&salvaged(&if with_checkpoint { disk.with_tree_of(&whole) } else { disk }).1)
    };
    let check = |told: Vec<String>, expected: &[&[&str]]| {
        assert_eq!(told.len(), expected.len(), "{told:#?}");
        for (line, parts) in told.iter().zip(expected) {
            assert!(parts.iter().all(|part| line.contains(part)), "{parts:?} in {line}");
        }
    };
    let (first, second, newest) = (names[0], names[1], names[names.len() - 1]);
    let middle = names[names.len() - 2];
    let gap: &[&str] = &["taken back", "nothing in them was needed"];
    // A directory in order has been given space back, which is no loss.
    check(told(&[], true), &[gap]);
    check(told(&[], false), &[&["MISSING", "taken back because", "no checkpoint that could tell", "salvage anew"]]);
    check(told(&[first], true), &[&["MISSING     positions 0 to", "still needed", first, "from a copy"], gap]);
    check(told(&[second], true), &[&["MISSING", "still needed", second, "from a copy"], gap]);
    check(told(&[middle], true), &[gap, &["MISSING", "published there are lost", middle, "from a copy"]]);
    check(told(&[newest], true), &[gap, &["MISSING     all from position", "published there are lost", newest]]);
    let all: Vec<&String> = names.clone();
    check(told(&all, true), &[&["MISSING     all from position 0 on", first]]);
    // Of the newest file some are there.
    let mut cut = files.clone();
    cut.get_mut(newest).unwrap().truncate(4096 + 64);
    let lacks = lacking(&salvaged(&TwinDisk::from_snapshot(SECTOR, &cut).with_tree_of(&whole)).1);
    assert!(
        lacks.iter().any(|line| line.starts_with(&format!("MISSING     {newest} has 4160 bytes of its "))),
        "{lacks:#?}"
    );
    // Damage in the middle, and at the end of a segment that says that it has ended; a torn tail.
    let damaged = |name: &String, offset: usize| {
        let disk = TwinDisk::from_snapshot(SECTOR, &files).with_tree_of(&whole);
        disk.flip(name, offset as u64, 0);
        lacking(&salvaged(&disk).1)
    };
    let offset_of_last = |name: &String| files[name].windows(4).rposition(|four| four == b"MPB1").unwrap();
    let skipped: &[&str] = &["SKIPPED", first, "from offset 4096 to offset", "checksum", "from a copy"];
    check(damaged(first, 4096 + 70), &[skipped, gap]);
    let at = offset_of_last(first);
    check(damaged(first, at + 70), &[&["SKIPPED", first, &format!("from offset {at} to offset"), "checksum"], gap]);
    let at = offset_of_last(newest);
    check(
        damaged(newest, at + 20),
        &[gap, &["torn tail", newest, &format!("from offset {at} on"), "or else it is damaged"]],
    );
}

#[test]
fn a_segment_that_cannot_be_read_keeps_nobody_from_the_others() {
    let from = tempfile::tempdir().unwrap();
    let mut unreadable = String::new();
    for (at, (name, bytes)) in with_a_gap().snapshot().iter().enumerate() {
        if at == 1 {
            unreadable.clone_from(name);
            std::fs::create_dir(from.path().join(name)).unwrap();
        } else {
            std::fs::write(from.path().join(name), bytes).unwrap();
        }
    }
    assert!(unreadable.ends_with(".journal"), "{unreadable}");
    let (to, mut told) = (tempfile::tempdir().unwrap(), Vec::new());
    crate::salvage(from.path(), to.path(), &mut told).unwrap();
    let told = String::from_utf8(told).unwrap();
    assert!(told.contains(&format!("SKIPPED     {unreadable} from offset 4096 on cannot be read")), "{told}");
    assert!(!told.contains("salvaged    0 messages"), "{told}");
    assert!(!from.path().join("tree").exists(), "the old directory is only read");
}

/// A segment that is a loop of links, and a tree that is none: neither can be opened.
#[test]
fn what_cannot_be_opened_keeps_nobody_from_the_rest() {
    let files = with_a_gap().snapshot();
    let from = tempfile::tempdir().unwrap();
    files.iter().for_each(|(name, bytes)| std::fs::write(from.path().join(name), bytes).unwrap());
    let name = files.keys().filter(|name| name.ends_with(".journal")).nth(1).unwrap();
    std::fs::remove_file(from.path().join(name)).unwrap();
    std::os::unix::fs::symlink(name, from.path().join(name)).unwrap();
    std::fs::write(from.path().join("tree"), "x").unwrap();
    let (to, mut told) = (tempfile::tempdir().unwrap(), Vec::new());
    crate::salvage(from.path(), to.path(), &mut told).unwrap();
    let told = String::from_utf8(told).unwrap();
    assert!(told.lines().any(|line| line.starts_with("SKIPPED") && line.contains(name)), "{told}");
    let tree = from.path().join("tree").display().to_string();
    assert!(told.lines().any(|line| line.starts_with("SKIPPED") && line.contains(&tree)), "{told}");
    assert!(!told.contains("salvaged    0 messages"), "{told}");
}

/// What ended behind the checkpoint was needed as of it, and its segment was taken back since.
#[test]
fn what_was_taken_back_since_the_checkpoint_is_no_loss() {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), 4);
    let mut opened = workload.open().unwrap();
    let mut seed = Seed::new(5);
    workload.publish_some(&mut opened, &mut seed, 20, true);
    workload.publish_some(&mut opened, &mut seed, 40, false);
    workload.publish_some(&mut opened, &mut seed, 30, true);
    workload.checkpoint(&mut opened);
    let disk = workload.disk.clone();
    let segments = || disk.snapshot().into_keys().filter(|name| name.ends_with(".journal")).count();
    let before = segments();
    workload.wind_up(opened);
    assert!(segments() < before, "some were taken back");
    let told = lacking(&salvaged(&workload.disk).1);
    assert!(matches!(&told[..], [line] if line.starts_with("taken back")), "{told:#?}");
}

/// Whoever starts on what a salvage has left is told that it is not whole, unless it is.
#[test]
fn a_salvage_that_was_cut_short_is_not_taken_for_a_whole_one() {
    let (from, before, _) = worked(7, 40);
    assert!(!before.is_empty());
    for operation in 0.. {
        for is_killed in [false, true] {
            let to = TwinDisk::new(SECTOR);
            to.plan(operation, Fault::PowerCut);
            let done = salvage_disk(Arc::new(from.clone()), Arc::new(to.clone()), &options(), &mut Vec::new());
            let made = to.list().is_ok_and(|names| !names.is_empty());
            if done.is_ok() {
                assert!(made && operation > 10, "it was cut short {operation} times");
                return;
            }
            if is_killed {
                to.kill();
            } else {
                to.crash(operation);
            }
            let is_empty = to.list().unwrap().is_empty();
            let (verdict, told) = inspected(&to);
            match open::<Core>(Arc::new(to), &options()) {
                Err(OpenError::Unfinished(_)) => assert!(verdict == Verdict::Damaged, "{told}"),
                Err(error) => panic!("operation {operation}: {error}"),
                Ok(opened) => {
                    assert!(is_empty || bodies(&opened.core, &opened.reader) == before, "{operation}: {told}")
                }
            }
        }
    }
}

fn inspected(disk: &TwinDisk) -> (Verdict, String) {
    let mut told = Vec::new();
    let verdict = inspect_disk(Arc::new(disk.clone()), false, &mut told).unwrap();
    (verdict, String::from_utf8(told).unwrap())
}
