//! Leased topics do not leave memory, so a holder of very many is given no more of them for a while: what all of them take
//! has a bound, who holds little is served all the same, and everything is delivered as leases end.

mod receives;

use std::collections::BTreeMap;

use millpond_core::command::*;
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_core::{Now, WATCH_EVERY, invariants};
use millpond_types::limits::PUBLISH_RUNS_MAX;
use millpond_types::{Code, LeaseNumber, Millis, NamespaceName, Receipt, RunTime, SessionId, WallTime};
use proptest::prelude::*;

use crate::bare::Bare;
use crate::history::{Known, config, publish_run, receive};
use crate::script::{Line, Names, command};

/// What topics may take.
const ROOM: usize = 2 << 20;
/// More than there is room for.
const TOPICS: usize = 8000;
/// More credit than there are topics.
const ALL: u32 = 1_000_000;
/// Lease runs that are finished at once, of 32 messages at most.
const AT_ONCE: usize = 300;
/// One-shot receives.
const NOBODY: u64 = 0;

/// A core with little room, and who holds what of it.
struct Pond {
    bare: Bare,
    held: BTreeMap<u64, Vec<ReceiptRun>>,
    /// Messages that were delivered.
    delivered: usize,
    most: usize,
    /// Receives that were told that there is something and no memory.
    refused: usize,
    /// Messages that were published with a dedup id.
    piled: u128,
}

impl Pond {
    fn new() -> Pond {
        let mut bare = Bare::new();
        bare.core.set_room(ROOM);
        Pond { bare, held: BTreeMap::new(), delivered: 0, most: 0, refused: 0, piled: 0 }
    }

    /// With a message in each of many topics.
    fn stocked() -> Pond {
        let mut pond = Pond::new();
        (0..TOPICS).step_by(1000).for_each(|from| pond.publish(from..from + 1000, 1));
        pond
    }

    fn publish(&mut self, topics: std::ops::Range<usize>, count: u32) {
        self.publish_to("default", topics, count);
    }

    fn publish_to(&mut self, namespace: &str, topics: std::ops::Range<usize>, count: u32) {
        let mut known = Known::default();
        let topics: Vec<usize> = topics.collect();
        for topics in topics.chunks(PUBLISH_RUNS_MAX) {
            let runs = topics.iter().map(|at| publish_run(&mut known, &format!("t/{at:05}"), count, None)).collect();
            self.publish_runs(namespace, runs);
        }
    }

    /// Publishes so many messages to a topic, each with a dedup id.
    fn pile_up(&mut self, topic: usize, count: u32) {
        let mut run = publish_run(&mut Known::default(), &format!("t/{topic:05}"), count, None);
        let hash = |index| (self.piled + u128::from(index)) << 64;
        run.dedup = (0..count).map(|index| DedupMark { index, hash: hash(index) }).collect();
        self.piled += u128::from(count);
        self.publish_runs("default", vec![run]);
    }

    fn publish_runs(&mut self, namespace: &str, runs: Vec<PublishRun>) {
        let (namespace, level) = (NamespaceName::try_from(namespace).unwrap(), Level::Durable);
        self.bare.submit(Command::Publish(Publish { namespace, producer: None, level, runs }));
        self.settle();
    }

    fn say(&mut self, text: &str) {
        self.bare.submit(command(&Line::new(text), text, &Names::default()));
    }

    /// A session whose only consumer has so much credit.
    fn attach(&mut self, session: u64, messages: u32) {
        self.say(&format!("begin s{session}"));
        self.say(&format!("attach s{session}.1 max={messages} bytes=1000000000"));
        self.settle();
    }

    /// A one-shot receive that is answered, or waits.
    fn receive(&mut self, options: &str) {
        self.say(&format!("receive {options}"));
        self.settle();
    }

    /// Ends the first of what a session holds.
    fn finish(&mut self, session: u64, count: usize, verb: FinishVerb) {
        self.submit_finish(session, count, verb);
        self.settle();
    }

