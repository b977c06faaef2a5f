//! What leaves memory where there is too little of it, and when that is not enough.

use bytes::Bytes;
use millpond_core::Now;
use millpond_core::command::*;
use millpond_core::store::Want;
use millpond_types::limits::PUBLISH_RUNS_MAX;
use millpond_types::{GroupKind, GroupName, Millis, NamespaceName, Start, TopicName};

use crate::ask::asked;
use crate::bare::Bare;
use crate::history::{Known, publish_run, receive};

/// More than are looked at in one turn.
const TOPICS: u32 = 3000;

#[test]
fn while_others_can_leave_those_that_are_leased_do_not_make_it_crowded() {
    let mut bare: Bare = Bare::new();
    fill(&mut bare, TOPICS, |at| format!("{at:05}"));
    // The first half has not been used for longest.
    turn(&mut bare, receive(TOPICS / 2));
    let bytes = bare.core.resident_bytes();
    bare.core.set_room(bytes * 3 / 4);
    while bare.core.make_room() {
        assert!(!bare.core.is_crowded(), "some can still leave");
    }
    assert!(!bare.core.is_crowded() && bare.core.resident_bytes() <= bytes * 3 / 4);
    assert!(bare.core.cold_count() > 0);
}

#[test]
fn it_is_crowded_when_none_can_leave_and_no_longer_when_one_can() {
    let mut bare: Bare = Bare::new();
    fill(&mut bare, TOPICS, |at| format!("{at:05}"));
    let receipts = turn(&mut bare, receive(TOPICS));
    bare.core.set_room(0);
    for _ in 0..=TOPICS {
        if !bare.core.make_room() {
            break;
        }
    }
    assert!(bare.core.is_crowded(), "all are leased");
    let release = FinishVerb::Release { delay: Millis::ZERO };
    turn(&mut bare, Command::Finish(Finish { verb: release, receipts, confirm: false, namespace: None }));
    assert!(!bare.core.is_crowded());
}

/// Those whose leases run out at once leave some hundreds at a time. Ten clients with such leases, over 200,000 topics, had nearly all
/// of them in memory, 318 MiB where 256 were given.
#[test]
fn no_more_are_brought_than_leave_where_leases_end_at_once() {
    const ROOM: usize = 8 << 20;
    const ALL: u32 = 30_000;
    let mut bare: Bare = Bare::new();
    bare.core.set_room(ROOM);
    for from in (0..ALL).step_by(1000) {
        fill(&mut bare, 1000, |at| format!("{:05}", from + at));
        while bare.core.make_room() {}
    }
    let (mut given, mut most) = (0, 0);
    for _ in 0..200 {
        (0..100).for_each(|_| bare.submit(short(2048)));
        // What is read comes while the writer is at it.
        while !bare.core.wanted().is_empty() {
            let wants = bare.wanted();
            bare.load(wants);
            given += bare.turn().iter().map(|run| run.count).sum::<u32>();
        }
        bare.core.make_room();
        most = most.max(bare.core.resident_bytes());
        let Now { run, wall } = bare.core.now();
        bare.core.set_time(Now { run: run + Millis(100), wall: wall + Millis(100) });
        given += bare.turn().iter().map(|run| run.count).sum::<u32>();
    }
    assert!(given > ALL, "{given} messages were given");
    assert!(most < ROOM + ROOM / 2, "{most} bytes of {ROOM}");
}

/// Or publishes wait, for a consumer that has left.
#[test]
fn topics_that_hold_very_much_and_were_read_ahead_leave_for_want_of_room() {
    const ROOM: usize = 1 << 20;
    let mut bare: Bare = Bare::new();
    // Messages of topics that are published to by turns are runs of their own.
    (0..600).for_each(|_| _ = turn(&mut bare, publish(300)));
    bare.core.set_room(ROOM);
    rest(&mut bare);
    let (bytes, cold) = (bare.core.resident_bytes(), bare.core.cold_count());
    assert!(bytes <= ROOM && cold > 30, "they take more than there is room for: {bytes} bytes, {cold}");
    for _ in 0..20 {
        bare.submit(receive(1));
        let receipts = rest(&mut bare);
        assert_eq!(receipts.len(), 1);
        turn(&mut bare, Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: false, namespace: None }));
        let wake = bare.core.next_wake().expect("what was read ahead is looked at again");
        let Now { run, wall } = bare.core.now();
        bare.core.set_time(Now { run: run + wake, wall: wall + wake });
        rest(&mut bare);
        assert!(!bare.core.is_crowded());
        assert!(bare.core.resident_bytes() <= ROOM, "{} bytes", bare.core.resident_bytes());
    }
}

