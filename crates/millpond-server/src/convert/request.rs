//! Frames from a client as commands for the core. Bodies are not touched: a block goes on as the slice that it is.

use millpond_core::command::{self, Command, DedupMark};
use millpond_core::dedup_hash;
use millpond_protocol::{self as frame, Block};
use millpond_types::limits::{RECEIVE_BYTES_MAX, RECEIVE_MESSAGES_MAX};
use millpond_types::{Code, GroupName, Millis, NamespaceName, Priority, Receipt};

/// The key of the directory's hashes, which dedup ids become here.
pub(crate) type HashKey = [u64; 2];

/// A request that was refused before it became a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refusal {
    pub(crate) code: Code,
    pub(crate) detail: String,
}

pub(crate) fn publish(publish: frame::Publish<Block>, key: HashKey) -> Command {
    let frame::Publish { namespace, level, producer, runs } = publish;
    let runs = self::runs(&namespace, runs, key);
    let (producer, level) = (producer.map(self::producer), self::level(level));
    Command::Publish(command::Publish { namespace, producer, level, runs })
}

pub(crate) fn forward(forward: frame::Forward<Block>, key: HashKey) -> Result<Command, Refusal> {
    let frame::Forward { receipts, namespace, runs } = forward;
    let runs = self::runs(&namespace, runs, key);
    let publish = command::Publish { namespace, producer: None, level: command::Level::Durable, runs };
    Ok(Command::Forward(command::Forward { receipts: receipt_runs(receipts)?, publish }))
}

pub(crate) fn route(route: frame::Route<Block>) -> Result<command::Route, Refusal> {
    let frame::Route { namespace, level, producer, exchange, key, priority, delay, ttl, block } = route;
    let message = routed((priority, delay, ttl), block)?;
    Ok(command::Route::new(namespace, (exchange, key), message, producer.map(self::producer), self::level(level)))
}

pub(crate) fn forward_route(route: frame::ForwardRoute<Block>) -> Result<command::Route, Refusal> {
    let frame::ForwardRoute { receipts, namespace, exchange, key, priority, delay, ttl, block } = route;
    let message = routed((priority, delay, ttl), block)?;
    let receipts = Some(receipt_runs(receipts)?);
    let route = command::Route::new(namespace, (exchange, key), message, None, command::Level::Durable);
    Ok(command::Route { receipts, ..route })
}

fn routed(
    (priority, delay, ttl): (Priority, Millis, Option<Millis>),
    block: Block,
) -> Result<command::Routed, Refusal> {
    let Block { bytes: block, count: 1, too_large, .. } = block else {
        let detail = "a publish to an exchange holds one message".to_owned();
        return Err(Refusal { code: Code::ArgumentInvalid, detail });
    };
    let too_large = too_large.first().map(|large| self::too_large(*large));
    Ok(command::Routed { priority, delay, ttl, block, too_large })
}

fn producer(batch: frame::ProducerBatch) -> command::ProducerBatch {
    command::ProducerBatch { id: batch.id, instance: batch.instance, sequence: batch.sequence }
}

fn level(level: frame::Level) -> command::Level {
    match level {
        frame::Level::Durable => command::Level::Durable,
        frame::Level::Buffered => command::Level::Buffered,
        frame::Level::None => command::Level::None,
    }
}

fn too_large(frame::TooLarge { index, bytes, limit }: frame::TooLarge) -> command::TooLarge {
    command::TooLarge { index, bytes, limit }
}

fn runs(namespace: &NamespaceName, runs: Vec<frame::PublishRun<Block>>, key: HashKey) -> Vec<command::PublishRun> {
    let runs = runs.into_iter().map(|run| {
        let frame::PublishRun { topic, priority, delay, ttl, block } = run;
        let dedup = block
            .dedup
            .iter()
            .map(|id| DedupMark { index: id.index, hash: dedup_hash(key, namespace, &topic, block.dedup_bytes(*id)) });
        let dedup = dedup.collect();
        let Block { bytes, count, sizes, too_large, .. } = block;
        let too_large = too_large.into_iter().map(self::too_large).collect();
        command::PublishRun { topic, priority, delay, ttl, count, block: bytes, sizes, dedup, too_large }
    });
    runs.collect()
}

