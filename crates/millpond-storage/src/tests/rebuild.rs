//! A checkpoint that is gone is made anew in parts, so that a journal of very many topics is applied in little memory.

use std::sync::Arc;

use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun, Receive, Ticket};
use millpond_core::fact::FactLog;
use millpond_core::output::{Output, Reply};
use millpond_core::page::Page;
use millpond_types::{Filter, TopicName};

use super::calls::{self, receive, turn};
use super::workload::{check_extents, state};
use crate::disk::Disk;
use crate::twin::{Fault, SECTOR, Seed, TwinDisk};
use crate::{Identity, OpenError, OpenOptions, Opened, open};

/// So little memory that some dozen topics fill what there is for changed ones, and what there is for those in memory.
fn options() -> OpenOptions {
    OpenOptions {
        segment_bytes: 64 * 1024,
        young_bytes: 8 * 1024,
        room: 32 * 1024,
        checkpoint_entries: 100,
        identity: Identity { directory: 0x0123_4567_89ab_cdef, hash_key: [1, 2] },
        ..OpenOptions::default()
    }
}

fn open_on(disk: &TwinDisk) -> Result<Opened, OpenError> {
    open(Arc::new(disk.clone()), &options())
}

/// A directory whose journal is all there, what a broker does with it, and what is in it.
struct Life {
    disk: TwinDisk,
    seed: Seed,
    state: Vec<Page>,
}

impl Life {
    fn begin(seed: u64) -> Life {
        Life { disk: TwinDisk::new(SECTOR), seed: Seed::new(seed), state: Vec::new() }
    }

    /// A start, so many steps, and an end that is not orderly. Checkpoints are begun and not always written.
    fn lead(&mut self, steps: u32) {
        let mut opened = open_on(&self.disk).unwrap();
        opened.start(opened.report.now).unwrap();
        for _ in 0..steps {
            match self.seed.below(8) {
                0..4 => self.publish(&mut opened),
                4..6 => self.finish(&mut opened),
                6 => {
                    if opened.appender.checkpoint_due(&opened.core, false) {
                        opened.appender.checkpoint(&mut opened.core);
                    }
                }
                _ => while self.seed.below(3) > 0 && opened.housekeeper.step().unwrap() {},
            }
            opened.appender.capture(&mut opened.core);
            let room = options().room;
            opened.core.set_room(room);
            while opened.core.make_room() {}
        }
        // A checkpoint, and what is not durable on both sides of it.
        (0..10).for_each(|_| self.write(&mut opened));
        if !opened.appender.is_checkpointing() {
            opened.appender.checkpoint(&mut opened.core);
        }
        (0..10).for_each(|_| self.write(&mut opened));
        self.state = state(&opened.core);
        drop(opened);
        self.disk.kill();
    }

    fn publish(&mut self, opened: &mut Opened) {
        let command = self.messages();
        turn(opened, command);
    }

    /// The same, without a sync.
    fn write(&mut self, opened: &mut Opened) {
        let (now, command) = (opened.core.now(), self.messages());
        opened.core.submit(Ticket(1), command, &mut opened.appender);
        while opened.store.supply(&mut opened.core, &mut opened.appender).unwrap() {}
        opened.appender.hold(opened.core.holdings());
        opened.committer.write(opened.appender.seal(now).unwrap()).unwrap();
    }

    fn messages(&mut self) -> Command {
        let topics: Vec<u64> = (0..1 + self.seed.below(20)).map(|_| self.seed.below(300)).collect();
        let runs = topics.iter().map(|topic| calls::run(&format!("site/{topic:020}"), &[], [&[7; 24][..]]));
        // What nobody takes keeps every segment.
        let stays = calls::run("stays", &[], [&b"x"[..]]);
        calls::publish(runs.chain([stays]).collect())
    }

    fn finish(&mut self, opened: &mut Opened) {
        let Command::Receive(all) = receive(10) else { unreachable!("it is one") };
        let filter = Filter::Prefixes(vec![TopicName::try_from("site/").unwrap()]);
        let outputs = turn(opened, Command::Receive(Receive { filter, ..all }));
        let runs = outputs.into_iter().find_map(|output| match output {
            Output::Reply { reply: Reply::Received(runs), .. } => Some(runs),
            _ => None,
        });
        let receipts = runs.unwrap_or_default().iter().map(|run| (run.receipt, run.count)).collect::<Vec<_>>();
        let receipts = receipts.into_iter().map(|(first, count)| ReceiptRun { first, count }).collect();
        let verb = if self.seed.below(4) == 0 { FinishVerb::Reject { reason: "no".into() } } else { FinishVerb::Ack };
        turn(opened, Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }));
    }
}

