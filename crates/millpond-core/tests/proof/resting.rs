//! Messages that rest, delayed or in retry: very many of one topic, and those of very many topics, leave memory, and each
//! is back when its time comes. The disk answers a turn late.

use std::collections::BTreeSet;

use millpond_core::command::*;
use millpond_core::fact::Fact;
use millpond_core::output::LeasedRun;
use millpond_core::page::Page;
use millpond_core::store::Want;
use millpond_core::{LevelBounds, Now, invariants};
use millpond_types::{
    Coalesce, MessageId, Millis, NamespaceName, Overflow, Policy, Priority, Quotas, Retry, Rules, Sequence,
};

use crate::bare::Bare;
use crate::history::{Known, hash, name, publish_run, receive};
use crate::store::SharedStore;

/// Very many, of one topic.
const MANY: u32 = 20_000;
/// What a topic with them may take of memory: with all of them it takes 9 MiB.
const BYTES: usize = 3 << 20;
const HOUR: u64 = 3_600_000;
/// Of a topic whose limit comes late: more than two publishes drop.
const LATE: u64 = 22_000;
/// A dedup id that has come.
const SEEN: u8 = 1;
/// More than it takes to do anything with all of them.
const TURNS: usize = 2_000;

struct House {
    bare: Bare,
    known: Known,
    wanted: Vec<Want>,
    /// Of what is published without a delay.
    ttl: Option<Millis>,
    /// The most bytes that topics took behind a turn.
    bytes: usize,
    /// How much was read.
    read: usize,
}

impl House {
    fn new() -> House {
        let mut store = SharedStore::default();
        store.pieces_wait = true;
        let bare = Bare::on(store);
        House { bare, known: Known::default(), wanted: Vec::new(), ttl: None, bytes: 0, read: 0 }
    }

    fn turn(&mut self, command: Option<Command>) -> Vec<LeasedRun> {
        let wanted = std::mem::take(&mut self.wanted);
        self.read += wanted.len();
        self.bare.load(wanted);
        command.into_iter().for_each(|command| self.bare.submit(command));
        let received = self.bare.turn();
        self.wanted = self.bare.wanted();
        self.bytes = self.bytes.max(self.bare.core.resident_bytes());
        received
    }

    /// Turns until nothing is left to do: it comes to that.
    fn rest(&mut self) {
        for _ in 0..TURNS {
            if self.wanted.is_empty() && self.bare.core.next_wake() != Some(Millis::ZERO) {
                return;
            }
            self.turn(None);
        }
        panic!("turns go on though nothing is left to do");
    }

    fn pass(&mut self, by: u64) {
        let Now { run, wall } = self.bare.core.now();
        self.bare.core.set_time(Now { run: run + Millis(by), wall: wall + Millis(by) });
        self.rest();
    }

    /// Whatever is in the store is on the disk.
    fn write(&mut self) {
        self.bare.core.freeze();
        while !self.bare.core.capture(1000) {}
        self.bare.store.model().write_sealed();
    }

    /// A message for each of some delays, none for a delay of zero.
    fn publish(&mut self, topic: &str, delays: impl Iterator<Item = u64>) {
        self.publish_at(Priority::DEFAULT, topic, delays);
    }

    fn publish_at(&mut self, priority: Priority, topic: &str, delays: impl Iterator<Item = u64>) {
        let delays: Vec<u64> = delays.collect();
        for some in delays.chunks(500) {
            let run = |delay: &u64| PublishRun {
                priority,
                delay: Millis(*delay),
                ttl: self.ttl.filter(|_| *delay == 0),
                ..publish_run(&mut self.known, topic, 1, None)
            };
            let runs = some.iter().map(run).collect();
            self.turn(Some(publish(runs)));
        }
        self.rest();
    }

    /// What a receive is given.
    fn receive(&mut self) -> Vec<LeasedRun> {
        let mut some = self.turn(Some(receive(500)));
        while some.is_empty() && !self.wanted.is_empty() {
            some = self.turn(None);
        }
        some
    }

    /// Has one message, which needs no read, and acks it. How many turns more it waited for that, which come by themselves.
    fn receive_at_hand(&mut self) -> usize {
        let mut runs = self.turn(Some(receive(1)));
        let mut waited = 0;
        while runs.is_empty() {
            invariants::check(&self.bare.core);
            assert!(waited < 3, "it is given something at last");
            assert_eq!((self.bare.core.next_wake(), self.wanted.len()), (Some(Millis::ZERO), 0));
            runs = self.turn(None);
            waited += 1;
        }
        self.finish(&FinishVerb::Ack, &runs);
        waited
    }

