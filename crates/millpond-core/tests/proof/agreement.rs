//! A history in the core and in the plain model: every answer, every delivery, and after each turn all that can be looked
//! at are the same. The histories are drawn elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::LevelBounds;
use millpond_core::command::*;
use millpond_core::fact::{Fact, GroupNumber};
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::{
    Code, Counts, FinishOutcome, GroupName, LeaseNumber, MessageId, MessageState, NamespaceName, OutcomeRun,
    PublishOutcome, Receipt, Sequence, TopicName,
};

use crate::history::{Known, Op, set_policy};
use crate::model::{Model, Place, Who};
use crate::moves::moves;
use crate::shell::Shell;

/// Both, and what operations may refer to.
pub struct History {
    shell: Shell,
    model: Model,
    known: Known,
    weight: u32,
}

impl History {
    pub fn new(weight: u32, bounds: LevelBounds) -> History {
        let shell = Shell::with_bounds(bounds);
        let model = Model::new(shell.now.run.0, shell.now.wall.0);
        let mut history = History { shell, model, known: Known::default(), weight };
        history.commands(vec![set_policy(0, weight)]);
        history
    }

    /// Some operations in one turn; those that are no commands come before it.
    pub fn turn(&mut self, ops: &[Op]) {
        for op in ops {
            match op {
                Op::Pass { run, wall } => self.shell.pass(*run, *wall),
                Op::Wake => {
                    let wait = self.shell.next_wake().unwrap_or(0);
                    self.shell.pass(wait, wait);
                }
                Op::Restart { crash } => {
                    self.set_time();
                    self.shell.restart(*crash);
                    self.model.restart(self.shell.core.numbers().raised);
                    self.model.advance();
                    self.model.vanish();
                }
                Op::Checkpoint => self.shell.checkpoint(),
                _ => {}
            }
        }
        self.known.moves = moves(&self.shell.journal.facts);
        let commands = ops.iter().filter_map(|op| op.command(&mut self.known, self.weight)).collect();
        self.commands(commands);
        // Groups that are being deleted, and retention, may take a few turns.
        let mut facts = 0;
        while self.shell.next_wake() == Some(0) {
            let before = std::mem::replace(&mut facts, self.shell.journal.facts.len());
            assert!(before < facts, "the core does not ask for a turn in which nothing happens");
            self.commands(Vec::new());
        }
        self.look_at_everything();
    }

    fn set_time(&mut self) {
        (self.model.run, self.model.wall) = (self.shell.now.run.0, self.shell.now.wall.0);
    }

    fn commands(&mut self, commands: Vec<Command>) {
        self.set_time();
        let commands: Vec<_> = commands.into_iter().map(|command| (self.shell.ticket(), command)).collect();
        let mut expected = BTreeMap::new();
        let mut unseen = BTreeSet::new();
        for (ticket, command) in &commands {
            if matches!(command, Command::Move(_) | Command::DeadMove(_)) {
                // Where messages lie is nothing that the model knows of: nothing else may change.
                unseen.insert(*ticket);
                continue;
            }
            let answer = self.model.decide(*ticket, command);
            if !answer.is_empty() {
                expected.insert(*ticket, answer);
            }
            if matches!(command, Command::Receive(_)) {
                self.known.receives.push(*ticket);
            }
            self.model.refresh_waits();
        }
        let expired = self.model.advance();
        self.model.refresh_waits();

        let facts = self.shell.journal.facts.len();
        let outputs = self.shell.turn(commands);
        self.deliveries(&outputs, facts);

        let mut found = BTreeMap::new();
        let mut gone = Vec::new();
        for output in outputs {
            match output {
                Output::Reply { reply: Reply::Received(_), .. } | Output::Delivery { .. } => {}
                Output::Reply { ticket, .. } if unseen.contains(&ticket) => {}
                Output::Reply { ticket, reply } => _ = found.insert(ticket, self.flat(&reply)),
                Output::SessionExpired(session) => gone.push(session.0),
                Output::Standing { .. } => panic!("no group of a history is exclusive"),
            }
        }
        assert_eq!(found, expected, "the answers");
        assert_eq!(gone, expired, "the sessions that expired");
        self.model.vanish();
        self.model.refresh_waits();
    }

