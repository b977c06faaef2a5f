//! What others finish before a start has come to it is saved for the group that starts, and stays in memory until then: no more
//! of it than there is room for.

use millpond_core::command::{Command, Finish, FinishVerb, Forward, ReceiptRun, TopicRef, Which};
use millpond_core::output::{LeasedRun, Notice};
use millpond_core::page::Page;
use millpond_core::store::{Key, Shelf};
use millpond_types::{MessageId, Millis, NamespaceName, Sequence, TopicName};

use crate::bare::Bare;
use crate::checkpoint;
use crate::history::receive;
use crate::script::{Line, Names, command};

/// Long lines that come before, each of which takes a start some turns.
const LONG: usize = 12;
/// Messages of the topic behind them.
const MESSAGES: u32 = 6000;
/// What is delivered of these in a turn, at most.
const IN_A_TURN: u32 = 200;
/// Room for some hundreds of them.
const ROOM: usize = 128 << 10;
/// Far fewer than the start would leave time for.
const SAVED_MAX: u32 = 1000;

#[test]
fn what_is_saved_for_a_start_takes_no_more_than_its_room() {
    let mut bare: Bare = Bare::new();
    for long in 0..LONG {
        tell(&mut bare, &format!("publish a/{long} x*20000 + a/{long} y*20000 + a/{long} z*20000"));
    }
    (0..MESSAGES).for_each(|at| tell(&mut bare, &format!("publish work m{at}")));
    bare.core.set_leases_room(ROOM);
    bare.core.set_room(ROOM);
    while bare.core.make_room() {}
    tell(&mut bare, "pause a/*");
    tell(&mut bare, "group audit start=earliest");
    let (mut finished, mut saved) = (0, 0);
    while finished < MESSAGES {
        bare.submit(receive(IN_A_TURN));
        let leased = turn(&mut bare);
        finished += leased.iter().map(|run| run.count).sum::<u32>();
        let receipts: Vec<_> = leased.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
        if bare.core.has_jobs() {
            saved = finished;
        }
        if !receipts.is_empty() {
            bare.submit(Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: false, namespace: None }));
        }
    }
    assert!(saved > 0 && saved < SAVED_MAX, "{saved} were finished before the start had come to them");
    // None of it is lost for that.
    bare.core.set_room(usize::MAX);
    let mut given = 0;
    for _ in 0..2 * MESSAGES / 1000 {
        bare.submit(said("receive work group=audit max=1000"));
        let leased = turn(&mut bare);
        given += leased.iter().map(|run| run.count).sum::<u32>();
    }
    assert_eq!(given, MESSAGES);
}

fn tell(bare: &mut Bare, text: &str) {
    bare.submit(said(text));
    turn(bare);
}

/// A turn, with what was wanted before it.
fn turn(bare: &mut Bare) -> Vec<LeasedRun> {
    let wants = bare.wanted();
    bare.load(wants);
    bare.turn()
}

fn said(text: &str) -> Command {
    command(&Line::new(text), text, &Names::default())
}

/// Topics that publishes and forwards make meanwhile stay in memory as well. Both wait for the start, as a shell has them wait, and go
/// on in the end.
#[test]
fn topics_that_a_start_has_still_to_come_to_take_no_more_than_their_room() {
    const ROOM: usize = 1 << 20;
    /// Of which each takes some hundreds of bytes.
    const TOPICS: u32 = 12_000;
    const IN_A_TURN: u32 = 100;
    let mut bare: Bare = Bare::new();
    for long in 0..3 * LONG {
        tell(&mut bare, &format!("publish a/{long} x*20000 + a/{long} y*20000 + a/{long} z*20000"));
    }
    bare.core.set_leases_room(ROOM);
    bare.core.set_room(ROOM);
    while bare.core.make_room() {}
    tell(&mut bare, "pause a/*");
    tell(&mut bare, "group audit start=earliest");
    let (mut leased, mut made, mut waited, mut most): (Vec<ReceiptRun>, _, _, _) = (Vec::new(), 0, 0, 0);
    let mut held = Vec::new();
    while made < TOPICS || bare.core.has_jobs() {
        let mut next = || {
            made += 1;
            let Command::Publish(publish) = said(&format!("publish work/{made} m{made}")) else { unreachable!() };
            publish
        };
        let forwards_wait = bare.core.do_starts_hold_too_much();
        let publishes_wait = forwards_wait || bare.core.is_crowded() || bare.core.resident_bytes() > ROOM;
        waited += u32::from(publishes_wait);
        let publishes = (0..if publishes_wait { 0 } else { IN_A_TURN }).map(|_| Command::Publish(next()));
        let mut commands: Vec<Command> = publishes.collect();
        if !forwards_wait {
            let forwards = leased.drain(..).map(|run| (Vec::from([run]), next()));
            commands.extend(forwards.map(|(receipts, publish)| Command::Forward(Forward { receipts, publish })));
        }
        commands.push(receive(IN_A_TURN));
        commands.into_iter().for_each(|command| bare.submit(command));
        let given = turn(&mut bare);
        leased.extend(given.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }));
        most = most.max(bare.core.held_bytes());
        for notice in bare.core.notices().drain(..) {
            if let Notice::Held(namespaces) = notice {
                assert_ne!(held, namespaces, "edges are told of what is not as before");
                held = namespaces;
            }
        }
        let waits = bare.core.do_starts_hold_too_much().then(NamespaceName::default);
        assert_eq!(held, Vec::from_iter(waits), "edges know who has to wait");
    }
    assert!(waited > 0 && most < ROOM, "these took {most} bytes, and {waited} turns brought none");
    // None of it is lost for that.
    bare.core.set_room(usize::MAX);
    let mut given = 0;
    for _ in 0..made / 100 {
        bare.submit(said("receive work/* group=audit max=1000"));
        let leased = turn(&mut bare);
        given += leased.iter().map(|run| run.count).sum::<u32>();
    }
    assert_eq!(given, made);
}

