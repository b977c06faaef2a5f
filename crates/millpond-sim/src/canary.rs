//! Faults put in on purpose, in the world around the core: each has to be caught by its checker, which proves that the
//! checker looks.

use bytes::Bytes;
use millpond_core::Now;
use millpond_core::command::{Attach, Command, DeadMove, Move, Receive, SessionBegin, Ticket, TopicRef};
use millpond_core::fact::Fact;
use millpond_core::output::{Output, Reply};
use millpond_storage::OpenOptions;
use millpond_types::{
    Coalesce, Dispatch, FinishOutcome, GroupKind, Millis, Overrides, Policy, Priority, Retention, Rule, Rules,
    Sequence, Start, TopicName,
};

/// How far ahead of time a core is that is hurried.
const HURRY: Millis = Millis::seconds(60);

/// A deliberate fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Canary {
    /// Publishes are confirmed as durable when they are written only: a power cut loses confirmed messages.
    Lost,
    /// Acks are confirmed when they are written only: a power cut brings ended messages back.
    Back,
    /// Purges, redrives, listings and the like are answered when it is written only.
    Answered,
    /// Leaders are told when it is written only: a power cut lets another one have their epoch.
    Reigns,
    /// A delivery is dropped on its way, and its session goes on extending the lease.
    Stuck,
    /// The core is told that it is later than it is.
    Early,
    /// Of an ack and a publish as one, the ack gets lost.
    Halves,
    /// What is moved is not what was read: the last byte of its body is another one.
    Moved,
    /// Policies of strict order lose their limit.
    Order,
    /// Policies that coalesce lose that.
    Coalescing,
    /// Completion cursors are told one too far.
    Watermark,
    /// The two ways of dispatch are mistaken for each other.
    Priority,
    /// Policies lose their ageing.
    Ageing,
    /// Weights are eight times what they should be.
    Fairness,
    /// Topics have more room in memory than they were given.
    Memory,
    /// Groups that begin at a time begin with all that there is.
    Starts,
    /// Half of what a retention says is kept.
    Retention,
    /// Whoever takes messages at most once is given them at least once.
    Once,
    /// Receives lose their request ids.
    Repeats,
    /// One of the copies of a routed message gets lost.
    Routes,
    /// TTLs are half of what they should be.
    Expiry,
    /// Dedup ids get lost.
    Dedup,
    /// Batches lose their sessions.
    Sessions,
    /// Messages survive one failure more.
    Failures,
    /// The last byte of what a connection's client is given is another one.
    Frames,
    /// An answer is dropped on its way to a connection.
    Answers,
    /// What a connection that is gone still waits for is not withdrawn.
    Connections,
    /// Leases last half as long as they should.
    Leases,
    /// Heartbeats extend what they leave out as well.
    Exceptions,
    /// Sessions have half of the time to be resumed.
    Resumption,
    /// Who names a lease that is not current is told that it is done.
    Receipts,
    /// Run time goes on while the broker is down.
    Grace,
    /// Consumers that are attached have twice the credit.
    Credit,
    /// The frames of a connection ask for twice the credit that its client means.
    Overdrawn,
    /// What a connection is given is told to a consumer that is not its own.
    Strangers,
    /// A receive asks for twice as much.
    Receives,
    /// A receive that waits is not told.
    Waits,
    /// Another topic is paused.
    Paused,
    /// A delivery of a leader comes behind one of the next.
    Mixed,
    /// Groups with a leader are groups like all others.
    Exclusive,
    /// Who stands for others does not inherit their failures.
    HeirFailures,
    /// Nor their back-off.
    HeirPause,
    /// Who takes a place has no priority of its own.
    HeirPriority,
}

