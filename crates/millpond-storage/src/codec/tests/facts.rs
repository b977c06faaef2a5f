//! The bytes of one fact of each kind, as journals hold them that were written before. Whoever changes a form together with
//! its reading passes all other tests, and opens no old journal.

use std::collections::BTreeSet;

use super::samples::*;
use super::*;

const LEASE: LeaseNumber = LeaseNumber(500);
const PRIORITY: Priority = Priority::HIGHEST;

vectors! {
    Fact;
    Fact::Created { .. } => Fact::Created { hash_key: [1, 2] },
        "0101000000000000000200000000000000";
    Fact::Raised { .. } => Fact::Raised { floor: 1 << 40 },
        "02808080808020";
    Fact::NamespaceSet { .. } => Fact::NamespaceSet {
        number: 7,
        name: NamespaceName::try_from("orders").unwrap(),
        policy: policy(),
        rules: rules(),
        version: 3,
    },
        "0307066f726465727398f2010b02cc08a0a4280180dddb010101d09d250115011601020118a8c3011a171b011c011d011e01\
         1f010180fa0101e881020122010102612f00000101000000010000000000000003";
    Fact::NamespaceDeleted { .. } => Fact::NamespaceDeleted { number: 7 },
        "0407";
    Fact::Paused { .. } => Fact::Paused { namespace: 7, topics: PausedTopics::prefix(&topic("a/")), until: None },
        "050702612f0100";
    Fact::TopicCreated { .. } => Fact::TopicCreated {
        topic: TOPIC, group: 2, namespace: 7, name: topic("a/b"), floor: 4000, lease: LeaseNumber(4010),
    },
        "06d804020703612f62c03e14";
    Fact::TopicVanished { .. } => Fact::TopicVanished { topic: TOPIC, group: 2 },
        "07d80402";
    Fact::Published { .. } => Fact::Published {
        topic: TOPIC,
        except: vec![2, 9],
        priority: PRIORITY,
        first: FIRST,
        count: 2,
        published: WALL,
        due: Some(LATER),
        expires: Some(WallTime(1_000_900)),
        dedup_until: WallTime(1_001_000),
        dedup: vec![DedupMark { index: 1, hash: 6 << 64 | 5 }],
        block: block(&[b"one", b"three"]),
        sizes: Sizes::from_ends(&[12, 26]),
    },
        "083fd8040902a00680897af80a880e00d00f0101050000000000000006000000000000000202091a0000000004000000006f\
         6e650000000006000000007468726565";
    Fact::ProducerBatch { .. } => Fact::ProducerBatch {
        namespace: 7,
        producer: ProducerId(6 << 64 | 5),
        instance: 3,
        sequence: 11,
        at: WALL,
        outcomes: Outcomes::new(&[
            OutcomeRun { count: 2, outcome: PublishOutcome::Queued { id: id() } },
            OutcomeRun { count: 1, outcome: PublishOutcome::Refused { code: Code::TopicFull, detail: "full".into() } },
        ]),
    },
        "090705000000000000000600000000000000030b80897a0e3c02d60409a00602250466756c6c";
    Fact::Leased { .. } => Fact::Leased {
        topic: TOPIC,
        group: 2,
        priority: PRIORITY,
        first: FIRST,
        count: 3,
        lease: LEASE,
        run: Some(LeaseNumber(498)),
        holder: SessionId(77),
        duration: Millis(30_000),
        deadline: RunTime(90_000),
    },
        "0a1fd8040903a006e807024db0ea01a0fe0a02";
    Fact::Extended { .. } => Fact::Extended {
        topic: TOPIC,
        group: 2,
        lease: LEASE,
        count: 3,
        holder: SessionId(77),
        duration: Millis(30_000),
        deadline: RunTime(90_000),
    },
        "0bd80402e807034db0ea01a0fe0a";
    Fact::Acked { .. } => Fact::Acked { topic: TOPIC, group: 2, lease: LEASE, count: 3 },
        "0cd80402e80703";
    Fact::Delivered { .. } => Fact::Delivered { topic: TOPIC, group: 2, lease: LEASE, count: 3 },
        "1bd80402e80703";
    Fact::Returned { .. } => Fact::Returned {
        topic: TOPIC, group: 2, lease: LEASE, count: 3, failed: true, place: ReturnPlace::At(RunTime(90_000)),
    },
        "0dd80402e80703010290bf05";
    Fact::Died { .. } => Fact::Died {
        topic: TOPIC,
        group: 2,
        which: Victims::Leased { lease: LEASE, count: 3 },
        reason: DeadReason::LeaseExpired,
        detail: Bytes::from_static(b"no"),
        at: WALL,
    },
        "0ed8040200e8070302026e6f80897a";
    Fact::Ripened { .. } => Fact::Ripened { topic: TOPIC, group: 2, priority: PRIORITY, first: FIRST, count: 3 },
        "0fd8040209a00603";
    Fact::Ended { .. } => Fact::Ended {
        topic: TOPIC, group: 2, priority: PRIORITY, first: FIRST, count: 3, reason: EndReason::RetainedOut,
    },
        "10d8040209a0060308";
    Fact::Rescheduled { .. } => Fact::Rescheduled {
        topic: TOPIC, group: 2, priority: PRIORITY, sequence: FIRST, due: LATER,
    },
        "11d8040209a006f8937a";
    Fact::Forgotten { .. } => Fact::Forgotten { namespace: 7, hash: 6 << 64 | 5 },
        "120705000000000000000600000000000000";
    Fact::Redriven { .. } => Fact::Redriven {
        letter: letter(),
        topic: TopicNumber(310),
        sequence: Sequence(410),
        published: WALL,
        since: LATER,
        dedup: Some(Remembered { hash: 6 << 64 | 5, until: WallTime(u64::MAX) }),
    },
        "3c070203612f62ac02099003f0a2040cec04b406c0843df80a010500000000000000060000000000000000",
        Fact::Redriven {
            letter: letter(),
            topic: TopicNumber(310),
            sequence: Sequence(410),
            published: WALL,
            since: WALL,
            dedup: None,
        },
        "13070203612f62ac02099003f0a2040cec04b406c0843d00";
    Fact::DeadPurged { .. } => Fact::DeadPurged { letter: letter() },
        "14070203612f62ac02099003f0a2040c";
    Fact::TopicRecalled { .. } => Fact::TopicRecalled {
        topic: TOPIC, group: 2, namespace: 7, name: topic("a/b"), shelf: Shelf::Idle,
    },
        "15d804020703612f620a";
    Fact::Moved { .. } => Fact::Moved {
        topic: TOPIC,
        priority: PRIORITY,
        first: FIRST,
        count: 2,
        from: 70_000,
        block: block(&[b"one", b"three"]),
        sizes: Sizes::from_ends(&[12, 26]),
    },
        "1603d8040902a006f0a2041a0000000004000000006f6e650000000006000000007468726565";
    Fact::DeadMoved { .. } => Fact::DeadMoved {
        letter: Box::new(rejected()),
        block: block(&[b"one"]),
    },
        "17070203612f62ac02099003aee0c50880897a0184070ca98c3d010005000000000000000600000000000000040300026e6f\
         fc893d0c0000000004000000006f6e65";
    Fact::GroupCreated { .. } => Fact::GroupCreated {
        group: 2,
        namespace: 7,
        name: GroupName::try_from("audit").unwrap(),
        start: Start::At(WALL),
        kind: GroupKind::Exclusive(OfficeTerms { term: Millis(10_000), handover: Millis(30_000) }),
    },
        "18020705617564697402c0843d01904eb0ea01";
    Fact::GroupEnding { .. } => Fact::GroupEnding { group: 2 },
        "1902";
    Fact::GroupDeleted { .. } => Fact::GroupDeleted { group: 2 },
        "1a02";
    Fact::GroupReached { .. } => Fact::GroupReached { group: 2, at: b"a\0b".to_vec(), rest: Some((PRIORITY, FIRST)) },
        "29020361006201099003";
    Fact::GroupStarted { .. } => Fact::GroupStarted { group: 2 },
        "2a02";
    Fact::Copied { .. } => Fact::Copied {
        topic: TOPIC,
        group: 2,
        messages: vec![CopiedRun { priority: PRIORITY, run: run(), due: Some(LATER) }],
        rest: Some((Priority::DEFAULT, Sequence(420))),
    },
        "28d804020109afa006e0c50880897a0184070ca98c3d01000500000000000000060000000000000001fc893d0104a403";
    Fact::Superseded { .. } => Fact::Superseded {
        topic: TOPIC,
        group: 2,
        which: Victims::Waiting { priority: PRIORITY, first: FIRST, count: 3 },
        priority: Priority::DEFAULT,
        by: Sequence(420),
        failures: 5,
        until: Some(RunTime(90_000)),
        since: Some(WALL),
    },
        "3dd804020109a006030428050190bf0580897a",
        Fact::Superseded {
            topic: TOPIC,
            group: 2,
            which: Victims::Leased { lease: LEASE, count: 3 },
            priority: Priority::DEFAULT,
            by: Sequence(420),
            failures: 5,
            until: None,
            since: None,
        },
        "1cd8040200e8070304c8060500";
    Fact::Declined { .. } => Fact::Declined { topic: TOPIC, group: 2, count: 3 },
        "1dd8040203";
    Fact::OfficeTaken { .. } => Fact::OfficeTaken { group: 2, session: SessionId(77), epoch: LeaderEpoch(12) },
        "2d024d0c";
    Fact::OfficeLeft { .. } => Fact::OfficeLeft { group: 2, until: RunTime(90_000) },
        "2e0290bf05";
    Fact::HandedOver { .. } => Fact::HandedOver { group: 2 },
        "2f02";
    Fact::TopicsSettled { .. } => Fact::TopicsSettled { group: 2 },
        "3502";
    Fact::Drawn { .. } => Fact::Drawn { topic: TOPIC, group: 2, full: 1 << 40, dry: Some(RunTime(90_000)) },
        "32d804028080808080200190bf05";
    Fact::Refilled { .. } => Fact::Refilled { topic: TOPIC, group: 2 },
        "33d80402";
    Fact::Aged { .. } => Fact::Aged { topic: TOPIC, group: 2, level: PRIORITY, raise: Some(WALL) },
        "34d80402090180897a";
    Fact::Waits { .. } => Fact::Waits { topic: TOPIC, group: 2, for_retry: true },
        "3bd80402",
        Fact::Waits { topic: TOPIC, group: 2, for_retry: false },
        "36d80402";
    Fact::ExchangeCreated { .. } => Fact::ExchangeCreated {
        namespace: 7, name: exchange(), kind: ExchangeKind::Headers, unroutable: Unroutable::Drop, version: 900,
    },
        "3707036c6f6703018407";
    Fact::ExchangeDeleted { .. } => Fact::ExchangeDeleted { namespace: 7, name: exchange() },
        "3807036c6f67";
    Fact::Bound { .. } => Fact::Bound { namespace: 7, exchange: exchange(), binding: by_headers(), version: 900 },
        "3907036c6f67020101016b017603612f628407";
    Fact::Unbound { .. } => Fact::Unbound { namespace: 7, exchange: exchange(), binding: by_key(), version: 900 },
        "3a07036c6f6701032a2e2303612f628407";
}