    /// All that is there, each finished like this, and how many there were.
    fn work(&mut self, verb: &FinishVerb) -> u64 {
        let mut all = 0;
        loop {
            let runs = self.receive();
            if runs.is_empty() {
                return all;
            }
            all += messages(&runs);
            self.finish(verb, &runs);
        }
    }

    fn finish(&mut self, verb: &FinishVerb, runs: &[LeasedRun]) {
        for some in runs.chunks(500) {
            let receipts = some.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
            self.turn(Some(Command::Finish(Finish { verb: verb.clone(), receipts, confirm: false, namespace: None })));
        }
        self.rest();
    }

    /// The ids of the messages of the first topic that was published to, by their order, and what it is named by.
    fn ids(&self, text: &str) -> (impl Fn(u64) -> MessageId + use<>, TopicRef) {
        let published = self.bare.journal.facts.iter().find_map(|(fact, _)| match fact {
            Fact::Published { topic, first, .. } => Some((*topic, first.0)),
            _ => None,
        });
        let (topic, first) = published.expect("something was published");
        let id = move |at| MessageId { topic, priority: Priority::DEFAULT, sequence: Sequence(first + at) };
        (id, TopicRef { namespace: NamespaceName::default(), name: name(text) })
    }

    fn run(&mut self, count: u32) -> PublishRun {
        publish_run(&mut self.known, "jobs", count, None)
    }

    /// Three messages, and between them two that have come before.
    fn run_with_repeats(&mut self) -> PublishRun {
        let dedup = [1, 3].map(|index| DedupMark { index, hash: hash("jobs", SEEN) });
        PublishRun { dedup: dedup.into(), ..self.run(5) }
    }

    /// Three messages, and between them two that are refused.
    fn run_with_large(&mut self) -> PublishRun {
        let too_large = [1, 3].map(|index| TooLarge { index, bytes: 2, limit: 1 });
        PublishRun { too_large: too_large.into(), ..self.run(5) }
    }

    fn set_policy(&mut self, policy: Policy) {
        let (name, rules) = (NamespaceName::default(), Rules::default());
        self.turn(Some(Command::NamespaceSet { name, policy, rules, based_on: None }));
    }
}

fn publish(runs: Vec<PublishRun>) -> Command {
    Command::Publish(Publish { namespace: NamespaceName::default(), producer: None, level: Level::Durable, runs })
}

fn messages(runs: &[LeasedRun]) -> u64 {
    runs.iter().map(|run| u64::from(run.count)).sum()
}

/// Scattered over an hour.
fn scattered(count: u32) -> impl Iterator<Item = u64> {
    (0..u64::from(count)).map(|at| 1 + at * 7_919_993 % HOUR)
}

#[test]
fn very_many_delayed_messages_of_a_topic_leave_memory_and_each_is_back_in_time() {
    let mut house = House::new();
    house.publish("jobs", scattered(MANY));
    assert!(house.bytes < BYTES, "{} bytes", house.bytes);
    house.write();
    let (mut due, mut at, mut got) = (scattered(MANY).collect::<Vec<_>>(), 0, 0);
    due.sort_unstable();
    for minute in 1..=60 {
        house.pass(minute * HOUR / 60 - at);
        at = minute * HOUR / 60;
        got += house.work(&FinishVerb::Ack);
        assert_eq!(got, due.partition_point(|due| *due <= at) as u64, "what was due within {minute} minutes");
        invariants::check(&house.bare.core);
    }
    assert!(house.bytes < BYTES, "{} bytes", house.bytes);
    assert_eq!(house.bare.core.resident_count(), 0, "nothing is left of the topic");
}

#[test]
fn very_many_that_are_due_at_once_come_into_memory_as_they_are_taken() {
    let mut house = House::new();
    house.publish("jobs", (0..MANY).map(|_| HOUR));
    house.write();
    house.pass(2 * HOUR);
    assert!(house.bytes < BYTES, "{} bytes, with nobody who takes them", house.bytes);
    let (mut got, mut seen) = (0, BTreeSet::new());
    loop {
        let runs = house.receive();
        if runs.is_empty() {
            break;
        }
        assert!(runs.iter().all(|run| seen.insert(run.first)), "each is delivered once");
        got += messages(&runs);
        house.finish(&FinishVerb::Ack, &runs);
    }
    assert_eq!(got, u64::from(MANY));
    assert!(house.bytes < BYTES, "{} bytes", house.bytes);
}