/// The answer of a receive is one frame, so more than fits is not leased; at least one message always is.
pub(crate) fn receive(receive: frame::Receive) -> Command {
    let frame::Receive { namespace, group, filter, messages, bytes, lease, wait, at_most_once, request } = receive;
    let (messages, bytes) = (messages.min(RECEIVE_MESSAGES_MAX), bytes.min(RECEIVE_BYTES_MAX));
    // A connection withdraws by its ticket.
    let call = 0;
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
        call,
    })
}

/// What is refused whatever the state is, is refused here: the core tells of no finish that asks for no confirmation, but of those
/// that name a namespace.
pub(crate) fn finish(finish: frame::Finish) -> Result<Command, Refusal> {
    let verb = match finish.verb {
        frame::FinishVerb::Ack => command::FinishVerb::Ack,
        frame::FinishVerb::Release { delay } => command::FinishVerb::Release { delay },
        frame::FinishVerb::Fail { delay, reason } => command::FinishVerb::Fail { delay, reason },
        frame::FinishVerb::Reject { reason } => command::FinishVerb::Reject { reason },
        frame::FinishVerb::Extend { lease } => command::FinishVerb::Extend { lease },
    };
    let (receipts, namespace) = (receipt_runs(finish.receipts)?, finish.namespace);
    let finish = command::Finish { verb, receipts, namespace, confirm: finish.confirm };
    finish.check().map_err(|(code, detail)| Refusal { code, detail })?;
    Ok(Command::Finish(finish))
}

pub(crate) fn receipt_runs(receipts: Vec<(Receipt, u32)>) -> Result<Vec<command::ReceiptRun>, Refusal> {
    if receipts.iter().any(|(_, count)| *count == 0) {
        let detail = "a run of receipts counts at least one".to_owned();
        return Err(Refusal { code: Code::ArgumentInvalid, detail });
    }
    Ok(receipts.into_iter().map(|(first, count)| command::ReceiptRun { first, count }).collect())
}

pub(crate) fn topic(topic: frame::TopicRef) -> command::TopicRef {
    command::TopicRef { namespace: topic.namespace, name: topic.name }
}

pub(crate) fn which(which: frame::Which, topic: &command::TopicRef, key: HashKey) -> command::Which {
    match which {
        frame::Which::Id(id) => command::Which::Id(id),
        frame::Which::Dedup(id) => command::Which::Dedup(dedup_hash(key, &topic.namespace, &topic.name, &id)),
    }
}

pub(crate) fn look(
    topic_ref: frame::TopicRef,
    looked_at: frame::LookWhich,
    group: Option<GroupName>,
    key: HashKey,
) -> Command {
    let topic = topic(topic_ref);
    let which = match looked_at {
        frame::LookWhich::One(one) => command::LookWhich::One(which(one, &topic, key)),
        frame::LookWhich::First(count) => command::LookWhich::First(count),
        frame::LookWhich::Due(count) => command::LookWhich::Due(count),
    };
    Command::Look(command::Look { topic, which, group })
}

pub(crate) fn listing(listing: frame::Listing) -> command::Listing {
    let frame::Listing { namespace, prefix, after, limit } = listing;
    command::Listing { namespace, prefix, after, limit }
}

pub(crate) fn dead_which(which: frame::DeadWhich) -> command::DeadWhich {
    match which {
        frame::DeadWhich::One(topic, id) => command::DeadWhich::One(topic, id),
        frame::DeadWhich::Filter(filter) => command::DeadWhich::Filter(filter),
        frame::DeadWhich::First(filter, count) => command::DeadWhich::First(filter, count),
    }
}
