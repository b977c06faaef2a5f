//! A broker that nobody asks for anything tidies up all the same.

mod by_hand;

use std::sync::Arc;
use std::time::Duration;

use by_hand::{Clock, run};
use millpond_core::Core;
use millpond_core::command::{Command, DedupMark, PublishRun};
use millpond_core::output::Output;
use millpond_core::page::{DedupPage, Page};
use millpond_core::store::{Key, Shelf, Store};
use millpond_server::manual::{ManualBroker, Rooms};
use millpond_storage::twin::TwinDisk;
use millpond_storage::{OpenOptions, open};
use millpond_types::{MessageId, Priority, Sequence, TopicNumber, WallTime};

/// So many messages, each with a dedup id of its own.
fn publish(from: u32, count: u32) -> Command {
    let mark = |index| DedupMark { index, hash: u128::from(from + index) << 96 };
    by_hand::publish(vec![PublishRun { dedup: (0..count).map(mark).collect(), ..run("site", b"body", count) }])
}

/// What is over is dropped by the time of the newest checkpoint: so there has to be one.
#[test]
fn a_broker_at_rest_writes_a_checkpoint_when_many_dedup_ids_are_over() {
    let clock = Clock::new();
    let options = OpenOptions { young_bytes: 1 << 20, ..OpenOptions::default() };
    let opened = open::<Core>(Arc::new(TwinDisk::new(512)), &options).unwrap();
    let (mut broker, _) =
        ManualBroker::start(opened, Rooms { topics: 64 << 20, layers: 2 << 20, ..Rooms::least() }, clock.clone())
            .unwrap();
    for batch in 0..20 {
        let ticket = ManualBroker::<Clock>::ticket(batch);
        let mut waiting = broker.submit(ticket, publish(batch * 5000, 5000));
        while let Some(command) = waiting {
            broker.write().unwrap();
            broker.commit();
            while broker.fetch(0) || broker.fetch(1) || broker.housekeeper.step().unwrap() {}
            waiting = broker.submit(ticket, command);
        }
    }
    // Until it rests, and what it holds is in a checkpoint.
    let rest = |broker: &mut ManualBroker<Clock>| {
        let mut done = 0;
        loop {
            let sleep = broker.write().unwrap();
            let went_on = broker.commit() | broker.fetch(0) | broker.fetch(1);
            while broker.housekeeper.step().unwrap() {
                done += 1;
            }
            let is_short = sleep.is_some_and(|sleep| sleep < Duration::from_secs(60));
            if !went_on && !is_short {
                return (sleep, done);
            }
            clock.pass(sleep.unwrap_or_default());
        }
    };
    let (sleep, _) = rest(&mut broker);
    clock.pass(sleep.expect("it wakes when they are over"));
    let (sleep, done) = rest(&mut broker);
    assert!(done > 0, "a checkpoint is written though nothing came");
    assert!(sleep.is_some(), "and it looks again when it is known what is left");
    while broker.housekeeper.tend().unwrap() {}
    assert_eq!(rest(&mut broker).0, None, "then it rests for good");
}

/// Who only looks has entries brought into memory and put back, and nothing is said in the journal.
#[test]
fn a_broker_at_rest_writes_a_checkpoint_where_publishes_wait_for_the_room_that_it_makes() {
    const LAYERS: usize = 64 << 10;
    let clock = Clock::new();
    let options = OpenOptions { young_bytes: LAYERS / 2, ..OpenOptions::default() };
    let opened = open::<Core>(Arc::new(TwinDisk::new(512)), &options).unwrap();
    let mut store = opened.store.clone();
    let (mut broker, _) =
        ManualBroker::start(opened, Rooms { topics: 64 << 20, layers: LAYERS, ..Rooms::least() }, clock.clone())
            .unwrap();
    let go_on = |broker: &mut ManualBroker<Clock>| {
        let sleep = broker.write().unwrap();
        while broker.commit() || broker.fetch(0) || broker.fetch(1) || broker.housekeeper.step().unwrap() {}
        clock.pass(sleep.unwrap_or(Duration::from_millis(1)));
    };
    let mut hashes = 0..;
    let mut fill = || {
        while store.memory().young <= LAYERS {
            let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(1) };
            let hash = hashes.next().expect("they are many");
            let page = Page::Dedup(DedupPage { namespace: 0, hash, id, until: WallTime::NEVER });
            store.put(&Key::of(&page, Shelf::Idle), &page);
        }
    };
    // The first checkpoint has a mark behind it, and the second nothing.
    for _ in 0..2 {
        fill();
        (0..100).for_each(|_| go_on(&mut broker));
        assert!(broker.is_marked());
    }
    fill();
    let ticket = ManualBroker::<Clock>::ticket(1);
    assert!(broker.submit(ticket, publish(0, 10)).is_none());
    for _ in 0..100 {
        go_on(&mut broker);
        let told = broker.take_told();
        if told.iter().any(|output| matches!(output, Output::Reply { ticket: of, .. } if *of == ticket)) {
            return;
        }
    }
    panic!("nobody answers");
}