/// Each of them had as much room as one alone: a topic that somebody leases one message of, and that so has to stay, took 10 MB.
#[test]
fn very_many_that_are_due_of_all_priorities_share_what_is_in_memory() {
    let mut house = House::new();
    let priorities = || (0..10).filter_map(Priority::new);
    let each = MANY / 4;
    priorities().for_each(|priority| house.publish_at(priority, "jobs", scattered(each)));
    house.write();
    house.pass(2 * HOUR);
    assert!(house.bytes < 2 * BYTES, "{} bytes, with nobody who takes them", house.bytes);
    assert_eq!(house.work(&FinishVerb::Ack), 10 * u64::from(each));
    assert!(house.bytes < 2 * BYTES, "{} bytes", house.bytes);
    assert_eq!(house.bare.core.resident_count(), 0, "nothing is left of the topic");
}

/// Found by a simulated life, 730417: what is left of it waits for room in its line, and nobody takes what is there.
#[test]
fn a_topic_whose_deadline_has_passed_leaves_and_is_not_loaded_again() {
    let mut house = House::new();
    house.publish("jobs", (0..MANY).map(|_| HOUR));
    house.write();
    house.pass(2 * HOUR);
    house.bare.core.set_room(0);
    house.turn(None);
    house.rest();
    house.write();
    let read = house.read;
    for _ in 0..10 {
        house.pass(HOUR);
        house.turn(None);
    }
    assert_eq!(house.bare.core.resident_count(), 0, "time changes nothing of it any more");
    assert!(
        house.read - read <= 2 * 10,
        "it was looked for what falls due in each hour, by both clocks: no topic was read"
    );
    assert_eq!(house.work(&FinishVerb::Ack), u64::from(MANY));
}

#[test]
fn very_many_in_retry_leave_memory_though_delayed_ones_lie_between_them() {
    let mut house = House::new();
    // Every other one is delayed for long, and the others all come back.
    house.publish("jobs", (0..MANY).map(|at| u64::from(at % 2) * 10 * HOUR));
    house.write();
    let back = FinishVerb::Release { delay: Millis(HOUR) };
    assert_eq!(house.work(&back), u64::from(MANY) / 2);
    assert!(house.bytes < BYTES, "{} bytes", house.bytes);
    invariants::check(&house.bare.core);
    house.pass(HOUR);
    assert_eq!(house.work(&FinishVerb::Ack), u64::from(MANY) / 2, "each is back after an hour");
}

#[test]
fn what_is_done_to_a_message_by_its_id_finds_it_in_its_piece() {
    let mut house = House::new();
    house.publish("jobs", scattered(MANY));
    house.write();
    let (id, topic) = house.ids("jobs");
    for at in (0..u64::from(MANY)).step_by(100) {
        house.turn(Some(Command::Cancel { topic: topic.clone(), which: Which::Id(id(at)) }));
    }
    for at in (50..u64::from(MANY)).step_by(100) {
        let which = Which::Id(id(at));
        house.turn(Some(Command::Reschedule { topic: topic.clone(), which, delay: Millis(3 * HOUR) }));
    }
    house.rest();
    invariants::check(&house.bare.core);
    house.pass(HOUR);
    assert_eq!(house.work(&FinishVerb::Ack), u64::from(MANY) / 100 * 98);
    house.pass(3 * HOUR);
    assert_eq!(house.work(&FinishVerb::Ack), u64::from(MANY) / 100, "those that were given another delay");
    assert!(house.bytes < BYTES, "{} bytes", house.bytes);
}

#[test]
fn what_rests_between_messages_that_are_on_the_disk_is_ready_in_time() {
    let mut house = House::new();
    house.publish("jobs", (0..3000).map(|_| 0));
    house.write();
    let (id, topic) = house.ids("jobs");
    house.turn(Some(Command::Reschedule { topic, which: Which::Id(id(1500)), delay: Millis(HOUR) }));
    house.rest();
    house.write();
    house.pass(HOUR);
    invariants::check(&house.bare.core);
    assert_eq!(house.work(&FinishVerb::Ack), 3000);
}

#[test]
fn what_is_in_line_in_the_reach_of_a_piece_ends_in_time() {
    let mut house = House::new();
    // Of what is in line, all but the first have a TTL.
    house.publish("jobs", [0].into_iter());
    house.ttl = Some(Millis(HOUR));
    house.publish("jobs", (0..2000).map(|at| if at % 20 == 7 { 0 } else { 2 * HOUR }));
    house.write();
    house.pass(HOUR);
    invariants::check(&house.bare.core);
    assert_eq!(house.work(&FinishVerb::Ack), 1, "what was in line has ended");
    house.pass(HOUR);
    assert_eq!(house.work(&FinishVerb::Ack), 1900);
}

