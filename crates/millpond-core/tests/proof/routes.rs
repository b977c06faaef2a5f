//! Bindings that come and go while messages are published to an exchange by an edge that is behind: each message goes to
//! the topics that a plain look over all bindings gives, once, over restarts and with topics on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millpond_core::command::{Command, Level};
use millpond_core::output::{Notice, Output, Reply};
use millpond_core::page::Page;
use millpond_core::routing::Exchange;
use millpond_types::{FinishOutcome, NamespaceName, PublishOutcome, Receipt};
use proptest::prelude::*;

use crate::ask::{answers, asked, say};
use crate::history::config;
use crate::script::{Line, Names, command};
use crate::shell::Shell;

const KEYS: [&str; 6] = ["", "a", "b", "a.b", "b.a", "a.b.c"];
const PATTERNS: [&str; 8] = ["#", "a", "*", "a.*", "#.b", "a.#", "*.#.a", "a.b.c"];
const TARGETS: [&str; 4] = ["x", "y", "z/{key}", "w"];

#[derive(Clone, Debug)]
enum Op {
    Bind(usize, usize),
    Unbind(usize, usize),
    Route(usize),
    /// The same with an input that is acked.
    Forward(usize),
    /// The edge hears of all changes so far.
    Follow,
    Leave,
    Checkpoint,
    Restart(bool),
}

fn op() -> impl Strategy<Value = Op> {
    let binding = || (0..PATTERNS.len(), 0..TARGETS.len());
    prop_oneof![
        3 => binding().prop_map(|(pattern, target)| Op::Bind(pattern, target)),
        2 => binding().prop_map(|(pattern, target)| Op::Unbind(pattern, target)),
        6 => (0..KEYS.len()).prop_map(Op::Route),
        3 => (0..KEYS.len()).prop_map(Op::Forward),
        2 => Just(Op::Follow),
        1 => Just(Op::Leave),
        1 => Just(Op::Checkpoint),
        1 => any::<bool>().prop_map(Op::Restart),
    ]
}

proptest! {
    #![proptest_config(config(120))]

    #[test]
    fn a_message_goes_where_the_bindings_lead(ops in proptest::collection::vec(op(), 1..60)) {
        let (shell, bindings, held) = (Shell::new(), BTreeSet::new(), BTreeMap::new());
        let mut world = World { shell, edge: None, bindings, input: None, held };
        assert_eq!(world.say("exchange events kind=topic unroutable=drop"), Reply::Done);
        for op in ops {
            world.carry_out(&op);
        }
        let Reply::Topics(topics) = world.say("topics") else { panic!("a list of topics") };
        let found: BTreeMap<String, u64> =
            topics.iter().map(|topic| (topic.name.to_string(), topic.counts.waiting)).collect();
        assert_eq!(found, world.held, "each topic holds what was sent to it");
    }
}

struct World {
    shell: Shell,
    /// The exchange as the edge knows it.
    edge: Option<Arc<Exchange>>,
    bindings: BTreeSet<(usize, usize)>,
    /// Of the last message that came of a receive.
    input: Option<Receipt>,
    /// Messages by topic.
    held: BTreeMap<String, u64>,
}

impl World {
    fn carry_out(&mut self, op: &Op) {
        match *op {
            Op::Bind(pattern, target) => {
                let is_new = self.bindings.insert((pattern, target));
                let line = format!("bind events {} key={}", TARGETS[target], PATTERNS[pattern]);
                assert_eq!(self.say(&line), Reply::Count(is_new.into()));
            }
            Op::Unbind(pattern, target) => {
                let was_there = self.bindings.remove(&(pattern, target));
                let line = format!("unbind events {} key={}", TARGETS[target], PATTERNS[pattern]);
                assert_eq!(self.say(&line), Reply::Count(was_there.into()));
            }
            Op::Route(key) => self.route(KEYS[key], &format!("route events m key={}", KEYS[key])),
            Op::Forward(key) => {
                self.say("publish in x");
                let Reply::Received(leases) = self.say("receive in wait=1s") else { panic!("it waits for its input") };
                self.input = Some(leases[0].receipt);
                self.route(KEYS[key], &format!("forward x -> route events m key={}", KEYS[key]));
            }
            Op::Follow => {
                for notice in self.shell.notices.drain(..) {
                    if let Notice::Exchange { exchange, .. } = notice {
                        self.edge = exchange;
                    }
                }
            }
            Op::Leave => self.shell.core.set_room(0),
            Op::Checkpoint => self.shell.checkpoint(),
            Op::Restart(crash) => self.shell.restart(crash),
        }
    }

