//! Several groups over the same messages: groups that are made with a start and deleted, readers that take from them in every
//! way, messages that come by exchanges whose bindings change, batches that are repeated.
//!
//! They have a namespace of their own, which the [ledger](crate::ledger) leaves alone: [`crate::promises`] follows it.

mod publisher;
mod reader;

use std::sync::Arc;

use bytes::Bytes;
use millpond_core::command::{Command, Listing, TopicRef};
use millpond_core::output::{LeasedRun, Notice, Reply};
use millpond_core::routing::Exchange;
use millpond_types::{
    Binding, Condition, ExchangeKind, ExchangeName, Filter, GroupKind, GroupName, MessageId, Millis, NamespaceName,
    PausedTopics, Receipt, RoutingKey, SessionId, Start, TopicName, Unroutable, WallTime,
};

use crate::clients::{Asked, Client, Request};
use crate::plan::{Plan, namespace, set_policies};
use crate::streams::Stream;
use publisher::Publisher;
use reader::Reader;

/// The namespace that the ledger leaves alone.
pub const NAMESPACE: &str = "shared";
/// Readers, each of a group at a time.
const READERS: usize = 3;
/// Groups that come and go.
const GROUPS: [&str; 2] = ["audit", "bill"];
/// Where a binding leads, at the most so many places.
const BINDINGS_MAX: usize = 8;

/// What a subscriber has asked.
#[derive(Clone, PartialEq, Debug)]
pub enum Of {
    /// A publish.
    Publish {
        /// Which batch it is, if it is one of a session.
        batch: Option<u64>,
        /// The tags of its messages, in order.
        tags: Vec<u64>,
        /// Whether it goes to an exchange: then it is one message, and each outcome is a copy's.
        is_routed: bool,
    },
    /// An ack of these leases, in order.
    Ack(Vec<(Receipt, MessageId)>),
    /// A receive of a reader; whether its messages ended as they were delivered.
    Receive(usize, bool),
    /// A begin of a reader's session.
    Begin(usize),
    /// Anything else.
    Other(&'static str),
}

/// What an edge knows of the exchanges.
#[derive(Default)]
struct Edge {
    known: Vec<(ExchangeName, Arc<Exchange>)>,
    /// What it is told and has not heard yet.
    news: Vec<(ExchangeName, Option<Arc<Exchange>>)>,
}

/// See the module.
pub struct Subscribers {
    topics: Vec<TopicName>,
    publisher: Publisher,
    readers: Vec<Reader>,
    edge: Edge,
    bound: Vec<(ExchangeName, Binding)>,
    /// Whether the publisher, who makes groups and exchanges as well, speaks the protocol. Then the broker's own edge resolves
    /// what it routes.
    is_remote: bool,
    /// What it asks.
    posted: Vec<(Client, Request)>,
    finishing: bool,
}

impl Subscribers {
    /// Of a life.
    pub fn new(plan: &Plan, stream: &mut Stream, network: &mut Stream) -> Subscribers {
        Subscribers {
            topics: plan.topics.clone(),
            publisher: Publisher::new(plan),
            readers: (0..READERS).map(|index| Reader::new(index, stream)).collect(),
            edge: Edge::default(),
            bound: Vec::new(),
            is_remote: network.one_in(2),
            posted: Vec::new(),
            finishing: false,
        }
    }

    /// Makes their namespace and the exchanges.
    pub fn set_up(&self, stream: &mut Stream) -> Vec<Request> {
        let mut commands = vec![set_policies(home(), stream)];
        commands.extend(EXCHANGES.map(|(name, kind, unroutable)| create(name, kind, unroutable)));
        commands.into_iter().map(|command| other(command, "namespaces made")).collect()
    }