/// So many topics with some messages each, that may be leased so many at a time.
const TOPICS: u64 = 5000;

fn many_topics(messages: u32, max_in_flight: Option<u32>) -> House {
    let mut house = House::new();
    house.set_policy(strict(max_in_flight));
    house.bare.core.set_room(1 << 20);
    for at in 0..TOPICS {
        let run = publish_run(&mut house.known, &format!("{at:05}"), messages, None);
        house.turn(Some(publish(vec![run])));
    }
    house.rest();
    house
}

fn topics_have_left(house: &mut House) {
    house.rest();
    let resident = house.bare.core.resident_bytes();
    // Some that were brought in for their turn stay for a while.
    assert!(!house.bare.core.is_crowded() && resident < 3 << 19, "{resident} bytes of topics in retry");
    invariants::check(&house.bare.core);
}

#[test]
fn topics_in_retry_leave_memory_in_strict_order_too() {
    for max_in_flight in [None, Some(1)] {
        let mut house = many_topics(1, max_in_flight);
        assert_eq!(house.work(&FinishVerb::Release { delay: Millis(HOUR) }), TOPICS);
        topics_have_left(&mut house);
        house.bare.core.set_room(usize::MAX);
        house.write();
        house.pass(HOUR);
        assert_eq!(house.work(&FinishVerb::Ack), TOPICS, "all are back");
    }
}

/// While something is out of order for a while that all work needs, say.
#[test]
fn topics_leave_memory_in_which_all_else_waits_for_what_is_in_retry() {
    for max_in_flight in [None, Some(1)] {
        let mut house = many_topics(2, max_in_flight);
        let mut failed = 0;
        while failed < TOPICS {
            let runs = house.receive();
            failed += messages(&runs);
            house.finish(&FinishVerb::Release { delay: Millis(HOUR) }, &runs);
        }
        topics_have_left(&mut house);
        let others = house.work(&FinishVerb::Ack);
        assert_eq!(others, if max_in_flight == Some(1) { 0 } else { 2 * TOPICS - failed });
        house.write();
        house.pass(HOUR);
        assert_eq!(house.work(&FinishVerb::Ack), 2 * TOPICS - others, "all are back");
    }
}

/// Topics on the disk, of each of which a message is in retry before another one that is ready.
fn in_retry_before_others(max_in_flight: Option<u32>) -> House {
    let mut house = House::new();
    house.set_policy(strict(max_in_flight));
    for at in 0..SOME {
        house.publish(&format!("{at:04}"), [0, 0].into_iter());
    }
    let mut first = house.turn(Some(receive(SOME)));
    first.iter_mut().for_each(|run| run.count = 1);
    assert_eq!(messages(&first), u64::from(SOME), "the first of each");
    house.finish(&FinishVerb::Release { delay: Millis(HOUR) }, &first);
    house.write();
    house.bare.core.set_room(0);
    (0..10).for_each(|_| _ = house.turn(None));
    assert_eq!(house.bare.core.resident_count(), 0);
    house
}

/// More than dispatch keeps in memory until their turn.
const SOME: u32 = 1500;

fn strict(max_in_flight: Option<u32>) -> Policy {
    Policy { max_in_flight, retry: Retry::Head, ..Policy::default() }
}

#[test]
fn topics_on_the_disk_hear_that_they_need_not_wait_for_what_is_in_retry() {
    let mut house = in_retry_before_others(Some(1));
    assert!(house.receive().is_empty());
    house.set_policy(strict(None));
    house.rest();
    let loosened = house
        .bare
        .journal
        .facts
        .iter()
        .filter(|(fact, _)| matches!(fact, Fact::Waits { for_retry: false, .. }))
        .count();
    assert_eq!(loosened, SOME as usize, "a start knows it, too");
    assert_eq!(house.work(&FinishVerb::Ack), u64::from(SOME));
}

/// Or they would be read again and again while somebody asks for what is ready.
#[test]
fn topics_on_the_disk_that_begin_to_wait_for_what_is_in_retry_are_read_once() {
    let mut house = in_retry_before_others(None);
    house.set_policy(strict(Some(1)));
    house.turn(Some(receive(1)));
    house.rest();
    let mut reads = 0;
    for _ in 0..20 {
        house.turn(None);
        reads += house.wanted.len();
    }
    assert_eq!(reads, 0);
}

