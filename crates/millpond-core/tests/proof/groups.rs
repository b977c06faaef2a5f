//! Groups that come and go under random traffic, against a plain model of what each of them holds: whatever is published
//! while a group is there is given to it once, until it is finished there or the group is deleted. One that starts with
//! older messages is given those that another group held when it was made, whatever that does with them meanwhile, at most once
//! and before what is younger in their topic. Topics leave memory and the broker restarts meanwhile; and the shell checks after each turn
//! that no byte is lost or kept for nobody.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::{Command, DeadWhich, Finish, FinishVerb, ReceiptRun};
use millpond_core::output::{Output, Reply};
use millpond_types::{Counts, Filter, GroupKind, GroupName, NamespaceName, Policy, Receipt, Rules, Start};
use proptest::prelude::*;

use crate::history::{TOPICS, config};
use crate::moves::moves;
use crate::script::{Line, Names, command};
use crate::shell::Shell;

const GROUPS: [&str; 3] = ["default", "audit", "index"];

#[derive(Clone, Debug)]
enum Op {
    Create {
        group: usize,
        start: usize,
    },
    Delete {
        group: usize,
    },
    Publish {
        topic: usize,
        count: u8,
        delayed: bool,
    },
    Receive {
        group: usize,
        max: u8,
    },
    Finish {
        group: usize,
        how: u8,
        count: usize,
    },
    Redrive {
        group: usize,
    },
    Move {
        at: usize,
    },
    /// All topics leave memory that can.
    Leave,
    Checkpoint,
    Restart {
        crash: bool,
    },
    Pass,
}

/// What a group does with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Has {
    Open,
    Leased(Receipt),
    Dead,
}

/// What a group holds.
#[derive(Default)]
struct Held {
    has: BTreeMap<u32, Has>,
    /// Older messages that it may be given, if it was not yet.
    may_have: BTreeSet<u32>,
    /// Those of them that it is given: others held them, and no group that was deleted since alone.
    must_have: BTreeSet<u32>,
    is_starting: bool,
    /// The last message of each topic that was given to it for the first time, and was never delayed.
    last: BTreeMap<usize, u32>,
    /// Those that were given to it.
    given: BTreeSet<u32>,
    /// Those that it has redriven, and to itself since.
    redriven: BTreeSet<u32>,
}

type Model = BTreeMap<usize, Held>;

/// A message that was published. Its number is its body's.
#[derive(Clone, Copy)]
struct Message {
    topic: usize,
    is_delayed: bool,
    published: u64,
}

/// Topics between those of [`TOPICS`] that take a start a turn each, for all that is in them.
const LONG: [&str; 2] = ["a/20", "b/10"];
/// The cost of so many messages is more than a turn has room for.
const LONG_MESSAGES: usize = 17_000;
/// How long ago a start may be, and where it begins.
const STARTS: [&str; 4] = ["", " start=earliest", " start=earliest", " start=600ms"];

fn op() -> impl Strategy<Value = Op> {
    let group = || 0..GROUPS.len();
    prop_oneof![
        2 => (1..GROUPS.len(), 0..STARTS.len()).prop_map(|(group, start)| Op::Create { group, start }),
        1 => (1..GROUPS.len()).prop_map(|group| Op::Delete { group }),
        6 => (0..TOPICS.len(), 1..4u8, any::<bool>())
            .prop_map(|(topic, count, delayed)| Op::Publish { topic, count, delayed }),
        6 => (group(), 1..5u8).prop_map(|(group, max)| Op::Receive { group, max }),
        6 => (group(), 0..4u8, 1..4usize).prop_map(|(group, how, count)| Op::Finish { group, how, count }),
        1 => group().prop_map(|group| Op::Redrive { group }),
        2 => any::<usize>().prop_map(|at| Op::Move { at }),
        2 => Just(Op::Leave),
        1 => Just(Op::Checkpoint),
        1 => any::<bool>().prop_map(|crash| Op::Restart { crash }),
        1 => Just(Op::Pass),
    ]
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn each_group_is_given_each_message_once(ops in proptest::collection::vec(op(), 1..70)) {
        let model = Model::from([(0, Held::default())]);
        let mut world = World { shell: Shell::new(), model, messages: Vec::new() };
        for topic in LONG {
            world.say(&format!("publish {topic} x*{LONG_MESSAGES}"));
        }
        for op in ops {
            world.carry_out(op);
        }
        world.end();
    }
}