/// Or each message costs a read of all that a topic has in memory: turns come round to a topic when it has not been used for
/// longest.
#[test]
fn topics_with_long_lines_have_room_for_the_front_of_each() {
    const TOPICS: u32 = 200;
    const MESSAGES: u32 = 400;
    const TOGETHER: u32 = 25;
    let mut bare: Bare = Bare::new();
    (0..MESSAGES).for_each(|_| _ = turn(&mut bare, publish(TOPICS)));
    let bytes = bare.core.resident_bytes();
    bare.core.set_room(bytes / 4);
    rest(&mut bare);
    assert_eq!(bare.core.cold_count(), 0, "all have become shorter, and none has left");
    let mut reads = 0;
    for _ in 0..MESSAGES * TOPICS / TOGETHER {
        bare.submit(receive(TOGETHER));
        let (receipts, wanted) = rest_and_count(&mut bare);
        reads += wanted;
        assert_eq!(receipts.iter().map(|run| run.count).sum::<u32>(), TOGETHER);
        assert!(bare.core.resident_bytes() <= bytes / 3, "{} bytes of {bytes}", bare.core.resident_bytes());
        turn(&mut bare, Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: false, namespace: None }));
    }
    assert!(reads <= (TOPICS * MESSAGES / 8) as usize, "{reads} reads for {} messages", TOPICS * MESSAGES);
}

/// Or each is read several times, of which all but one were for nothing.
#[test]
fn topics_that_were_read_ahead_stay_for_their_turn_where_there_is_room() {
    let mut bare: Bare = Bare::new();
    // In each of very many tenants dispatch goes on in a place of its own.
    fill(&mut bare, 2 * TOPICS, |at| format!("{:03}/{at}", at % 400));
    let bytes = bare.core.resident_bytes();
    bare.core.set_room(0);
    rest(&mut bare);
    bare.core.set_room(bytes * 8);
    let (mut leased, mut most) = (0, 0);
    for _ in 0..40 {
        bare.submit(receive(50));
        leased += rest(&mut bare).len();
        let (stay, all) = (bare.core.residents().filter(|(.., stays)| *stays).count(), bare.core.resident_count());
        assert_eq!(stay, all - leased);
        most = most.max(stay);
    }
    assert!(most > 1024, "{most} wait for their turn, {leased} were leased");
}

/// Names, what they are looked up by in each group, and what the command says.
#[test]
fn all_that_waits_for_the_disk_is_counted() {
    const GROUPS: usize = 3;
    let mut bare: Bare = Bare::new();
    for at in 1..GROUPS {
        let (namespace, name) = (NamespaceName::default(), GroupName::try_from(format!("g{at}").as_str()).unwrap());
        bare.submit(Command::GroupCreate { namespace, name, start: Start::Latest, kind: GroupKind::Shared });
    }
    let name = |at: usize| TopicName::try_from(format!("{at}{}", "n".repeat(500)).as_str()).unwrap();
    turn(&mut bare, publish_named((0..6).map(|at| name(at).to_string())));
    bare.core.set_room(0);
    rest(&mut bare);
    assert_eq!(bare.core.cold_count(), 6 * GROUPS as u64);
    bare.core.freeze();
    while !bare.core.capture(1) {}
    bare.store.model().write_sealed();
    let topic = |at| TopicRef { namespace: NamespaceName::default(), name: name(at) };
    let which = Which::Dedup(1);
    let commands = [
        Command::Look(Look { topic: topic(0), which: LookWhich::One(which), group: None }),
        Command::Topic(topic(1)),
        Command::Cancel { topic: topic(2), which },
        Command::Forget { topic: topic(3), dedup_hash: 1 },
        Command::Reschedule { topic: topic(4), which, delay: Millis::ZERO },
        publish_named([name(5).to_string()].into_iter()),
    ];
    for command in &commands {
        let before = bare.core.parked_bytes();
        bare.submit(command.clone());
        let first = bare.core.parked_bytes() - before;
        // Each group has an entry for it, whose key is with the gate and among what is asked for.
        let least = size_of::<Command>() + 500 + GROUPS * 2 * 500;
        assert!(first >= least, "{first} bytes of {least}: {command:?}");
        bare.submit(command.clone());
        let second = bare.core.parked_bytes() - before - first;
        assert!(second >= size_of::<Command>() + 500 && second < first, "{second} bytes behind {first}: {command:?}");
    }
    assert_eq!(bare.core.parked_count(), 2 * commands.len());
    rest(&mut bare);
    assert_eq!((bare.core.parked_count(), bare.core.parked_bytes()), (0, 0));
}

