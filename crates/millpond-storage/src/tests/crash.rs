//! Power cuts, kills, failing operations and a full disk, at every operation of a workload.

use crate::twin::{Fault, SECTOR, SMALL_SECTOR, Seed, TwinDisk};
use crate::{CommitError, Mark, OpenError};

use super::calls;
use super::workload::{SEGMENT, Workload, check_extents, checkpoint, publish, state};
use crate::tree::TreeError;

/// Steps of the workload whose every operation is cut.
const STEPS: u32 = 110;
/// Power cuts that follow on each, in what it has left.
const AGAIN: u64 = 3;

/// Opens and works until the plan strikes. True if it did.
fn work(workload: &mut Workload, steps: u32) -> bool {
    let mut opened = match workload.open() {
        Ok(opened) => opened,
        Err(OpenError::Io { .. } | OpenError::Failed(_)) => return true,
        Err(OpenError::Tree { error: TreeError::Io(error), .. }) if error.to_string().contains("power") => return true,
        Err(error) => panic!("a power cut is never damage: {error}"),
    };
    (0..steps).any(|_| workload.step(&mut opened).is_err())
}

fn cut_at(operation: u64, seed: u64, sector: usize, steps: u32) -> bool {
    let mut workload = Workload::new(TwinDisk::new(sector), seed);
    workload.disk.plan(operation, Fault::PowerCut);
    let cut = work(&mut workload, steps);
    workload.disk.crash(seed ^ operation << 8);
    // Again, from what the first cut has left, and so over what an earlier start has written and lost.
    for again in 1..=AGAIN {
        workload.disk.plan(operation * again % 29, Fault::PowerCut);
        work(&mut workload, 12);
        workload.disk.crash(seed ^ operation << 8 ^ again);
    }
    workload.open().expect("the directory opens after every power cut");
    cut
}

#[test]
fn nothing_durable_is_lost_when_the_power_fails_at_any_operation() {
    for sector in [SMALL_SECTOR, SECTOR] {
        let operations = (0..).find(|operation| !cut_at(*operation, 7, sector, STEPS)).expect("the workload ends");
        assert!((150..250).contains(&operations), "every operation of a workload of about 200: {operations}");
        println!(
            "{operations} operations with sectors of {sector} bytes, the power cut at each, and {AGAIN} times after that"
        );
    }
}

#[test]
fn nothing_durable_is_lost_in_longer_workloads_cut_here_and_there() {
    let mut seed = Seed::new(11);
    for run in 0..60 {
        cut_at(seed.below(900), run, SMALL_SECTOR, 300);
    }
}

#[test]
fn a_kill_loses_nothing_that_was_written() {
    for operation in 0..190 {
        let mut workload = Workload::new(TwinDisk::new(SECTOR), 3);
        workload.disk.plan(operation, Fault::PowerCut);
        work(&mut workload, STEPS);
        workload.disk.kill();
        workload.open().expect("the directory opens after a kill");
    }
}

/// Found by a simulated life: what a kill leaves is seen by the next start, and is not durable.
#[test]
fn a_power_cut_in_the_start_after_a_kill_loses_nothing_durable() {
    for operation in 0..190 {
        for again in 0..6 {
            let mut workload = Workload::new(TwinDisk::new(SECTOR), 3);
            workload.disk.plan(operation, Fault::PowerCut);
            work(&mut workload, STEPS);
            workload.disk.kill();
            workload.disk.plan(again, Fault::PowerCut);
            work(&mut workload, 1);
            workload.disk.crash(operation ^ again << 8);
            workload.open().expect("the directory opens after a kill and a power cut");
        }
    }
}

#[test]
fn a_failed_operation_poisons_and_a_restart_goes_on() {
    let mut poisoned = 0;
    for operation in 0..190 {
        let mut workload = Workload::new(TwinDisk::new(SECTOR), 5);
        workload.disk.plan(operation, Fault::Error);
        let Ok(mut opened) = workload.open() else {
            workload.disk.crash(operation);
            workload.open().expect("the directory opens once the disk is in order");
            continue;
        };
        if (0..STEPS).any(|_| workload.step(&mut opened).is_err()) {
            poisoned += 1;
            let first = opened.committer.sync().expect_err("a failure is final").to_string();
            assert!(first.contains("restart the broker"), "{first}");
            assert_eq!(opened.housekeeper.step().unwrap_err().to_string(), first);
            let now = opened.core.now();
            if let Some(batch) = opened.appender.seal(now).or_else(|| opened.appender.mark(now, Mark::Stop)) {
                let error = opened.committer.write(batch).expect_err("nothing is written any more");
                assert!(matches!(&error, CommitError::Failed(failure) if failure.to_string() == first));
            }
        }
        // The system lives on and shows what it could not sync. Once started on, it must be durable.
        workload.disk.kill();
        let opened = workload.open().expect("the directory opens once the disk is in order");
        drop(opened);
        workload.disk.crash(operation);
        workload.open().expect("the directory opens after a power cut");
    }
    assert!(poisoned > 100, "{poisoned}");
}