struct World {
    shell: Shell,
    model: Model,
    /// All that were published, but for those of [`LONG`].
    messages: Vec<Message>,
}

impl World {
    fn carry_out(&mut self, op: Op) {
        match op {
            Op::Create { group, start } => {
                let from = self.shell.now.wall.0 - if start == 3 { 600 } else { 0 };
                // One that is starting may have been given already what it may have.
                let given = self.model.values().flat_map(|held| held.may_have.iter().copied());
                let older = self.held_by_any().chain(given);
                let admits = |body: &u32| self.published(*body) >= from || start < 3;
                let older: Vec<u32> = older.filter(admits).collect();
                let must_have: BTreeSet<u32> = self.held_by_any().filter(admits).collect();
                let reply = self.say(&format!("group {}{}", GROUPS[group], STARTS[start]));
                // It is there already, or is being deleted still.
                if reply == Reply::Done {
                    let mut held = Held { is_starting: start > 0, ..Held::default() };
                    if held.is_starting {
                        (held.may_have, held.must_have) = (older.into_iter().collect(), must_have);
                    }
                    assert!(self.model.insert(group, held).is_none(), "a group is made once");
                }
            }
            Op::Delete { group } => {
                let is_there = self.model.remove(&group).is_some();
                let reply = self.say(&format!("group-delete {}", GROUPS[group]));
                assert_eq!(reply == Reply::Done, is_there, "a group is deleted once: {reply:?}");
                let held: BTreeSet<u32> = self.held_by_any().collect();
                self.model.values_mut().for_each(|group| group.must_have.retain(|body| held.contains(body)));
            }
            Op::Publish { topic, count, delayed } => {
                let first = self.messages.len() as u32;
                let numbers = first..first + u32::from(count);
                let bodies: Vec<String> = numbers.clone().map(|number| format!("m{number}")).collect();
                let published = self.shell.now.wall.0;
                self.messages.extend(numbers.clone().map(|_| Message { topic, is_delayed: delayed, published }));
                let delay = if delayed { " delay=1s" } else { "" };
                self.say(&format!("publish {} {}{delay}", TOPICS[topic], bodies.join(" ")));
                for held in self.model.values_mut() {
                    held.has.extend(numbers.clone().map(|number| (number, Has::Open)));
                }
            }
            Op::Receive { group, max } => _ = self.receive(group, max),
            Op::Finish { group, how, count } => self.finish(group, how, count),
            Op::Redrive { group } => {
                let (namespace, filter) = (NamespaceName::default(), DeadWhich::Filter(Filter::All));
                let Some(held) = self.model.get_mut(&group) else { return };
                let dead = held.has.iter_mut().filter(|(_, has)| **has == Has::Dead);
                let redriven: Vec<u32> = dead.map(|(body, has)| (*body, *has = Has::Open).0).collect();
                let count = redriven.len() as u64;
                held.redriven.extend(redriven);
                let group = GroupName::try_from(GROUPS[group]).unwrap();
                let reply = self.tell(Command::DeadRedrive { namespace, group, which: filter });
                assert_eq!(reply, Reply::Count(count), "what is redriven");
            }
            Op::Move { at } => {
                let mut all = moves(&self.shell.journal.facts);
                if !all.is_empty() {
                    let of = all.swap_remove(at % all.len());
                    self.tell(of);
                }
            }
            Op::Leave => {
                self.shell.core.set_room(0);
                self.shell.turn(Vec::new());
                self.shell.core.set_room(usize::MAX);
            }
            Op::Checkpoint => self.shell.checkpoint(),
            Op::Restart { crash } => self.shell.restart(crash),
            Op::Pass => self.shell.pass(10, 600),
        }
        self.shell.turn(Vec::new());
        self.look_at_starts();
    }

