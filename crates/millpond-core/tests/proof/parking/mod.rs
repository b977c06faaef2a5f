//! Topics that leave memory at any moment, and a store that brings them back late and in any order: the same history
//! with and without gives the same answers and ends in the same state, and nothing is stuck.
//!
//! Commands that change topics are given while others are parked. What consumers do comes when all of these are decided,
//! for what a receive finds depends on what came before it. Each topic holds an anchor, a message of the lowest priority
//! that is never finished, so that topics do not vanish and numbers are the same in both runs. A purge ends it: then no
//! other command is about the same topic until there is another one.

mod run;

use millpond_core::command::*;
use millpond_types::NamespaceName;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::history::{TOPICS, config, publish_run};

pub use run::Run;

/// Of topics.
pub const PREFIXES: [&str; 4] = ["a/", "b/", "c", ""];

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn eviction_changes_nothing(rounds in vec(round(), 1..12), chances in vec(any::<u64>(), 64)) {
        let mut hot = Run::new(Vec::new());
        let mut cold = Run::new(chances);
        for round in &rounds {
            hot.round(round);
            cold.round(round);
        }
        for (ticket, answer) in &hot.answers {
            assert_eq!(Some(answer), cold.answers.get(ticket), "the answer to {ticket:?}");
        }
        assert_eq!(hot.answers.len(), cold.answers.len(), "all answers");
        assert_eq!(hot.pages(), cold.pages(), "the state at the end");
        assert_eq!(hot.drain(), cold.drain(), "nothing is stuck");
    }
}

#[test]
fn a_topic_that_is_not_there_yet_keeps_its_publishes_in_order() {
    let mut run = Run::new(Vec::new());
    run.evict_all();
    let topics = |topics: &[&str], run: &mut Run| {
        let runs = topics.iter().map(|topic| publish_run(&mut run.known, topic, 1, None)).collect();
        let namespace = NamespaceName::default();
        Command::Publish(Publish { namespace, producer: None, level: Level::Durable, runs })
    };
    let (first, second) = (topics(&["c", "new"], &mut run), topics(&["new"], &mut run));
    let last = run.tickets;
    run.submit(vec![first]);
    run.submit(vec![second]);
    assert!(run.answers.keys().all(|ticket| ticket.0 <= last), "both wait for what the first one needs");
    run.bring_all();
    let place = |n: u64| run.answers[&Ticket(last + n)].find("Sequence(6)");
    assert!(place(1).is_some() && place(2).is_none(), "the first one stored is the first one sent");
}

/// Changes, then what a consumer does.
#[derive(Clone, Debug)]
pub struct Round {
    changes: Vec<Change>,
    /// Pausing waits for no topic, so it comes when all else is decided.
    pause: Option<(usize, bool)>,
    topic: usize,
    messages: u32,
    /// Per message received, what becomes of it.
    verbs: Vec<u8>,
    pass: u64,
}

#[derive(Clone, Debug)]
pub enum Change {
    Publish {
        topics: Vec<usize>,
        priority: u8,
        count: u32,
        delay: u64,
        dedup: Option<u8>,
        repeats: bool,
    },
    Cancel(usize),
    Reschedule(usize, u64),
    Look(usize),
    Topic(usize),
    Purge(usize),
    /// While other topics are published to.
    PurgePrefix(usize),
    Redrive(usize),
    /// A list or what stands out, when all else is decided or while it is not.
    List {
        prefix: usize,
        top: bool,
        quiet: bool,
    },
    Move(usize),
}

fn round() -> impl Strategy<Value = Round> {
    let topic = || 0..TOPICS.len();
    // Far enough ahead for a topic to do without memory until then.
    let delay = || prop_oneof![5 => Just(0), 1 => Just(100_000u64)];
    let change = prop_oneof![
        6 => (vec(topic(), 1..4), prop_oneof![3 => Just(4u8), 1 => Just(9)], 1..4u32, delay(), any::<(Option<bool>, bool)>())
            .prop_map(|(topics, priority, count, delay, (dedup, repeats))| {
                Change::Publish { topics, priority, count, delay, dedup: dedup.map(u8::from), repeats }
            }),
        2 => any::<usize>().prop_map(Change::Cancel),
        // No delay of zero: that is over at the turn's end, and which turn that is differs.
        1 => (any::<usize>(), 100_000..300_000u64).prop_map(|(message, delay)| Change::Reschedule(message, delay)),
        1 => topic().prop_map(Change::Look),
        1 => topic().prop_map(Change::Topic),
        1 => topic().prop_map(Change::Purge),
        1 => (0..PREFIXES.len()).prop_map(Change::PurgePrefix),
        2 => (0..PREFIXES.len(), any::<[bool; 2]>())
            .prop_map(|(prefix, [top, quiet])| Change::List { prefix, top, quiet }),
        1 => topic().prop_map(Change::Redrive),
        3 => any::<usize>().prop_map(Change::Move),
    ];
    let pause = option::weighted(0.2, (topic(), any::<bool>()));
    let pass = prop_oneof![Just(0), Just(700u64), Just(50_000u64)];
    (vec(change, 0..8), pause, topic(), 1..6u32, vec(0..5u8, 6), pass).prop_map(
        |(changes, pause, topic, messages, verbs, pass)| Round { changes, pause, topic, messages, verbs, pass },
    )
}
