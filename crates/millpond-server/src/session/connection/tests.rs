use millpond_protocol::{Forward, Incoming, Publish, Request as Asked, Response, VERSION, encode_request};

use super::*;
use crate::broker::{Broker, BrokerOptions};
use crate::session::room::SMALL;

mod buffers;
mod ordered;
mod routes;
mod silence;
mod takeover;

const PINGS: u32 = 20_000;
/// Connections that a broker of these tests has at most.
const CLIENTS: usize = 2;
/// All that waits is found where it goes.
const ALL: usize = usize::MAX;

/// A client that connects.
fn connect(broker: &Broker, now: Instant) -> Connection {
    let shared = broker.shared().clone();
    let (known, goodbye) = (shared.registry.connect(CLIENTS).unwrap(), shared.writer.place(FINISHING).unwrap());
    Connection::new(known, (shared.writer.source(), goodbye), shared, now)
}

#[test]
fn nothing_is_read_while_whole_frames_are_left() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    let now = Instant::now();
    let mut connection = connect(&broker, now);
    let mut input = BytesMut::from(&many_pings()[..]);
    let whole = input.capacity();
    assert!(connection.may_read());
    connection.hear((&mut input, whole), 1, now).unwrap();
    assert!(connection.takes_frames() && !connection.may_read(), "not even where it keeps up with its answers");
    drop(connection);
    broker.shutdown().unwrap();
}

/// Sixteen that published to a thousand topics each had all others wait for hundreds of microseconds at each of their turns.
#[test]
fn a_publish_counts_a_frame_for_each_topic() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    let now = Instant::now();
    let mut connection = connect(&broker, now);
    let Asked::Publish(one) = ordered::publish("default") else { unreachable!("it is one") };
    let (some, namespace) = (vec![one.runs[0].clone(); 3], one.namespace.clone());
    let receipts = vec![(ordered::receipt(1), 1)];
    let forward = Asked::Forward(Forward { receipts, namespace, runs: some.clone() });
    let hello = Asked::Hello { version: VERSION, client: String::new() };
    let mut bytes = Vec::new();
    for request in [hello, Asked::Publish(one.clone()), Asked::Publish(Publish { runs: some, ..one }), forward] {
        encode_request(&request, 5, &mut bytes);
    }
    let (whole, mut input) = (bytes.len(), BytesMut::from(&bytes[..]));
    assert_eq!(
        connection.hear((&mut input, whole), 3, now).unwrap(),
        5,
        "all three topics of the one that begins within"
    );
    assert!(connection.has_frames());
    assert_eq!(connection.hear((&mut input, whole), 3, now).unwrap(), 3);
    assert!(!connection.has_frames());
    drop(connection);
    broker.shutdown().unwrap();
}

#[test]
fn who_waits_for_many_answers_asks_for_more_than_little() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    let now = Instant::now();
    let mut connection = connect(&broker, now);
    let mut hears = |request: &Asked| {
        let mut bytes = Vec::new();
        encode_request(request, 5, &mut bytes);
        let whole = bytes.len();
        connection.hear((&mut BytesMut::from(&bytes[..]), whole), 2, now).unwrap();
        connection.submit(ALL).unwrap();
        connection.waits_for_much()
    };
    assert!(!hears(&Asked::Hello { version: VERSION, client: String::new() }));
    // Nothing is told before the connection is asked for it.
    let stats = Asked::Stats { namespace: Default::default() };
    let waits: Vec<bool> = (0..10).map(|_| hears(&stats)).collect();
    assert_eq!(waits.iter().filter(|waits| !**waits).count(), 8, "{waits:?}");
    drop(connection);
    broker.shutdown().unwrap();
}

#[test]
fn who_does_not_read_what_is_answered_at_once_is_not_read_on() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    let (now, all) = (Instant::now(), broker.shared().sending.free());
    let mut connection = connect(&broker, now);
    let mut input = BytesMut::from(&many_pings()[..]);
    let whole = input.capacity();
    let room = connection.shared.sending.try_take(usize::MAX).expect("nobody else has any");
    for _ in 0..100 {
        connection.hear((&mut input, whole), usize::MAX, now).unwrap();
        let waiting = connection.say(now).unwrap().len();
        assert!(waiting <= SMALL, "{waiting} bytes wait of a client that reads nothing");
    }
    assert!(!connection.may_read() && connection.has_frames() && !connection.takes_frames());
    drop(room);
    for _ in 0..100 {
        connection.hear((&mut input, whole), usize::MAX, now).unwrap();
        let waiting = connection.say(now).unwrap().len();
        let free = connection.shared.sending.free();
        assert!(waiting <= SMALL || free + waiting <= all, "{waiting} bytes wait, and {free} of {all} are free");
    }
    // When it reads, it has all of the answers.
    let (mut said, mut decoder, mut expected) = (BytesMut::new(), Decoder::default(), 0);
    while expected <= PINGS {
        let next = connection.say(now).unwrap();
        said.extend_from_slice(next);
        let bytes = next.len();
        assert!(bytes > 0, "{expected} answers, and no more");
        connection.wrote(bytes, now);
        connection.hear((&mut input, whole), usize::MAX, now).unwrap();
        while let Some(Incoming { correlation, frame, .. }) = decoder.next_response(&mut said).unwrap() {
            assert_eq!(correlation, expected);
            let is_refused = matches!(frame, Response::Error { code: Code::UnexpectedFrame, .. });
            assert!(is_refused == (expected > 0 && expected % 2 == 0), "{frame:?}");
            expected += 1;
        }
    }
    assert_eq!(connection.shared.sending.free(), all);
    drop(connection);
    broker.shutdown().unwrap();
}

/// Behind a hello; every other one is of a kind that there is not.
fn many_pings() -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_request(&Asked::Hello { version: VERSION, client: String::new() }, 0, &mut bytes);
    for correlation in 1..=PINGS {
        let at = bytes.len();
        encode_request(&Asked::Ping, correlation, &mut bytes);
        if correlation % 2 == 0 {
            bytes[at + 4] = 0x7f;
        }
    }
    bytes
}