/// However small it is, and however large the buffer.
#[test]
fn what_is_parked_keeps_no_buffer_when_it_is_detached() {
    let mut bare: Bare = Bare::new();
    let name = "n".repeat(200);
    turn(&mut bare, publish_named([name.clone()].into_iter()));
    bare.core.set_room(0);
    rest(&mut bare);
    bare.core.freeze();
    while !bare.core.capture(1) {}
    bare.store.model().write_sealed();
    let Command::Publish(mut publish) = publish_named([name.clone()].into_iter()) else { unreachable!("it is one") };
    let buffer = Bytes::from([name.as_bytes(), &publish.runs[0].block, &[0; 10_000]].concat());
    let behind = name.len() + publish.runs[0].block.len();
    publish.runs[0].topic = TopicName::new(buffer.slice(..name.len())).unwrap();
    publish.runs[0].block = buffer.slice(name.len()..behind);
    bare.submit(Command::Publish(publish));
    assert_eq!(bare.core.parked_count(), 1);
    bare.core.detach_last_parked(behind);
    assert!(!buffer.is_unique(), "it is no smaller part than that");
    bare.core.detach_last_parked(behind + 1);
    assert!(buffer.is_unique());
    rest(&mut bare);
    assert_eq!(bare.core.parked_count(), 0);
}

/// Turns until nothing more happens by itself; the leases that they give.
fn rest(bare: &mut Bare) -> Vec<ReceiptRun> {
    rest_and_count(bare).0
}

/// The same, with how many answers of the store that took.
fn rest_and_count(bare: &mut Bare) -> (Vec<ReceiptRun>, usize) {
    let (mut receipts, mut reads) = (Vec::new(), 0);
    loop {
        let runs = bare.turn();
        receipts.extend(runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }));
        let wanted = bare.wanted();
        if !bare.core.make_room() && wanted.is_empty() {
            return (receipts, reads);
        }
        reads += wanted.len();
        bare.load(wanted);
    }
}

/// Consumers that came and went, each for other names, left behind what had been asked for them: with 64 MiB, five gigabytes in forty
/// seconds. Prefixes did so as well.
#[test]
fn what_is_read_for_those_who_come_and_go_has_a_bound() {
    for mark in ["", "*"] {
        let mut bare: Bare = Bare::new();
        fill(&mut bare, 10, |at| format!("cold/{at}"));
        bare.core.set_room(0);
        while bare.core.make_room() {}
        assert_eq!(bare.core.cold_count(), 10, "all are in the store alone");
        let mut wants = Vec::new();
        for round in 0..400 {
            come_and_go(&mut bare, (1, round), mark, &mut wants);
        }
        assert!((200..300).contains(&wants.len()), "{} reads are on their way", wants.len());
        // Whoever stays has its turn, while others go on coming and would take all that becomes free.
        bare.submit(asked("receive cold/3 cold/8 wait=1000s max=1"));
        let mut given = 0;
        for round in 400..600 {
            given += come_and_go(&mut bare, (8, round), mark, &mut wants);
            let some = wants.drain(..wants.len().min(4)).collect();
            bare.load(some);
        }
        assert_eq!(given, 1, "messages were given, and {} reads are on their way", wants.len());
    }
}

/// So many clients attach, each for names or prefixes that nobody has asked for before, and end in the next turn. What both turns
/// give, and want.
fn come_and_go(bare: &mut Bare, (clients, round): (u32, u32), mark: &str, wants: &mut Vec<Want>) -> usize {
    for client in 0..clients {
        let names: Vec<String> = (0..10).map(|at| format!("none/{client}/{round}/{at}{mark}")).collect();
        bare.submit(asked(&format!("begin s{client}")));
        bare.submit(asked(&format!("attach s{client}.1 {} max=1", names.join(" "))));
    }
    let given = bare.turn().len();
    (0..clients).for_each(|client| bare.submit(asked(&format!("end s{client}"))));
    let given = given + bare.turn().len();
    wants.extend(bare.wanted());
    given
}

/// A turn with one command; the leases that it gives.
fn turn(bare: &mut Bare, command: Command) -> Vec<ReceiptRun> {
    bare.submit(command);
    bare.turn().iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect()
}

/// Publishes to more topics than one publish may name.
fn fill(bare: &mut Bare, topics: u32, name: impl Fn(u32) -> String) {
    let names: Vec<String> = (0..topics).map(name).collect();
    names.chunks(PUBLISH_RUNS_MAX).for_each(|names| _ = turn(bare, publish_named(names.iter().cloned())));
}

fn publish(topics: u32) -> Command {
    publish_named((0..topics).map(|at| format!("{at:05}")))
}

fn publish_named(topics: impl Iterator<Item = String>) -> Command {
    let mut known = Known::default();
    let runs = topics.map(|topic| publish_run(&mut known, &topic, 1, None));
    let (namespace, level) = (NamespaceName::default(), Level::Durable);
    Command::Publish(Publish { namespace, producer: None, level, runs: runs.collect() })
}

/// With a lease that is over by the next turn.
fn short(messages: u32) -> Command {
    let Command::Receive(all) = receive(messages) else { unreachable!("it receives") };
    Command::Receive(Receive { lease: Some(Millis(100)), ..all })
}
