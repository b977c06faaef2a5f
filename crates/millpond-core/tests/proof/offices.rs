//! An exclusive group under random candidates: they come, go, fall silent, resign, lose their connections and come back,
//! and the broker restarts. A checker that knows nothing but facts, outputs and times holds what an office promises:
//!
//! * one leader at a time, and an epoch that grows strictly, also over restarts and when the group is made anew;
//! * deliveries go to the leader alone, and those of an epoch begin when all leases of those before are over;
//! * a leader that is silent for a term is deposed, what it has leased cannot be extended, and is over in time;
//! * whoever is there and alive leads in the end, and all messages are finished.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun};
use millpond_core::fact::{Fact, GroupNumber, Victims};
use millpond_core::output::{Output, Reply};
use millpond_types::{
    FinishOutcome, LeaderEpoch, LeaseNumber, Millis, Receipt, Role, RunTime, SessionId, Standing, TopicNumber,
};
use proptest::prelude::*;

use crate::history::{TOPICS, config};
use crate::script::{Line, Names, command};
use crate::shell::Shell;

const TERM: u64 = 3000;
const HANDOVER: u64 = 5000;
/// No lease and no term ends for so long after a start.
const GRACE: u64 = 10_000;

#[derive(Clone, Debug)]
enum Op {
    /// A line of the scripts' language about a session or a consumer.
    Say {
        verb: usize,
        session: u8,
        consumer: u8,
    },
    Publish {
        topic: usize,
        count: u8,
    },
    Finish {
        verb: u8,
        at: usize,
    },
    LetGo {
        at: usize,
    },
    Pass {
        ms: u64,
    },
    Checkpoint,
    Restart {
        crash: bool,
    },
    MakeAnew,
}

const VERBS: [&str; 9] = ["begin", "attach", "attach", "heartbeat", "detach", "resign", "depose", "lose", "end"];

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        16 => (0..VERBS.len(), 1..4u8, 1..3u8).prop_map(|(verb, session, consumer)| Op::Say { verb, session, consumer }),
        4 => (0..TOPICS.len(), 1..4u8).prop_map(|(topic, count)| Op::Publish { topic, count }),
        8 => (0..5u8, any::<usize>()).prop_map(|(verb, at)| Op::Finish { verb, at }),
        1 => any::<usize>().prop_map(|at| Op::LetGo { at }),
        6 => (1..4000u64).prop_map(|ms| Op::Pass { ms }),
        1 => Just(Op::Checkpoint),
        1 => any::<bool>().prop_map(|crash| Op::Restart { crash }),
        1 => Just(Op::MakeAnew),
    ]
}

proptest! {
    #![proptest_config(config(40))]

    #[test]
    fn epochs_never_mix(ops in proptest::collection::vec(op(), 1..80)) {
        let mut world = World::new();
        for op in ops {
            world.carry_out(op);
        }
        world.end();
    }
}

/// A checker that finds nothing proves nothing: it is shown facts of offices that break what they promise.
#[test]
fn the_checker_finds_what_it_looks_for() {
    let (one, two) = (SessionId(1), SessionId(2));
    let leased = |holder, lease| Fact::Leased {
        topic: TopicNumber(1),
        group: 1,
        priority: millpond_types::Priority::DEFAULT,
        first: millpond_types::Sequence(lease),
        count: 1,
        lease: LeaseNumber(lease),
        run: None,
        holder,
        duration: Millis(1),
        deadline: RunTime(0),
    };
    let taken = |session, epoch| Fact::OfficeTaken { group: 1, session, epoch: LeaderEpoch(epoch) };
    let left = Fact::OfficeLeft { group: 1, until: RunTime(0) };
    let broken: [&[Fact]; 5] = [
        &[taken(one, 1), taken(two, 2)],
        &[taken(one, 1), left.clone(), taken(two, 1)],
        &[taken(one, 1), leased(two, 1)],
        &[taken(one, 1), leased(one, 1), left.clone(), taken(two, 2), leased(two, 2)],
        &[taken(one, 1), leased(one, 1), left, Fact::HandedOver { group: 1 }],
    ];
    for facts in broken {
        let follow = || {
            let mut checker = Checker { group: Some(1), ..Checker::default() };
            facts.iter().for_each(|fact| checker.follow(fact, 0));
        };
        assert!(std::panic::catch_unwind(follow).is_err(), "{facts:?} go unnoticed");
    }
}