#[test]
fn a_checkpoint_that_is_gone_is_made_anew_in_parts() {
    let mut parts = 0;
    for seed in 0..30 {
        let mut life = Life::begin(seed);
        for _ in 0..4 {
            life.lead(60);
            // What is made anew is as good as what was there: lives go on with it.
            life.disk.set_tree_aside().unwrap();
            let opened = open_on(&life.disk).unwrap();
            parts += u64::from(opened.report.checkpoint > 0);
            assert!(state(&opened.core) == life.state, "seed {seed}");
            check_extents(&opened);
            drop(opened);
            life.disk.kill();
        }
    }
    assert!(parts > 60, "{parts} starts have made checkpoints on their way");
}

#[test]
fn a_rebuild_that_is_cut_short_is_gone_on_with_or_begun_again() {
    let (mut gone_on, mut operations) = (0, 0);
    let mut was_cut = true;
    while was_cut {
        was_cut = false;
        for is_killed in [false, true] {
            let mut life = Life::begin(3);
            life.lead(100);
            life.lead(100);
            let disk = life.disk;
            disk.set_tree_aside().unwrap();
            disk.plan(operations, Fault::PowerCut);
            was_cut |= open_on(&disk).is_err();
            if is_killed {
                disk.kill();
            } else {
                disk.crash(operations);
            }
            let all = open_on(&TwinDisk::from_snapshot(SECTOR, &disk.snapshot())).unwrap().report.batches;
            let opened = open_on(&disk).unwrap();
            gone_on += u32::from(opened.report.batches < all);
            // What was written last was not durable.
            assert!(!is_killed || state(&opened.core) == life.state, "cut at {operations}");
            check_extents(&opened);
        }
        operations += 1;
    }
    assert!(operations > 10 && gone_on > 10, "{operations} operations, {gone_on} went on with a part");
}

/// What is committed on the way says of each segment where it has ended, also of one that the checkpoint before knows as the one
/// that the journal goes on in.
#[test]
fn a_part_behind_a_checkpoint_at_the_end_of_a_segment_is_gone_on_with() {
    let mut life = Life::begin(7);
    let segments = |disk: &TwinDisk| disk.snapshot().keys().filter(|name| name.ends_with(".journal")).count();
    let mut opened = open_on(&life.disk).unwrap();
    opened.start(opened.report.now).unwrap();
    loop {
        let before = segments(&life.disk);
        opened.appender.checkpoint(&mut opened.core);
        while opened.appender.capture(&mut opened.core) || opened.housekeeper.step().unwrap() {}
        life.publish(&mut opened);
        if segments(&life.disk) > before {
            break;
        }
    }
    let checkpoint = opened.appender.position();
    // Two that are begun and not written: the start behind the second one makes a part of its own.
    for _ in 0..2 {
        (0..20).for_each(|_| life.publish(&mut opened));
        opened.appender.checkpoint(&mut opened.core);
        (0..20).for_each(|_| life.publish(&mut opened));
        life.state = state(&opened.core);
        drop(opened);
        life.disk.kill();
        opened = open_on(&life.disk).unwrap();
        opened.start(opened.report.now).unwrap();
    }
    let made = opened.report.checkpoint;
    assert!(made > checkpoint, "a part was made at {made}");
    drop(opened);
    life.disk.kill();
    let opened = open_on(&life.disk).unwrap();
    assert_eq!(opened.report.checkpoint, made, "the part was made, and is gone on with");
    check_extents(&opened);
}

/// The space for the next segments is for it, and with none of that the start waits for room.
#[test]
fn a_rebuild_on_a_full_disk_takes_the_reserve_and_is_refused_without_one() {
    let mut life = Life::begin(5);
    life.lead(300);
    let files = life.disk.snapshot();
    let is_spare = |name: &str| name.starts_with("spare");
    assert!(files.keys().any(|name| is_spare(name)));
    let (mut refused, mut taken) = (0, 0);
    for (room, with_spares) in (0..60).flat_map(|room| [(room * 1024, false), (room * 1024, true)]) {
        let mut files = files.clone();
        files.retain(|name, _| with_spares || !is_spare(name));
        let disk = TwinDisk::from_snapshot(SECTOR, &files);
        disk.set_capacity(Some(disk.used() + room));
        match open_on(&disk) {
            Ok(_) => taken += u32::from(disk.snapshot().len() < files.len()),
            Err(OpenError::Full(place)) => {
                refused += 1;
                assert!(!with_spares && place.contains("tree"), "{place}");
            }
            Err(error) => panic!("room for {room} bytes: {error}"),
        }
        disk.kill();
        disk.set_capacity(None);
        let opened = open_on(&disk).unwrap();
        assert!(state(&opened.core) == life.state, "room for {room} bytes");
        check_extents(&opened);
    }
    assert!(refused > 10 && taken > 10, "{refused} were refused, {taken} took of the reserve");
}
