//! What clients say: their commands as the frames that a client library would make of them.

use bytes::Bytes;
use millpond_core::command::{self, Command, ReceiptRun};
use millpond_core::dedup_hash;
use millpond_protocol::{
    Attach, DeadWhich, Finish, FinishVerb, Forward, ForwardRoute, Level, Listing, LookWhich, ProducerBatch, Publish,
    PublishRun, Receive, Request as Frame, Route, TopicRef, Which,
};
use millpond_types::{Millis, Receipt};

use crate::producer::dedup_ids;

/// Sessions of shorter resumption are refused.
pub const RESUME_MIN: Millis = Millis(500);

/// What a client library would say.
pub fn frame(command: Command, hash_key: [u64; 2]) -> Frame {
    match command {
        Command::Publish(publish) => {
            let command::Publish { namespace, producer, level: asked, runs } = publish;
            let (producer, level) = (producer.map(batch), level(asked));
            Frame::Publish(Publish { namespace, level, producer, runs: runs.into_iter().map(run).collect() })
        }
        Command::Route(command::Route { receipts, publish, exchange, key, message, .. }) => {
            let command::Publish { namespace, producer, level: asked, .. } = publish;
            let command::Routed { priority, delay, ttl, block, .. } = message;
            if let Some(receipts) = receipts.map(pairs) {
                let route = ForwardRoute { receipts, namespace, exchange, key, priority, delay, ttl, block };
                return Frame::ForwardRoute(route);
            }
            let (producer, level) = (producer.map(batch), level(asked));
            Frame::Route(Route { namespace, level, producer, exchange, key, priority, delay, ttl, block })
        }
        Command::Forward(command::Forward { receipts, publish }) => Frame::Forward(Forward {
            receipts: pairs(receipts),
            namespace: publish.namespace,
            runs: publish.runs.into_iter().map(run).collect(),
        }),
        Command::Finish(command::Finish { verb, receipts, namespace, confirm }) => {
            let verb = match verb {
                command::FinishVerb::Ack => FinishVerb::Ack,
                command::FinishVerb::Release { delay } => FinishVerb::Release { delay },
                command::FinishVerb::Fail { delay, reason } => FinishVerb::Fail { delay, reason },
                command::FinishVerb::Reject { reason } => FinishVerb::Reject { reason },
                command::FinishVerb::Extend { lease } => FinishVerb::Extend { lease },
                command::FinishVerb::Damaged => unreachable!("only the broker finds damage"),
            };
            Frame::Finish(Finish { verb, confirm, namespace, receipts: pairs(receipts) })
        }
        Command::Receive(command::Receive {
            namespace,
            group,
            filter,
            messages,
            bytes,
            lease,
            wait,
            at_most_once,
            request,
            call: _,
        }) => Frame::Receive(Receive { namespace, group, filter, messages, bytes, lease, wait, at_most_once, request }),
        Command::SessionBegin(command::SessionBegin { session, resume, held }) => {
            Frame::SessionBegin { session, resume: resume.max(RESUME_MIN), held: pairs(held) }
        }
        Command::Attach(attach) => {
            let command::Attach { consumer, namespace, group, filter, messages, bytes, lease, at_most_once, .. } =
                attach;
            Frame::Attach(Attach { consumer, namespace, group, filter, messages, bytes, lease, at_most_once })
        }
        Command::Credit { consumer, messages, bytes, .. } => Frame::Credit { consumer, messages, bytes },
        Command::Heartbeat { except, .. } => Frame::Heartbeat { except },
        Command::Detach { consumer, .. } => Frame::Detach { consumer },
        Command::SessionEnd(_) => Frame::SessionEnd,
        other => of_operator(other, hash_key),
    }
}