fn exchange() -> ExchangeName {
    ExchangeName::try_from("log").unwrap()
}

fn by_headers() -> Binding {
    let headers = vec![(Bytes::from_static(b"k"), Bytes::from_static(b"v"))];
    Binding { condition: Condition::Headers { all: true, headers }, target: topic("a/b") }
}

fn by_key() -> Binding {
    Binding { condition: Condition::Key(RoutingKey::try_from("*.#").unwrap()), target: topic("a/b") }
}

fn letter() -> Letter {
    let extent = Extent { position: 70_000, length: 12 };
    Letter { namespace: 7, group: 2, topic: topic("a/b"), id: id(), extent }
}

fn block(bodies: &[&[u8]]) -> Bytes {
    let mut block = Vec::new();
    bodies.iter().for_each(|body| block::push(&mut block, b"", &[], body).unwrap());
    block.into()
}

/// Each field has a value of its own.
fn policy() -> Policy {
    Policy {
        lease: Millis(31_000),
        max_failures: 11,
        retry: Retry::Backoff { first: Millis(1_100), longest: Millis(660_000) },
        ttl: Some(Millis(3_600_000)),
        on_expiry: OnExpiry::Dead,
        dedup_window: DedupWindow::For(Millis(610_000)),
        max_in_flight: Some(21),
        max_waiting: Some(22),
        overflow: Overflow::DropOldest,
        coalesce: Coalesce::KeepLatest,
        run: 23,
        rate: Some(Rate { count: 24, period: Millis(25_000), burst: 26 }),
        weight: 27,
        quotas: Quotas { messages: Some(28), bytes: Some(29), topics: Some(30), connections: Some(31) },
        dispatch: Dispatch::Fair,
        ageing: Some(Millis(32_000)),
        retention: Retention { age: Some(Millis(33_000)), count: Some(34) },
    }
}

