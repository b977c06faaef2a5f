//! Files of the journal that are gone, or of another time than the checkpoint.
//!
//! A start then refuses, or nothing was needed of what is not there: it never goes on as if the journal had ended where the
//! files do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millpond_core::Core;
use millpond_core::fact::FactLog;

use super::foreign::{Checkpoint, Whole};
use super::workload::{Workload, checkpoint, options, state};
use crate::disk::RealDisk;
use crate::journal::segment::{SEGMENT_HEADER, segment_base, segment_name};
use crate::open::RAISE_OVER_LOST;
use crate::twin::{Fault, SECTOR, Seed, TwinDisk};
use crate::{Housekeeper, Mark, OpenError, OpenOptions, Scrubbed, Verdict, inspect, inspect_disk, open};

type Files = BTreeMap<String, Vec<u8>>;

fn segments(files: &Files) -> Vec<&String> {
    files.keys().filter(|name| name.ends_with(".journal")).collect()
}

/// Whether a start refuses. Where it does not, everything is there.
fn is_refused(whole: &Whole, files: &Files, what: &str) -> bool {
    let disk = TwinDisk::from_snapshot(SECTOR, files).with_tree_of(&whole.workload.disk);
    let (is_damaged, told) = is_damaged(&disk);
    let opened = match open::<Core>(Arc::new(disk), &options()) {
        Ok(opened) => opened,
        Err(
            OpenError::Missing { .. }
            | OpenError::MessagesMissing { .. }
            | OpenError::NextMissing { .. }
            | OpenError::BeforeCheckpoint { .. }
            | OpenError::CheckpointGone(_),
        ) => {
            assert!(is_damaged, "{what}: {told}");
            return true;
        }
        Err(error) => panic!("{what}: {error}"),
    };
    assert!(!is_damaged, "{what}: {told}");
    whole.is_all_in(&opened, what);
    false
}

#[test]
fn whichever_journal_files_are_gone_a_start_refuses_or_needed_none_of_them() {
    for kind in [Checkpoint::No, Checkpoint::Idle, Checkpoint::Busy, Checkpoint::Full] {
        let whole = Whole::make(kind);
        let names = segments(&whole.files);
        let (mut refused, mut harmless) = (0, 0);
        for gone in 1..1_u32 << names.len() {
            let gone: BTreeSet<_> = (0..names.len()).filter(|at| gone >> at & 1 > 0).map(|at| names[at]).collect();
            let mut files = whole.files.clone();
            files.retain(|name, _| !gone.contains(name));
            *(if is_refused(&whole, &files, &format!("without {gone:?}")) { &mut refused } else { &mut harmless }) += 1;
        }
        assert!(refused > 2, "{kind:?}: {refused} refused, {harmless} harmless");
    }
}

#[test]
fn a_person_may_go_on_without_the_newest_files() {
    for kind in [Checkpoint::No, Checkpoint::Idle, Checkpoint::Busy, Checkpoint::Full] {
        let mut whole = Whole::make(kind);
        let last = segments(&whole.files).last().unwrap().to_string();
        whole.files.remove(&last);
        let disk = TwinDisk::from_snapshot(SECTOR, &whole.files).with_tree_of(&whole.workload.disk);
        let Err(OpenError::NextMissing { file, position }) = open::<Core>(Arc::new(disk.clone()), &options()) else {
            panic!("{kind:?}: {last} is gone");
        };
        assert!(file.ends_with(&last), "{file}");
        let cut = OpenOptions { cut: Some(position), ..options() };
        let opened = open::<Core>(Arc::new(disk.clone()), &cut).unwrap();
        assert!(opened.report.cut.is_some() && opened.report.end == position, "{kind:?}: {:?}", opened.report);
        let raised = opened.core.numbers().raised;
        assert!(raised >= RAISE_OVER_LOST, "{kind:?}: {raised}");
        // That numbers are raised holds though the process ends before its service begins.
        drop(opened);
        let mut opened = open::<Core>(Arc::new(disk.clone()), &options()).unwrap();
        assert_eq!(opened.core.numbers().raised, raised, "{kind:?}");
        assert!(opened.report.cut.is_none() && opened.report.end > position, "{kind:?}: {:?}", opened.report);
        opened.start(opened.report.now).unwrap();
        checkpoint(&mut opened);
        drop(opened);
        open::<Core>(Arc::new(disk), &options()).unwrap();
    }
}