    fn submit_finish(&mut self, session: u64, count: usize, verb: FinishVerb) {
        let held = self.held.entry(session).or_default();
        let receipts: Vec<ReceiptRun> = held.drain(..count.min(held.len())).collect();
        for receipts in receipts.chunks(AT_ONCE) {
            let (verb, receipts) = (verb.clone(), receipts.to_vec());
            self.bare.submit(Command::Finish(Finish { verb, receipts, confirm: false, namespace: None }));
        }
    }

    /// Does something with every second of the first messages that a session holds, each of which is named alone. The others
    /// stay as they are, until they are extended as well.
    fn finish_every_second(&mut self, session: u64, count: usize, verb: FinishVerb) {
        let held = self.held.entry(session).or_default();
        let mut ones = one_by_one(held.drain(..count.min(held.len())).collect());
        let is_extended = matches!(verb, FinishVerb::Extend { .. });
        let odd = ones.iter().skip(1).step_by(2).copied().collect();
        let even: Vec<ReceiptRun> = ones.iter().step_by(2).copied().collect();
        let done = if is_extended {
            vec![even, odd]
        } else {
            ones = odd;
            vec![even]
        };
        held.extend(ones);
        for receipts in done.iter().flat_map(|receipts| receipts.chunks(AT_ONCE)) {
            // No two are extended until the same moment, so no two come to be one again.
            self.pass(Millis(1));
            let (verb, receipts) = (verb.clone(), receipts.to_vec());
            self.bare.submit(Command::Finish(Finish { verb, receipts, confirm: false, namespace: None }));
        }
        self.settle();
    }

    /// A heartbeat leaves out every second of all messages that a session holds, or every one: nobody holds them any more.
    fn leave_out(&mut self, session: u64, step: usize) {
        let mut ones = one_by_one(self.held.remove(&session).unwrap_or_default());
        let except: Vec<ReceiptRun> = ones.iter().step_by(step).copied().collect();
        ones.retain(|one| !except.contains(one));
        self.held.insert(session, ones);
        let command =
            Command::Heartbeat { session: SessionId(session), except: except.iter().map(|one| one.first).collect() };
        self.bare.submit(command);
        self.held.entry(NOBODY).or_default().extend(except);
        self.settle();
    }

    fn holds(&self, session: u64) -> usize {
        self.held.get(&session).map_or(0, Vec::len)
    }

    /// Turns until nothing is to be done: it comes to that.
    fn settle(&mut self) {
        for _ in 0..20 * TOPICS {
            self.turn();
            let wanted = self.bare.wanted();
            if wanted.is_empty() && self.bare.core.next_wake() != Some(Millis::ZERO) {
                return assert_eq!(self.bare.core.forgotten(), 0, "everybody is told");
            }
            self.bare.load(wanted);
        }
        panic!("turns go on though nothing can be given");
    }

    fn turn(&mut self) {
        let Bare { core, journal, .. } = &mut self.bare;
        core.set_time(core.now());
        core.advance(journal);
        core.dispatch(journal);
        self.most = self.most.max(core.leased_bytes());
        let outputs: Vec<Output> = core.outputs().drain(..).collect();
        for output in outputs {
            let (session, leases): (u64, Vec<LeasedRun>) = match output {
                Output::Delivery { session, leases, .. } => (session.0, leases),
                Output::Reply { reply: Reply::Received(leases), .. } => (NOBODY, leases),
                Output::Reply { reply: Reply::Refused { code: Code::Overloaded, .. }, .. } => {
                    self.refused += 1;
                    continue;
                }
                _ => continue,
            };
            self.delivered += leases.iter().map(|run| run.count as usize).sum::<usize>();
            let held = self.held.entry(session).or_default();
            held.extend(leases.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }));
        }
    }

    fn pass(&mut self, time: Millis) {
        let Now { run, wall } = self.bare.core.now();
        self.bare.core.set_time(Now { run: RunTime(run.0 + time.0), wall: WallTime(wall.0 + time.0) });
    }

    fn rationed(&self) -> usize {
        self.bare.core.rationed()
    }
}