    /// Gives the model what was leased, in the order in which it was.
    fn deliveries(&mut self, outputs: &[Output], facts: usize) {
        let mut given: BTreeMap<Receipt, (Who, &LeasedRun)> = BTreeMap::new();
        let mut got: BTreeMap<u64, u64> = BTreeMap::new();
        let mut answered = BTreeSet::new();
        for output in outputs {
            let (who, leases) = match output {
                Output::Delivery { session, consumer, leases, .. } => {
                    (Who::Attached { session: session.0, consumer: *consumer }, leases)
                }
                Output::Reply { ticket, reply: Reply::Received(leases) } => {
                    answered.insert(ticket.0);
                    let count: u64 = leases.iter().map(|run| u64::from(run.count)).sum();
                    if count > 0 {
                        got.insert(ticket.0, count);
                    }
                    (self.model.receive(ticket.0), leases)
                }
                _ => continue,
            };
            given.extend(leases.iter().map(|run| (run.receipt, (who, run))));
        }
        for (fact, _) in &self.shell.journal.facts[facts..] {
            let (topic, group, lease) = match fact {
                Fact::Leased { topic, group, lease, .. } => (topic, group, lease),
                Fact::Drawn { topic, group, full, dry } => {
                    self.model.drawn(*topic, *group, *full, dry.map(|at| at.0));
                    continue;
                }
                _ => continue,
            };
            let receipt = Receipt { topic: *topic, group: *group, lease: *lease };
            let (who, run) = given.remove(&receipt).expect("what is leased is delivered, once");
            self.model.leased_run(who, run, &self.shell.journal.read(run.extent));
            let each = (0..u64::from(run.count)).map(|n| LeaseNumber(lease.0 + n));
            self.known.receipts.extend(each.map(|lease| Receipt { lease, ..receipt }));
        }
        assert!(given.is_empty(), "what is delivered was leased");
        assert_eq!(answered, self.model.dispatched(&got), "the receives that are answered");
    }

    /// An answer, as the model says it.
    fn flat(&mut self, reply: &Reply) -> Vec<String> {
        match reply {
            Reply::Forwarded { finished, published, .. } => {
                let mut lines = self.flat(&Reply::Finished(finished.clone()));
                lines.extend(self.flat(&Reply::Published {
                    level: Level::Durable,
                    outcomes: published.clone(),
                    topics: Vec::new(),
                }));
                lines
            }
            Reply::Published { outcomes, .. } => {
                let mut lines = Vec::new();
                for OutcomeRun { count, outcome } in outcomes {
                    for n in 0..u64::from(*count) {
                        lines.push(match outcome {
                            PublishOutcome::Queued { id } => {
                                let id = MessageId { sequence: Sequence(id.sequence.0 + n), ..*id };
                                let of = self.model.topics.iter().find(|(_, topic)| topic.number == id.topic);
                                let (place, _) = of.expect("a topic that was published to");
                                self.known.ids.push((place.name.clone(), id));
                                format!("queued {id}")
                            }
                            PublishOutcome::Duplicate { id, state } => {
                                format!("duplicate {id} {}", self::state(*state))
                            }
                            PublishOutcome::Coalesced { id, replaced: Some(old) } => {
                                let of = self.model.topics.iter().find(|(_, topic)| topic.number == id.topic);
                                let (place, _) = of.expect("a topic that was published to");
                                self.known.ids.push((place.name.clone(), *id));
                                format!("queued {id} in place of {old}")
                            }
                            PublishOutcome::Coalesced { id, replaced: None } => format!("declined {id}"),
                            PublishOutcome::Refused { code, .. } => code.name().to_owned(),
                        });
                    }
                }
                lines
            }
            Reply::Finished(outcomes) => {
                let name = |outcome| match outcome {
                    FinishOutcome::Done => "done",
                    FinishOutcome::Dead => "dead",
                    FinishOutcome::LeaseLost => "lease_lost",
                    FinishOutcome::Kept => "kept",
                    FinishOutcome::Deposed => "deposed",
                    FinishOutcome::OutOfOrder => "out_of_order",
                };
                let runs = outcomes.iter().map(|run| vec![name(run.outcome.clone()).to_owned(); run.count as usize]);
                runs.flatten().collect()
            }
            Reply::SessionBegun { resumed } => vec![if *resumed { "resumed".into() } else { "begun".into() }],
            Reply::Done => vec!["ok".into()],
            Reply::Count(count) => vec![count.to_string()],
            Reply::Refused { code, .. } => vec![code.name().to_owned()],
            reply => panic!("the histories ask for no {reply:?}"),
        }
    }