#[test]
fn a_full_disk_refuses_publishes_and_finishing_brings_the_space_back() {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), 9);
    workload.disk.set_capacity(Some(6 * SEGMENT));
    let mut opened = workload.open().unwrap();
    let mut seed = Seed::new(1);
    while opened.housekeeper.step().unwrap() {}
    while !opened.appender.disk_full() {
        workload.turn(&mut opened, publish(&mut seed)).unwrap();
        while opened.housekeeper.step().unwrap() {}
    }
    let before = opened.core.pages().count();
    let outputs = workload.turn(&mut opened, publish(&mut seed)).unwrap();
    assert!(format!("{outputs:?}").contains("DiskFull"), "{outputs:?}");
    assert_eq!(opened.core.pages().count(), before);
    // Finishing goes on, into the reserve.
    for _ in 0..100 {
        workload.receive(&mut opened).unwrap();
        workload.ack(&mut opened).unwrap();
    }
    workload.mark(&mut opened, Mark::Idle).unwrap();
    assert!(opened.appender.checkpoint_due(&opened.core, false), "a checkpoint would give space back");
    checkpoint(&mut opened);
    assert!(!opened.appender.disk_full(), "{} used", workload.disk.used());
    let outputs = workload.turn(&mut opened, publish(&mut seed)).unwrap();
    assert!(format!("{outputs:?}").contains("Queued"), "{outputs:?}");
    check_extents(&opened);
}

#[test]
fn a_disk_that_fills_at_any_moment_of_a_checkpoint_or_a_move_stops_publishes_alone() {
    // Space is taken by segments and by commits of the tree: less room, and another of these is the first without.
    let mut full = 0;
    for room in (0..8 * SEGMENT).step_by(1024) {
        let mut workload = Workload::new(TwinDisk::new(SECTOR), 13);
        let mut opened = workload.open().unwrap();
        while opened.housekeeper.step().unwrap() {}
        workload.disk.set_capacity(Some(workload.disk.used() + room));
        (0..STEPS).try_for_each(|_| workload.step(&mut opened)).expect("finishing, checkpoints and moves go on");
        full += u32::from(opened.appender.disk_full());
        // The reserve is for checkpoints as well.
        workload.mark(&mut opened, Mark::Idle).unwrap();
        if opened.appender.checkpoint_due(&opened.core, false) {
            opened.appender.checkpoint(&mut opened.core);
        }
        while opened.housekeeper.step().expect("a full disk is no failure") {}
        assert!(opened.store.sealed().is_none(), "with room for {room} bytes, the checkpoint is written");
        workload.disk.set_capacity(None);
        while opened.housekeeper.step().unwrap() {}
        let outputs = workload.turn(&mut opened, publish(&mut Seed::new(1))).unwrap();
        assert!(format!("{outputs:?}").contains("Queued"), "with room for {room} bytes and then more: {outputs:?}");
        check_extents(&opened);
        drop(opened);
        workload.disk.crash(room);
        // What comes back is held against what was durable.
        workload.open().expect("the directory opens");
    }
    assert!(full > 10, "{full} runs filled the disk");
}

#[test]
fn a_checkpoint_for_which_a_full_disk_has_no_room_is_not_tried_again_and_again() {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), 9);
    let mut opened = workload.open().unwrap();
    // More entries than the reserve and what is free have room for.
    let names: Vec<String> = (0..400).map(|topic| format!("{topic:0100}")).collect();
    for names in names.chunks(40) {
        let runs = names.iter().map(|name| calls::run(name, &[], [&[7; 10][..]]));
        workload.turn(&mut opened, calls::publish(runs.collect())).unwrap();
        while opened.housekeeper.step().unwrap() {}
    }
    workload.disk.set_capacity(Some(workload.disk.used()));
    workload.mark(&mut opened, Mark::Idle).unwrap();
    opened.appender.checkpoint(&mut opened.core);
    while opened.appender.capture(&mut opened.core) {}
    let has_reserve = || workload.disk.snapshot().keys().any(|name| name.starts_with("spare-"));
    assert!(has_reserve());
    let before = workload.disk.operations();
    for _ in 0..100 {
        opened.housekeeper.step().unwrap();
    }
    let tried = workload.disk.operations() - before;
    assert!(opened.store.sealed().is_some(), "there is no room for it");
    // Each step looks for space.
    assert!(tried < 112, "{tried} operations");
    assert!(has_reserve(), "what ends messages goes on meanwhile");
    workload.disk.set_capacity(None);
    (0..2).for_each(|_| opened.housekeeper.second_passed());
    while opened.housekeeper.step().unwrap() {}
    assert!(opened.store.sealed().is_none(), "it is written when there is room");
}

#[test]
fn a_batch_waits_unharmed_where_even_the_reserve_is_used_up() {
    let mut workload = Workload::new(TwinDisk::new(SECTOR), 9);
    let mut opened = workload.open().unwrap();
    workload.disk.set_capacity(Some(workload.disk.used()));
    let (mut seed, mut batches) = (Seed::new(1), 0);
    let batch = loop {
        // Publishes go on here as nothing in the server would let them.
        opened.core.submit(millpond_core::command::Ticket(batches), publish(&mut seed), &mut opened.appender);
        batches += 1;
        let batch = opened.appender.seal(opened.core.now()).unwrap();
        match opened.committer.write(batch) {
            Ok(()) => _ = opened.committer.sync().unwrap(),
            Err(CommitError::DiskFull(batch)) => break *batch,
            Err(error) => panic!("{error}"),
        }
    };
    assert!(opened.appender.disk_full());
    workload.disk.set_capacity(None);
    opened.committer.write(batch).unwrap();
    opened.committer.sync().unwrap();
    let pages = state(&opened.core);
    drop(opened);
    workload.disk.crash(0);
    let again = crate::open::<millpond_core::Core>(std::sync::Arc::new(workload.disk), &super::workload::options());
    assert_eq!(state(&again.unwrap().core), pages);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed| {
        let mut workload = Workload::new(TwinDisk::new(SECTOR), seed);
        let mut opened = workload.open().unwrap();
        (0..200).for_each(|_| workload.step(&mut opened).unwrap());
        workload.disk.snapshot()
    };
    assert!(run(1) == run(1));
    assert!(run(1) != run(2));
}
