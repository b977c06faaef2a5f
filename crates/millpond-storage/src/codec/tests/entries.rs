//! The bytes of entries of each kind, as checkpoints hold them that were written before: of a topic and of pieces in each of
//! their forms.

use super::samples::*;
use super::*;

vectors! {
    Page;
    Page::Numbers(_) => Page::Numbers(NumbersPage {
        hash_key: [1, 2],
        next_topic: 301,
        next_namespace: 8,
        next_group: 9,
        high_water: 4_000,
        epochs: LeaderEpoch(12),
        raised: 1 << 40,
        run: RunTime(90_000),
        wall: WALL,
        epoch: 5,
    }),
        "0101000000000000000200000000000000ad020809a01f0c80808080802090bf05c0843d05";
    Page::Namespace(_) => Page::Namespace(Box::new(NamespacePage {
        number: 7,
        name: NamespaceName::try_from("orders").unwrap(),
        policy: Policy { weight: 27, ..Policy::default() },
        rules: Rules::default(),
        version: 3,
        paused: vec![Pause { topics: PausedTopics::prefix(&topic("a/")), until: WallTime::NEVER }],
        groups: vec![shared_group(), exclusive_group()],
    })),
        "01066f7264657273b0ea010a02e807c0cf24000001c0cf240000000000011b000000000000000000030102612f0102020561\
         756469740002c0843d01036100620109900301030015161718191f2021222301c0843dbc05292a2b333435363738393a3b3c\
         3d3e03046c6561640100000001904eb0ea010c014d014c90bf0515161718191f2021222301c0843dbc05292a2b3334353637\
         38393a3b3c3d3e";
    Page::Topic(_) => Page::Topic(plain_topic()),
        "01ac02a01f14050709019f38010080897a0001840701af9f38e0c50880897a0184070ca98c3d010005000000000000000600\
         00000000000062048303f7c508a98c3d01000500000000000000060000000000000000040300a40380a98c3d010005000000\
         00000000060000000000000000040301fc893d80a98c3d0100050000000000000006000000000000000004030290bf0580a9\
         8c3d01000500000000000000060000000000000000040304f403024db0ea0190bf058080808080200190bf050901c0843d",
        Page::Topic(TopicPage {
            levels: vec![LevelPage { resting: vec![StoredResting::of(&[delayed(), retrying()])], ..level() }],
            waits_for_retry: true,
            ..plain_topic()
        }),
        "01ac02a01f14054719019f38010080897a0001840701af9f38e0c50880897a0184070ca98c3d010005000000000000000600\
         00000000000062048303f7c508a98c3d01000500000000000000060000000000000000040300a40380a98c3d010005000000\
         00000000060000000000000000040301fc893d80a98c3d0100050000000000000006000000000000000004030290bf0580a9\
         8c3d01000500000000000000060000000000000000040304f403024db0ea0190bf05019f3802000180897a01bc0501840701\
         90bf058080808080200190bf050901c0843d";
    Page::Dead(_) => Page::Dead(rejected()),
        "01aee0c50880897a0184070ca98c3d010005000000000000000600000000000000040300026e6ffc893d";
    Page::Dedup(_) => Page::Dedup(DedupPage { namespace: 7, hash: 6 << 64 | 5, id: id(), until: LATER }),
        "01ac02099003fd893d";
    Page::Producer(_) => Page::Producer(ProducerPage {
        namespace: 7,
        id: ProducerId(6 << 64 | 5),
        instance: 3,
        used: WALL,
        last: 11,
        batches: vec![Outcomes::new(&[
            OutcomeRun { count: 2, outcome: PublishOutcome::Queued { id: id() } },
            OutcomeRun { count: 1, outcome: PublishOutcome::Refused { code: Code::TopicFull, detail: "full".into() } },
        ])],
    }),
        "0103c0843d0b010e3c02d60409a00602250466756c6c";
    Page::Due(_) => Page::Due(DuePage {
        at: Moment { clock: Clock::Run, at: 90_000 }, group: 2, name: topic("a/b"), shelf: Shelf::Idle,
    }),
        "010a";
    Page::Piece(_) => piece(PieceMessages::Line(vec![run()])),
        "0101aee0c50880897a0184070ca98c3d010005000000000000000600000000000000",
        piece(PieceMessages::Line(vec![RunPage { marks: Some(Marks::of_redriven(LATER, WallTime(1_001_000), Some(6 << 64 | 5))), ..run() }])),
        "0101aee0c50880897a0184070ca98c3d0002f80a010005000000000000000600000000000000",
        piece(PieceMessages::Resting(vec![delayed(), retrying()])),
        "010002aee0c50880897a0184070ca98c3d01000500000000000000060000000000000000040301fc893d82f7c508a98c3d01\
         00050000000000000006000000000000000004030290bf05";
    Page::Exchange(_) => Page::Exchange(Box::new(ExchangePage {
        namespace: 7,
        name: ExchangeName::try_from("log").unwrap(),
        kind: ExchangeKind::Topic,
        unroutable: Unroutable::Drop,
        version: 900,
        bindings: vec![Binding {
            condition: Condition::Key(RoutingKey::try_from("*.#").unwrap()), target: topic("a/b"),
        }],
    })),
        "01010184070101032a2e2303612f62";
}