/// What a start has still to come to is idle, and an entry like any other's. It is there all the same when the broker starts anew,
/// before anybody finishes anything.
#[test]
fn a_start_of_the_broker_finds_what_the_start_of_a_group_has_still_to_come_to() {
    let mut bare: Bare = Bare::new();
    tell(&mut bare, "publish a x*20000 + a y*20000 + a z*20000");
    // Behind all that was given out.
    const FIRST: u64 = 60_000;
    tell(&mut bare, "publish work m1 m2");
    bare.submit(said("receive work max=1"));
    let leased = turn(&mut bare);
    tell(&mut bare, "group audit start=earliest");
    tell(&mut bare, "publish work m3");
    bare.core.freeze();
    while !bare.core.capture(1) {}
    bare.store.model().write_sealed();
    bare.store = bare.store.crashed();
    let is_work = |(key, _): &(Key, Page)| matches!(key, Key::Topic { name, .. } if name.as_bytes() == b"work");
    let shelves: Vec<_> = bare.store.disk().into_iter().filter(is_work).map(|(key, _)| key).collect();
    let [Key::Topic { shelf: Shelf::Busy, .. }, Key::Topic { shelf: Shelf::Idle, .. }] = shelves[..] else {
        panic!("one is leased from and one is held: {shelves:?}");
    };
    bare.core = checkpoint::recover(&bare.store, &[]);
    let now = bare.core.now();
    bare.core.start(now, false, &mut bare.journal);
    let receipts = leased.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
    bare.submit(Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: false, namespace: None }));
    turn(&mut bare);
    assert!(bare.core.has_jobs(), "the start goes on behind that");
    while bare.core.has_jobs() {
        turn(&mut bare);
    }
    bare.submit(said("receive work group=audit max=10"));
    let given: Vec<_> = turn(&mut bare).iter().map(|run| (run.first.0, run.count)).collect();
    assert_eq!(bare.core.cold_count(), 0, "no topic is there twice");
    assert_eq!(given, [(FIRST, 1), (FIRST + 1, 1), (FIRST + 2, 1)], "in order, each once");
}

/// More than a level may keep at rest stays in memory where it is saved, and nobody goes over it again and again until the start
/// has come to it.
#[test]
fn what_is_saved_and_rests_asks_for_no_turns() {
    const MESSAGES: u32 = 600;
    let mut bare: Bare = Bare::new();
    tell(&mut bare, "publish a x*20000 + a y*20000 + a z*20000");
    tell(&mut bare, "pause a");
    bare.core.set_leases_room(0);
    bare.core.set_room(0);
    while bare.core.make_room() {}
    bare.core.set_room(usize::MAX);
    (0..MESSAGES).for_each(|at| tell(&mut bare, &format!("publish work m{at}")));
    bare.submit(said("group audit start=earliest"));
    // The start waits for the first topic from here on.
    bare.turn();
    let mut ids = Vec::new();
    while ids.len() < MESSAGES as usize {
        bare.submit(receive(IN_A_TURN));
        let leased = bare.turn();
        for run in &leased {
            let (topic, priority) = (run.receipt.topic, run.priority);
            ids.extend((0..run.count).map(|at| MessageId {
                topic,
                priority,
                sequence: Sequence(run.first.0 + u64::from(at)),
            }));
        }
        let receipts = leased.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
        bare.submit(Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: false, namespace: None }));
    }
    let topic = TopicRef { namespace: NamespaceName::default(), name: TopicName::new("work".into()).unwrap() };
    for id in ids {
        bare.submit(Command::Reschedule { topic: topic.clone(), which: Which::Id(id), delay: Millis::minutes(60) });
    }
    (0..3).for_each(|_| drop(bare.turn()));
    assert!(bare.core.has_jobs() && bare.core.next_wake() > Some(Millis::ZERO), "it waits for what is read");
}