/// The leases of runs, each alone.
fn one_by_one(runs: Vec<ReceiptRun>) -> Vec<ReceiptRun> {
    let of = |run: ReceiptRun| {
        let lease = move |at: u64| LeaseNumber(run.first.lease.0 + at);
        (0..u64::from(run.count))
            .map(move |at| ReceiptRun { first: Receipt { lease: lease(at), ..run.first }, count: 1 })
    };
    runs.into_iter().flat_map(of).collect()
}

#[test]
fn who_takes_all_that_he_is_given_leaves_room_for_others() {
    let mut pond = Pond::stocked();
    pond.attach(1, ALL);
    assert!(pond.most < ROOM / 2 + ROOM / 20, "a single one holds half of the room: {}", pond.most);
    assert!(pond.most > ROOM / 2 - ROOM / 20, "and not less: {}", pond.most);
    assert_eq!((pond.rationed(), pond.holds(1) < TOPICS / 2), (1, true));
    pond.attach(2, ALL);
    let (first, second) = (pond.holds(1), pond.holds(2));
    assert!(second > first * 2 / 5 && second < first * 3 / 5, "the next one half of the rest: {second} beside {first}");
    pond.attach(3, 10);
    assert_eq!(pond.holds(3), 10, "who holds little is served");
    pond.bare.submit(receive(10));
    pond.settle();
    assert_eq!((pond.holds(NOBODY), pond.rationed()), (10, 2), "and so are receives");
    invariants::check(&pond.bare.core);
}

#[test]
fn all_is_delivered_as_leases_end() {
    let mut pond = Pond::stocked();
    pond.attach(1, ALL);
    let before = pond.holds(1);
    pond.finish(1, 100, FinishVerb::Ack);
    assert!(pond.holds(1) > before - 10, "who ends leases is given others at once: {} of {before}", pond.holds(1));
    pond.attach(2, ALL);
    while pond.holds(1) + pond.holds(2) > 0 {
        pond.finish(1, 700, FinishVerb::Ack);
        pond.finish(2, 300, FinishVerb::Ack);
    }
    assert_eq!((pond.delivered, pond.rationed()), (TOPICS, 0));
    assert!(pond.most < ROOM, "within the room all the while: {}", pond.most);
    assert_eq!(pond.bare.core.leased_bytes(), 0);
}

#[test]
fn all_is_delivered_where_each_ends_what_the_other_could_have() {
    let mut pond = Pond::stocked();
    pond.attach(1, ALL);
    pond.attach(2, ALL);
    let before = pond.holds(2);
    // Its leases come back, and there is more room for the other.
    pond.held.remove(&1);
    pond.say("end s1");
    pond.settle();
    assert!(pond.holds(2) > before * 3 / 2, "{} after {before}", pond.holds(2));
}

/// A lease in a topic that is leased from takes less than a topic does, but not nothing: also in the turn in which it is given.
#[test]
fn leases_of_one_topic_have_a_bound_as_well() {
    const MESSAGES: u32 = 400_000;
    let mut pond = Pond::new();
    (0..MESSAGES / 20_000).for_each(|_| pond.publish(0..1, 20_000));
    pond.attach(1, ALL);
    assert!(pond.most > ROOM / 2 && pond.most < ROOM, "{} bytes", pond.most);
    assert_eq!(pond.rationed(), 1);
    while pond.holds(1) > 0 {
        pond.finish(1, usize::MAX, FinishVerb::Ack);
    }
    assert_eq!(pond.delivered, MESSAGES as usize);
}

/// Whoever has credit has it still when they go on.
#[test]
fn nobody_is_given_anything_while_deliveries_are_held() {
    let mut pond = Pond::stocked();
    pond.attach(1, 5);
    pond.bare.core.hold_deliveries(true);
    pond.finish(1, 5, FinishVerb::Ack);
    pond.say("credit s1.1 max=3 bytes=1000000000");
    pond.attach(2, 7);
    pond.say("receive max=2 wait=1m once=yes");
    pond.settle();
    assert_eq!(pond.delivered, 5);
    pond.bare.core.hold_deliveries(false);
    pond.settle();
    assert_eq!(pond.delivered, 5 + 3 + 7 + 2);
}

