//! Candidates for the office of an exclusive group: sessions that come and go, fall silent, resign, are deposed, and finish
//! what they are given, early and late.
//!
//! The group has a namespace of its own, which the ledger leaves alone: what becomes of its messages is the other
//! clients' business elsewhere. Here it is about who is given them, and when.

use millpond_core::command::{Attach, Command, Finish, FinishVerb, Level, Publish, PublishRun, SessionBegin};
use millpond_core::output::LeasedRun;
use millpond_types::{
    Filter, GroupKind, GroupName, LeaderEpoch, Millis, OfficeTerms, Policy, Priority, Retry, Rules, SessionId, Start,
    TopicName,
};

use crate::bodies::{Draft, TAG, block_of};
use crate::clients::{Asked, Request};
use crate::hand::Hand;
use crate::plan::namespace;
use crate::streams::Stream;

/// The namespace that the ledger leaves alone.
pub const NAMESPACE: &str = "led";
/// How many candidates.
const COUNT: usize = 3;
/// The number of a candidate's consumer in the exclusive group, of that which takes what the other group has, and of a second
/// one in the exclusive group that comes and goes.
const LED: u32 = 1;
const REST: u32 = 2;
const SECOND: u32 = 3;

/// See the module.
pub struct Candidates {
    candidates: Vec<Candidate>,
    terms: OfficeTerms,
    published: u64,
}

struct Candidate {
    session: SessionId,
    connected: bool,
    attached: bool,
    has_second: bool,
    hand: Hand,
}

impl Candidates {
    /// Of a life, with terms that are short beside it.
    pub fn new(stream: &mut Stream) -> Candidates {
        let terms = OfficeTerms { term: Millis(stream.between(500, 5000)), handover: Millis(stream.between(0, 5000)) };
        let candidates = (0..COUNT).map(|_| Candidate::new(stream)).collect();
        Candidates { candidates, terms, published: 0 }
    }

    /// Makes their namespace and their group.
    pub fn set_up(&self) -> Vec<Request> {
        // No message is given up on, so that the last leader has them all.
        let policy = Policy { retry: Retry::Head, max_failures: u32::MAX, lease: Millis(2000), ..Policy::default() };
        let name = namespace(NAMESPACE);
        let made = Command::NamespaceSet { name, policy, rules: Rules::default(), based_on: None };
        let kind = GroupKind::Exclusive(self.terms);
        let (name, start) = (group(), Start::Latest);
        let group = Command::GroupCreate { namespace: namespace(NAMESPACE), name, start, kind };
        vec![other(made, "namespaces made"), other(group, "exclusive groups made")]
    }

    /// One of them does something.
    pub fn act(&mut self, load: &mut Stream) -> Vec<Request> {
        let index = load.below(self.candidates.len() as u64) as usize;
        if load.one_in(5) {
            return vec![self.publish(load)];
        }
        if load.one_in(60) {
            let command = Command::Depose { namespace: namespace(NAMESPACE), group: group() };
            return vec![other(command, "deposed")];
        }
        self.candidates[index].act(load)
    }

    /// The first one takes and finishes everything while anything is left; the others have gone.
    pub fn finish(&mut self, is_left: bool) -> Vec<Request> {
        let mut requests = Vec::new();
        for (index, candidate) in self.candidates.iter_mut().enumerate() {
            if index == 0 && is_left {
                requests.extend(candidate.finish());
            } else if std::mem::take(&mut candidate.connected) {
                requests.push(other(Command::SessionEnd(candidate.session), "sessions ended"));
            }
        }
        requests
    }

    /// A delivery came; false if it is not for one of these.
    pub fn deliver(&mut self, session: SessionId, epoch: Option<LeaderEpoch>, leases: &[LeasedRun]) -> bool {
        let Some(candidate) = self.candidates.iter_mut().find(|candidate| candidate.session == session) else {
            return false;
        };
        if epoch.is_some() && candidate.connected {
            candidate.hand.take(leases);
        }
        true
    }

    /// The broker is gone, and with it every connection.
    pub fn connections_lost(&mut self) {
        self.candidates.iter_mut().for_each(|candidate| candidate.connected = false);
    }