/// Wherever the power fails while a start cuts, the next one is a cut as well, or numbers are raised.
#[test]
fn a_cut_that_the_power_cuts_short_gives_no_number_out_again() {
    for kind in [Checkpoint::No, Checkpoint::Idle, Checkpoint::Busy] {
        let mut whole = Whole::make(kind);
        let names: Vec<String> = segments(&whole.files).into_iter().cloned().collect();
        whole.files.get_mut(&names[names.len() - 2]).unwrap()[SEGMENT_HEADER as usize + 70] ^= 1;
        let cut_at = |disk: &TwinDisk, found: Option<OpenError>| {
            let Some(OpenError::Damaged { position, .. }) = found else { panic!("{kind:?}: {found:?}") };
            open::<Core>(Arc::new(disk.clone()), &OpenOptions { cut: Some(position), ..options() })
        };
        for operation in 0.. {
            let disk = TwinDisk::from_snapshot(SECTOR, &whole.files).with_tree_of(&whole.workload.disk);
            let damaged = open::<Core>(Arc::new(disk.clone()), &options()).err();
            disk.plan(operation, Fault::PowerCut);
            if cut_at(&disk, damaged).is_ok() {
                assert!(operation > 3, "{kind:?}: it was cut short {operation} times");
                break;
            }
            disk.crash(operation);
            let opened = match open::<Core>(Arc::new(disk.clone()), &options()) {
                Ok(opened) => opened,
                Err(error) => cut_at(&disk, Some(error)).unwrap(),
            };
            let raised = opened.core.numbers().raised;
            assert!(raised >= RAISE_OVER_LOST, "{kind:?}, operation {operation}: {raised}");
        }
    }
}

#[test]
fn a_cut_that_would_need_what_was_taken_back_is_refused_as_that() {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), 7);
    let mut opened = workload.open().unwrap();
    let mut seed = Seed::new(9);
    workload.publish_some(&mut opened, &mut seed, 25, false);
    workload.checkpoint(&mut opened);
    let behind = opened.appender.position();
    workload.publish_some(&mut opened, &mut seed, 1, false);
    workload.mark(&mut opened, Mark::Idle).unwrap();
    workload.wind_up(opened);

    let mut files = workload.disk.snapshot();
    let bases = files.keys().filter_map(|name| segment_base(name)).filter(|base| *base <= behind);
    let base = bases.max().unwrap();
    assert!(base > 0 && !files.contains_key(&segment_name(0)), "segments were taken back");
    let payload = (behind - base + SEGMENT_HEADER) as usize + 70;
    files.get_mut(&segment_name(base)).unwrap()[payload] ^= 1;
    let disk = TwinDisk::from_snapshot(SECTOR, &files).with_tree_of(&workload.disk);
    let damaged = open::<Core>(Arc::new(disk.clone()), &options()).err();
    let Some(OpenError::Damaged { position, .. }) = damaged else { panic!("{damaged:?}") };
    let cut = OpenOptions { cut: Some(position), ..options() };
    let refused = open::<Core>(Arc::new(disk), &cut).err();
    assert!(matches!(refused, Some(OpenError::CutTooFar { .. })), "{refused:?}");
}

#[test]
fn whoever_was_killed_while_looking_is_in_nobody_s_way() {
    let directory = tempfile::tempdir().unwrap();
    let mut opened = open::<Core>(Arc::new(RealDisk::create(directory.path()).unwrap()), &options()).unwrap();
    opened.start(opened.report.now).unwrap();
    checkpoint(&mut opened);
    drop(opened);
    let left = |number| std::env::temp_dir().join(format!("millpond-{}-{number}", std::process::id()));
    let made: Vec<_> = (0..100).map(left).filter(|place| std::fs::create_dir(place).is_ok()).collect();
    let mut told = Vec::new();
    let verdict = inspect(directory.path(), false, &mut told).unwrap();
    made.iter().for_each(|place| std::fs::remove_dir(place).unwrap());
    assert_eq!(verdict, Verdict::InOrder, "{}", String::from_utf8(told).unwrap());
}

/// Copies of a directory in order, of different times, and where the journal of each ends.
fn copies(seed: u64) -> (Workload, Vec<(TwinDisk, Files, u64)>) {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), seed);
    let mut broker = workload.open().unwrap();
    let mut copies = Vec::new();
    for step in 0..400 {
        workload.step(&mut broker).unwrap();
        if step % 70 == 60 {
            drop(broker);
            workload.disk.kill();
            broker = workload.open().unwrap();
        }
        if step % 25 == 0 {
            let mut files = workload.disk.snapshot();
            files.retain(|name, _| !name.starts_with("spare"));
            let copy = || TwinDisk::from_snapshot(SECTOR, &files).with_tree_of(&workload.disk);
            let end = open::<Core>(Arc::new(copy()), &options()).unwrap().report.end;
            copies.push((copy(), files, end));
        }
    }
    (workload, copies)
}

