//! What the groups are taken to have of messages that were moved.

use bytes::Bytes;
use millpond_core::fact::CopiedRun;
use millpond_core::page::RunPage;
use millpond_types::block::Sizes;
use millpond_types::{LeaseNumber, Millis, RunTime, SessionId, WallTime};

use super::*;

const TOPIC: TopicNumber = TopicNumber(7);
const DEFAULT: GroupNumber = 0;
const AUDIT: GroupNumber = 1;
const PUBLISHED: WallTime = WallTime(50);
const DUE: WallTime = WallTime(500);
const EXPIRES: WallTime = WallTime(900);
/// Bytes of a message.
const SIZE: u32 = 10;
/// Where the messages lie that were published, and where those that have moved.
const OLD: u64 = 1000;
const NEW: u64 = 9000;

/// What a group has: first message and count, place, publish, delay and TTL.
type Pieces = Vec<(u64, u32, u64, WallTime, Option<WallTime>, WallTime)>;

struct Told(Groups);

impl Told {
    /// Two groups, and a topic.
    fn new(start: Start) -> Told {
        let mut told = Told(Groups::default());
        told.group(DEFAULT, "default", Start::Latest);
        told.group(AUDIT, "audit", start);
        told.topic(DEFAULT);
        told.topic(AUDIT);
        told
    }

    fn note(&mut self, fact: Fact, position: u64) {
        self.0.note(fact, position);
    }

    fn group(&mut self, group: GroupNumber, name: &str, start: Start) {
        let name = GroupName::try_from(name).unwrap();
        self.note(Fact::GroupCreated { group, namespace: 0, name, start, kind: GroupKind::Shared }, 0);
    }

    fn topic(&mut self, group: GroupNumber) {
        let name = TopicName::try_from("t").unwrap();
        let (floor, lease) = (100, LeaseNumber(100));
        self.note(Fact::TopicCreated { topic: TOPIC, group, namespace: 0, name, floor, lease }, 0);
    }

    /// Messages with a delay and a TTL, from 100 on.
    fn publish(&mut self, count: u32, except: Vec<GroupNumber>) {
        let fact = Fact::Published {
            topic: TOPIC,
            except,
            priority: Priority::DEFAULT,
            first: Sequence(100),
            count,
            published: PUBLISHED,
            due: Some(DUE),
            expires: Some(EXPIRES),
            dedup_until: WallTime(0),
            dedup: Vec::new(),
            block: Bytes::new(),
            sizes: Sizes::Uniform(SIZE),
        };
        self.note(fact, OLD);
    }

    fn ack(&mut self, group: GroupNumber, first: u64, count: u32) {
        let leased = Fact::Leased {
            topic: TOPIC,
            group,
            priority: Priority::DEFAULT,
            first: Sequence(first),
            count,
            lease: LeaseNumber(first),
            run: None,
            holder: SessionId(1),
            duration: Millis(1),
            deadline: RunTime(1),
        };
        self.note(leased, 0);
        self.note(Fact::Acked { topic: TOPIC, group, lease: LeaseNumber(first), count }, 0);
    }

    fn moved(&mut self, first: u64, count: u32, position: u64) {
        let fact = Fact::Moved {
            topic: TOPIC,
            priority: Priority::DEFAULT,
            first: Sequence(first),
            count,
            from: OLD,
            block: Bytes::new(),
            sizes: Sizes::Uniform(SIZE),
        };
        self.note(fact, position);
    }

    fn copied(&mut self, first: u64, count: u32) {
        let (published, expires, sizes) = (PUBLISHED, EXPIRES, Sizes::Uniform(SIZE));
        let (first, position) = (Sequence(first), OLD);
        let run = RunPage { first, position, published, expires, sizes, marks: None, count, index: 0 };
        let messages = vec![CopiedRun { priority: Priority::DEFAULT, run, due: Some(DUE) }];
        self.note(Fact::Copied { topic: TOPIC, group: AUDIT, messages, rest: None }, 0);
    }

    fn of(&self, group: GroupNumber) -> Pieces {
        let held = if group == DEFAULT { &self.0.default } else { &self.0.others[&group].held };
        let topic = held.topics.get(&TOPIC);
        let all = (Priority::LOWEST, Sequence(0))..(Priority::HIGHEST, Sequence(u64::MAX));
        let runs = topic.into_iter().flat_map(|topic| topic.runs.range(all.clone()));
        let piece = |run: &RunPage, due| {
            let extent = run.extent();
            assert_eq!(extent.length, run.count * SIZE);
            (run.first.0, run.count, extent.position, run.published, due, run.expires)
        };
        runs.map(|(_, kept)| piece(&kept.run, kept.due)).collect()
    }
}