/// A start that is on hold keeps what it has to come to in memory, and leases have to do with the rest until it goes on.
#[test]
fn who_waits_where_a_start_on_hold_takes_the_room_is_told_when_it_goes_on() {
    let mut pond = Pond::stocked();
    pond.bare.core.hold_jobs(true);
    pond.say("group new start=earliest");
    pond.settle();
    pond.publish(0..1000, 1);
    let held = pond.bare.core.held_bytes();
    assert!(held > ROOM / 8 && held < ROOM / 2, "{held} bytes wait for the start");
    (1..=8).for_each(|session| pond.attach(session, ALL));
    pond.say("receive max=1 wait=1m");
    pond.settle();
    let leased = pond.bare.core.leased_bytes();
    assert!(leased < ROOM - ROOM / 32, "there would be room for it: {leased}");
    assert_eq!((pond.holds(NOBODY), pond.rationed()), (0, 9));
    pond.bare.core.hold_jobs(false);
    pond.settle();
    assert_eq!((pond.bare.core.held_bytes(), pond.holds(NOBODY)), (0, 1));
    invariants::check(&pond.bare.core);
}

/// Leases that are given together take as much as they can be made to from the beginning on.
#[test]
fn nothing_that_is_done_with_leases_takes_more_than_they_were_charged() {
    let verbs = [FinishVerb::Ack, FinishVerb::Release { delay: Millis::ZERO }, FinishVerb::Extend { lease: None }];
    for verb in verbs {
        let mut pond = Pond::new();
        (0..20).for_each(|_| pond.pile_up(0, 1000));
        // It has no credit for more, so nothing new comes meanwhile.
        pond.attach(1, 1500);
        let before = pond.bare.core.leased_bytes();
        assert_eq!(pond.held[&1].iter().map(|run| run.count).sum::<u32>(), 1500);
        pond.finish_every_second(1, usize::MAX, verb.clone());
        let after = pond.bare.core.leased_bytes();
        assert!(after <= before, "{before} bytes, and {after} after every second was named alone: {verb:?}");
        let resident = pond.bare.core.resident_bytes();
        assert!(resident <= after, "what is in memory, {resident} bytes, is no more than was counted: {after}");
        invariants::check(&pond.bare.core);
    }
}

/// It holds nothing then, time and again, and who holds nothing is always given something.
#[test]
fn who_leaves_out_all_that_he_is_given_is_given_no_more_in_the_end() {
    let mut pond = Pond::new();
    (0..40).for_each(|_| pond.pile_up(0, 1000));
    pond.attach(1, ALL);
    pond.attach(2, ALL);
    let (mut times, mut left_out) = (0, 0);
    while pond.holds(2) > 0 {
        left_out += pond.holds(2);
        pond.leave_out(2, 1);
        times += 1;
        assert!(times < 2000, "{left_out} leases were left out, and it goes on");
    }
    assert!(pond.most < ROOM * 5 / 4, "{} bytes", pond.most);
    pond.finish(NOBODY, usize::MAX, FinishVerb::Ack);
    assert!(pond.holds(2) > 0, "it is served again when they have ended");
}

#[test]
fn what_ends_as_it_is_delivered_is_not_rationed() {
    let mut pond = Pond::stocked();
    pond.attach(1, ALL);
    pond.say("attach s1.2 max=1000000 bytes=1000000000 once=yes");
    pond.settle();
    assert_eq!((pond.delivered, pond.rationed()), (TOPICS, 1));
}

#[test]
fn who_holds_nothing_is_given_something_where_no_room_is_left() {
    let mut pond = Pond::stocked();
    pond.attach(1, ALL);
    // What is leased grows.
    while pond.bare.core.leased_bytes() < ROOM {
        pond.publish(0..2000, 1);
    }
    pond.attach(2, ALL);
    assert_eq!((pond.holds(2), pond.rationed()), (1, 2));
    pond.finish(2, 1, FinishVerb::Ack);
    assert_eq!(pond.holds(2), 1, "one after the other");
}

