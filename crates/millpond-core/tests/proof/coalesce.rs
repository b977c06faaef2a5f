//! Coalescing against the machine that it is: per topic nobody, a head, or a head and a tail, and never more.

use std::collections::BTreeMap;

use millpond_core::command::*;
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::{
    FinishOutcome, GroupName, MessageId, MessageState, NamespaceName, PublishOutcome, Receipt, TopicName,
};
use proptest::prelude::*;

use crate::ask::asked;
use crate::history::config;
use crate::shell::Shell;

const TOPICS: [&str; 3] = ["a", "b/1", "b/2"];
const MAX_FAILURES: u32 = 2;

/// How long a message lives that has a TTL, and how long a pass takes.
const TTL: u64 = 5_000;
const PASS: u64 = 2 * TTL;

/// A message, by its body's number: those that were published later have higher ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Message {
    id: MessageId,
    body: u32,
    /// When it expires, if it does.
    expires: Option<u64>,
}

/// What is known of a topic by what was told.
#[derive(Default)]
struct Machine {
    /// Being worked on, by a lease that nobody ended.
    head: Option<(Message, Receipt)>,
    /// The one that waits, and the last body that it stands for.
    tail: Option<(Message, u32)>,
    /// Dead letters.
    letters: Vec<Message>,
    /// The body that came last, and whether a run that began later has ended well.
    last: u32,
    processed: u32,
    /// Failures since the last ack or death.
    failures: u32,
}

#[derive(Clone, Debug)]
enum Step {
    /// With a TTL, or without.
    Publish(usize, bool),
    /// With leases, or at most once.
    Receive(bool),
    /// Ack, release, fail or reject the head of a topic.
    Finish(usize, u8),
    /// Some of the dead letters of a topic go back to work, one after another.
    Redrive(usize, Vec<usize>),
    /// TTLs pass.
    Pass,
    Crash,
    Checkpoint,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (topic(), prop::bool::weighted(0.2)).prop_map(|(topic, ttl)| Step::Publish(topic, ttl)),
        6 => prop::bool::weighted(0.1).prop_map(Step::Receive),
        6 => (topic(), 0..7u8).prop_map(|(topic, verb)| Step::Finish(topic, verb)),
        1 => (topic(), prop::collection::vec(0..9usize, 1..6)).prop_map(|(topic, at)| Step::Redrive(topic, at)),
        1 => Just(Step::Pass),
        1 => Just(Step::Crash),
        1 => Just(Step::Checkpoint),
    ]
}

/// Most of it happens to one topic, so that a dead letter meets what waits or runs there.
fn topic() -> impl Strategy<Value = usize> {
    prop_oneof![5 => Just(0), 1 => 1..TOPICS.len()]
}

struct Run {
    shell: Shell,
    machines: BTreeMap<&'static str, Machine>,
    published: u32,
    first: bool,
}

impl Run {
    fn new(first: bool) -> Run {
        let mut run = Run { shell: Shell::new(), machines: BTreeMap::new(), published: 0, first };
        let keep = if first { "keep_first" } else { "keep_latest" };
        run.ask(&format!("namespace default coalesce={keep} retry=head max_failures={MAX_FAILURES} lease=12h"));
        for topic in TOPICS {
            run.machines.insert(topic, Machine::default());
        }
        run
    }