/// Very many topics of which something falls due at the same time.
#[test]
fn what_falls_due_together_makes_no_more_topics_stay_than_there_is_room_for() {
    let room = 2 << 20;
    let topics = 12_000;
    for (delay, ttl) in [(HOUR, None), (0, Some(Millis(HOUR)))] {
        let mut house = House::new();
        house.ttl = ttl;
        house.bare.core.set_room(room);
        for at in 0..topics {
            house.publish(&format!("{at:05}"), [delay].into_iter());
        }
        // Far from it, a good deal before it, and at last.
        for by in [HOUR - 120_000, 100_000, 19_000, 1000] {
            house.write();
            house.bytes = 0;
            house.pass(by);
            assert!(house.bytes < room + room / 4, "{} bytes of topics", house.bytes);
        }
        assert_eq!(house.work(&FinishVerb::Ack), if ttl.is_some() { 0 } else { topics });
    }
}

/// One message of a topic waits.
fn coalesce() -> Policy {
    let retry = Retry::Backoff { first: Millis(1000), longest: Millis(1000) };
    Policy { coalesce: Coalesce::KeepLatest, retry, ..Policy::default() }
}

/// As little in memory as can be.
/// A limit that comes when very many wait.
fn late(quota: Option<u64>) -> Policy {
    let quotas = Quotas { messages: quota, ..Quotas::default() };
    Policy { max_waiting: Some(10), overflow: Overflow::DropOldest, quotas, ..Policy::default() }
}

fn tiny() -> LevelBounds {
    LevelBounds { head: 1, tail: 1, piece: 2, resting: 2, out_of_line: 6 }
}

#[test]
fn what_is_delayed_for_ever_is_cancelled_like_anything_else_and_needs_no_memory() {
    let mut house = House::new();
    house.bare.core.set_bounds(tiny());
    house.publish("jobs", (0..6).map(|_| u64::MAX));
    house.write();
    house.bare.core.set_room(0);
    house.turn(None);
    assert_eq!(house.bare.core.resident_count(), 0);
    let (id, topic) = house.ids("jobs");
    for at in 0..6 {
        house.turn(Some(Command::Cancel { topic: topic.clone(), which: Which::Id(id(at)) }));
        house.rest();
    }
    invariants::check(&house.bare.core);
    assert_eq!((house.bare.core.resident_count(), house.bare.core.cold_count()), (0, 0));
}

#[test]
fn a_strict_topic_goes_on_though_what_is_in_retry_is_behind_very_many_that_are_due() {
    let mut house = House::new();
    house.set_policy(Policy { max_in_flight: Some(1), retry: Retry::Head, ..Policy::default() });
    house.publish("jobs", (0..8000).map(|_| HOUR));
    house.publish("jobs", [0].into_iter());
    let runs = house.receive();
    house.finish(&FinishVerb::Release { delay: Millis(HOUR * 3 / 2) }, &runs);
    // It is due last, and goes to a piece.
    house.publish("jobs", (0..2000).map(|_| HOUR));
    for _ in 0..20 {
        house.pass(HOUR / 10);
    }
    assert_eq!(house.work(&FinishVerb::Ack), 10_001);
}

#[test]
fn a_topic_that_comes_to_be_strict_goes_on_though_what_is_in_retry_waits_for_room() {
    let mut house = House::new();
    house.publish("jobs", (0..8000).map(|_| HOUR));
    house.publish("jobs", [0].into_iter());
    let runs = house.receive();
    house.finish(&FinishVerb::Release { delay: Millis(HOUR * 3 / 2) }, &runs);
    house.publish("jobs", (0..2000).map(|_| HOUR));
    house.pass(HOUR);
    house.pass(HOUR);
    house.set_policy(Policy { max_in_flight: Some(1), retry: Retry::Head, ..Policy::default() });
    house.rest();
    assert_eq!(house.work(&FinishVerb::Ack), 10_001);
}

#[test]
fn a_ttl_passes_also_of_what_waits_for_room() {
    let mut house = House::new();
    house.publish("jobs", (0..5000).map(|_| HOUR / 2));
    for _ in 0..6 {
        let run = |_| PublishRun {
            delay: Millis(HOUR),
            ttl: Some(Millis(2 * HOUR)),
            ..publish_run(&mut house.known, "jobs", 1, None)
        };
        let runs = (0..500).map(run).collect();
        house.turn(Some(publish(runs)));
    }
    // Those without a TTL are due first, and take all the room.
    house.publish("jobs", (0..1000).map(|_| HOUR / 2));
    house.pass(HOUR / 2);
    house.pass(HOUR / 2);
    house.pass(2 * HOUR);
    let ended = house.bare.journal.facts.iter().map(|(fact, _)| match fact {
        Fact::Ended { count, .. } => *count,
        _ => 0,
    });
    assert_eq!(ended.sum::<u32>(), 3000);
}

