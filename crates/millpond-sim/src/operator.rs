//! The operator: whoever manages namespaces and topics, and handles single messages by id.

use std::collections::VecDeque;

use bytes::Bytes;
use millpond_core::command::{Command, DeadWhich, Listing, Look, LookWhich, Top, TopicRef, Which};
use millpond_types::{
    Filter, GroupName, MessageId, Millis, NamespaceName, PausedTopics, Policy, Rules, TopBy, TopicName,
};

use crate::clients::{Asked, Request};
use crate::consumer::draw_filter;
use crate::forwards;
use crate::plan::{Plan, namespace, set_policies};
use crate::streams::Stream;

/// Messages that the operator remembers.
const KNOWN_MAX: usize = 40;

/// See the module.
pub struct Operator {
    namespaces: Vec<(NamespaceName, Policy)>,
    topics: Vec<TopicName>,
    known: VecDeque<(TopicRef, MessageId, Option<u128>)>,
    paused: Vec<(NamespaceName, PausedTopics)>,
}

impl Operator {
    /// Of a life.
    pub fn new(plan: &Plan) -> Operator {
        let (namespaces, topics) = (plan.namespaces.clone(), plan.topics.clone());
        Operator { namespaces, topics, known: VecDeque::new(), paused: Vec::new() }
    }

    /// Makes the namespaces, each with the exchange that forwards go to.
    pub fn set_up(&self) -> Vec<Request> {
        self.namespaces.iter().flat_map(|namespace| make(namespace, None)).collect()
    }

    /// Deletes the namespace that others use and that may go, which mostly is refused, and makes it again.
    fn made_anew(&self) -> Vec<Request> {
        let deleted = |(name, _): &(NamespaceName, Policy)| {
            let command = Command::NamespaceDelete(name.clone());
            Request { command, asked: Asked::Other("used namespaces deleted") }
        };
        let those = self.namespaces.iter().filter(|(name, _)| is_made_anew(name));
        those.flat_map(|namespace| [deleted(namespace)].into_iter().chain(make(namespace, Some(0)))).collect()
    }

    /// A message was stored.
    pub fn learn(&mut self, namespace: NamespaceName, name: TopicName, id: MessageId, dedup: Option<u128>) {
        if self.known.len() == KNOWN_MAX {
            self.known.pop_front();
        }
        self.known.push_back((TopicRef { namespace, name }, id, dedup));
    }

    /// Does something.
    pub fn act(&mut self, load: &mut Stream) -> Vec<Request> {
        let (namespace, _) = load.pick(&self.namespaces).clone();
        let name = load.pick(&self.topics).clone();
        let topic = TopicRef { namespace: namespace.clone(), name };
        let known = match self.known.len() {
            0 => None,
            n => Some(self.known[load.below(n as u64) as usize].clone()),
        };
        let which = |id, dedup: Option<u128>, by_id: bool| match dedup {
            Some(hash) if !by_id => Which::Dedup(hash),
            _ => Which::Id(id),
        };
        let group = GroupName::default();
        let other = |command, what| vec![Request { command, asked: Asked::Other(what) }];
        match (load.weighted(&[4, 3, 2, 3, 2, 2, 1, 1, 2, 2, 1, 2, 3]), known) {
            (0, Some((topic, id, dedup))) => match which(id, dedup, load.one_in(2)) {
                by_id @ Which::Id(_) => {
                    vec![Request { command: Command::Cancel { topic, which: by_id }, asked: Asked::Cancel(id) }]
                }
                // Another message may go by this dedup id in the meantime.
                which => other(Command::Cancel { topic, which }, "cancels by dedup id"),
            },
            (1, Some((topic, id, dedup))) => {
                let which = which(id, dedup, load.one_in(2));
                let delay = Millis(load.below(2) * load.below(5000));
                other(Command::Reschedule { topic, which, delay }, "rescheduled")
            }
            (2, Some((topic, _, Some(dedup_hash)))) => other(Command::Forget { topic, dedup_hash }, "forget"),
            (3, Some((topic, id, dedup))) => {
                if let Some(topic) = load.one_in(4).then(|| topic.clone()) {
                    return other(Command::DeadLook { topic, group, id }, "dead letters asked for");
                }
                let which = match load.below(4) {
                    0 => LookWhich::First(load.between(1, 5) as u32),
                    1 => LookWhich::Due(load.between(1, 5) as u32),
                    _ => LookWhich::One(which(id, dedup, load.one_in(2))),
                };
                let group = load.one_in(3).then_some(group);
                other(Command::Look(Look { topic, which, group }), "looked at")
            }
            (4, _) => {
                let topics = match load.below(12) {
                    0 => PausedTopics::all(),
                    1..=4 => PausedTopics::prefix(&topic.name),
                    _ => PausedTopics::from(&topic.name),
                };
                self.paused.push((namespace.clone(), topics.clone()));
                let lasts = load.one_in(2).then(|| Millis(load.between(1, 20_000)));
                other(Command::Pause { namespace, topics, lasts }, "paused")
            }
            (5, _) if !self.paused.is_empty() => {
                let index = load.below(self.paused.len() as u64) as usize;
                let (namespace, topics) = self.paused.swap_remove(index);
                other(Command::Resume { namespace, topics }, "resumed")
            }
            (6, _) => {
                let filter = match load.one_in(2) {
                    true => Filter::Topics(vec![topic.name]),
                    false => draw_filter(&self.topics, load),
                };
                let group = load.one_in(2).then_some(group);
                other(Command::Purge { namespace, filter, group }, "purges")
            }
            (7, _) => {
                let mut command = set_policies(namespace, load);
                if let Command::NamespaceSet { based_on, .. } = &mut command {
                    // Mostly another one is there.
                    *based_on = load.one_in(3).then(|| load.below(4));
                }
                other(command, "policies changed")
            }
            (8, known) => {
                let one = known.filter(|_| load.one_in(2)).map(|(topic, id, _)| DeadWhich::One(topic.name, id));
                let which = one.unwrap_or_else(|| draw_dead(draw_filter(&self.topics, load), load));
                other(Command::DeadRedrive { namespace, group, which }, "redrives")
            }
            (9, known) => {
                let one = known.filter(|_| load.one_in(2)).map(|(topic, id, _)| DeadWhich::One(topic.name, id));
                let which = one.unwrap_or_else(|| draw_dead(Filter::Topics(vec![topic.name]), load));
                other(Command::DeadPurge { namespace, group, which }, "dead purges")
            }
            (10, _) => listings(namespace, load),
            (11, _) => match load.one_in(2) {
                true => brief(load),
                false => self.made_anew(),
            },
            (12, _) => other(Command::Topic(topic), "shown"),
            _ => Vec::new(),
        }
    }