    fn publish(&mut self, load: &mut Stream) -> Request {
        let topics = ["x/1", "x/2", "y"];
        let count = load.between(1, 3);
        let drafts: Vec<Draft> = (0..count)
            .map(|n| Draft { tag: self.published + n, size: TAG + load.below(20) as usize, dedup_id: Vec::new() })
            .collect();
        self.published += count;
        let (block, sizes) = block_of(&drafts);
        let run = PublishRun {
            topic: TopicName::try_from(*load.pick(&topics)).expect("a valid name"),
            priority: Priority::DEFAULT,
            delay: Millis::ZERO,
            ttl: None,
            count: count as u32,
            block,
            sizes,
            dedup: Vec::new(),
            too_large: Vec::new(),
        };
        let level = Level::Durable;
        let publish = Publish { namespace: namespace(NAMESPACE), producer: None, level, runs: vec![run] };
        other(Command::Publish(publish), "published to an exclusive group")
    }
}

impl Candidate {
    fn new(load: &mut Stream) -> Candidate {
        let session = SessionId(load.draw() | 1);
        Candidate { session, connected: false, attached: false, has_second: false, hand: Hand::default() }
    }

    fn act(&mut self, load: &mut Stream) -> Vec<Request> {
        let session = self.session;
        if !self.connected {
            return self.begin(Millis(load.between(500, 12_000)), 1 + load.below(20) as u32);
        }
        if !self.attached {
            self.attached = true;
            return vec![self.attach(LED, 1 + load.below(20) as u32)];
        }
        match load.weighted(&[10, 10, 4, 1, 1, 1, 2, 1]) {
            0 => self.hand.verb(load).map(verb).into_iter().collect(),
            1 => {
                let except = if load.one_in(4) { self.hand.one(load) } else { None };
                vec![other(Command::Heartbeat { session, except: except.into_iter().collect() }, "heartbeats")]
            }
            2 => {
                let (messages, bytes) = (load.between(1, 10) as u32, load.between(1, 10_000));
                vec![other(Command::Credit { session, consumer: LED, messages, bytes }, "credit")]
            }
            3 => vec![other(Command::Resign { session, consumer: LED }, "resigned")],
            4 => {
                self.attached = false;
                vec![other(Command::Detach { session, consumer: LED }, "detached")]
            }
            5 => {
                self.connected = false;
                vec![other(Command::SessionLost(session), "sessions lost")]
            }
            6 if self.has_second => {
                self.has_second = false;
                vec![other(Command::Detach { session, consumer: SECOND }, "detached")]
            }
            6 => {
                self.has_second = true;
                vec![self.attach(SECOND, 1 + load.below(20) as u32)]
            }
            _ => {
                *self = Candidate::new(load);
                vec![other(Command::SessionEnd(session), "sessions ended")]
            }
        }
    }

    fn finish(&mut self) -> Vec<Request> {
        let session = self.session;
        let mut requests = Vec::new();
        if !self.connected {
            requests.extend(self.begin(Millis::seconds(10), 1000));
        } else if !std::mem::replace(&mut self.attached, true) {
            requests.push(self.attach(LED, 1000));
        }
        for consumer in [LED, REST] {
            let command = Command::Credit { session, consumer, messages: 1000, bytes: 1_000_000 };
            requests.push(other(command, "credit"));
        }
        requests.extend(self.hand.ack_all().map(verb));
        requests.push(other(Command::Heartbeat { session, except: Vec::new() }, "heartbeats"));
        requests
    }

    fn begin(&mut self, resume: Millis, messages: u32) -> Vec<Request> {
        (self.connected, self.attached, self.has_second) = (true, true, false);
        let begin = SessionBegin { session: self.session, resume, held: self.hand.held() };
        vec![
            other(Command::SessionBegin(begin), "candidates begun"),
            self.attach(LED, messages),
            self.attach(REST, messages),
        ]
    }

    fn attach(&self, consumer: u32, messages: u32) -> Request {
        let is_led = consumer != REST;
        let attach = Attach {
            session: self.session,
            consumer,
            namespace: namespace(NAMESPACE),
            group: if is_led { group() } else { GroupName::default() },
            filter: Filter::All,
            messages,
            bytes: 1_000_000,
            lease: None,
            // What the other group has is of no interest, and is to go.
            at_most_once: !is_led,
        };
        other(Command::Attach(attach), "candidates attached")
    }
}

/// A verb of the hand, but nothing becomes a dead letter: nobody would look for it.
fn verb(request: Request) -> Request {
    match request.command {
        Command::Finish(Finish { verb: FinishVerb::Reject { .. }, receipts, namespace, confirm }) => {
            let verb = FinishVerb::Release { delay: Millis::ZERO };
            other(Command::Finish(Finish { verb, receipts, namespace, confirm }), "verbs of leaders")
        }
        command => other(command, "verbs of leaders"),
    }
}

fn group() -> GroupName {
    GroupName::try_from("led").expect("a valid name")
}

fn other(command: Command, what: &'static str) -> Request {
    Request { command, asked: Asked::Other(what) }
}