/// All of them by name.
const NAMES: [(&str, Canary); 43] = [
    ("lost", Canary::Lost),
    ("back", Canary::Back),
    ("answered", Canary::Answered),
    ("reigns", Canary::Reigns),
    ("stuck", Canary::Stuck),
    ("early", Canary::Early),
    ("halves", Canary::Halves),
    ("moved", Canary::Moved),
    ("order", Canary::Order),
    ("coalescing", Canary::Coalescing),
    ("watermark", Canary::Watermark),
    ("priority", Canary::Priority),
    ("ageing", Canary::Ageing),
    ("fairness", Canary::Fairness),
    ("memory", Canary::Memory),
    ("starts", Canary::Starts),
    ("retention", Canary::Retention),
    ("once", Canary::Once),
    ("repeats", Canary::Repeats),
    ("routes", Canary::Routes),
    ("expiry", Canary::Expiry),
    ("dedup", Canary::Dedup),
    ("sessions", Canary::Sessions),
    ("failures", Canary::Failures),
    ("frames", Canary::Frames),
    ("answers", Canary::Answers),
    ("connections", Canary::Connections),
    ("leases", Canary::Leases),
    ("exceptions", Canary::Exceptions),
    ("resumption", Canary::Resumption),
    ("receipts", Canary::Receipts),
    ("grace", Canary::Grace),
    ("credit", Canary::Credit),
    ("overdrawn", Canary::Overdrawn),
    ("strangers", Canary::Strangers),
    ("receives", Canary::Receives),
    ("waits", Canary::Waits),
    ("paused", Canary::Paused),
    ("mixed", Canary::Mixed),
    ("exclusive", Canary::Exclusive),
    ("heir-failures", Canary::HeirFailures),
    ("heir-pause", Canary::HeirPause),
    ("heir-priority", Canary::HeirPriority),
];

impl Canary {
    /// The canary of a name.
    pub fn named(name: &str) -> Option<Canary> {
        NAMES.into_iter().find(|(of, _)| *of == name).map(|(_, canary)| canary)
    }

    /// What the core is told the time is.
    pub fn hurries(self, now: Now) -> Now {
        match self {
            Canary::Early => Now { wall: now.wall + HURRY, ..now },
            Canary::Grace => Now { run: now.run + HURRY, ..now },
            _ => now,
        }
    }

    /// What becomes of a command on its way to the core.
    pub fn mistakes(self, command: Command) -> Command {
        match (self, command) {
            (Canary::Connections, Command::Withdraw(_)) => Command::Withdraw(Ticket(u64::MAX)),
            (Canary::Exclusive, Command::GroupCreate { namespace, name, start, .. }) => {
                Command::GroupCreate { namespace, name, start, kind: GroupKind::Shared }
            }
            (Canary::Leases, Command::Attach(attach)) => {
                Command::Attach(Attach { lease: attach.lease.map(half), ..attach })
            }
            (Canary::Leases, Command::Receive(receive)) => {
                Command::Receive(Receive { lease: receive.lease.map(half), ..receive })
            }
            (Canary::Exceptions, Command::Heartbeat { session, .. }) => {
                Command::Heartbeat { session, except: Vec::new() }
            }
            (Canary::Resumption, Command::SessionBegin(begin)) => {
                Command::SessionBegin(SessionBegin { resume: half(begin.resume), ..begin })
            }
            (Canary::Credit, command) => doubled(command),
            (Canary::Receives, Command::Receive(receive)) => {
                let (messages, bytes) = (receive.messages * 2, receive.bytes * 2);
                Command::Receive(Receive { messages, bytes, ..receive })
            }
            (Canary::Paused, Command::Pause { topic, prefix }) => Command::Pause { topic: mistaken(topic), prefix },
            (Canary::Paused, Command::Resume { topic, prefix }) => Command::Resume { topic: mistaken(topic), prefix },
            (Canary::HeirPriority, Command::Publish(mut publish)) => {
                publish.runs.iter_mut().for_each(|run| run.priority = Priority::LOWEST);
                Command::Publish(publish)
            }
            (Canary::Halves, Command::Forward(forward)) => Command::Publish(forward.publish),
            (_, Command::NamespaceSet { name, policy, rules, based_on }) => {
                let own = |rule: &Rule| {
                    let policy = self.misreads(rule.overrides.over(&policy));
                    Rule { overrides: Overrides { dedup_window: None, ..Overrides::from(&policy) }, ..rule.clone() }
                };
                let changed = Rules::new(rules.iter().map(own).collect()).expect("they are as many and as they were");
                let rules = if self.misreads(policy.clone()) == policy { rules } else { changed };
                Command::NamespaceSet { name, policy: self.misreads(policy), rules, based_on }
            }
            (Canary::Starts, Command::GroupCreate { namespace, name, start: Start::At(_), kind }) => {
                Command::GroupCreate { namespace, name, start: Start::Earliest, kind }
            }
            (Canary::Once, Command::Attach(attach)) => Command::Attach(Attach { at_most_once: false, ..attach }),
            (Canary::Once, Command::Receive(receive)) => Command::Receive(Receive { at_most_once: false, ..receive }),
            (Canary::Repeats, Command::Receive(receive)) => Command::Receive(Receive { request: None, ..receive }),
            (Canary::Routes, Command::Route(mut route)) => {
                if route.publish.runs.len() > 1 {
                    route.publish.runs.pop();
                }
                Command::Route(route)
            }
            (Canary::Expiry | Canary::Dedup | Canary::Sessions, Command::Publish(mut publish)) => {
                if self == Canary::Sessions {
                    publish.producer = None;
                }
                for run in &mut publish.runs {
                    match self {
                        Canary::Expiry => run.ttl = run.ttl.map(|ttl| Millis(ttl.0 / 2)),
                        Canary::Dedup => run.dedup.clear(),
                        _ => {}
                    }
                }
                Command::Publish(publish)
            }
            (_, command) => command,
        }
    }

