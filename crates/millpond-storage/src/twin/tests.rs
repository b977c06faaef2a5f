//! The twin is as unkind as it says.

use millpond_core::store::{KeyBytes, Range};

use super::*;
use crate::tree::CommitHead;

#[test]
fn what_is_synced_survives_and_the_rest_is_anyones_guess() {
    let (mut lost, mut kept, mut torn, mut reordered) = (0, 0, 0, 0);
    for seed in 0..200 {
        let disk = TwinDisk::new(SMALL_SECTOR);
        let file = disk.create("a").unwrap();
        file.write_at(0, &[1; 2 * SMALL_SECTOR]).unwrap();
        file.sync().unwrap();
        disk.sync_dir().unwrap();
        file.write_at(SMALL_SECTOR as u64, &[2; 2 * SMALL_SECTOR]).unwrap();
        disk.create("b").unwrap();
        disk.crash(seed);
        assert!(file.write_at(0, &[3]).is_err(), "opened before the crash");
        let bytes = disk.bytes("a");
        assert_eq!(bytes[..SMALL_SECTOR], [1; SMALL_SECTOR]);
        let count = |sector: usize| {
            bytes
                .get(sector * SMALL_SECTOR..(sector + 1) * SMALL_SECTOR)
                .map_or(0, |sector| sector.iter().filter(|byte| **byte == 2).count())
        };
        match (count(1), count(2)) {
            (0, 0) => lost += 1,
            (SMALL_SECTOR, SMALL_SECTOR) => kept += 1,
            (0, SMALL_SECTOR) => reordered += 1,
            _ => torn += 1,
        }
    }
    assert!(lost > 0 && kept > 0 && torn > 0 && reordered > 0, "{lost} {kept} {torn} {reordered}");
}

#[test]
fn what_is_not_synced_may_go_astray_and_what_shares_its_sector_stays() {
    let (mut all, mut strange) = (Wreck::default(), [0, 0]);
    for seed in 0..200 {
        let disk = TwinDisk::new(SMALL_SECTOR);
        let file = disk.create("a").unwrap();
        file.write_at(0, &[1; SMALL_SECTOR + 100]).unwrap();
        file.sync().unwrap();
        disk.sync_dir().unwrap();
        file.write_at(SMALL_SECTOR as u64 + 100, &[2; SMALL_SECTOR - 100]).unwrap();
        file.write_at(2 * SMALL_SECTOR as u64, &[3; SMALL_SECTOR]).unwrap();
        let Wreck { misdirected, flipped } = disk.crash(seed);
        all = Wreck { misdirected: all.misdirected + misdirected, flipped: all.flipped + flipped };
        let bytes = disk.bytes("a");
        assert_eq!(bytes[..SMALL_SECTOR + 100], [1; SMALL_SECTOR + 100], "of seed {seed}");
        let own = |at: usize| if at < 2 * SMALL_SECTOR { 2 } else { 3 };
        let rest = bytes.iter().enumerate().skip(SMALL_SECTOR + 100);
        let foreign = rest.filter(|(at, byte)| ![0, own(*at)].contains(*byte)).count();
        match (misdirected, flipped) {
            (0, 0) => assert_eq!(foreign, 0, "of seed {seed}"),
            (0, _) => strange[0] += foreign,
            _ => strange[1] += foreign,
        }
    }
    assert!(strange[0] > 5 && strange[1] > 1000, "bits and sectors that nobody wrote there: {strange:?}");
    assert!(all.misdirected > 5 && all.flipped > 5, "{all:?}");
}

#[test]
fn names_may_be_as_before_until_the_directory_is_synced() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let disk = TwinDisk::new(SECTOR);
        disk.create("a").unwrap();
        disk.sync_dir().unwrap();
        disk.rename("a", "b").unwrap();
        disk.create("c").unwrap();
        disk.crash(seed);
        seen.insert(disk.list().unwrap());
    }
    assert_eq!(seen.len(), 4, "each of the two changes is kept or lost");
}

#[test]
fn what_was_synced_into_a_file_made_again_goes_with_its_new_name() {
    for seed in 0..50 {
        let disk = TwinDisk::new(SECTOR);
        disk.create("a").unwrap().write_at(0, b"old").unwrap();
        disk.sync_dir().unwrap();
        let file = disk.create("a").unwrap();
        file.write_at(0, b"new").unwrap();
        file.sync().unwrap();
        disk.rename("a", "b").unwrap();
        disk.crash(seed);
        let name = disk.list().unwrap().remove(0);
        assert_eq!(disk.bytes(&name), b"new", "{name} of seed {seed}");
    }
}

#[test]
fn faults_come_where_they_were_planned() {
    let disk = TwinDisk::new(SECTOR);
    let file = disk.create("a").unwrap();
    disk.plan(1, Fault::Error);
    file.write_at(0, b"x").unwrap();
    assert_eq!(file.sync().unwrap_err().raw_os_error(), Some(5));
    file.sync().unwrap();
    disk.plan(0, Fault::PowerCut);
    assert!(file.sync().is_err() && file.sync().is_err() && disk.list().is_err());
    disk.crash(1);
    disk.set_capacity(Some(10));
    let file = disk.create("b").unwrap();
    let error = file.preallocate(11, Preallocate::Filled).unwrap_err();
    assert!(crate::disk::is_full(&error));
}