#[test]
fn where_one_message_waits_of_many_that_rested_it_stands_for_the_one_that_fails() {
    // Once it is in memory, which it comes to by itself. Before that, both are worked off.
    for (is_late, back) in [(false, 0), (true, 1)] {
        let mut house = House::new();
        house.bare.core.set_bounds(tiny());
        house.publish("jobs", [0, 1, 2, 3, 4, 5].map(|hours| hours * HOUR).into_iter());
        let runs = house.receive();
        house.set_policy(coalesce());
        house.write();
        let (id, topic) = house.ids("jobs");
        for at in 1..5 {
            house.turn(Some(Command::Cancel { topic: topic.clone(), which: Which::Id(id(at)) }));
        }
        // The last of them is cancelled when its piece has come.
        house.turn(None);
        assert!(!house.wanted.is_empty(), "the one that is left is on its way");
        if !is_late {
            house.rest();
        }
        let late = std::mem::take(&mut house.wanted);
        house.finish(&FinishVerb::Fail { delay: None, reason: Default::default() }, &runs);
        house.wanted = late;
        house.rest();
        invariants::check(&house.bare.core);
        house.pass(HOUR);
        assert_eq!(house.work(&FinishVerb::Ack), back, "what is delayed by five hours is not early");
        house.pass(5 * HOUR);
        assert_eq!(house.work(&FinishVerb::Ack), 1);
    }
}

#[test]
fn what_is_published_stands_for_the_one_that_waits_on_the_disk() {
    let mut house = House::new();
    house.bare.core.set_bounds(tiny());
    house.publish("jobs", [1, 2, 3, 4, 0, 0].map(|hours| hours * HOUR).into_iter());
    let runs = house.receive();
    let retry = Retry::Backoff { first: Millis(10 * HOUR), longest: Millis(10 * HOUR) };
    house.set_policy(Policy { retry, ..Policy::default() });
    house.finish(&FinishVerb::Fail { delay: None, reason: Default::default() }, &runs);
    house.write();
    house.set_policy(coalesce());
    house.publish("jobs", [0].into_iter());
    invariants::check(&house.bare.core);
    house.pass(13 * HOUR);
    let mut failures = Vec::new();
    for _ in 0..6 {
        let runs = house.receive();
        failures.extend(runs.iter().map(|run| run.failures));
        house.finish(&FinishVerb::Ack, &runs);
    }
    failures.sort_unstable();
    assert_eq!(failures, [0, 0, 0, 0, 1, 1], "it inherits the failure");
}

#[test]
fn where_a_limit_comes_late_each_publish_drops_a_bounded_number() {
    let mut house = House::new();
    house.publish("jobs", (1..25_000).map(|at| at % 2 * HOUR));
    house.set_policy(Policy { max_waiting: Some(25_000), ..late(None) });
    house.write();
    let read = house.read;
    house.publish("jobs", [0].into_iter());
    assert_eq!(house.read, read, "nothing goes, so nothing is read");
    house.set_policy(late(None));
    house.write();
    for left in [15_000, 5_000, 10] {
        let (facts, read) = (house.bare.journal.facts.len(), house.read);
        house.publish("jobs", [0].into_iter());
        assert!(house.read - read <= 10_001 / 64, "no more is read than goes: {} pieces", house.read - read);
        let dropped = house.bare.journal.facts[facts..].iter().map(|(fact, _)| match fact {
            Fact::Ended { count, .. } => u64::from(*count),
            _ => 0,
        });
        assert!(dropped.sum::<u64>() <= 10_001);
        assert_eq!(waiting(&mut house), left);
    }
}