    /// Counts, cursors, the messages of each topic in the order of delivery, and the dead letters, of each group.
    fn look_at_everything(&mut self) {
        let Reply::Namespaces { rows: stats, .. } = self.shell.ask(Command::Stats(NamespaceName::default())) else {
            panic!("stats")
        };
        let groups: Vec<(GroupNumber, GroupName)> =
            self.model.groups.iter().map(|(number, group)| (*number, group.name.clone())).collect();
        assert!(stats[0].groups.iter().map(|group| &group.name).eq(groups.iter().map(|(_, name)| name)), "the groups");
        for ((number, name), view) in groups.into_iter().zip(&stats[0].groups) {
            let group = &self.model.groups[&number];
            assert_eq!(view.tally.accepted, group.accepted, "accepted by {name}");
            assert_eq!(view.tally.retained_out, group.retained_out, "retained out of {name}");
            assert_eq!(view.counts, self.look_at_group(number, name), "the counts of a group");
        }
        for place in self.model.topics.keys().cloned().collect::<Vec<Place>>() {
            self.look_at_cursors(&place.name);
        }
    }

    /// Its counts.
    fn look_at_group(&mut self, number: GroupNumber, group: GroupName) -> Counts {
        let namespace = NamespaceName::default();
        let listing = Listing { namespace: namespace.clone(), prefix: "".into(), after: "".into(), limit: 1000 };
        let holding =
            self.model.topics.iter().filter(|(place, topic)| place.group == number && !topic.messages.is_empty());
        let places: Vec<Place> = holding.map(|(place, _)| place.clone()).collect();
        let Reply::Topics(topics) = self.shell.ask(Command::Topics { listing: listing.clone(), group: group.clone() })
        else {
            panic!("topics")
        };
        assert!(topics.iter().map(|topic| &topic.name).eq(places.iter().map(|place| &place.name)), "topics of {group}");
        let mut all = Counts::default();
        for (place, listed) in places.iter().zip(&topics) {
            let topic = TopicRef { namespace: namespace.clone(), name: place.name.clone() };
            let look = Look { topic, which: LookWhich::First(1000), group: Some(group.clone()) };
            let Reply::Messages(rows) = self.shell.ask(Command::Look(look)) else { panic!("messages") };
            let rows: Vec<String> = rows
                .iter()
                .map(|found| {
                    let (row, body) = (&found.row, self.shell.journal.read(found.extent).concat());
                    format!("{} {body} {} {} {}", row.id, state(row.state), row.deliveries, row.failures)
                })
                .collect();
            assert_eq!(rows, self.model.rows(place), "the messages of {place}");
            assert_eq!(listed.counts, self.model.counts(place), "the counts of {place}");
            assert_eq!(listed.paused, self.model.is_paused(&place.name), "whether {place} is paused");
            all.waiting += listed.counts.waiting;
            all.delayed += listed.counts.delayed;
            all.retrying += listed.counts.retrying;
            all.leased += listed.counts.leased;
        }
        let Reply::Dead { rows, .. } = self.shell.ask(Command::DeadList { listing, group }) else {
            panic!("dead letters")
        };
        let rows: Vec<String> = rows
            .iter()
            .map(|found| {
                let (dead, body) = (&found.row, self.shell.journal.read(found.extent).concat());
                let message = &dead.message;
                format!(
                    "{} {} {body} {} {} {}",
                    dead.topic, message.id, dead.reason, message.deliveries, message.failures
                )
            })
            .collect();
        assert_eq!(rows, self.model.dead_rows(number), "the dead letters of group {number}");
        Counts { dead: rows.len() as u64, ..all }
    }

    /// Of all groups that have a topic. One that holds nothing is shown of none.
    fn look_at_cursors(&mut self, name: &TopicName) {
        let topic = TopicRef { namespace: NamespaceName::default(), name: name.clone() };
        let is_held = self.model.topics.iter().any(|(place, topic)| place.name == *name && !topic.messages.is_empty());
        let view = match self.shell.ask(Command::Topic(topic)) {
            Reply::Topics(view) if is_held => view,
            Reply::Refused { code: Code::TopicUnknown, .. } if !is_held => return,
            other => panic!("of {name}, in which there is{} something: {other:?}", if is_held { "" } else { " not" }),
        };
        for cursors in &view[0].cursors {
            let found = (cursors.scan.0, cursors.completion.0, cursors.next.0);
            let group = self.model.group(&cursors.group).expect("a group");
            let place = Place { group, name: name.clone() };
            assert_eq!(found, self.model.cursors(&place, cursors.priority), "the cursors of {place}");
        }
    }
}

fn state(state: MessageState) -> String {
    match state {
        MessageState::Waiting => "waiting".into(),
        MessageState::Delayed { due } => format!("delayed until {}", due.0),
        MessageState::Retrying { due } => format!("retrying until {}", due.0),
        MessageState::Leased => "leased".into(),
        MessageState::Dead => "dead".into(),
        MessageState::Ended => "ended".into(),
    }
}