/// What is known of the office from facts alone.
#[derive(Default)]
struct Checker {
    group: Option<GroupNumber>,
    epoch: u64,
    leader: Option<SessionId>,
    /// Leases that are not over, and their epochs.
    leased: BTreeMap<(TopicNumber, u64), u64>,
    /// When the leader was given its office, or gave the last sign of life.
    alive: u64,
    /// When the last leader has left.
    left: u64,
}

impl Checker {
    fn follow(&mut self, fact: &Fact, now: u64) {
        if let Fact::GroupCreated { group, name, .. } = fact {
            if name.as_str() == "audit" {
                (self.group, self.leader) = (Some(*group), None);
                self.leased.clear();
            }
            return;
        }
        let Some(of) = self.group else { return };
        match fact {
            Fact::OfficeTaken { group, session, epoch } if *group == of => {
                assert_eq!(self.leader, None, "there is a leader already");
                assert!(epoch.0 > self.epoch, "epoch {} comes after {}", epoch.0, self.epoch);
                (self.leader, self.epoch, self.alive) = (Some(*session), epoch.0, now);
            }
            Fact::OfficeLeft { group, .. } if *group == of => {
                assert!(self.leader.take().is_some(), "nobody has led");
                self.left = now;
            }
            Fact::HandedOver { group } if *group == of => assert!(self.leased.is_empty(), "something is leased still"),
            Fact::Leased { topic, group, count, lease, holder, .. } if *group == of => {
                assert_eq!(self.leader, Some(*holder), "the leader is delivered to, and nobody else");
                let earlier = self.leased.values().find(|epoch| **epoch != self.epoch);
                assert_eq!(earlier, None, "a delivery of epoch {} comes too early", self.epoch);
                let leases = lease.0..lease.0 + u64::from(*count);
                self.leased.extend(leases.map(|lease| ((*topic, lease), self.epoch)));
            }
            Fact::Extended { topic, group, lease, holder, .. } if *group == of && *holder != SessionId(0) => {
                assert_eq!(self.leased.get(&(*topic, lease.0)), Some(&self.epoch), "what is over is extended");
                assert_eq!(self.leader, Some(*holder), "the deposed extends");
            }
            Fact::Acked { topic, group, lease, count }
            | Fact::Returned { topic, group, lease, count, .. }
            | Fact::Died { topic, group, which: Victims::Leased { lease, count }, .. }
                if *group == of =>
            {
                for lease in lease.0..lease.0 + u64::from(*count) {
                    assert!(self.leased.remove(&(*topic, lease)).is_some(), "a lease ends once");
                }
            }
            _ => {}
        }
    }

    /// Once a turn is over.
    fn check(&self, now: u64, started: u64) {
        let silent = now.saturating_sub(self.alive.max(started + GRACE - TERM));
        assert!(self.leader.is_none() || silent < TERM, "the leader was silent for {silent} ms");
        let is_over = now >= (self.left + HANDOVER).max(started + GRACE);
        let earlier = self.leased.values().any(|epoch| self.leader.is_none() || *epoch != self.epoch);
        assert!(!(is_over && earlier), "leases last longer than the hand-over");
    }
}

struct World {
    shell: Shell,
    checker: Checker,
    followed: usize,
    /// When the broker was last started.
    started: u64,
    /// What was delivered, and to whom.
    receipts: Vec<(SessionId, Receipt)>,
    attached: BTreeSet<(u8, u8)>,
    bodies: u32,
}

impl World {
    fn new() -> World {
        let mut world = World {
            shell: Shell::new(),
            checker: Checker::default(),
            followed: 0,
            started: 0,
            receipts: Vec::new(),
            attached: BTreeSet::new(),
            bodies: 0,
        };
        world.say("namespace default retry=head max_failures=1000000");
        world.say(&format!("group audit exclusive term={TERM}ms handover={HANDOVER}ms"));
        world
    }

