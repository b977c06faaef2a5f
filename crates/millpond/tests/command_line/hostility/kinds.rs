//! What hostile clients do.

use millpond_protocol::{
    Attach, Finish, FinishVerb, Level, LookWhich, Publish, PublishRun, Receive, Request, Route, TopicRef,
    encode_request,
};
use millpond_types::limits::{BINDINGS_MAX, PUBLISH_RUNS_MAX, ROUTING_WORDS_MAX};
use millpond_types::{
    Binding, Condition, Filter, GroupName, LeaseNumber, Millis, NamespaceName, Priority, Receipt, RoutingKey,
    SessionId, TopicName, TopicNumber, block,
};

use super::{CROWD, FAST, MIB, SLICE, SLOW};

/// One thing that clients do to a broker.
pub struct Kind {
    /// What, behind "who".
    pub does: &'static str,
    /// How many connections do it.
    pub connections: usize,
    /// What each sends first.
    pub first: Vec<u8>,
    /// What each sends over and over, by its number.
    pub again: Box<dyn Fn(usize) -> Vec<u8>>,
    /// Bytes at a time.
    pub pace: usize,
    /// Whether what they publish stays in memory while there is room, which is no more than was given.
    pub fills: bool,
}

/// All that they do, at length or not.
pub fn all(at_length: bool) -> Vec<Kind> {
    let (many, few) = if at_length { (1_000, 16) } else { (CROWD / 10, 4) };
    let new = |does, connections, first, again: Vec<u8>, pace| {
        let again = Box::new(move |_| again.clone());
        Kind { does, connections, first, again, pace, fills: false }
    };
    let begin = Request::SessionBegin { session: SessionId(0), resume: Millis::ZERO, held: Vec::new() };
    let credit = Request::Credit { consumer: 1, messages: u32::MAX, bytes: u64::MAX };
    vec![
        new("write slowly", many, Vec::new(), slow_frame(), SLOW),
        new("ask for much and do not read", many, encoded(&vec![look(); 20]), Vec::new(), FAST),
        new("flood with pings", few, Vec::new(), encoded(&vec![Request::Ping; 1000]), FAST),
        new("flood with publishes of a byte, and look at stats", few, Vec::new(), encoded(&tiny()), FAST),
        new(
            "flood with huge frames",
            few,
            Vec::new(),
            encoded(&[publish("flood", 4, &vec![b'y'; MIB as usize])]),
            FAST,
        ),
        new("take all credit and give nothing back", many, encoded(&[begin, attach()]), encoded(&[credit]), SLICE),
        new("wait for more than they may", few, Vec::new(), encoded(&vec![wait(); 1000]), FAST),
        new("guess receipts", few, Vec::new(), encoded(&[guess()]), FAST),
        Kind {
            does: "guess sessions",
            connections: few,
            first: Vec::new(),
            again: Box::new(|number| encoded(&steal(number))),
            pace: FAST,
            fills: false,
        },
        new("route through a thousand patterns", few, Vec::new(), encoded(&vec![lost(); 1000]), FAST),
        Kind {
            fills: true,
            ..new("route to a thousand topics and do not read", many, encoded(&vec![spread(); 100]), Vec::new(), FAST)
        },
        Kind {
            fills: true,
            ..new(
                "flood with publishes to as many topics as one may name",
                few,
                Vec::new(),
                encoded(&[broad(PUBLISH_RUNS_MAX)]),
                FAST,
            )
        },
        Kind {
            fills: true,
            ..new("flood with publishes to 256 topics each", few, Vec::new(), encoded(&[broad(256)]), FAST)
        },
    ]
}

/// Requests as bytes.
pub fn encoded(requests: &[Request]) -> Vec<u8> {
    let mut bytes = Vec::new();
    requests.iter().for_each(|request| encode_request(request, 7, &mut bytes));
    bytes
}

fn topic(name: &str) -> TopicName {
    TopicName::try_from(name).unwrap()
}

/// The beginning of one of 4 MiB.
fn slow_frame() -> Vec<u8> {
    let mut frame = Vec::from((4_u32 << 20).to_le_bytes());
    frame.extend([0x11; 5000]);
    frame
}

fn look() -> Request {
    let large = TopicRef { namespace: NamespaceName::default(), name: topic("large") };
    Request::Look { topic: large, which: LookWhich::First(4), group: None }
}