    fn ask(&mut self, text: &str) -> Reply {
        self.command(asked(text))
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
            Step::Publish(at, ttl) => self.publish(TOPICS[*at], *ttl),
            Step::Receive(once) => self.receive(*once),
            Step::Finish(at, verb) => self.finish(TOPICS[*at], *verb),
            Step::Redrive(at, letters) => letters.iter().for_each(|letter| self.redrive(TOPICS[*at], *letter)),
            Step::Pass => self.pass(),
            Step::Crash => self.shell.restart(true),
            Step::Checkpoint => self.shell.checkpoint(),
        }
        for topic in TOPICS {
            self.look(topic);
        }
    }

    fn publish(&mut self, topic: &'static str, ttl: bool) {
        self.published += 1;
        // So that times tell what was published later.
        self.shell.pass(1, 1);
        let (body, expires) = (self.published, ttl.then_some(self.shell.now.wall.0 + TTL));
        let option = if ttl { format!(" ttl={TTL}ms") } else { String::new() };
        let Reply::Published { outcomes, .. } = self.ask(&format!("publish {topic} m{body}{option}")) else {
            panic!("a publish is decided")
        };
        let machine = self.machines.get_mut(topic).unwrap();
        machine.last = body;
        match (&outcomes[0].outcome, &mut machine.tail) {
            (PublishOutcome::Queued { id }, tail @ None) => *tail = Some((Message { id: *id, body, expires }, body)),
            (PublishOutcome::Coalesced { id, replaced: None }, Some((tail, stands_for))) if self.first => {
                assert_eq!(*id, tail.id, "it is told which one waits");
                *stands_for = body;
            }
            (PublishOutcome::Coalesced { id, replaced: Some(old) }, Some((tail, stands_for))) if !self.first => {
                assert_eq!(*old, tail.id, "it is told which one it replaced");
                (*tail, *stands_for) = (Message { id: *id, body, expires }, body);
            }
            (outcome, tail) => panic!("{outcome:?} where {tail:?} waits"),
        }
    }

    fn receive(&mut self, once: bool) {
        let how = if once { "receive once=yes" } else { "receive" };
        let Reply::Received(runs) = self.ask(how) else { panic!("a receive is answered") };
        for LeasedRun { topic, receipt, priority, first, count, failures, .. } in runs {
            let machine = self.machines.get_mut(topic.as_str()).unwrap();
            assert_eq!(count, 1, "one at a time");
            assert!(machine.head.is_none(), "{topic} is worked on already");
            let id = MessageId { topic: receipt.topic, priority, sequence: first };
            let (tail, stands_for) = machine.tail.take().expect("what is delivered waited");
            assert_eq!((id, failures), (tail.id, machine.failures), "the one that waits, with what it inherited");
            machine.processed = machine.processed.max(stands_for);
            match once {
                true => machine.failures = 0,
                false => machine.head = Some((tail, receipt)),
            }
        }
    }

    fn finish(&mut self, topic: &'static str, verb: u8) {
        let Some((head, receipt)) = self.machines.get_mut(topic).unwrap().head.take() else { return };
        let (verb, is_failure) = match verb {
            0 => (FinishVerb::Ack, false),
            1 => (FinishVerb::Release { delay: millpond_types::Millis::ZERO }, false),
            2 | 3 => (FinishVerb::Fail { delay: None, reason: bytes::Bytes::new() }, true),
            _ => (FinishVerb::Reject { reason: bytes::Bytes::new() }, false),
        };
        let receipts = vec![ReceiptRun { first: receipt, count: 1 }];
        let (is_ack, is_reject) = (matches!(verb, FinishVerb::Ack), matches!(verb, FinishVerb::Reject { .. }));
        let Reply::Finished(outcomes) =
            self.command(Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }))
        else {
            panic!("a finish is decided")
        };
        let now = self.shell.now.wall.0;
        let machine = self.machines.get_mut(topic).unwrap();
        machine.failures = if is_ack { 0 } else { machine.failures + u32::from(is_failure) };
        if is_reject || machine.failures > MAX_FAILURES {
            assert_eq!(outcomes[0].outcome, FinishOutcome::Dead, "a poisoned key comes to its dead letter");
            machine.failures = 0;
            machine.letters.push(Message { expires: None, ..head });
            return;
        }
        assert_eq!(outcomes[0].outcome, FinishOutcome::Done);
        match (is_ack, &machine.tail) {
            // Of one that has expired nothing comes back where none waits to inherit from it.
            (false, None) if head.expires.is_some_and(|at| at <= now) => machine.failures = 0,
            (false, None) => machine.tail = Some((head, machine.processed)),
            _ => {}
        }
    }

    fn redrive(&mut self, topic: &'static str, at: usize) {
        let machine = self.machines.get_mut(topic).unwrap();
        if machine.letters.is_empty() {
            return;
        }
        let letter = machine.letters.remove(at % machine.letters.len());
        let name = TopicName::try_from(topic).unwrap();
        let (namespace, group) = (NamespaceName::default(), GroupName::default());
        let redrive = Command::DeadRedrive { namespace, group, which: DeadWhich::One(name, letter.id) };
        assert_eq!(self.command(redrive), Reply::Count(1));
        let waits = self.waiting(topic);
        let machine = self.machines.get_mut(topic).unwrap();
        let of_head = machine.head.iter().map(|(head, _)| head.body);
        let later = of_head.chain(machine.tail.iter().map(|(tail, _)| tail.body)).any(|body| body > letter.body);
        if later {
            assert_eq!(waits, machine.tail.map(|(tail, _)| tail.id), "it gives way to one that was published later");
            return;
        }
        let id = waits.expect("it waits");
        let (stood_for, old) = machine.tail.map_or((0, None), |(tail, stands_for)| (stands_for, Some(tail.id)));
        assert!(old != Some(id) && id != letter.id, "it is a new message, in the place of {old:?}");
        machine.tail = Some((Message { id, ..letter }, stood_for.max(letter.body)));
    }

    fn pass(&mut self) {
        self.shell.pass(PASS, PASS);
        assert!(self.shell.turn(Vec::new()).is_empty(), "nobody waits");
        let now = self.shell.now.wall.0;
        for machine in self.machines.values_mut() {
            let is_over = |(tail, _): &mut (Message, u32)| tail.expires.is_some_and(|at| at <= now);
            if let Some((_, stood_for)) = machine.tail.take_if(is_over) {
                // Nobody is told of what it stood for.
                machine.processed = machine.processed.max(stood_for);
                machine.failures = if machine.head.is_some() { machine.failures } else { 0 };
            }
        }
    }

    /// The message of a topic that waits.
    fn waiting(&mut self, topic: &str) -> Option<MessageId> {
        let Reply::Messages(rows) = self.ask(&format!("look {topic}")) else { return None };
        let waiting: Vec<_> = rows.iter().filter(|row| row.row.state == MessageState::Waiting).collect();
        assert!(waiting.len() <= 1, "one waits");
        waiting.first().map(|row| row.row.id)
    }

    /// What a topic holds is its head and its tail.
    fn look(&mut self, topic: &'static str) {
        let held = match self.ask(&format!("look {topic}")) {
            Reply::Messages(rows) => rows.iter().map(|row| (row.row.id, row.row.state)).collect(),
            _ => Vec::new(),
        };
        let machine = &self.machines[topic];
        let tail = machine.tail.map(|(tail, _)| (tail.id, MessageState::Waiting));
        let head = machine.head.map(|(head, _)| (head.id, MessageState::Leased));
        assert_eq!(held, tail.into_iter().chain(head).collect::<Vec<_>>(), "what {topic} holds");
    }

    /// Works everything off, and finds that each body was followed by a run that began later.
    fn end(mut self) {
        for _ in 0..3 {
            for topic in TOPICS {
                self.finish(topic, 0);
            }
            self.receive(false);
        }
        for (topic, machine) in &self.machines {
            assert!(machine.head.is_none() && machine.tail.is_none(), "{topic} comes to rest");
            assert_eq!(machine.processed, machine.last, "the last body of {topic} was worked on after it came");
        }
        let Reply::Namespaces { rows, .. } = self.ask("stats") else { panic!("stats are told") };
        let (tally, counts) = (rows[0].groups[0].tally, rows[0].groups[0].counts);
        let dead = self.machines.values().map(|machine| machine.letters.len() as u64).sum::<u64>();
        assert_eq!((counts.unfinished(), counts.dead, rows[0].usage.topics), (0, dead, 0));
        assert_eq!(tally.accepted + tally.declined, u64::from(self.published), "every publish was decided");
    }
}

proptest! {
    #![proptest_config(config(60))]
    #[test]
    fn topics_keep_to_the_machine(first: bool, steps in proptest::collection::vec(step(), 1..500)) {
        let mut run = Run::new(first);
        steps.iter().for_each(|step| run.step(step));
        run.end();
    }
}