    fn carry_out(&mut self, op: Op) {
        match op {
            Op::Say { verb, session, consumer } => self.about(VERBS[verb], session, consumer),
            Op::Publish { topic, count } => {
                let bodies = (0..count).map(|n| format!(" m{}", self.bodies + u32::from(n))).collect::<String>();
                self.bodies += u32::from(count);
                self.say(&format!("publish {}{bodies}", TOPICS[topic]));
            }
            Op::Finish { verb, at } if !self.receipts.is_empty() => {
                let (_, receipt) = self.receipts[at % self.receipts.len()];
                self.finish(verb, receipt);
            }
            Op::LetGo { at } if !self.receipts.is_empty() => {
                let (session, receipt) = self.receipts[at % self.receipts.len()];
                self.heard(session.0 as u8);
                self.turn(Command::Heartbeat { session, except: vec![receipt] });
            }
            Op::Finish { .. } | Op::LetGo { .. } => {}
            Op::Pass { ms } => {
                self.shell.pass(ms, ms);
                self.say("stats");
            }
            Op::Checkpoint => self.shell.checkpoint(),
            Op::Restart { crash } => {
                self.shell.restart(crash);
                self.started = self.shell.now.run.0;
                self.attached.clear();
                self.follow();
            }
            Op::MakeAnew => {
                if self.say("group-delete audit") == Reply::Done {
                    while self.shell.next_wake() == Some(0) {
                        self.say("stats");
                    }
                    self.receipts.clear();
                    self.say(&format!("group audit exclusive term={TERM}ms handover={HANDOVER}ms"));
                }
            }
        }
    }

    /// A line about a session or one of its consumers.
    fn about(&mut self, verb: &str, session: u8, consumer: u8) {
        let is_leader = self.checker.leader == Some(SessionId(session.into()));
        match verb {
            // It comes back with what it was given, as far as it remembers: every other receipt.
            "begin" => {
                let held =
                    self.receipts.iter().filter(|(of, _)| of.0 == u64::from(session)).map(|(_, receipt)| *receipt);
                let held = held.step_by(2).map(|first| ReceiptRun { first, count: 1 }).collect();
                let begin = millpond_core::command::SessionBegin {
                    session: SessionId(session.into()),
                    resume: Millis::seconds(10),
                    held,
                };
                self.attached.retain(|(of, _)| *of != session);
                self.turn(Command::SessionBegin(begin));
            }
            "heartbeat" => {
                self.heard(session);
                self.say(&format!("heartbeat s{session}"));
            }
            "lose" | "end" => {
                self.attached.retain(|(of, _)| *of != session);
                self.say(&format!("{verb} s{session}"));
            }
            "attach" => {
                let before = self.checker.alive;
                if is_leader {
                    self.checker.alive = self.shell.now.run.0;
                }
                let reply = self.say(&format!("attach s{session}.{consumer} group=audit max=4"));
                if reply == Reply::Done {
                    self.attached.insert((session, consumer));
                } else {
                    // It is attached already, or its session is unknown: no sign of life of a leader.
                    self.checker.alive = before;
                }
            }
            "detach" => {
                self.attached.remove(&(session, consumer));
                self.say(&format!("detach s{session}.{consumer}"));
            }
            "resign" => {
                let is_attached = self.attached.contains(&(session, consumer));
                let reply = self.say(&format!("resign s{session}.{consumer}"));
                assert_eq!(reply == Reply::Done, is_attached && is_leader, "who leads may resign: {reply:?}");
            }
            "depose" => {
                let is_led = self.checker.leader.is_some();
                let reply = self.say("depose audit");
                assert_eq!(reply == Reply::Done, is_led, "whoever leads may be deposed: {reply:?}");
            }
            verb => unreachable!("{verb}"),
        }
    }

    /// A session that is attached gives a sign of life.
    fn heard(&mut self, session: u8) {
        let is_leader = self.checker.leader == Some(SessionId(session.into()));
        if is_leader && self.attached.iter().any(|(of, _)| *of == session) {
            self.checker.alive = self.shell.now.run.0;
        }
    }