#[test]
fn a_write_that_does_not_come_to_its_end_leaves_any_part_of_it() {
    for fault in [Fault::Error, Fault::PowerCut] {
        let mut lengths = std::collections::BTreeSet::new();
        let mut parts = 0;
        for before in 0..200 {
            let disk = TwinDisk::new(SMALL_SECTOR);
            let file = disk.create("a").unwrap();
            (0..before).for_each(|_| file.write_at(0, &[1; 100]).unwrap());
            disk.plan(0, fault);
            file.write_at(100, &[2; 1000]).unwrap_err();
            disk.kill();
            let bytes = disk.bytes("a");
            let length = bytes.iter().filter(|byte| **byte == 2).count();
            assert!(bytes.iter().skip(100).all(|byte| *byte == 2), "it is the first part");
            lengths.insert(length);
            let taken = disk.take_parts();
            assert_eq!((taken.failed + taken.cut) as usize, usize::from((1..1000).contains(&length)));
            parts += if fault == Fault::Error { taken.failed } else { taken.cut };
        }
        assert!(lengths.contains(&0) && lengths.contains(&1000) && lengths.len() > 50, "{fault:?}: {lengths:?}");
        assert!(parts > 50, "{fault:?}: {parts}");
    }
}

#[test]
fn a_read_fails_where_it_was_planned_and_changes_nothing() {
    let disk = TwinDisk::new(SECTOR);
    let file = disk.create("a").unwrap();
    file.write_at(0, b"x").unwrap();
    let tree = disk.tree(TreeOptions::default()).unwrap();
    let everything = Range { from: KeyBytes::default(), until: KeyBytes::default(), limit: 1 };
    let mut byte = [0];
    disk.plan_read(2);
    file.read_at(0, &mut byte).unwrap();
    tree.get_many(&[]).unwrap();
    assert_eq!(file.read_at(0, &mut byte).unwrap_err().raw_os_error(), Some(5));
    file.read_at(0, &mut byte).unwrap();
    assert!(disk.unplan_read() && !disk.unplan_read(), "it has failed, once");
    disk.plan_read(0);
    assert!(matches!(tree.scan(&everything), Err(TreeError::Io(_))));
    tree.scan(&everything).unwrap();
    disk.plan_read(0);
    assert!(matches!(tree.get_many(&[]), Err(TreeError::Io(_))));
    disk.plan_read(0);
    assert!(!disk.unplan_read(), "nothing was read");
    tree.get_many(&[]).unwrap();
}

#[test]
fn without_power_nothing_answers_and_nothing_changes() {
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let disk = TwinDisk::new(SMALL_SECTOR);
        let had = Had::of(&disk);
        disk.sync_dir().unwrap();
        had.file.write_at(0, b"unsynced").unwrap();
        disk.plan(0, Fault::PowerCut);
        disk.create("cut").err().expect("the power is cut in the middle of it");
        let written = disk.snapshot();
        had.is_of_no_use();
        assert_eq!(disk.snapshot(), written);
        disk.crash(seed);
        lengths.insert(disk.bytes("a").iter().filter(|byte| **byte != 0).count());
    }
    assert!(lengths.contains(&0) && lengths.contains(&8), "no sync without power decides what is left: {lengths:?}");
}

#[test]
fn what_a_process_had_of_the_disk_is_of_no_use_to_a_thread_that_outlives_it() {
    for is_crash in [false, true] {
        let disk = TwinDisk::new(SECTOR);
        let had = Had::of(&disk.clone());
        disk.sync_dir().unwrap();
        if is_crash {
            disk.crash(1);
        } else {
            disk.kill()
        }
        let found = disk.snapshot();
        had.is_of_no_use();
        assert_eq!(disk.snapshot(), found);
        assert!(Had::of(&disk.clone()).disk.lock().is_ok(), "the next one has it");
    }
}

/// What a process has of a disk.
struct Had {
    disk: TwinDisk,
    file: Arc<dyn DiskFile>,
    tree: Arc<dyn Tree>,
}

impl Had {
    fn of(disk: &TwinDisk) -> Had {
        let file = disk.create("a").unwrap();
        Had { disk: disk.clone(), file, tree: disk.tree(TreeOptions::default()).unwrap() }
    }

    fn is_of_no_use(&self) {
        let Had { disk, file, tree } = self;
        let head = CommitHead { position: 1, ..CommitHead::default() };
        let everything = Range { from: KeyBytes::default(), until: KeyBytes::default(), limit: 1 };
        let uses = [
            ("create", disk.create("b").is_err()),
            ("create again", disk.create("a").is_err()),
            ("open", disk.open("a").is_err()),
            ("list", disk.list().is_err()),
            ("remove", disk.remove("a").is_err()),
            ("rename", disk.rename("a", "b").is_err()),
            ("sync the directory", disk.sync_dir().is_err()),
            ("lock", disk.lock().is_err()),
            ("look for the directory", disk.is_still_there().is_err()),
            ("make the tree", disk.tree(TreeOptions::default()).is_err()),
            ("set the tree aside", disk.set_tree_aside().is_err()),
            ("write", file.write_at(0, b"x").is_err()),
            ("read", file.read_at(0, &mut []).is_err()),
            ("sync", file.sync().is_err()),
            ("preallocate", file.preallocate(9, Preallocate::Reserved).is_err()),
            ("set the length", file.set_len(9).is_err()),
            ("length", file.length().is_err()),
            ("get", tree.get_many(&[]).is_err()),
            ("scan", tree.scan(&everything).is_err()),
            ("commit", tree.commit(&head, &mut std::iter::empty()).is_err()),
            ("compact", tree.compact_step().is_err()),
            ("verify", tree.verify().is_err()),
            ("weigh", tree.weigh(&everything).is_err()),
        ];
        let works: Vec<_> = uses.iter().filter(|(_, fails)| !fails).map(|(what, _)| what).collect();
        assert!(works.is_empty(), "these work without power: {works:?}");
    }
}