/// What a publish is cut into is of no account: its runs, known dedup ids, bodies that are too large, room for some of it, or
/// that it comes with an ack.
#[test]
fn where_a_limit_comes_late_a_publish_of_many_parts_drops_no_more_than_another() {
    type Way = fn(&mut House) -> Command;
    let cases: [(&str, u64, Way); 8] = [
        ("runs", 0, |house| publish((0..5).map(|_| house.run(1)).collect())),
        ("runs that rest", HOUR, |house| publish((0..5).map(|_| house.run(1)).collect())),
        ("known dedup ids", 0, |house| publish(vec![house.run_with_repeats()])),
        ("known dedup ids that rest", HOUR, |house| publish(vec![house.run_with_repeats()])),
        ("large bodies", 0, |house| publish(vec![house.run_with_large()])),
        ("slices of a quota", 0, |house| {
            house.set_policy(late(Some(LATE + 2)));
            publish(vec![house.run(5)])
        }),
        ("slices of a quota that rest", HOUR, |house| {
            house.set_policy(late(Some(LATE + 2)));
            publish(vec![house.run(5)])
        }),
        ("an ack", 0, |house| {
            let leased = house.receive();
            let receipts = vec![ReceiptRun { first: leased[0].receipt, count: 1 }];
            let Command::Publish(publish) = publish(vec![house.run_with_repeats()]) else { unreachable!() };
            Command::Forward(Forward { receipts, publish })
        }),
    ];
    for (parts, delay, command) in cases {
        let mut house = House::new();
        let seen = publish_run(&mut house.known, "jobs", 1, Some(SEEN));
        house.turn(Some(publish(vec![PublishRun { delay: Millis(delay), ..seen }])));
        house.publish("jobs", (1..LATE).map(|_| delay));
        house.set_policy(late(None));
        house.write();
        let command = command(&mut house);
        let facts = house.bare.journal.facts.len();
        house.turn(Some(command));
        house.rest();
        let (mut came, mut dropped) = (0, 0);
        for (fact, _) in &house.bare.journal.facts[facts..] {
            match fact {
                Fact::Published { count, .. } => came += u64::from(*count),
                Fact::Ended { count, .. } => dropped += u64::from(*count),
                _ => {}
            }
        }
        assert!(came >= 3, "{parts}: {came} came");
        assert_eq!(dropped, came + 10_000, "{parts}");
    }
}

/// Of many topics that are all far over a limit that came late.
#[test]
fn a_publish_drops_no_more_of_many_topics_than_of_one() {
    const EACH: u64 = 600;
    let mut house = House::new();
    let names: Vec<String> = (0..30).map(|at| format!("jobs/{at}")).collect();
    for name in &names {
        house.publish(name, (0..EACH).map(|_| 0));
    }
    house.set_policy(late(None));
    let facts = house.bare.journal.facts.len();
    let runs = names.iter().map(|name| publish_run(&mut house.known, name, 1, None)).collect();
    house.turn(Some(publish(runs)));
    house.rest();
    let ended = house.bare.journal.facts[facts..].iter().map(|(fact, _)| match fact {
        Fact::Ended { count, .. } => u64::from(*count),
        _ => 0,
    });
    assert_eq!(ended.sum::<u64>(), 10_000 + names.len() as u64);
}

/// What is leased lies between them, and is not looked at again for each that goes.
#[test]
fn what_rests_is_dropped_in_order_by_one_publish_though_others_of_it_are_leased() {
    let mut house = House::new();
    house.publish("jobs", [0; 10].into_iter());
    let runs = house.receive();
    let retry = Retry::Backoff { first: Millis(HOUR), longest: Millis(HOUR) };
    house.set_policy(Policy { max_waiting: Some(5), retry, ..late(None) });
    let odd: Vec<LeasedRun> = runs.iter().skip(1).step_by(2).cloned().collect();
    house.finish(&FinishVerb::Fail { delay: None, reason: Default::default() }, &odd);
    let facts = house.bare.journal.facts.len();
    let (low, high) = (Priority::new(0).unwrap(), Priority::DEFAULT);
    let priorities = [high, high, low, low, high, high, low, high, high];
    let runs = priorities.map(|priority| PublishRun { priority, delay: Millis(HOUR), ..house.run(1) });
    house.turn(Some(publish(runs.into())));
    let (id, _) = house.ids("jobs");
    let first_low = house.bare.journal.facts[facts..].iter().find_map(|(fact, _)| match fact {
        Fact::Published { priority, first, .. } if *priority == low => Some(first.0),
        _ => None,
    });
    let ended = house.bare.journal.facts[facts..].iter().filter_map(|(fact, _)| match fact {
        Fact::Ended { priority, first, count: 1, .. } if *priority == low => Some((low, first.0 - first_low.unwrap())),
        Fact::Ended { priority, first, count: 1, .. } => Some((*priority, first.0 - id(0).sequence.0)),
        _ => None,
    });
    let ended: Vec<_> = ended.collect();
    let in_order = [(high, 1), (high, 3), (low, 0), (low, 1), (high, 5), (high, 7), (low, 2), (high, 9), (high, 10)];
    assert_eq!(ended, in_order);
    invariants::check(&house.bare.core);
}