    fn finish(&mut self, verb: u8, receipt: Receipt) {
        let lease = self.checker.leased.get(&(receipt.topic, receipt.lease.0)).copied();
        let is_current = receipt.group == self.checker.group.expect("there is a group") && lease.is_some();
        let may_extend = self.checker.leader.is_some() && lease == Some(self.checker.epoch);
        let expected = match verb {
            _ if !is_current => FinishOutcome::LeaseLost,
            4 if !may_extend => FinishOutcome::Deposed,
            _ => FinishOutcome::Done,
        };
        let verb = match verb {
            0 | 1 => FinishVerb::Ack,
            2 => FinishVerb::Release { delay: Millis::ZERO },
            3 => FinishVerb::Fail { delay: None, reason: bytes::Bytes::new() },
            _ => FinishVerb::Extend { lease: Some(Millis::minutes(60)) },
        };
        let receipts = vec![ReceiptRun { first: receipt, count: 1 }];
        let reply = self.turn(Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }));
        let Some(Reply::Finished(outcomes)) = reply else { panic!("{reply:?}") };
        assert_eq!(outcomes[0].outcome, expected);
    }

    fn say(&mut self, text: &str) -> Reply {
        let command = command(&Line::new(text), text, &Names::default());
        self.turn(command).unwrap_or(Reply::Done)
    }

    fn turn(&mut self, command: Command) -> Option<Reply> {
        let ticket = self.shell.ticket();
        let outputs = self.shell.turn(vec![(ticket, command)]);
        self.follow();
        let mut found = None;
        for output in outputs {
            match output {
                Output::Reply { ticket: of, reply } if of == ticket => found = Some(reply),
                Output::Delivery { session, epoch, leases, .. } => {
                    assert_eq!(epoch, Some(LeaderEpoch(self.checker.epoch)), "a delivery says its epoch");
                    for run in leases {
                        let lease = |n: u32| LeaseNumber(run.receipt.lease.0 + u64::from(n));
                        let receipts = (0..run.count).map(|n| Receipt { lease: lease(n), ..run.receipt });
                        self.receipts.extend(receipts.map(|receipt| (session, receipt)));
                    }
                }
                Output::Standing { session, standing: Standing { role, epoch, .. }, .. } => {
                    assert_eq!(epoch.0, self.checker.epoch, "who is told of an office is told of its last epoch");
                    if matches!(role, Role::Inaugurate | Role::Lead) {
                        assert_eq!(self.checker.leader, Some(session), "a leader is told so, and nobody else");
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Lets the checker see what has happened.
    fn follow(&mut self) {
        let now = self.shell.now.run.0;
        for (fact, _) in &self.shell.journal.facts[self.followed..] {
            self.checker.follow(fact, now);
        }
        self.followed = self.shell.journal.facts.len();
        self.checker.check(now, self.started);
    }

    /// One who is there and alive gets everything in the end.
    fn end(&mut self) {
        for session in 1..4 {
            self.about("lose", session, 1);
        }
        self.say("publish a/1 last");
        self.say("begin s9");
        self.say("attach s9.1 group=audit max=1000");
        self.attached.insert((9, 1));
        // The longest that anything lasts of the time before: a grace and a term of silence, and then a hand-over.
        for _ in 0..(GRACE + TERM + HANDOVER).div_ceil(TERM / 3) {
            self.about("heartbeat", 9, 1);
            self.shell.pass(TERM / 3, TERM / 3);
        }
        self.about("heartbeat", 9, 1);
        for (_, receipt) in std::mem::take(&mut self.receipts) {
            self.turn(Command::Finish(Finish {
                verb: FinishVerb::Ack,
                receipts: vec![ReceiptRun { first: receipt, count: 1 }],
                confirm: false,
                namespace: None,
            }));
        }
        let Reply::Namespaces { rows, .. } = self.say("stats") else { panic!("stats are told") };
        let audit = rows[0].groups.iter().find(|group| group.name.as_str() == "audit").expect("it is there");
        assert_eq!(audit.counts.unfinished(), 0, "all was given to the one who was there");
    }
}
