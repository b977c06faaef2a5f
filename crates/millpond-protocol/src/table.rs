//! The one table of frames: which number each kind has, and in which order its fields stand.
//!
//! Requests are below 0x80, what the broker sends is from 0x80 on. A number, once given, is never used for anything else.

use millpond_types::Code;
use millpond_types::limits::{CREDIT_MESSAGES_MAX, DEDUP_ID_MAX, PUBLISH_MESSAGES_MAX, REASON_MAX, TOPIC_NAME_MAX};

use crate::TOKEN_MAX;
use crate::frame::*;
use crate::opening::Opening;
use crate::wire::{Bad, Choice, Kind, Reader, Row, Short, Wire, choice, put, record, take};

/// The kinds that a client sends.
pub const REQUEST_KINDS: &[Kind] = <Request as Choice>::TABLE;
/// The kinds that the broker sends.
pub const RESPONSE_KINDS: &[Kind] = <Response as Choice>::TABLE;

/// The kinds that carry messages, and so spend publish credit.
pub const PUBLISHING: [u8; 4] = [0x10, FORWARDING[0], FORWARDING[1], 0x7A];
/// The kinds of those that end leases as well.
pub const FORWARDING: [u8; 2] = [0x11, 0x12];

choice!(Request<B> {
    0x01 Hello { version: Opening, client },
    0x02 Ping,
    0x10 Publish(publish),
    0x11 Forward(forward),
    0x12 ForwardRoute(route),
    0x20 Receive(receive),
    0x21 Finish(finish),
    0x30 SessionBegin { session, resume, held },
    0x31 Heartbeat { except },
    0x32 SessionEnd,
    0x33 Attach(attach),
    0x34 Credit { consumer, messages, bytes },
    0x35 Detach { consumer },
    0x36 Resign { consumer },
    0x40 Look { topic, which, group },
    0x41 Cancel { topic, which },
    0x42 Reschedule { topic, which, delay },
    0x43 Pause { namespace, topics, lasts },
    0x44 Resume { namespace, topics },
    0x45 Forget { topic, dedup_id: Short<DEDUP_ID_MAX> },
    0x46 Purge { namespace, filter, group },
    0x50 NamespaceSet { namespace, policy, rules, based_on },
    0x51 NamespaceDelete { namespace },
    0x52 Namespaces { after },
    0x53 Stats { namespace },
    0x54 GroupCreate { namespace, group, start, kind },
    0x55 GroupDelete { namespace, group },
    0x56 Depose { namespace, group },
    0x60 Topics { listing, group },
    0x61 Topic(topic),
    0x62 TopTopics { namespace, prefix: Short<TOPIC_NAME_MAX>, by, limit, group },
    0x70 DeadList { listing, group },
    0x71 DeadRedrive { namespace, group, which },
    0x72 DeadPurge { namespace, group, which },
    0x73 DeadLook { topic, id, group },
    0x74 ExchangeCreate { namespace, exchange, kind, unroutable },
    0x75 ExchangeDelete { namespace, exchange },
    0x76 Exchanges { namespace },
    0x77 Bind { namespace, exchange, binding },
    0x78 Unbind { namespace, exchange, binding },
    0x79 Bindings { namespace, exchange },
    0x7A Route(route),
});

choice!(Response {
    0x81 Welcome { version, frame_max, body_max, idle },
    0x82 Pong,
    0x90 Published(outcomes),
    0x91 PublishCredit { bytes },
    0x92 Forwarded { finished, published },
    0x93 Routed { topics, outcomes },
    0x94 ForwardRouted { topics, finished, published },
    0xA0 Received(leases),
    0xA1 Finished(outcomes),
    0xB0 SessionBegun { session, resumed, heartbeat },
    0xB1 Delivery { consumer, epoch, leases },
    0xB2 SessionExpired,
    0xB3 Standing { consumer, standing },
    0xC0 Done,
    0xC1 Count(count),
    0xC2 Messages(rows),
    0xC3 Namespaces { rows, next },
    0xC4 Topics(rows),
    0xC5 Dead { rows, next: Short<TOKEN_MAX> },
    0xC6 Exchanges(rows),
    0xC7 Bindings(rows),
    0xE0 Error { code, detail },
    0xE1 Closing { code, detail },
});

record!(TopicRef { namespace, name });
record!(Publish<B> { namespace, level, producer, runs });
choice!(Level { 0 Durable, 1 Buffered, 2 None });
record!(Forward<B> { receipts, namespace, runs });
record!(ForwardRoute<B> { receipts, namespace, exchange, key, priority, delay, ttl, block });
record!(Route<B> { namespace, level, producer, exchange, key, priority, delay, ttl, block });
record!(ProducerBatch { id, instance, sequence });
record!(PublishRun<B> { topic, priority, delay, ttl, block });

impl<B: Wire> Row for PublishRun<B> {
    const MAX: usize = PUBLISH_MESSAGES_MAX;

    fn check(runs: &[Self]) -> Result<(), Bad> {
        if runs.is_empty() {
            return Err(Bad::new(Code::ArgumentInvalid, "a publish holds at least one message"));
        }
        Ok(())
    }
}

record!(Receive { namespace, group, filter, messages, bytes, lease, wait, at_most_once, request });
record!(Finish { verb, confirm, namespace, receipts });
choice!(FinishVerb {
    0 Ack,
    1 Release { delay },
    2 Fail { delay, reason: Short<REASON_MAX> },
    3 Reject { reason: Short<REASON_MAX> },
    4 Extend { lease },
});
record!(Attach { consumer, namespace, group, filter, messages, bytes, lease, at_most_once });
record!(LeasedRun { topic, receipt, priority, first, count, published, deliveries, failures, run, block });

impl Row for LeasedRun {
    const MAX: usize = CREDIT_MESSAGES_MAX as usize;
}

choice!(Which { 0 Id(id), 1 Dedup(id: Short<DEDUP_ID_MAX>) });
choice!(LookWhich { 0 One(which), 1 First(count), 2 Due(count) });
record!(Listing { namespace, prefix: Short<TOPIC_NAME_MAX>, after: Short<TOKEN_MAX>, limit });
choice!(DeadWhich { 0 One(topic, id), 1 Filter(filter), 2 First(filter, count) });