fn publish(namespace: &str, count: usize, body: &[u8]) -> Request {
    let mut message = Vec::new();
    block::push(&mut message, b"", &[], body).unwrap();
    let block = message.repeat(count).into();
    let run = PublishRun { topic: topic("f"), priority: Priority::DEFAULT, delay: Millis::ZERO, ttl: None, block };
    let namespace = NamespaceName::try_from(namespace).unwrap();
    Request::Publish(Publish { namespace, level: Level::None, producer: None, runs: vec![run] })
}

/// One message to each of so many.
fn broad(topics: usize) -> Request {
    let Request::Publish(mut publish) = publish("drizzle", 1, b"z") else { unreachable!("it is one") };
    let run = publish.runs.remove(0);
    publish.runs = (0..topics).map(|at| PublishRun { topic: broad_topic(at), ..run.clone() }).collect();
    Request::Publish(publish)
}

fn broad_topic(at: usize) -> TopicName {
    topic(&format!("broad/{at}"))
}

fn tiny() -> Vec<Request> {
    let mut tiny = vec![publish("drizzle", 1, b"z"); 1000];
    let stats = || Request::Stats { namespace: NamespaceName::default() };
    tiny.iter_mut().step_by(10).for_each(|request| *request = stats());
    tiny
}

/// The exchange that nothing gets through: each of its patterns nearly fits what is published to it.
pub const MAZE: &str = "maze";

/// The exchange that leads everywhere.
pub const DELTA: &str = "delta";

pub fn delta() -> impl Iterator<Item = Binding> {
    (0..BINDINGS_MAX).map(|at| Binding { condition: Condition::Always, target: broad_topic(at) })
}

pub fn maze() -> impl Iterator<Item = Binding> {
    let pattern = |at| format!("#.{}b{at}", "a.".repeat(ROUTING_WORDS_MAX / 2 - 1));
    let condition = move |at| Condition::Key(RoutingKey::try_from(&*pattern(at)).unwrap());
    (0..BINDINGS_MAX).map(move |at| Binding { condition: condition(at), target: topic("nothing") })
}

fn lost() -> Request {
    route("default", MAZE, Level::None)
}

fn spread() -> Request {
    route("drizzle", DELTA, Level::Durable)
}

fn route(namespace: &str, exchange: &str, level: Level) -> Request {
    let mut message = Vec::new();
    block::push(&mut message, b"", &[], b"r").unwrap();
    Request::Route(Route {
        namespace: namespace.try_into().unwrap(),
        level,
        producer: None,
        exchange: exchange.try_into().unwrap(),
        key: RoutingKey::try_from(&*["a"; ROUTING_WORDS_MAX].join(".")).unwrap(),
        priority: Priority::DEFAULT,
        delay: Millis::ZERO,
        ttl: None,
        block: message.into(),
    })
}

fn attach() -> Request {
    Request::Attach(Attach {
        consumer: 1,
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::Topics(vec![topic("bait")]),
        messages: 1_000_000,
        bytes: u64::MAX,
        lease: None,
        at_most_once: false,
    })
}

/// For what never comes. A connection may have so many of these, and is refused the others.
fn wait() -> Request {
    Request::Receive(Receive {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::Topics(vec![topic("nothing")]),
        messages: 10,
        bytes: MIB,
        lease: None,
        wait: Millis::seconds(600),
        at_most_once: false,
        request: None,
    })
}

fn guess() -> Request {
    let receipt = |n: u64| Receipt {
        topic: TopicNumber(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20),
        group: n as u32 % 3,
        lease: LeaseNumber(n.wrapping_mul(0xbf58_476d_1ce4_e5b9)),
    };
    let receipts = (0..10_000).map(|n| (receipt(n), 1)).collect();
    Request::Finish(Finish { verb: FinishVerb::Ack, confirm: true, namespace: None, receipts })
}

/// A connection has one session at a time, so each that was not hit upon is ended. None tries what another one does: it
/// would find that, and close the other's connection.
fn steal(number: usize) -> Vec<Request> {
    let begin = |n: u64| {
        let session = SessionId(n.wrapping_mul(0x94d0_49bb_1331_11eb) | 1);
        Request::SessionBegin { session, resume: Millis::ZERO, held: Vec::new() }
    };
    let numbers = number as u64 * 1000..(number as u64 + 1) * 1000;
    numbers.flat_map(|n| [begin(n), Request::SessionEnd]).collect()
}