    /// How a policy is understood.
    fn misreads(self, policy: Policy) -> Policy {
        let is_strict = policy.max_in_flight == Some(1);
        match self {
            Canary::Order if is_strict => Policy { max_in_flight: None, run: 1, ..policy },
            Canary::Coalescing => Policy { coalesce: Coalesce::Off, ..policy },
            Canary::Priority => {
                let other = if policy.dispatch == Dispatch::Fair { Dispatch::Priority } else { Dispatch::Fair };
                Policy { dispatch: other, ..policy }
            }
            Canary::Ageing => Policy { ageing: None, ..policy },
            Canary::Fairness => Policy { weight: policy.weight * 8, ..policy },
            Canary::Retention => {
                let Retention { age, count } = policy.retention;
                Policy { retention: Retention { age, count: count.map(|count| count / 2) }, ..policy }
            }
            Canary::Leases => Policy { lease: half(policy.lease), ..policy },
            Canary::Failures => Policy { max_failures: policy.max_failures.saturating_add(1), ..policy },
            _ => policy,
        }
    }

    /// What becomes of answers on their way to those who asked.
    pub fn misleads(self, outputs: &mut [Output]) {
        for output in outputs {
            match (self, output) {
                (Canary::Watermark, Output::Reply { reply: Reply::Topics(views), .. }) => {
                    let cursors = views.iter_mut().flat_map(|view| &mut view.cursors);
                    cursors.for_each(|cursor| cursor.completion = Sequence(cursor.completion.0 + 1));
                }
                (Canary::Receipts, Output::Reply { reply: Reply::Finished(outcomes), .. }) => {
                    let lost = outcomes.iter_mut().filter(|run| run.outcome == FinishOutcome::LeaseLost);
                    lost.for_each(|run| run.outcome = FinishOutcome::Done);
                }
                _ => {}
            }
        }
    }

    /// What those who look on are told of a fact: in the core itself nothing can be got wrong.
    pub fn retells(self, fact: &Fact) -> Option<Fact> {
        let mut fact = fact.clone();
        match (self, &mut fact) {
            (Canary::HeirFailures, Fact::Superseded { failures, .. }) => *failures = 0,
            (Canary::HeirPause, Fact::Superseded { until, .. }) => *until = None,
            _ => return None,
        }
        Some(fact)
    }