    /// One of them does something.
    pub fn act(&mut self, now: WallTime, load: &mut Stream) -> Vec<Request> {
        self.edge.hear(load);
        let request = match load.weighted(&[8, 12, 3, 3, 2, 1]) {
            0 => {
                let edge = if self.is_remote { None } else { Some(&self.edge) };
                self.publisher.act(&self.topics, edge, load)
            }
            1 => {
                let index = load.below(READERS as u64) as usize;
                return self.readers[index].act(&self.topics, load);
            }
            2 => Some(self.group(now, load)),
            3 => Some(self.bind(load)),
            4 if load.one_in(2) => Some(letters(load)),
            4 => {
                let topic = TopicRef { namespace: home(), name: load.pick(&self.topics).clone() };
                Some(other(Command::Topic(topic), "shown"))
            }
            _ => Some(other(set_policies(home(), load), "policies changed")),
        };
        self.post(request)
    }

    /// Keeps what goes over a connection; the rest is decided at once.
    fn post(&mut self, request: Option<Request>) -> Vec<Request> {
        if !self.is_remote {
            return request.into_iter().collect();
        }
        self.posted.extend(request.map(|request| (Client::Publisher, request)));
        Vec::new()
    }

    /// What was asked on the connection since the last time.
    pub fn posted(&mut self) -> Vec<(Client, Request)> {
        std::mem::take(&mut self.posted)
    }

    /// All do what is needed to bring everything to its end.
    pub fn finish(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        if !std::mem::replace(&mut self.finishing, true) {
            for name in &self.topics {
                for topics in [PausedTopics::prefix(name), PausedTopics::from(name)] {
                    requests.push(other(Command::Resume { namespace: home(), topics }, "resumed"));
                }
            }
        }
        let last = self.publisher.finish();
        requests.extend(self.post(last));
        for (index, reader) in self.readers.iter_mut().enumerate() {
            let name = if index == 0 { "default" } else { GROUPS[index - 1] };
            requests.extend(reader.finish(group(name)));
        }
        requests
    }

    /// An answer came.
    pub fn answer(&mut self, of: &Of, reply: &Reply) {
        match (of, reply) {
            (Of::Publish { batch: Some(batch), .. }, Reply::Published { .. }) => self.publisher.answered(*batch),
            (Of::Receive(reader, false), Reply::Received(leases)) => self.readers[*reader].take(leases),
            (Of::Begin(reader), Reply::SessionBegun { resumed: false }) => self.readers[*reader].forget_all(),
            _ => {}
        }
    }

    /// A delivery came; false if it is not for one of these.
    pub fn deliver(&mut self, session: SessionId, consumer: u32, leases: &[LeasedRun]) -> bool {
        self.readers.iter_mut().any(|reader| reader.deliver(session, consumer, leases))
    }

    /// The broker tells its edges.
    pub fn hears(&mut self, notices: Vec<Notice>) {
        for notice in notices {
            if let Notice::Exchange { namespace, name, exchange } = notice
                && namespace == home()
            {
                self.edge.news.push((name, exchange));
            }
        }
    }

    /// The publisher's connection is gone.
    pub fn connection_lost(&mut self) {
        self.publisher.connection_lost();
    }

    /// The broker is gone, and with it every connection and its edge.
    pub fn connections_lost(&mut self) {
        self.posted.clear();
        self.edge = Edge::default();
        self.readers.iter_mut().for_each(Reader::connection_lost);
        self.publisher.connection_lost();
    }

    fn group(&mut self, now: WallTime, load: &mut Stream) -> Request {
        let name = group(load.word(&GROUPS));
        if load.one_in(4) {
            return other(Command::GroupDelete { namespace: home(), name }, "groups deleted");
        }
        if load.one_in(6) {
            let command = Command::Purge { namespace: home(), filter: Filter::All, group: Some(name) };
            return other(command, "purges of a group");
        }
        let ago = Millis(load.below(20_000));
        let start = *load.pick(&[Start::Latest, Start::Earliest, Start::Earliest, Start::At(WallTime(now.0 - ago.0))]);
        let kind = GroupKind::Shared;
        other(Command::GroupCreate { namespace: home(), name, start, kind }, "groups made")
    }

