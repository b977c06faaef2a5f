//! What ends leases comes to the writer in the order in which the client sent it, though some of it has to wait.

use std::task::Waker;

use millpond_core::output::Notice;
use millpond_protocol::{Finish, FinishVerb, Forward, Level, Publish, PublishRun};
use millpond_types::{LeaseNumber, NamespaceName, Priority, Receipt, TopicName, TopicNumber, block};

use super::*;
use crate::writer::{BURYING, FORWARDING, PUBLISHING};

#[test]
fn a_forward_waits_for_what_was_finished_before_it() {
    let reject = FinishVerb::Reject { reason: "why".into() };
    wait_until_the_client_reads(vec![finish(1, FinishVerb::Ack), finish(2, reject), forward(3)], [1, 1, 1]);
}

/// Its answer may be a thousand times as large as it is.
#[test]
fn a_forward_waits_while_its_client_does_not_read() {
    wait_until_the_client_reads((0..3).map(forward).collect(), [0, 0, 3]);
}

/// What waits for a start waits here, and nobody else waits for it.
#[test]
fn what_is_published_to_a_namespace_waits_for_the_start_of_a_group_and_nothing_else_does() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    let now = Instant::now();
    let known = broker.shared().known.clone();
    let held = |namespaces: Vec<NamespaceName>| known.note(Notice::Held(namespaces));
    let [mut both, mut other] = [(); 2].map(|()| connect(&broker, now));
    held(vec!["slow".try_into().unwrap()]);
    let asks = |connection: &mut Connection, namespaces: &[&str]| {
        let mut bytes = Vec::new();
        encode_request(&Asked::Hello { version: VERSION, client: String::new() }, 5, &mut bytes);
        namespaces.iter().for_each(|namespace| encode_request(&publish(namespace), 5, &mut bytes));
        connection.hear((&mut BytesMut::from(&bytes[..]), bytes.len()), usize::MAX, now).unwrap();
    };
    let waiting = |connection: &mut Connection| {
        connection.submit(ALL).unwrap();
        connection.note_reading(true, now);
        connection.conversation.lanes[PUBLISHING].len()
    };
    asks(&mut both, &["quick", "slow", "quick"]);
    assert_eq!(waiting(&mut both), 2, "what comes behind it waits with it");
    assert_eq!(both.deadline(true), now + LOOKS_AGAIN);
    let waits = |connection: &mut Connection| connection.poll(&mut Context::from_waker(Waker::noop())).is_pending();
    assert!(waits(&mut both), "there is room, but not for it");
    asks(&mut other, &["quick", "quick"]);
    assert_eq!(waiting(&mut other), 0);
    assert_ne!(other.deadline(true), now + LOOKS_AGAIN);
    held(Vec::new());
    assert_eq!(waiting(&mut both), 0, "as soon as it looks again");
    drop((both, other));
    broker.shutdown().unwrap();
}

/// So many of these wait, lane by lane, while their client is behind with answers, and none once it has read them.
fn wait_until_the_client_reads(asked: Vec<Asked>, waiting: [usize; 3]) {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    let shared = broker.shared().clone();
    let now = Instant::now();
    let mut connection = connect(&broker, now);
    let mut bytes = Vec::new();
    encode_request(&Asked::Hello { version: VERSION, client: String::new() }, 5, &mut bytes);
    asked.iter().for_each(|request| encode_request(request, 5, &mut bytes));
    (0..PINGS).for_each(|_| encode_request(&Asked::Ping, 5, &mut bytes));
    let room = shared.sending.try_take(usize::MAX).expect("nobody else has any");
    connection.hear((&mut BytesMut::from(&bytes[..]), bytes.len()), usize::MAX, now).unwrap();
    connection.submit(ALL).unwrap();
    let waits = |connection: &Connection| {
        [FINISHING, BURYING, FORWARDING].map(|lane| connection.conversation.lanes[lane].len())
    };
    assert_eq!(waits(&connection), waiting);
    drop(room);
    while connection.conversation.is_behind() {
        let bytes = connection.say(now).unwrap().len();
        connection.wrote(bytes, now);
    }
    connection.submit(ALL).unwrap();
    assert_eq!(waits(&connection), [0, 0, 0]);
    drop(connection);
    broker.shutdown().unwrap();
}

pub(super) fn publish(namespace: &str) -> Asked {
    let mut block = Vec::new();
    block::push(&mut block, b"", &[], b"m").unwrap();
    let topic = TopicName::try_from("t").unwrap();
    let (priority, delay, ttl) = (Priority::DEFAULT, Default::default(), None);
    let runs = vec![PublishRun { topic, priority, delay, ttl, block: block.into() }];
    let namespace = NamespaceName::try_from(namespace).unwrap();
    Asked::Publish(Publish { namespace, level: Level::Durable, producer: None, runs })
}

pub(super) fn receipt(lease: u64) -> Receipt {
    Receipt { topic: TopicNumber(1), group: 0, lease: LeaseNumber(lease) }
}

fn finish(lease: u64, verb: FinishVerb) -> Asked {
    Asked::Finish(Finish { verb, confirm: true, namespace: None, receipts: vec![(receipt(lease), 1)] })
}

fn forward(lease: u64) -> Asked {
    let mut block = Vec::new();
    block::push(&mut block, b"", &[], b"output").unwrap();
    let run = PublishRun {
        topic: TopicName::try_from("t").unwrap(),
        priority: Priority::DEFAULT,
        delay: Default::default(),
        ttl: None,
        block: block.into(),
    };
    let (receipts, namespace) = (vec![(receipt(lease), 1)], NamespaceName::default());
    Asked::Forward(Forward { receipts, namespace, runs: vec![run] })
}