/// As simulated lives have it, with a few clients that hold little.
#[test]
fn a_few_leases_are_all_that_there_is_room_for_where_so_little_was_set() {
    let mut pond = Pond::new();
    pond.bare.core.set_room(0);
    pond.bare.core.set_leases_room(8 << 10);
    pond.publish(0..50, 1);
    pond.attach(1, ALL);
    pond.attach(2, ALL);
    assert!((2..6).contains(&pond.holds(1)) && (1..6).contains(&pond.holds(2)), "{:?}", pond.held);
    assert_eq!(pond.rationed(), 2);
    while pond.holds(1) + pond.holds(2) > 0 {
        pond.finish(1, 1, FinishVerb::Ack);
        pond.finish(2, 1, FinishVerb::Ack);
    }
    assert_eq!((pond.delivered, pond.rationed()), (50, 0));
}

/// More than are looked at in a turn.
#[test]
fn all_of_very_many_consumers_are_told_that_leases_have_ended() {
    const CONSUMERS: usize = 2500;
    let mut pond = Pond::stocked();
    pond.attach(1, ALL);
    for consumer in 2..CONSUMERS + 2 {
        pond.say(&format!("attach s1.{consumer} max=1"));
    }
    pond.say("detach s1.1");
    pond.settle();
    assert_eq!(pond.rationed(), CONSUMERS);
    pond.submit_finish(1, usize::MAX, FinishVerb::Ack);
    pond.turn();
    assert!(pond.rationed() >= CONSUMERS - 1000, "some in a turn");
    assert_eq!(pond.bare.core.next_wake(), Some(Millis::ZERO), "and others in the next one");
    pond.settle();
    while pond.rationed() > 0 {
        assert!(pond.holds(1) > CONSUMERS / 4, "as many as have room: {}", pond.holds(1));
        pond.finish(1, usize::MAX, FinishVerb::Ack);
    }
}

#[test]
fn who_was_not_told_that_leases_have_ended_is_found_by_the_watch() {
    let mut pond = Pond::stocked();
    pond.attach(1, ALL);
    let receipts = pond.held.get_mut(&1).unwrap().split_off(1000);
    pond.bare.submit(Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: false, namespace: None }));
    let before = pond.delivered;
    pond.bare.core.forget_wake_ups();
    pond.turn();
    pond.bare.core.forget_wake_ups();
    pond.turn();
    assert_eq!((pond.delivered, pond.bare.core.forgotten()), (before, 0), "wake-ups are lost");
    pond.pass(WATCH_EVERY);
    pond.turn();
    assert!(pond.delivered > before, "told at the next look at the latest");
    assert!(pond.bare.core.forgotten() > 0);
}

#[derive(Clone, Debug)]
enum Op {
    Attach { session: u64, messages: u32 },
    Credit { session: u64, messages: u32 },
    Finish { session: u64, count: usize, verb: u8 },
    FinishEverySecond { session: u64, count: usize, verb: u8 },
    LeaveOut { session: u64, step: usize },
    Lose { session: u64 },
    PileUp { topic: usize, count: u32 },
    Publish { from: usize, topics: usize, count: u32 },
    PublishElsewhere { from: usize, topics: usize },
    Receive { messages: u32, elsewhere: bool },
}