/// As it was published, at another place.
fn known(first: u64, count: u32, position: u64) -> Pieces {
    vec![(first, count, position, PUBLISHED, Some(DUE), EXPIRES)]
}

/// As old as can be, due at once and without an end.
fn unknown(first: u64, count: u32, position: u64) -> Pieces {
    vec![(first, count, position, WallTime(0), None, WallTime::NEVER)]
}

#[test]
fn what_has_ended_in_a_group_does_not_come_again_for_another() {
    let mut told = Told::new(Start::Latest);
    told.publish(10, Vec::new());
    told.ack(DEFAULT, 100, 10);
    told.moved(100, 10, NEW);
    assert_eq!(told.of(DEFAULT), []);
    assert_eq!(told.of(AUDIT), known(100, 10, NEW));
}

#[test]
fn each_piece_that_is_left_keeps_its_times() {
    let mut told = Told::new(Start::Latest);
    told.publish(10, Vec::new());
    told.ack(DEFAULT, 103, 2);
    told.ack(AUDIT, 100, 8);
    told.moved(101, 9, NEW);
    let at = |sequence: u64| NEW + (sequence - 101) * u64::from(SIZE);
    let of_default = [known(100, 1, OLD), known(101, 2, NEW), known(105, 5, at(105))].concat();
    assert_eq!(told.of(DEFAULT), of_default, "what is left of a run, in its pieces");
    assert_eq!(told.of(AUDIT), known(108, 2, at(108)), "no more than was left");
    // Once more, of these a part.
    told.moved(106, 2, 2 * NEW);
    let of_default =
        [&of_default[..2], &known(105, 1, at(105)), &known(106, 2, 2 * NEW), &known(108, 2, at(108))].concat();
    assert_eq!(told.of(DEFAULT), of_default);
}

#[test]
fn what_a_group_never_had_does_not_come_for_another() {
    let mut told = Told::new(Start::Latest);
    told.publish(10, vec![AUDIT]);
    told.group(2, "late", Start::Latest);
    told.moved(100, 10, NEW);
    assert_eq!(told.of(DEFAULT), known(100, 10, NEW));
    assert_eq!(told.of(AUDIT), [], "it has declined them");
    assert_eq!(told.of(2), [], "it came later");
}

#[test]
fn what_no_record_tells_of_is_there_until_one_tells_that_it_ended() {
    let mut told = Told::new(Start::Latest);
    // The record of their publish went with its segment.
    told.ack(DEFAULT, 100, 2);
    told.moved(100, 4, NEW);
    assert_eq!((told.of(DEFAULT), told.of(AUDIT)), (unknown(100, 4, NEW), unknown(100, 4, NEW)));
    told.ack(DEFAULT, 101, 3);
    told.moved(100, 4, 2 * NEW);
    assert_eq!((told.of(DEFAULT), told.of(AUDIT)), (unknown(100, 1, 2 * NEW), unknown(100, 4, 2 * NEW)));
    // A part of what moves was published where it can be read.
    let mut told = Told::new(Start::Latest);
    told.publish(4, Vec::new());
    told.ack(DEFAULT, 101, 1);
    told.moved(98, 8, NEW);
    let at = |sequence: u64| NEW + (sequence - 98) * u64::from(SIZE);
    let ends = (unknown(98, 2, NEW), unknown(104, 2, at(104)));
    let of_default = [ends.0.clone(), known(100, 1, at(100)), known(102, 2, at(102)), ends.1.clone()].concat();
    assert_eq!(told.of(DEFAULT), of_default);
    assert_eq!(told.of(AUDIT), [ends.0, known(100, 4, at(100)), ends.1].concat());
}

#[test]
fn a_group_has_what_it_was_given_and_perhaps_what_missing_records_gave_it() {
    // All that it was given is told.
    let mut told = Told::new(Start::Earliest);
    told.copied(100, 4);
    told.ack(AUDIT, 101, 1);
    told.0.note(Fact::GroupStarted { group: AUDIT }, 0);
    told.0.miss_records();
    told.moved(100, 4, NEW);
    let at = |sequence: u64| NEW + (sequence - 100) * u64::from(SIZE);
    assert_eq!(told.of(AUDIT), [known(100, 1, NEW), known(102, 2, at(102))].concat());
    assert_eq!(told.of(DEFAULT), unknown(100, 4, NEW));
    // Records are missing while it is given more.
    let mut told = Told::new(Start::Earliest);
    told.publish(4, vec![AUDIT]);
    told.ack(DEFAULT, 100, 4);
    told.copied(100, 2);
    told.ack(AUDIT, 100, 1);
    told.0.miss_records();
    told.moved(100, 4, NEW);
    assert_eq!(told.of(AUDIT), [known(101, 1, at(101)), unknown(102, 2, at(102))].concat());
    assert_eq!(told.of(DEFAULT), [], "it had them, and has finished them");
}