/// Of whoever manages namespaces and topics.
fn of_operator(command: Command, hash_key: [u64; 2]) -> Frame {
    match command {
        Command::Cancel { topic, which } => {
            let which = self::which(which, &topic, hash_key);
            Frame::Cancel { topic: self::topic(topic), which }
        }
        Command::Reschedule { topic, which, delay } => {
            let which = self::which(which, &topic, hash_key);
            Frame::Reschedule { topic: self::topic(topic), which, delay }
        }
        Command::Forget { topic, dedup_hash } => {
            let dedup_id = dedup_id(dedup_hash, &topic, hash_key);
            Frame::Forget { topic: self::topic(topic), dedup_id }
        }
        Command::Look(command::Look { topic, which, group }) => {
            let which = match which {
                command::LookWhich::First(count) => LookWhich::First(count),
                command::LookWhich::Due(count) => LookWhich::Due(count),
                command::LookWhich::One(one) => LookWhich::One(self::which(one, &topic, hash_key)),
            };
            Frame::Look { topic: self::topic(topic), which, group }
        }
        Command::Pause { namespace, topics, lasts } => Frame::Pause { namespace, topics, lasts },
        Command::Resume { namespace, topics } => Frame::Resume { namespace, topics },
        Command::Topic(topic) => Frame::Topic(self::topic(topic)),
        Command::Purge { namespace, filter, group } => Frame::Purge { namespace, filter, group },
        Command::NamespaceSet { name: namespace, policy, rules, based_on } => {
            Frame::NamespaceSet { namespace, policy, rules, based_on }
        }
        Command::NamespaceDelete(namespace) => Frame::NamespaceDelete { namespace },
        Command::Namespaces { after } => Frame::Namespaces { after },
        Command::Stats(namespace) => Frame::Stats { namespace },
        Command::Topics { listing, group } => Frame::Topics { listing: self::listing(listing), group },
        Command::Top(command::Top { namespace, group, prefix, by, limit }) => {
            Frame::TopTopics { namespace, prefix, by, limit, group }
        }
        Command::DeadList { listing, group } => Frame::DeadList { listing: self::listing(listing), group },
        Command::DeadLook { topic, group, id } => Frame::DeadLook { topic: self::topic(topic), id, group },
        Command::DeadRedrive { namespace, group, which } => {
            Frame::DeadRedrive { namespace, group, which: dead_which(which) }
        }
        Command::DeadPurge { namespace, group, which } => {
            Frame::DeadPurge { namespace, group, which: dead_which(which) }
        }
        other => of_groups(other),
    }
}

/// Of whoever makes groups and exchanges.
fn of_groups(command: Command) -> Frame {
    match command {
        Command::GroupCreate { namespace, name: group, start, kind } => {
            Frame::GroupCreate { namespace, group, start, kind }
        }
        Command::GroupDelete { namespace, name: group } => Frame::GroupDelete { namespace, group },
        Command::Depose { namespace, group } => Frame::Depose { namespace, group },
        Command::ExchangeCreate { namespace, name: exchange, kind, unroutable } => {
            Frame::ExchangeCreate { namespace, exchange, kind, unroutable }
        }
        Command::ExchangeDelete { namespace, name: exchange } => Frame::ExchangeDelete { namespace, exchange },
        Command::Bind { namespace, exchange, binding } => Frame::Bind { namespace, exchange, binding },
        Command::Unbind { namespace, exchange, binding } => Frame::Unbind { namespace, exchange, binding },
        other => unreachable!("no client on a wire asks for {other:?}"),
    }
}

fn which(which: command::Which, topic: &command::TopicRef, hash_key: [u64; 2]) -> Which {
    match which {
        command::Which::Id(id) => Which::Id(id),
        command::Which::Dedup(hash) => Which::Dedup(dedup_id(hash, topic, hash_key)),
    }
}

/// The dedup id of a topic that has a hash.
fn dedup_id(hash: u128, topic: &command::TopicRef, hash_key: [u64; 2]) -> Bytes {
    let has_it = |id: &Vec<u8>| dedup_hash(hash_key, &topic.namespace, &topic.name, id) == hash;
    dedup_ids().find(has_it).expect("a client knows the ids that producers give").into()
}

fn topic(topic: command::TopicRef) -> TopicRef {
    TopicRef { namespace: topic.namespace, name: topic.name }
}

fn listing(listing: command::Listing) -> Listing {
    let command::Listing { namespace, prefix, after, limit } = listing;
    Listing { namespace, prefix, after, limit }
}

fn dead_which(which: command::DeadWhich) -> DeadWhich {
    match which {
        command::DeadWhich::One(topic, id) => DeadWhich::One(topic, id),
        command::DeadWhich::Filter(filter) => DeadWhich::Filter(filter),
        command::DeadWhich::First(filter, count) => DeadWhich::First(filter, count),
    }
}

fn batch(command::ProducerBatch { id, instance, sequence }: command::ProducerBatch) -> ProducerBatch {
    ProducerBatch { id, instance, sequence }
}

fn level(level: command::Level) -> Level {
    match level {
        command::Level::Durable => Level::Durable,
        command::Level::Buffered => Level::Buffered,
        command::Level::None => Level::None,
    }
}

fn run(run: command::PublishRun) -> PublishRun {
    let command::PublishRun { topic, priority, delay, ttl, block, .. } = run;
    PublishRun { topic, priority, delay, ttl, block }
}

fn pairs(receipts: Vec<ReceiptRun>) -> Vec<(Receipt, u32)> {
    receipts.into_iter().map(|run| (run.first, run.count)).collect()
}