    fn bind(&mut self, load: &mut Stream) -> Request {
        if load.one_in(8) {
            let (name, kind, unroutable) = *load.pick(&EXCHANGES);
            let command = match load.one_in(2) {
                true => Command::ExchangeDelete { namespace: home(), name: exchange(name) },
                false => create(name, kind, unroutable),
            };
            return other(command, "exchanges made and deleted");
        }
        if self.bound.len() >= BINDINGS_MAX || !self.bound.is_empty() && load.one_in(3) {
            let index = load.below(self.bound.len() as u64) as usize;
            let (exchange, binding) = self.bound.swap_remove(index);
            return other(Command::Unbind { namespace: home(), exchange, binding }, "unbound");
        }
        let (name, kind, _) = *load.pick(&EXCHANGES);
        let condition = match kind {
            ExchangeKind::Fanout => Condition::Always,
            ExchangeKind::Headers => {
                let headers = vec![(b"kind"[..].into(), b"third"[..].into())];
                Condition::Headers { all: load.one_in(2), headers }
            }
            ExchangeKind::Direct => Condition::Key(key(load.word(&KEYS))),
            ExchangeKind::Topic => Condition::Key(key(load.word(&["a.*", "#", "*.x", "a.#.x", "b"]))),
        };
        let target = if load.one_in(4) { topic("k/{key}") } else { load.pick(&self.topics).clone() };
        let (exchange, binding) = (exchange(name), Binding { condition, target });
        self.bound.push((exchange.clone(), binding.clone()));
        other(Command::Bind { namespace: home(), exchange, binding }, "bound")
    }
}

impl Edge {
    /// It may be a while until it hears what it was told.
    fn hear(&mut self, load: &mut Stream) {
        if load.one_in(2) {
            for (name, exchange) in std::mem::take(&mut self.news) {
                self.known.retain(|(known, _)| *known != name);
                self.known.extend(exchange.map(|exchange| (name, exchange)));
            }
        }
    }

    fn exchange(&self, name: &ExchangeName) -> Option<&Arc<Exchange>> {
        self.known.iter().find(|(known, _)| known == name).map(|(_, exchange)| exchange)
    }
}

/// The dead letters of one of the groups.
fn letters(load: &mut Stream) -> Request {
    let (namespace, limit) = (home(), load.between(1, 20) as u32);
    let listing = Listing { namespace, prefix: Bytes::new(), after: Bytes::new(), limit };
    let group = group(load.word(&["default", GROUPS[0], GROUPS[1]]));
    other(Command::DeadList { listing, group }, "listed")
}

/// The exchanges, one of each kind.
const EXCHANGES: [(&str, ExchangeKind, Unroutable); 4] = [
    ("all", ExchangeKind::Fanout, Unroutable::Drop),
    ("keys", ExchangeKind::Direct, Unroutable::Refuse),
    ("words", ExchangeKind::Topic, Unroutable::Drop),
    ("kinds", ExchangeKind::Headers, Unroutable::Refuse),
];
/// What is published by.
const KEYS: [&str; 4] = ["a", "a.x", "b", "a.b.x"];

fn create(name: &str, kind: ExchangeKind, unroutable: Unroutable) -> Command {
    Command::ExchangeCreate { namespace: home(), name: exchange(name), kind, unroutable }
}

fn home() -> NamespaceName {
    namespace(NAMESPACE)
}

fn group(name: &str) -> GroupName {
    GroupName::try_from(name).expect("a valid name")
}

fn exchange(name: &str) -> ExchangeName {
    ExchangeName::try_from(name).expect("a valid name")
}

fn topic(name: &str) -> TopicName {
    TopicName::try_from(name).expect("a valid name")
}

fn key(text: &str) -> RoutingKey {
    RoutingKey::try_from(text).expect("a valid key")
}

fn other(command: Command, what: &'static str) -> Request {
    Request { command, asked: Asked::Subscriber(Of::Other(what)) }
}
