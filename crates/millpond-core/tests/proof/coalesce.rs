//! Coalescing against the machine that it is: per topic nobody, a head, or a head and a tail, and never more.

use std::collections::BTreeMap;

use millpond_core::command::*;
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::{FinishOutcome, MessageId, PublishOutcome, Receipt};
use proptest::prelude::*;

use crate::history::config;
use crate::script::{self, Line, Names};
use crate::shell::Shell;

const TOPICS: [&str; 3] = ["a", "b/1", "b/2"];
const MAX_FAILURES: u32 = 2;

/// What is known of a topic by what was told.
#[derive(Default)]
struct Machine {
    /// Being worked on, by a lease that nobody ended.
    head: Option<(MessageId, Receipt)>,
    /// The one that waits, and the last body that it stands for.
    tail: Option<(MessageId, u32)>,
    /// The body that came last, and whether a run that began later has ended well.
    last: u32,
    processed: u32,
    /// Failures since the last ack or death.
    failures: u32,
}

#[derive(Clone, Debug)]
enum Step {
    Publish(usize),
    Receive,
    /// Ack, release or fail the head of a topic.
    Finish(usize, u8),
    Crash,
    Checkpoint,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..TOPICS.len()).prop_map(Step::Publish),
        3 => Just(Step::Receive),
        4 => (0..TOPICS.len(), 0..4u8).prop_map(|(topic, verb)| Step::Finish(topic, verb)),
        1 => Just(Step::Crash),
        1 => Just(Step::Checkpoint),
    ]
}

struct Run {
    shell: Shell,
    machines: BTreeMap<&'static str, Machine>,
    published: u32,
    first: bool,
    dead: u64,
}

impl Run {
    fn new(first: bool) -> Run {
        let mut run = Run { shell: Shell::new(), machines: BTreeMap::new(), published: 0, first, dead: 0 };
        let keep = if first { "keep_first" } else { "keep_latest" };
        run.ask(&format!("namespace default coalesce={keep} retry=head max_failures={MAX_FAILURES} lease=1h"));
        for topic in TOPICS {
            run.machines.insert(topic, Machine::default());
        }
        run
    }

    fn ask(&mut self, text: &str) -> Reply {
        self.command(script::command(&Line::new(text), text, &Names::default()))
    }

    fn command(&mut self, command: Command) -> Reply {
        let ticket = self.shell.ticket();
        let mut outputs = self.shell.turn(vec![(ticket, command)]);
        match outputs.pop() {
            Some(Output::Reply { reply, .. }) if outputs.is_empty() => reply,
            other => panic!("one answer to a command, and no other output: {other:?}"),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Publish(at) => self.publish(TOPICS[*at]),
            Step::Receive => self.receive(),
            Step::Finish(at, verb) => self.finish(TOPICS[*at], *verb),
            Step::Crash => self.shell.restart(true),
            Step::Checkpoint => self.shell.checkpoint(),
        }
    }

    fn publish(&mut self, topic: &'static str) {
        self.published += 1;
        let Reply::Published { outcomes, .. } = self.ask(&format!("publish {topic} m{}", self.published)) else {
            panic!("a publish is decided")
        };
        let machine = self.machines.get_mut(topic).unwrap();
        machine.last = self.published;
        match (&outcomes[0].outcome, &mut machine.tail) {
            (PublishOutcome::Queued { id }, tail @ None) => *tail = Some((*id, self.published)),
            (PublishOutcome::Coalesced { id, replaced: None }, Some((tail, stands_for))) if self.first => {
                assert_eq!(id, tail, "it is told which one waits");
                *stands_for = self.published;
            }
            (PublishOutcome::Coalesced { id, replaced: Some(old) }, Some((tail, stands_for))) if !self.first => {
                assert_eq!(old, tail, "it is told which one it replaced");
                (*tail, *stands_for) = (*id, self.published);
            }
            (outcome, tail) => panic!("{outcome:?} where {tail:?} waits"),
        }
    }

    fn receive(&mut self) {
        let Reply::Received(runs) = self.ask("receive") else { panic!("a receive is answered") };
        for LeasedRun { topic, receipt, priority, first, count, failures, .. } in runs {
            let machine = self.machines.get_mut(topic.as_str()).unwrap();
            assert_eq!(count, 1, "one at a time");
            assert!(machine.head.is_none(), "{topic} is worked on already");
            let id = MessageId { topic: receipt.topic, priority, sequence: first };
            let (tail, stands_for) = machine.tail.take().expect("what is delivered waited");
            assert_eq!((id, failures), (tail, machine.failures), "the one that waits, with what it inherited");
            machine.head = Some((id, receipt));
            machine.processed = machine.processed.max(stands_for);
        }
    }

    fn finish(&mut self, topic: &'static str, verb: u8) {
        let Some((id, receipt)) = self.machines.get_mut(topic).unwrap().head.take() else { return };
        let (verb, is_failure) = match verb {
            0 | 1 => (FinishVerb::Ack, false),
            2 => (FinishVerb::Release { delay: millpond_types::Millis::ZERO }, false),
            _ => (FinishVerb::Fail { reason: bytes::Bytes::new() }, true),
        };
        let receipts = vec![ReceiptRun { first: receipt, count: 1 }];
        let is_ack = matches!(verb, FinishVerb::Ack);
        let Reply::Finished(outcomes) =
            self.command(Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }))
        else {
            panic!("a finish is decided")
        };
        let machine = self.machines.get_mut(topic).unwrap();
        machine.failures = if is_ack { 0 } else { machine.failures + u32::from(is_failure) };
        if machine.failures > MAX_FAILURES {
            assert_eq!(outcomes[0].outcome, FinishOutcome::Dead, "a poisoned key comes to its dead letter");
            (machine.failures, self.dead) = (0, self.dead + 1);
        } else {
            assert_eq!(outcomes[0].outcome, FinishOutcome::Done);
            if !is_ack && machine.tail.is_none() {
                machine.tail = Some((id, machine.processed));
            }
        }
    }

    /// Works everything off, and finds that each body was followed by a run that began later.
    fn end(mut self) {
        for _ in 0..3 {
            for topic in TOPICS {
                self.finish(topic, 0);
            }
            self.receive();
        }
        for (topic, machine) in &self.machines {
            assert!(machine.head.is_none() && machine.tail.is_none(), "{topic} comes to rest");
            assert_eq!(machine.processed, machine.last, "the last body of {topic} was worked on after it came");
        }
        let Reply::Namespaces { rows, .. } = self.ask("stats") else { panic!("stats are told") };
        let (tally, counts) = (rows[0].groups[0].tally, rows[0].groups[0].counts);
        assert_eq!((counts.unfinished(), counts.dead, rows[0].usage.topics), (0, self.dead, 0));
        assert_eq!(tally.accepted + tally.declined, u64::from(self.published), "every publish was decided");
    }
}

proptest! {
    #![proptest_config(config(60))]
    #[test]
    fn topics_keep_to_the_machine(first: bool, steps in proptest::collection::vec(step(), 1..120)) {
        let mut run = Run::new(first);
        steps.iter().for_each(|step| run.step(step));
        run.end();
    }
}