/// With less room it would leave before they came, be read again, and ask again.
#[test]
fn a_topic_stays_while_the_front_of_its_line_is_on_its_way() {
    let mut house = House::new();
    house.bare.core.set_bounds(tiny());
    house.publish("jobs", (0..40).map(|_| 0));
    house.write();
    house.bare.core.set_room(0);
    let mut got = 0;
    let mut held = Vec::new();
    for _ in 0..400 {
        let receipts =
            held.drain(..).map(|run: LeasedRun| ReceiptRun { first: run.receipt, count: run.count }).collect();
        // What was asked for comes a turn later still, when nothing of the topic is leased any more.
        let late = std::mem::take(&mut house.wanted);
        held.extend(house.turn(Some(Command::Finish(Finish {
            verb: FinishVerb::Ack,
            receipts,
            confirm: false,
            namespace: None,
        }))));
        house.wanted.extend(late);
        held.extend(house.turn(Some(receive(3))));
        got += messages(&held);
        house.write();
    }
    assert_eq!(got, 40);
}

/// How many messages wait, are delayed or in retry.
fn waiting(house: &mut House) -> u64 {
    let views = house.bare.core.pages().filter_map(|page| match page {
        Page::Namespace(page) => Some(page.groups.iter().map(|group| group.counts.unfinished()).sum::<u64>()),
        _ => None,
    });
    views.sum()
}

/// How much has room decides when what is due is no longer told to be delayed, and nothing else in strict order.
#[test]
fn in_strict_order_what_waits_for_room_goes_before_what_is_younger() {
    let count = 2 * u64::from(LevelBounds::ENDS.out_of_line);
    let mut told: Option<Vec<Fact>> = None;
    for bounds in [LevelBounds::ENDS, LevelBounds::within(0), tiny()] {
        let mut house = House::new();
        house.bare.core.set_bounds(bounds);
        house.set_policy(strict(Some(1)));
        // What comes later is due earlier, and takes all the room.
        house.publish("jobs", (0..count).map(|at| HOUR - at));
        house.write();
        house.pass(2 * HOUR);
        let mut last = None;
        for _ in 0..count {
            let runs = house.receive();
            let [run] = &runs[..] else { panic!("{runs:?}") };
            assert!(last.is_none_or(|last| last < run.first) && run.count == 1, "{last:?}, and then {:?}", run.first);
            last = Some(run.first);
            house.finish(&FinishVerb::Ack, &runs);
        }
        assert!(house.bytes < BYTES, "{} bytes", house.bytes);
        invariants::check(&house.bare.core);
        let facts: Vec<Fact> = house.bare.journal.facts.into_iter().map(|(fact, _)| fact).collect();
        let (ripened, facts): (Vec<_>, Vec<_>) =
            facts.into_iter().partition(|fact| matches!(fact, Fact::Ripened { .. }));
        assert_eq!(ripened.len() as u64, count, "each of them once");
        assert!(told.get_or_insert_with(|| facts.clone()) == &facts, "the facts of {bounds:?}");
    }
}

/// A piece that is not on the disk is there at once, and due with the next turn: that one comes by itself, and who receives waits
/// for it.
#[test]
fn in_strict_order_what_waits_for_room_and_is_at_hand_is_given_without_another_event() {
    let mut house = House::new();
    house.bare.core.set_bounds(tiny());
    house.set_policy(strict(Some(1)));
    let count = 3 * u64::from(tiny().out_of_line);
    house.publish("jobs", (0..count).map(|at| HOUR - at));
    house.pass(2 * HOUR);
    let waited = (0..count).filter(|_| house.receive_at_hand() > 0).count();
    assert!(waited > 0 && house.receive().is_empty());
}

/// More of a run than may rest is not cut for it. It would leave again in the same turn in which it was brought.
#[test]
fn in_strict_order_a_long_run_that_waits_for_room_is_given_as_well() {
    let mut house = House::new();
    house.bare.core.set_bounds(tiny());
    house.set_policy(strict(Some(1)));
    let long = PublishRun { delay: Millis(HOUR), ..house.run(100) };
    house.turn(Some(publish(vec![long])));
    let count = u64::from(tiny().out_of_line);
    house.publish("jobs", (0..count).map(|at| HOUR / 2 - at));
    house.pass(2 * HOUR);
    let waited = (0..100 + count).filter(|_| house.receive_at_hand() > 0).count();
    assert!(waited > 0 && house.receive().is_empty());
}