    /// Messages that any group holds, and neither as a dead letter nor to itself.
    fn held_by_any(&self) -> impl Iterator<Item = u32> {
        let all = self
            .model
            .values()
            .flat_map(|held| held.has.iter().filter(|(body, has)| **has != Has::Dead && !held.redriven.contains(body)));
        all.map(|(body, _)| *body).collect::<BTreeSet<_>>().into_iter()
    }

    fn published(&self, body: u32) -> u64 {
        self.messages[body as usize].published
    }

    /// A group whose start is over has what others hold still.
    fn look_at_starts(&mut self) {
        let Reply::Namespaces { rows: views, .. } = self.say("stats") else { panic!("stats are told") };
        for (group, held) in self.model.iter().map(|(group, held)| (*group, held.is_starting)).collect::<Vec<_>>() {
            let view = views[0].groups.iter().find(|view| view.name.as_str() == GROUPS[group]);
            if held && !view.expect("it is listed").is_starting {
                let all: BTreeSet<u32> = self.held_by_any().collect();
                let own = self.model.get_mut(&group).expect("it was just seen");
                own.is_starting = false;
                let all = &all | &std::mem::take(&mut own.must_have);
                // What a group held alone that was deleted it may have as well, as long as the start came before that.
                let must_have: Vec<u32> = own.may_have.intersection(&all).copied().collect();
                for body in must_have {
                    own.may_have.remove(&body);
                    if !own.given.contains(&body) {
                        own.has.insert(body, Has::Open);
                    }
                }
            }
        }
    }

    fn receive(&mut self, group: usize, max: u8) -> usize {
        let reply = self.say(&format!("receive {} group={} max={max}", TOPICS.join(" "), GROUPS[group]));
        let Some(held) = self.model.get_mut(&group) else {
            assert!(matches!(reply, Reply::Refused { .. }), "a group that is not there has no messages");
            return 0;
        };
        let Reply::Received(leases) = reply else { panic!("a receive is answered: {reply:?}") };
        let mut received = 0;
        for run in leases {
            for (n, body) in (0..).zip(self.shell.journal.read(run.extent)) {
                let receipt = Receipt { lease: millpond_types::LeaseNumber(run.receipt.lease.0 + n), ..run.receipt };
                let body: u32 = body[1..].parse().expect("a number");
                let before = held.has.insert(body, Has::Leased(receipt));
                let is_older = before.is_none() && held.may_have.remove(&body);
                assert!(
                    before == Some(Has::Open) || is_older,
                    "{} is given {body}, which was {before:?}",
                    GROUPS[group]
                );
                let Message { topic, is_delayed, .. } = self.messages[body as usize];
                if held.given.insert(body) && !is_delayed {
                    let last = held.last.insert(topic, body);
                    assert!(last < Some(body), "{} is given {body} behind {last:?}", GROUPS[group]);
                }
                received += 1;
            }
        }
        received
    }

