//! What is read for what is delivered: rows of the tree, and bodies that lie side by side.

use std::sync::Arc;

use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun, Receive};
use millpond_core::output::{Extent, Output, Reply};
use millpond_core::{Core, Now};
use millpond_types::{GroupKind, GroupName, NamespaceName, RunTime, Start, WallTime};

use super::calls::{self, receive, turn};
use super::workload::{self, Workload, checkpoint};
use crate::journal::read::close_together;
use crate::twin::{SECTOR, TwinDisk};
use crate::{Mark, OpenOptions, Opened, open};

/// Publishes a message to each topic of each tenant and drains them, `take` at a time, with so much memory for topics; how many
/// rows of the tree that reads for each message.
fn rows_read(tenants: u32, topics: u32, room: usize, take: u32) -> f64 {
    let options = OpenOptions { room, ..OpenOptions::default() };
    let mut opened = open::<Core>(Arc::new(TwinDisk::new(SECTOR)), &options).unwrap();
    opened.start(Now { run: RunTime(1), wall: WallTime(1) }).unwrap();
    for tenant in 0..tenants {
        let names = (0..topics).map(|topic| format!("{tenant:05}/{topic:05}"));
        turn(&mut opened, calls::publish(names.map(|name| calls::run(&name, &[], [&b"body"[..]])).collect()));
    }
    opened.core.set_room(0);
    while opened.core.make_room() {}
    checkpoint(&mut opened);
    opened.core.set_room(room);
    assert_eq!(opened.core.cold_count(), u64::from(tenants * topics));
    let before = opened.store.tree().stats().keys_scanned;
    let mut delivered = 0;
    while delivered < tenants * topics {
        let Some(Output::Reply { reply: Reply::Received(runs), .. }) = turn(&mut opened, receive(take)).pop() else {
            panic!("a receive is answered with what is there")
        };
        delivered += runs.iter().map(|run| run.count).sum::<u32>();
        let receipts = runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
        turn(&mut opened, Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: true, namespace: None }));
    }
    let rows = opened.store.tree().stats().keys_scanned - before;
    rows as f64 / f64::from(delivered)
}

/// All tenants go on side by side. Where one of them ends, the next one's first topics were served long since: they are
/// gone in memory and still on the disk, and reading on into them would cost the more, the more there were.
#[test]
fn a_topic_on_the_disk_is_read_about_once() {
    // A dozen of each tenant may be read ahead.
    let each = rows_read(50, 200, 6 * 1024 * 1024, 100);
    assert!(each <= 1.5, "{each} rows read for each message");
}

/// What is read for a tenant that was just served would be gone again before its next turn.
#[test]
fn where_tenants_have_no_room_each_those_are_read_whose_turn_is_next() {
    let each = rows_read(1000, 20, 1024 * 1024, 100);
    assert!(each <= 3.0, "{each} rows read for each message");
}

/// They begin at their first topics again and again. Those that are gone are still on the disk, and are passed over one by one
/// until the next checkpoint, but not for all tenants for the sake of one.
#[test]
fn of_more_tenants_than_are_remembered_what_was_drained_is_passed_over() {
    let each = rows_read(5000, 5, 1024 * 1024, 100);
    assert!(each <= 8.0, "{each} rows read for each message");
}

/// A directory from which nothing was read yet, with messages in `batches` of as many each, and where they lie.
fn with_bodies(disk: &TwinDisk, batches: u32, each: u32) -> (Opened<Core>, Vec<Extent>) {
    let mut opened = open::<Core>(Arc::new(disk.clone()), &OpenOptions::default()).unwrap();
    opened.start(Now { run: RunTime(1), wall: WallTime(1) }).unwrap();
    for batch in 0..batches {
        let bodies: Vec<_> = (0..each).map(|n| (format!("{batch}/{n:03}"), format!("body {batch}.{n}."))).collect();
        let runs = bodies.iter().map(|(name, body)| calls::run(name, &[], [body.as_bytes()]));
        turn(&mut opened, calls::publish(runs.collect()));
    }
    drop(opened);
    let opened = open::<Core>(Arc::new(disk.clone()), &OpenOptions::default()).unwrap();
    let mut extents = Vec::new();
    opened.core.extents(&mut |_, extent| extents.push(extent));
    extents.sort_by_key(|extent| extent.position);
    (opened, extents)
}