proptest! {
    #![proptest_config(config(24))]

    /// Whatever sessions come, go, and finish how: the bound holds, nobody is forgotten, and in the end all is delivered.
    #[test]
    fn leased_topics_never_take_more_than_their_room(ops in proptest::collection::vec(op(), 1..60)) {
        let mut pond = Pond::stocked();
        pond.say("namespace elsewhere");
        for op in ops {
            pond.perform(op);
            prop_assert!(pond.most < ROOM + ROOM / 10, "{} bytes", pond.most);
        }
        invariants::check(&pond.bare.core);
        for session in 1..5 {
            pond.held.remove(&session);
            pond.say(&format!("end s{session}"));
        }
        pond.say("begin s9");
        pond.say("attach s9.1 max=1000000 bytes=1000000000 once=yes");
        pond.say("attach s9.2 ns=elsewhere max=1000000 bytes=1000000000 once=yes");
        pond.finish(NOBODY, usize::MAX, FinishVerb::Ack);
        // What has failed comes back.
        pond.pass(Millis::minutes(60));
        pond.settle();
        prop_assert_eq!((pond.bare.core.leased_bytes(), pond.rationed()), (0, 0));
        let topics = pond.bare.core.resident_count() as u64 + pond.bare.core.cold_count();
        prop_assert_eq!(topics, 0, "all is delivered");
    }
}

impl Pond {
    fn perform(&mut self, op: Op) {
        match op {
            Op::Attach { session, messages } => {
                self.held.remove(&session);
                self.say(&format!("end s{session}"));
                self.attach(session, messages);
            }
            Op::Credit { session, messages } => {
                self.bare.submit(Command::Credit {
                    session: SessionId(session),
                    consumer: 1,
                    messages,
                    bytes: 1_000_000,
                });
                self.settle();
            }
            Op::Finish { session, count, verb } => self.finish(session, count, drawn(verb)),
            Op::FinishEverySecond { session, count, verb } => self.finish_every_second(session, count, drawn(verb)),
            Op::LeaveOut { session, step } => self.leave_out(session, step),
            Op::Lose { session } => {
                self.held.remove(&session);
                self.say(&format!("lose s{session}"));
                self.pass(Millis::seconds(10));
                self.settle();
            }
            Op::PileUp { topic, count } => self.pile_up(topic, count),
            Op::Publish { from, topics, count } => self.publish(from..from + topics, count),
            Op::PublishElsewhere { from, topics } => self.publish_to("elsewhere", from..from + topics, 1),
            Op::Receive { messages, elsewhere } => {
                self.receive(&format!("max={messages} ns={}", if elsewhere { "elsewhere" } else { "default" }));
            }
        }
    }
}

/// What ends leases, and from 6 on what keeps them.
fn drawn(verb: u8) -> FinishVerb {
    match verb {
        0..4 => FinishVerb::Ack,
        4 => FinishVerb::Release { delay: Millis::ZERO },
        5 => FinishVerb::Fail { delay: None, reason: Default::default() },
        _ => FinishVerb::Extend { lease: Some(Millis::minutes(60)) },
    }
}

fn op() -> impl Strategy<Value = Op> {
    let session = || 1..5u64;
    let many = || prop_oneof![1..50u32, Just(ALL)];
    prop_oneof![
        3 => (session(), many()).prop_map(|(session, messages)| Op::Attach { session, messages }),
        3 => (session(), many()).prop_map(|(session, messages)| Op::Credit { session, messages }),
        6 => (0..5u64, 1..3000usize, 0..6u8).prop_map(|(session, count, verb)| Op::Finish { session, count, verb }),
        4 => (0..5u64, 1..300usize, 2..9u8)
            .prop_map(|(session, count, verb)| Op::FinishEverySecond { session, count, verb }),
        1 => (session(), 1..3usize).prop_map(|(session, step)| Op::LeaveOut { session, step }),
        1 => session().prop_map(|session| Op::Lose { session }),
        2 => (0..TOPICS, 1000..8000u32).prop_map(|(topic, count)| Op::PileUp { topic, count }),
        2 => (0..TOPICS, 1..500usize, 1..4u32)
            .prop_map(|(from, topics, count)| Op::Publish { from, topics, count }),
        1 => (0..TOPICS, 1..500usize).prop_map(|(from, topics)| Op::PublishElsewhere { from, topics }),
        2 => (1..2000u32, any::<bool>()).prop_map(|(messages, elsewhere)| Op::Receive { messages, elsewhere }),
    ]
}