    fn route(&mut self, key: &str, line: &str) {
        let words: Vec<&str> = key.split('.').filter(|_| !key.is_empty()).collect();
        let taken = self.bindings.iter().filter(|(pattern, _)| {
            let pattern: Vec<&str> = PATTERNS[*pattern].split('.').collect();
            takes(&pattern, &words)
        });
        let targets: BTreeSet<String> = taken.map(|(_, target)| TARGETS[*target].replace("{key}", key)).collect();
        let outcomes = match self.say(line) {
            Reply::Published { outcomes, .. } => outcomes,
            Reply::Forwarded { finished, published, .. } => {
                assert_eq!(finished[0].outcome, FinishOutcome::Done);
                published
            }
            other => panic!("a publish is decided: {other:?}"),
        };
        let stored = outcomes.iter().map(|run| {
            assert!(matches!(run.outcome, PublishOutcome::Queued { .. }), "{run:?}");
            run.count as usize
        });
        assert_eq!(stored.sum::<usize>(), targets.len(), "an outcome for each topic");
        targets.into_iter().for_each(|topic| *self.held.entry(topic).or_default() += 1);
    }

    fn say(&mut self, text: &str) -> Reply {
        let mut names = Names::default();
        names.receipts.insert("x".into(), self.input.into_iter().collect());
        if let Some(edge) = &self.edge {
            let events = "events".try_into().expect("a name");
            names.exchanges.insert((NamespaceName::default(), events), edge.clone());
        }
        let command: Command = command(&Line::new(text), text, &names);
        let ticket = self.shell.ticket();
        let mut outputs = self.shell.turn(vec![(ticket, command)]);
        while outputs.is_empty() {
            outputs = self.shell.turn(Vec::new());
        }
        match outputs.pop() {
            Some(Output::Reply { reply, .. }) if outputs.is_empty() => reply,
            other => panic!("one answer, and no other output: {other:?}"),
        }
    }
}

/// As it is said: `*` is one word, `#` any number of them.
fn takes(pattern: &[&str], words: &[&str]) -> bool {
    match pattern {
        [] => words.is_empty(),
        ["#", rest @ ..] => (0..=words.len()).any(|from| takes(rest, &words[from..])),
        [word, rest @ ..] => {
            words.first().is_some_and(|first| *word == "*" || word == first) && takes(rest, &words[1..])
        }
    }
}

/// Each refusal names its topic, and a producer session keeps what its batches were told.
#[test]
fn what_is_kept_of_refusals_with_long_names_has_a_bound() {
    const TOPICS: usize = 1000;
    let mut shell = Shell::new();
    let name = |at: usize| format!("{}{at:03}", "x".repeat(500));
    say(&mut shell, "namespace default max_waiting=1");
    say(&mut shell, "exchange all kind=fanout");
    answers(&mut shell, (0..TOPICS).map(|at| asked(&format!("bind all {}", name(at)))).collect());
    // So that no two of them that come one after the other are refused for the same reason.
    let full: Vec<String> = (0..TOPICS).step_by(2).map(|at| format!("{} m", name(at))).collect();
    say(&mut shell, &format!("publish {}", full.join(" + ")));
    let told = say(&mut shell, "route all m producer=1.1.1");
    let Reply::Published { outcomes, topics, .. } = told else { panic!("{told:?}") };
    assert_eq!((outcomes.len(), topics.len()), (TOPICS, TOPICS), "the code of each is told");
    let details: Vec<&str> = outcomes
        .iter()
        .filter_map(|run| match &run.outcome {
            PublishOutcome::Refused { detail, .. } => Some(&detail[..]).filter(|detail| !detail.is_empty()),
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(details.len() > 10 && details.iter().all(|detail| detail.contains("topic xxx")), "{details:?}");
    let kept: Vec<usize> = shell
        .core
        .pages()
        .filter_map(|page| match page {
            Page::Producer(producer) => Some(producer.batches.iter().map(|batch| batch.as_bytes().len()).sum()),
            _ => None,
        })
        .collect();
    assert!(matches!(kept[..], [bytes] if bytes < 24 << 10), "{kept:?}");
    assert_eq!(
        say(&mut shell, "route all m producer=1.1.1"),
        Reply::Published { level: Level::Durable, outcomes, topics: Vec::new() }
    );
}