fn rules() -> Rules {
    let overrides = Overrides { retry: Some(Retry::Tail), max_in_flight: Some(None), ..Overrides::default() };
    Rules::new(vec![Rule { pattern: Pattern { is_prefix: true, name: topic("a/") }, overrides }]).unwrap()
}

#[test]
fn each_kind_of_fact_has_the_bytes_that_it_had() {
    let mut kinds = BTreeSet::new();
    let read = |fact: &Fact, written: &Bytes| {
        assert_eq!(decode_fact(&mut Source::new(written)).as_ref(), Ok(fact));
        kinds.insert(written[0]);
    };
    hold(vectors(), fact_bytes, read);
    // Some facts have two forms, the second of which came later.
    let is_known = |kind: &u8| {
        let bytes = Bytes::from(vec![*kind]);
        let refused = decode_fact(&mut Source::new(&bytes)).expect_err("a kind alone is no fact");
        refused.what != "is a fact of an unknown kind"
    };
    assert_eq!(kinds, (0..=u8::MAX).filter(is_known).collect(), "these kinds have an example, and these are read");
}

/// What the examples leave out: each option with and without, and what facts of a batch have in common.
#[test]
fn the_bytes_of_facts_are_those_of_version_1() {
    let mut draw = Draw(Seed::new(8));
    let (mut context, mut bytes) = (Context::default(), Vec::new());
    for round in 0..40 * FACTS {
        append(&draw.fact(round % FACTS), &mut context, &mut bytes);
    }
    // Another sum here is another form on disk, as above.
    assert_eq!((bytes.len(), crc32c::crc32c(&bytes)), (126_959, 1_843_943_562));
}