fn group(number: u32, name: &str) -> GroupPage {
    GroupPage {
        number,
        name: GroupName::try_from(name).unwrap(),
        is_ending: false,
        start: Start::Latest,
        starting: None,
        unsettled: None,
        office: None,
        counts: Counts { waiting: 21, delayed: 22, retrying: 23, leased: 24, dead: 25 },
        tally: Tally { accepted: 31, declined: 32, superseded: 33, dropped: 34, retained_out: 35 },
        spans: vec![Span { first: WALL, last: LATER, count: 41 }],
        bytes: 42,
        topics: 43,
        shelves: std::array::from_fn(|index| 51 + index as u64),
    }
}

fn shared_group() -> GroupPage {
    let starting = Some(Reached { at: b"a\0b".to_vec(), rest: Some((Priority::HIGHEST, FIRST)) });
    GroupPage { start: Start::At(WALL), starting, unsettled: Some(3), ..group(2, "audit") }
}

fn exclusive_group() -> GroupPage {
    let office = OfficePage {
        terms: OfficeTerms { term: Millis(10_000), handover: Millis(30_000) },
        epoch: LeaderEpoch(12),
        leader: Some(SessionId(77)),
        outgoing: Some((SessionId(76), RunTime(90_000))),
    };
    GroupPage { is_ending: true, office: Some(Box::new(office)), ..group(3, "lead") }
}

fn plain_topic() -> TopicPage {
    TopicPage {
        number: TOPIC,
        group: 2,
        name: topic("a/b"),
        floor: 4_000,
        next_lease: LeaseNumber(4_010),
        epoch: 5,
        levels: vec![level()],
        bucket: Some(BucketPage { full: 1 << 40, dry: Some(RunTime(90_000)) }),
        age: Some(AgePage { level: Priority::HIGHEST, raise: Some(WALL) }),
        waits_for_retry: false,
    }
}

/// With a message aside in each state.
fn level() -> LevelPage {
    let leased = AsideState::Leased {
        lease: LeaseNumber(500),
        run: Some(LeaseNumber(498)),
        holder: SessionId(77),
        duration: Millis(30_000),
        deadline: RunTime(90_000),
    };
    LevelPage {
        priority: Priority::HIGHEST,
        next: Sequence(450),
        stored: vec![StoredPiece::of(&[run()])],
        runs: vec![run()],
        aside: vec![aside(399, AsideState::Ready { behind: Sequence(420) }), delayed(), retrying(), aside(402, leased)],
        resting: Vec::new(),
    }
}

fn delayed() -> AsidePage {
    aside(400, AsideState::Delayed { due: LATER })
}

fn retrying() -> AsidePage {
    aside(401, AsideState::Retrying { due: RunTime(90_000) })
}

fn aside(first: u64, state: AsideState) -> AsidePage {
    let run = RunPage { first: Sequence(first), ..run() };
    AsidePage { run, deliveries: 4, failures: 3, since: WALL, state }
}

fn piece(messages: PieceMessages) -> Page {
    Page::Piece(PiecePage { topic: TOPIC, group: 2, priority: Priority::HIGHEST, messages })
}

#[test]
fn each_kind_of_entry_has_the_bytes_that_it_had() {
    let read = |page: &Page, written: &Bytes| {
        assert_eq!(decode_entry(&Key::of(page, Shelf::Idle), written).as_ref(), Ok(page));
    };
    hold(vectors(), entry_bytes, read);
}