#[test]
fn messages_side_by_side_are_read_as_each_of_them_alone() {
    let disk = TwinDisk::new(SECTOR);
    let (opened, extents) = with_bodies(&disk, 3, 40);
    assert_eq!(extents.len(), 120);
    assert!(close_together(&extents) >= 40, "{}", close_together(&extents));
    let told = |read: Result<bytes::Bytes, crate::ReadError>| read.map_err(|error| error.to_string());
    let alone = |extents: &[Extent]| extents.iter().map(|extent| told(opened.reader.read(*extent))).collect::<Vec<_>>();
    let together = |extents: &[Extent]| opened.reader.read_all(extents).into_iter().map(told).collect::<Vec<_>>();
    let backwards: Vec<_> = extents.iter().rev().copied().collect();
    let some: Vec<_> = extents.iter().step_by(7).chain(&extents[..3]).copied().collect();
    for extents in [&extents, &backwards, &some] {
        let read = together(extents);
        assert!(read.iter().all(Result::is_ok));
        assert_eq!(read, alone(extents));
    }

    // One that is damaged takes no other with it.
    let (name, bytes) = disk.snapshot().into_iter().find(|(name, _)| name.ends_with(".journal")).unwrap();
    let body = b"body 1.20.";
    let offset = bytes.windows(body.len()).position(|window| window == body).unwrap();
    disk.flip(&name, offset as u64, 0);
    let read = together(&extents);
    assert_eq!(read.iter().filter(|read| read.is_err()).count(), 1);
    assert_eq!(read, alone(&extents));
    assert!(together(&[]).is_empty());
}

#[test]
fn what_is_far_away_or_before_is_not_read_along() {
    let at = |position, length| Extent { position, length };
    assert_eq!(
        close_together(&[at(0, 10), at(100, 10), at(622, 10), at(1145, 10)]),
        3,
        "512 bytes lie between, then 513"
    );
    assert_eq!(close_together(&[at(100, 10), at(0, 10)]), 1);
    assert_eq!(close_together(&[at(100, 10), at(100, 10)]), 1);
    assert_eq!(close_together(&[at(0, 100_000), at(100_000, 31_072), at(131_072, 1)]), 2, "128 KiB");
    assert_eq!(close_together(&[at(0, 1 << 20)]), 1);
}

/// It has ended in the batch that is told, and the segment that it has emptied may go at once.
#[test]
fn what_was_delivered_at_most_once_can_be_read_when_it_is_told() {
    let mut work = Workload::new(TwinDisk::new(SECTOR), 1);
    let mut opened = work.open().unwrap();
    for _ in 0..40 {
        let bodies = vec![calls::run("t", &[], [&[7; 2000][..]])];
        work.turn(&mut opened, calls::publish(bodies)).unwrap();
    }
    work.checkpoint(&mut opened);
    let segments = || work.disk.snapshot().keys().filter(|name| name.ends_with(".journal")).count();
    let before = segments();
    assert!(before as u64 > 80_000 / workload::SEGMENT, "{before} segments");
    let Command::Receive(receive) = receive(1000) else { unreachable!("it is one") };
    let outputs = turn(&mut opened, Command::Receive(Receive { at_most_once: true, ..receive }));
    let [Output::Reply { reply: Reply::Received(runs), .. }] = &outputs[..] else { panic!("{outputs:?}") };
    while opened.housekeeper.step().unwrap() {}
    let read = runs.iter().filter(|run| opened.reader.read(run.extent).is_ok()).count();
    assert_eq!((read, segments()), (40, before));
    // What nobody reads stays for some seconds and no longer.
    for _ in 0..5 {
        assert_eq!(segments(), before);
        opened.housekeeper.second_passed();
        while opened.housekeeper.step().unwrap() {}
    }
    assert!(segments() < before / 2);
}

/// Its segments stay for a moment, and perhaps nothing more happens that a checkpoint could come from.
#[test]
fn what_was_delivered_at_most_once_gives_a_full_disk_its_room_back() {
    let mut work = Workload::new(TwinDisk::new(SECTOR), 1);
    let mut opened = work.open().unwrap();
    work.checkpoint(&mut opened);
    let publish = |work: &mut Workload, opened: &mut Opened| {
        work.turn(opened, calls::publish(vec![calls::run("t", &[], [&[7; 1000][..]])])).unwrap();
        while opened.housekeeper.step().unwrap() {}
    };
    // A segment and a little more.
    (0..20).for_each(|_| publish(&mut work, &mut opened));
    work.disk.set_capacity(Some(work.disk.used()));
    while !opened.appender.disk_full() {
        publish(&mut work, &mut opened);
    }
    assert!(!opened.appender.checkpoint_due(&opened.core, false), "all of it is live");
    let Command::Receive(receive) = receive(1000) else { unreachable!("it is one") };
    work.turn(&mut opened, Command::Receive(Receive { at_most_once: true, ..receive })).unwrap();
    work.mark(&mut opened, Mark::Idle).unwrap();
    while opened.housekeeper.step().unwrap() {}
    assert!(opened.appender.disk_full());
    assert!(opened.appender.checkpoint_due(&opened.core, false), "what is to be read stays no longer than its time");
    work.checkpoint(&mut opened);
    // Another would let nothing more go.
    let (namespace, name) = (NamespaceName::default(), GroupName::try_from("other").unwrap());
    let group = Command::GroupCreate { namespace, name, start: Start::Latest, kind: GroupKind::Shared };
    work.turn(&mut opened, group).unwrap();
    assert!(opened.appender.disk_full() && !opened.appender.checkpoint_due(&opened.core, false));
    for _ in 0..5 {
        assert!(opened.appender.disk_full());
        opened.housekeeper.second_passed();
        while opened.housekeeper.step().unwrap() {}
    }
    assert!(!opened.appender.disk_full());
}
