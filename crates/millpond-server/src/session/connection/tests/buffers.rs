//! What waits keeps no buffer of which it is a small part.

use millpond_core::command::{self, Command};
use millpond_protocol::{Forward, PublishRun};
use millpond_types::{LeaseNumber, NamespaceName, Priority, Receipt, TopicName, TopicNumber, block};

use super::*;
use crate::writer::FORWARDING;

#[test]
fn what_waits_is_copied_where_it_is_a_small_part_of_its_buffer() {
    let directory = tempfile::tempdir().unwrap();
    let broker = Broker::open(directory.path(), BrokerOptions::default()).unwrap();
    let shared = broker.shared().clone();
    let now = Instant::now();
    let mut connection = connect(&broker, now);
    let mut bytes = Vec::new();
    encode_request(&Asked::Hello { version: VERSION, client: String::new() }, 5, &mut bytes);
    let sizes = [100, 100_000, 100];
    sizes.iter().for_each(|size| encode_request(&forward(*size), 5, &mut bytes));
    (0..PINGS).for_each(|_| encode_request(&Asked::Ping, 5, &mut bytes));
    // Forwards wait for a client that does not read.
    let room = shared.sending.try_take(usize::MAX).expect("nobody else has any");
    let mut input = BytesMut::from(&bytes[..]);
    let (buffer, whole) = (input.as_ptr_range(), input.capacity());
    connection.hear((&mut input, whole), usize::MAX, now).unwrap();
    let forwards = |connection: &Connection| -> Vec<command::PublishRun> {
        let waiting = connection.conversation.lanes[FORWARDING].iter().map(|request| match request {
            Request::Command(_, Command::Forward(forward), _) => forward.publish.runs[0].clone(),
            _ => unreachable!("only forwards are there"),
        });
        waiting.collect()
    };
    let is_part = |bytes: &[u8]| buffer.contains(&bytes.as_ptr());
    let before = forwards(&connection);
    assert!(
        before.iter().all(|run| is_part(&run.block) && is_part(run.topic.as_bytes())),
        "what may go on is not copied"
    );
    connection.submit(ALL).unwrap();
    let after = forwards(&connection);
    assert_eq!(after, before, "the same in other places");
    assert_eq!(after.iter().map(|run| is_part(&run.block)).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(after.iter().map(|run| is_part(run.topic.as_bytes())).collect::<Vec<_>>(), [false, true, false]);
    drop((room, connection));
    broker.shutdown().unwrap();
}

fn forward(body: usize) -> Asked {
    let mut block = Vec::new();
    block::push(&mut block, b"", &[], &vec![b'b'; body]).unwrap();
    let run = PublishRun {
        topic: TopicName::try_from("t".repeat(200).as_str()).unwrap(),
        priority: Priority::DEFAULT,
        delay: Default::default(),
        ttl: None,
        block: block.into(),
    };
    let receipt = Receipt { topic: TopicNumber(1), group: 0, lease: LeaseNumber(1) };
    Asked::Forward(Forward { receipts: vec![(receipt, 1)], namespace: NamespaceName::default(), runs: vec![run] })
}