/// Whether an inspection finds something, which it changes nothing for.
fn is_damaged(disk: &TwinDisk) -> (bool, String) {
    let mut told = Vec::new();
    let verdict = inspect_disk(Arc::new(disk.clone()), false, &mut told).unwrap();
    (verdict == Verdict::Damaged, String::from_utf8(told).unwrap())
}

/// What a whole pass of the scrub finds, once the segments are gone that hold nothing.
fn scrub(housekeeper: &mut Housekeeper) -> Vec<String> {
    while housekeeper.step().unwrap() {}
    let mut found = Vec::new();
    loop {
        match housekeeper.scrub() {
            Scrubbed::Piece => {}
            Scrubbed::Damaged(damage) => found.push(damage.to_string()),
            Scrubbed::Checkpoint(error) => panic!("{error}"),
            Scrubbed::Pass => return found,
        }
    }
}

/// Journal and checkpoint are of two times: files were put back from a copy, and not all of them.
#[test]
fn a_checkpoint_and_a_journal_of_two_times_make_a_state_that_was_or_none() {
    let (mut refused, mut opened) = (0, 0);
    for seed in 0..6 {
        let (workload, copies) = copies(seed);
        for (_, files, end) in &copies {
            for (tree, ..) in &copies {
                let disk = TwinDisk::from_snapshot(SECTOR, files).with_tree_of(tree);
                let (is_damaged, told) = is_damaged(&disk);
                let Ok(mut found) = open::<Core>(Arc::new(disk), &options()) else {
                    assert!(is_damaged, "{told}");
                    refused += 1;
                    continue;
                };
                assert!(!is_damaged, "{told}");
                assert_eq!(found.report.end, *end, "seed {seed}: what this journal holds");
                assert!(state(&found.core) == *workload.state_at(*end).unwrap(), "seed {seed}: another state");
                found.core.extents(&mut |_, extent| drop(found.reader.read(extent).unwrap()));
                assert_eq!(scrub(&mut found.housekeeper), Vec::<String>::new(), "seed {seed}");
                opened += 1;
            }
        }
    }
    assert!(refused > 100 && opened > 100, "{refused} refused, {opened} opened");
}

/// Each file of the journal is of one of two times, the checkpoint of either.
#[test]
fn files_of_two_times_make_a_state_that_was_or_none() {
    let (mut refused, mut whole, mut damaged) = (0, 0, 0);
    let mut draw = Seed::new(3);
    for seed in 0..4 {
        let (workload, copies) = copies(seed);
        for _ in 0..300 {
            let mut one = || &copies[draw.below(copies.len() as u64) as usize];
            let (old, new) = (one(), one());
            let names: BTreeSet<&String> = old.1.keys().chain(new.1.keys()).collect();
            let files: Files = names
                .into_iter()
                .filter_map(|name| {
                    let from = if draw.below(2) == 0 { &old.1 } else { &new.1 };
                    Some((name.clone(), from.get(name)?.clone()))
                })
                .collect();
            if !files.contains_key("FORMAT") {
                continue;
            }
            let disk = TwinDisk::from_snapshot(SECTOR, &files).with_tree_of(&new.0);
            let (is_damaged, told) = is_damaged(&disk);
            let mut found = match open::<Core>(Arc::new(disk), &options()) {
                Ok(found) => found,
                Err(error) => {
                    assert!(is_damaged, "{error}: {told}");
                    refused += 1;
                    continue;
                }
            };
            let end = found.report.end;
            let newest = segments(&files).last().map(|name| (*name).clone()).unwrap();
            let ends = [old.2, new.2];
            assert!(
                ends.contains(&end),
                "seed {seed}: ends at {end}, not at one of {ends:?}; the newest file is {newest}"
            );
            assert!(state(&found.core) == *workload.state_at(end).unwrap(), "seed {seed}: another state at {end}");
            let mut bad = 0;
            found.core.extents(&mut |_, extent| bad += u32::from(found.reader.read(extent).is_err()));
            let scrubbed = scrub(&mut found.housekeeper);
            assert_eq!(bad > 0 || !scrubbed.is_empty(), is_damaged, "{bad} cannot be read, {scrubbed:?}: {told}");
            *(if bad == 0 { &mut whole } else { &mut damaged }) += 1;
        }
    }
    assert!(refused > 100 && whole > 100, "{refused} refused, {whole} whole, {damaged} damaged");
}