    fn finish(&mut self, group: usize, how: u8, count: usize) {
        let Some(held) = self.model.get_mut(&group) else { return };
        let leased = held.has.iter().filter_map(|(body, has)| match has {
            Has::Leased(receipt) => Some((*body, *receipt)),
            _ => None,
        });
        let leased: Vec<_> = leased.take(count).collect();
        for (body, _) in &leased {
            match how {
                0 | 1 => _ = held.has.remove(body),
                2 => _ = held.has.insert(*body, Has::Open),
                _ => _ = held.has.insert(*body, Has::Dead),
            }
        }
        let verb = match how {
            0 | 1 => FinishVerb::Ack,
            2 => FinishVerb::Release { delay: millpond_types::Millis::ZERO },
            _ => FinishVerb::Reject { reason: bytes::Bytes::new() },
        };
        let receipts: Vec<_> = leased.iter().map(|(_, first)| ReceiptRun { first: *first, count: 1 }).collect();
        if !receipts.is_empty() {
            let reply = self.tell(Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }));
            let Reply::Finished(outcomes) = reply else { panic!("a finish is answered: {reply:?}") };
            assert_eq!(outcomes.len(), 1, "each lease is current: {outcomes:?}");
        }
    }

    /// Every group is given what the model says that it holds, and then nothing is left.
    fn end(&mut self) {
        self.shell.pass(0, 10_000);
        while self.shell.turn(Vec::new()).is_empty() && self.shell.next_wake() == Some(0) {}
        self.look_at_starts();
        self.say(&format!("purge {}", LONG.join(" ")));
        for (group, name) in GROUPS.iter().enumerate() {
            self.finish(group, 0, usize::MAX);
            while self.receive(group, 100) > 0 {
                self.finish(group, 0, usize::MAX);
            }
            let left =
                self.model.get(&group).into_iter().flat_map(|held| &held.has).filter(|(_, has)| **has != Has::Dead);
            assert_eq!(left.collect::<Vec<_>>(), [], "{name} was not given all");
            let mut deletes = vec!["dead-purge".to_owned()];
            if group > 0 && self.model.contains_key(&group) {
                deletes = vec![format!("group-delete {name}")];
            }
            deletes.iter().for_each(|text| _ = self.say(text));
        }
        for _ in 0..1000 {
            self.shell.turn(Vec::new());
            if self.shell.next_wake() != Some(0) {
                break;
            }
        }
        let Reply::Namespaces { rows: views, .. } = self.shell.ask(Command::Stats(NamespaceName::default())) else {
            panic!("stats are told")
        };
        let groups = views[0].groups.iter().map(|group| (group.name.clone(), group.counts)).collect::<Vec<_>>();
        assert_eq!((views[0].usage.topics, groups), (0, vec![(GroupName::default(), Counts::default())]));
        self.shell.core.extents(&mut |group, extent| panic!("group {group} needs {extent:?}"));
    }

    fn say(&mut self, text: &str) -> Reply {
        let names = Names { wall: self.shell.now.wall, ..Names::default() };
        let command = command(&Line::new(text), text, &names);
        self.tell(command)
    }

    /// The answer to a command, whenever it comes.
    fn tell(&mut self, command: Command) -> Reply {
        let (ticket, text) = (self.shell.ticket(), format!("{command:?}"));
        let mut outputs = self.shell.turn(vec![(ticket, command)]);
        for _ in 0..100 {
            for output in outputs {
                if let Output::Reply { ticket: of, reply } = output
                    && of == ticket
                {
                    return reply;
                }
            }
            outputs = self.shell.turn(Vec::new());
        }
        panic!("{text} is not answered")
    }
}

/// Found by fuzzing: the job that deletes groups came upon one whose namespace had gone in the same turn.
#[test]
fn a_namespace_goes_with_a_group_that_is_being_deleted() {
    let mut shell = Shell::new();
    let (namespace, name) = (NamespaceName::try_from("other").unwrap(), GroupName::try_from("audit").unwrap());
    let (policy, rules) = (Policy::default(), Rules::default());
    let set = Command::NamespaceSet { name: namespace.clone(), policy, rules, based_on: None };
    let (start, kind) = (Start::Latest, GroupKind::Shared);
    let create = Command::GroupCreate { namespace: namespace.clone(), name: name.clone(), start, kind };
    let delete = Command::GroupDelete { namespace: namespace.clone(), name };
    for commands in [vec![set, create], vec![delete, Command::NamespaceDelete(namespace)], Vec::new()] {
        let commands = commands.into_iter().map(|command| (shell.ticket(), command)).collect();
        for output in shell.turn(commands) {
            assert!(matches!(output, Output::Reply { reply: Reply::Done, .. }), "{output:?}");
        }
    }
}