    /// What is told, and in which order. `late` is what has still to come.
    pub fn mixes(self, outputs: Vec<Output>, late: &mut Option<Output>) -> Vec<Output> {
        let mut mixed = Vec::new();
        for output in outputs {
            match (&output, &*late) {
                (Output::Delivery { epoch: Some(_), .. }, None) if self == Canary::Mixed => *late = Some(output),
                (Output::Delivery { epoch: Some(next), .. }, Some(Output::Delivery { epoch: Some(epoch), .. }))
                    if next > epoch =>
                {
                    mixed.push(output);
                    mixed.extend(late.take());
                }
                _ => mixed.push(output),
            }
        }
        mixed
    }

    /// How the directory is opened.
    pub fn swells(self, options: &OpenOptions) -> OpenOptions {
        let room = if self == Canary::Memory { usize::MAX } else { options.room };
        OpenOptions { room, ..options.clone() }
    }

    /// Whether an output that has to wait for the sync is told without.
    pub fn tells_early(self, output: &Output) -> bool {
        match (self, output) {
            (Canary::Lost, Output::Reply { reply, .. }) => matches!(reply, Reply::Published { .. }),
            (Canary::Back, Output::Reply { reply, .. }) => matches!(reply, Reply::Finished(_)),
            (Canary::Answered, Output::Reply { reply, .. }) => matches!(reply, Reply::Count(_)),
            (Canary::Reigns, Output::Standing { .. } | Output::Delivery { epoch: Some(_), .. }) => true,
            _ => false,
        }
    }

    /// Changes a move on its way to the core.
    pub fn spoil(self, command: &mut Command) {
        if self != Canary::Moved {
            return;
        }
        let (Command::Move(Move { block, .. }) | Command::DeadMove(DeadMove { block, .. })) = command else {
            unreachable!("a mover moves")
        };
        *block = changed(block);
    }

    /// Whether an output is dropped on its way.
    pub fn swallows(self, output: &Output) -> bool {
        match (self, output) {
            (Canary::Stuck, Output::Delivery { epoch, .. }) => epoch.is_none(),
            (Canary::Waits, Output::Reply { reply, .. }) => matches!(reply, Reply::Received(_)),
            _ => false,
        }
    }

    /// The same of one that is for a connection.
    pub fn forgets(self, output: &Output) -> bool {
        self == Canary::Answers && matches!(output, Output::Reply { .. })
    }

    /// What a client's frame says for what the client means.
    pub fn overstates(self, command: Command) -> Command {
        if self == Canary::Overdrawn { doubled(command) } else { command }
    }

    /// Whom a connection is told that something is for.
    pub fn misdirects(self, output: &mut Output) {
        if let (Canary::Strangers, Output::Delivery { consumer, .. }) = (self, output) {
            *consumer = !*consumer;
        }
    }

    /// Changes what a connection's client is given.
    pub fn garbles(self, block: &mut Bytes) {
        if self == Canary::Frames {
            *block = changed(block);
        }
    }
}

fn half(time: Millis) -> Millis {
    Millis(time.0 / 2)
}

/// Twice the credit.
fn doubled(command: Command) -> Command {
    match command {
        Command::Attach(attach) => {
            let (messages, bytes) = (attach.messages * 2, attach.bytes * 2);
            Command::Attach(Attach { messages, bytes, ..attach })
        }
        Command::Credit { session, consumer, messages, bytes } => {
            Command::Credit { session, consumer, messages: messages * 2, bytes: bytes * 2 }
        }
        command => command,
    }
}

/// The same topic but for the end of its name.
fn mistaken(topic: TopicRef) -> TopicRef {
    let name = TopicName::try_from(format!("{}?", topic.name).as_str()).expect("a name of a simulation is short");
    TopicRef { name, ..topic }
}

/// The same but for the last byte.
fn changed(block: &[u8]) -> Bytes {
    let mut bytes = block.to_vec();
    *bytes.last_mut().expect("a message has bytes") ^= 1;
    bytes.into()
}
