//! What ends leases comes to the writer in the order in which the client sent it, though some of it has to wait.

use millpond_protocol::{Finish, FinishVerb, Forward, PublishRun};
use millpond_types::{LeaseNumber, NamespaceName, Priority, Receipt, TopicName, TopicNumber, block};

use super::*;
use crate::writer::{BURYING, FORWARDING};

#[test]
fn a_forward_waits_for_what_was_finished_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    let shared = broker.shared().clone();
    let (known, goodbye) = (shared.registry.connect(1).unwrap(), shared.writer.place(FINISHING).unwrap());
    let now = Instant::now();
    let mut connection = Connection::new(known, (shared.writer.source(), goodbye), shared.clone(), now);
    let mut input = BytesMut::new();
    let mut sent = |request: Asked| {
        let mut bytes = Vec::new();
        encode_request(&request, 5, &mut bytes);
        input.extend_from_slice(&bytes);
    };
    sent(Asked::Hello { version: VERSION, client: String::new() });
    sent(finish(1, FinishVerb::Ack));
    sent(finish(2, FinishVerb::Reject { reason: "why".into() }));
    sent(forward(3));
    // It is behind with the answers to these, so that nothing of it is finished until it reads.
    (0..PINGS).for_each(|_| sent(Asked::Ping));
    let room = shared.sending.try_take(usize::MAX).expect("nobody else has any");
    connection.hear(&mut input, usize::MAX, now).unwrap();
    connection.submit().unwrap();
    let waiting = |connection: &Connection| {
        [FINISHING, BURYING, FORWARDING].map(|lane| connection.conversation.lanes[lane].len())
    };
    assert_eq!(waiting(&connection), [1, 1, 1]);
    drop(room);
    while connection.conversation.is_behind() {
        let bytes = connection.say(now).unwrap().len();
        connection.wrote(bytes, now);
    }
    connection.submit().unwrap();
    assert_eq!(waiting(&connection), [0, 0, 0]);
    drop(connection);
    broker.shutdown().unwrap();
}

/// Its answer may be a thousand times as large as it is.
#[test]
fn a_forward_waits_while_its_client_does_not_read() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    let shared = broker.shared().clone();
    let (known, goodbye) = (shared.registry.connect(1).unwrap(), shared.writer.place(FINISHING).unwrap());
    let now = Instant::now();
    let mut connection = Connection::new(known, (shared.writer.source(), goodbye), shared.clone(), now);
    let mut bytes = Vec::new();
    encode_request(&Asked::Hello { version: VERSION, client: String::new() }, 0, &mut bytes);
    (0..3).for_each(|lease| encode_request(&forward(lease), 5, &mut bytes));
    (0..PINGS).for_each(|_| encode_request(&Asked::Ping, 5, &mut bytes));
    let room = shared.sending.try_take(usize::MAX).expect("nobody else has any");
    connection.hear(&mut BytesMut::from(&bytes[..]), usize::MAX, now).unwrap();
    connection.submit().unwrap();
    assert_eq!(connection.conversation.lanes[FORWARDING].len(), 3);
    drop(room);
    while connection.conversation.is_behind() {
        let bytes = connection.say(now).unwrap().len();
        connection.wrote(bytes, now);
    }
    connection.submit().unwrap();
    assert_eq!(connection.conversation.lanes[FORWARDING].len(), 0);
    drop(connection);
    broker.shutdown().unwrap();
}

fn receipt(lease: u64) -> Receipt {
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