    /// Resumes everything, once: a crash may have taken a pause or a resume back, so that nobody knows what is paused.
    pub fn finish(&mut self) -> Vec<Request> {
        let namespaces = std::mem::take(&mut self.namespaces);
        let mut requests = Vec::new();
        for (namespace, _) in namespaces {
            let named = self.topics.iter().flat_map(|name| [PausedTopics::prefix(name), PausedTopics::from(name)]);
            for topics in named.chain([PausedTopics::all()]) {
                let command = Command::Resume { namespace: namespace.clone(), topics };
                requests.push(Request { command, asked: Asked::Other("resumed") });
            }
        }
        requests
    }
}

/// All that is listed.
fn listings(namespace: NamespaceName, load: &mut Stream) -> Vec<Request> {
    let listing = Listing { namespace: namespace.clone(), prefix: Bytes::new(), after: Bytes::new(), limit: 5 };
    let letters = Listing {
        prefix: load.word(&["", "", "a", "b/1"]).into(),
        limit: load.between(1, 20) as u32,
        ..listing.clone()
    };
    let commands = [
        Command::Stats(namespace),
        Command::Namespaces { after: None },
        Command::Topics { listing: listing.clone(), group: GroupName::default() },
        Command::Top(Top {
            namespace: listing.namespace.clone(),
            group: GroupName::default(),
            prefix: Bytes::new(),
            by: TopBy::Age,
            limit: 2,
        }),
        Command::DeadList { listing: letters, group: GroupName::default() },
    ];
    commands.map(|command| Request { command, asked: Asked::Other("listed") }).into()
}

/// Whether a namespace that others use may be gone for a while.
pub fn is_made_anew(name: &NamespaceName) -> bool {
    name.as_str() == "strict"
}

/// Makes a namespace, with the exchange that forwards go to; based on version 0, only where it is not there.
fn make((name, policy): &(NamespaceName, Policy), based_on: Option<u64>) -> Vec<Request> {
    let (name, policy, rules) = (name.clone(), policy.clone(), Rules::default());
    let exchange = forwards::exchange(&name);
    let set = Command::NamespaceSet { name, policy, rules, based_on };
    let commands = [set].into_iter().chain(exchange);
    commands.map(|command| Request { command, asked: Asked::Other("namespaces made") }).collect()
}

/// A namespace that comes and goes.
fn brief(load: &mut Stream) -> Vec<Request> {
    let name = namespace("brief");
    let (command, what) = match load.one_in(2) {
        true => (set_policies(name, load), "namespaces made"),
        false => (Command::NamespaceDelete(name), "namespaces deleted"),
    };
    vec![Request { command, asked: Asked::Other(what) }]
}

/// All of the dead letters of a filter, or the first few.
fn draw_dead(filter: Filter, load: &mut Stream) -> DeadWhich {
    match load.one_in(3) {
        true => DeadWhich::First(filter, load.between(1, 3) as u32),
        false => DeadWhich::Filter(filter),
    }
}
