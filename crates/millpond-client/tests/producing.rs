//! Producer sessions: nothing is stored twice, whatever is lost.

mod peer;

use millpond_client::{Batch, Code, Error, Level, Message, Outcomes, Producer, ProducerOptions, PublishOutcome};
use millpond_client::{MessageId, OutcomeRun, Priority, ProducerId, Sequence, TopicNumber};
use millpond_protocol::{ProducerBatch, Request, Response};
use peer::{Connection, Peer, bodies, namespace};

fn batch(bodies: &[&str]) -> Batch {
    let message = |body: &&str| Message::new("topic".try_into().unwrap(), (*body).to_owned());
    Batch::try_from(bodies.iter().map(message).collect::<Vec<_>>()).unwrap()
}

fn stored(count: u32, sequence: u64) -> Response {
    let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(sequence) };
    Response::Published(vec![OutcomeRun { count, outcome: PublishOutcome::Queued { id } }])
}

fn first_sequence(outcomes: &Outcomes<PublishOutcome>) -> u64 {
    match outcomes.iter().next() {
        Some(PublishOutcome::Queued { id }) => id.sequence.0,
        other => panic!("{other:?}"),
    }
}

async fn next_batch(connection: &mut Connection) -> (u32, ProducerBatch, Vec<String>) {
    let incoming = connection.next().await;
    let Request::Publish(publish) = incoming.frame else { panic!("{incoming:?}") };
    (incoming.correlation, publish.producer.expect("a producer session numbers its batches"), bodies(&publish))
}

async fn refuse(connection: &mut Connection, correlation: u32, code: Code) {
    connection.reply(correlation, Response::Error { code, detail: "so".to_owned() }).await;
}

#[tokio::test]
async fn batches_whose_confirmation_was_lost_are_sent_again_under_the_same_numbers() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let producer = client.producer(ProducerOptions::new(namespace())).unwrap();
    let a = producer.send(&batch(&["a", "b"])).await.unwrap();
    let b = producer.send(&batch(&["c"])).await.unwrap();
    let c = producer.send(&batch(&["d"])).await.unwrap();

    let (first, number, _) = next_batch(&mut connection).await;
    assert_eq!((number.id, number.instance, number.sequence), (producer.id(), 1, 1));
    assert_eq!(next_batch(&mut connection).await.1.sequence, 2);
    assert_eq!(next_batch(&mut connection).await.1.sequence, 3);
    connection.reply(first, stored(2, 10)).await;
    assert_eq!(first_sequence(&a.await.unwrap()), 10);
    drop(connection);

    let mut connection = peer.accept().await;
    let (second, number, bodies) = next_batch(&mut connection).await;
    assert_eq!((number.instance, number.sequence, bodies), (1, 2, vec!["c".to_owned()]));
    let (third, number, bodies) = next_batch(&mut connection).await;
    assert_eq!((number.instance, number.sequence, bodies), (1, 3, vec!["d".to_owned()]));
    // What is new comes behind, with the next number.
    let d = producer.send(&batch(&["e"])).await.unwrap();
    let (fourth, number, _) = next_batch(&mut connection).await;
    assert_eq!((number.instance, number.sequence), (1, 4));
    for (correlation, sequence) in [(second, 20), (third, 30), (fourth, 40)] {
        connection.reply(correlation, stored(1, sequence)).await;
    }
    for (confirmation, sequence) in [(b, 20), (c, 30), (d, 40)] {
        assert_eq!(first_sequence(&confirmation.await.unwrap()), sequence);
    }
}

#[tokio::test]
async fn a_repeat_spends_no_more_credit_than_the_new_connection_has() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let producer = client.producer(ProducerOptions::new(namespace())).unwrap();
    let body = "x".repeat(1 << 20);
    let large = batch(&[&body[9..], &body[9..], &body[9..], &body[9..]]);
    let mut confirmations = Vec::new();
    for _ in 0..5 {
        let (sent, incoming) = tokio::join!(producer.send(&large), connection.next());
        confirmations.push(sent.unwrap());
        connection.tell(Response::PublishCredit { bytes: incoming.bytes }).await;
    }
    drop(connection);

    let mut connection = peer.accept().await;
    let mut bytes = 0;
    for sequence in 1..=3 {
        let incoming = connection.next().await;
        bytes = incoming.bytes;
        let Request::Publish(publish) = incoming.frame else { panic!("no publish") };
        assert_eq!(publish.producer.unwrap().sequence, sequence);
        connection.reply(incoming.correlation, stored(4, sequence)).await;
    }
    let (pinged, ()) = tokio::join!(client.ping(), async {
        let incoming = connection.next().await;
        assert!(matches!(incoming.frame, Request::Ping), "a repeat without credit");
        connection.reply(incoming.correlation, Response::Pong).await;
    });
    pinged.unwrap();
    connection.tell(Response::PublishCredit { bytes: bytes * 2 }).await;
    for sequence in 4..=5 {
        let (correlation, number, _) = next_batch(&mut connection).await;
        assert_eq!(number.sequence, sequence);
        connection.reply(correlation, stored(4, sequence)).await;
    }
    for (i, confirmation) in confirmations.into_iter().enumerate() {
        assert_eq!(first_sequence(&confirmation.await.unwrap()), i as u64 + 1);
    }
}

#[tokio::test]
async fn sixty_four_batches_are_under_way_and_no_more() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let producer = client.producer(ProducerOptions::new(namespace())).unwrap();
    let mut confirmations = Vec::new();
    for _ in 0..64 {
        confirmations.push(producer.send(&batch(&["x"])).await.unwrap());
    }
    let mut frames = Vec::new();
    for _ in 0..64 {
        frames.push(next_batch(&mut connection).await);
    }
    let one_more = batch(&["y"]);
    let mut waiting = Box::pin(producer.send(&one_more));
    assert!(poll_once(&mut waiting).await.is_none());
    let (pinged, ()) = tokio::join!(client.ping(), async {
        let incoming = connection.next().await;
        assert!(matches!(incoming.frame, Request::Ping), "a 65th batch");
        connection.reply(incoming.correlation, Response::Pong).await;
    });
    pinged.unwrap();
    connection.reply(frames[0].0, stored(1, 1)).await;
    let _confirmation = waiting.await.unwrap();
    assert_eq!(next_batch(&mut connection).await.1.sequence, 65);
}

async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    tokio::select! { biased; output = future => Some(output), () = async {} => None }
}

#[tokio::test]
async fn a_refused_batch_ends_its_instance_and_the_next_one_goes_on() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let producer = client.producer(ProducerOptions::new(namespace())).unwrap();
    let a = producer.send(&batch(&["a"])).await.unwrap();
    let b = producer.send(&batch(&["b"])).await.unwrap();
    let (first, ..) = next_batch(&mut connection).await;
    let (second, ..) = next_batch(&mut connection).await;
    refuse(&mut connection, first, Code::NamespaceUnknown).await;
    refuse(&mut connection, second, Code::SequenceGap).await;
    assert!(matches!(a.await, Err(Error::Refused { code: Code::NamespaceUnknown, .. })));
    assert!(matches!(b.await, Err(Error::Refused { code: Code::SequenceGap, .. })));
    let c = producer.send(&batch(&["c"])).await.unwrap();
    let (third, number, _) = next_batch(&mut connection).await;
    assert_eq!((number.instance, number.sequence, producer.instance()), (2, 1, 2));
    connection.reply(third, stored(1, 7)).await;
    assert_eq!(first_sequence(&c.await.unwrap()), 7);
}

/// Under its numbers another batch would be told what became of an earlier one.
#[tokio::test]
async fn a_refused_batch_of_the_highest_instance_ends_its_producer() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let identity = Some((ProducerId(1), u32::MAX));
    let producer = client.producer(ProducerOptions { identity, ..ProducerOptions::new(namespace()) }).unwrap();
    let a = producer.send(&batch(&["a"])).await.unwrap();
    let (first, ..) = next_batch(&mut connection).await;
    connection.reply(first, stored(1, 7)).await;
    assert_eq!(first_sequence(&a.await.unwrap()), 7);
    let b = producer.send(&batch(&["b"])).await.unwrap();
    let (second, number, _) = next_batch(&mut connection).await;
    assert_eq!((number.instance, number.sequence), (u32::MAX, 2));
    refuse(&mut connection, second, Code::NamespaceUnknown).await;
    assert!(matches!(b.await, Err(Error::Refused { code: Code::NamespaceUnknown, .. })));
    let more = producer.send(&batch(&["c"])).await;
    assert!(matches!(more.map(drop), Err(Error::Invalid(_))));
}

#[tokio::test]
async fn a_fenced_producer_stays_fenced() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let producer = client.producer(ProducerOptions::new(namespace())).unwrap();
    let a = producer.send(&batch(&["a"])).await.unwrap();
    let (first, ..) = next_batch(&mut connection).await;
    refuse(&mut connection, first, Code::ProducerFenced).await;
    let fenced = |result| matches!(result, Err(Error::Refused { code: Code::ProducerFenced, .. }));
    assert!(fenced(a.await.map(drop)));
    assert!(fenced(producer.send(&batch(&["b"])).await.map(drop)));
}

/// Some refusals come before the broker looks whether it has the batch, or from one that has forgotten the session.
#[tokio::test]
async fn a_repeat_is_refused_only_where_the_broker_has_looked_for_it() {
    for (code, is_known) in [
        (Code::SessionUnknown, false),
        (Code::QuotaExceeded, false),
        (Code::NamespaceUnknown, false),
        (Code::LimitExceeded, false),
        (Code::DiskFull, true),
        (Code::SequenceGap, true),
    ] {
        let peer = Peer::new().await;
        let (client, mut connection) = peer.client().await;
        let producer = client.producer(ProducerOptions::new(namespace())).unwrap();
        let a = producer.send(&batch(&["a"])).await.unwrap();
        next_batch(&mut connection).await;
        drop(connection);
        let mut connection = peer.accept().await;
        let (first, ..) = next_batch(&mut connection).await;
        let b = producer.send(&batch(&["b"])).await.unwrap();
        let (second, ..) = next_batch(&mut connection).await;
        refuse(&mut connection, first, code).await;
        refuse(&mut connection, second, code).await;
        match a.await {
            Err(Error::Refused { code: told, .. }) => assert!(is_known && told == code, "{told:?}"),
            Err(Error::Unconfirmed { .. }) => assert!(!is_known, "{code:?}"),
            other => panic!("{other:?}"),
        }
        assert!(
            matches!(b.await, Err(Error::Refused { code: told, .. }) if told == code),
            "it was sent once: {code:?}"
        );
    }
}

#[tokio::test]
async fn a_broker_that_is_stopping_gets_the_batch_after_its_restart() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let producer = client.producer(ProducerOptions::new(namespace())).unwrap();
    let a = producer.send(&batch(&["a"])).await.unwrap();
    let (first, ..) = next_batch(&mut connection).await;
    refuse(&mut connection, first, Code::Stopping).await;
    drop(connection);
    let mut connection = peer.accept().await;
    let (again, number, _) = next_batch(&mut connection).await;
    assert_eq!((number.instance, number.sequence), (1, 1));
    connection.reply(again, stored(1, 3)).await;
    assert_eq!(first_sequence(&a.await.unwrap()), 3);
}

#[tokio::test]
async fn a_closed_client_leaves_nobody_waiting() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let producer: Producer = client.producer(ProducerOptions::new(namespace())).unwrap();
    let a = producer.send(&batch(&["a"])).await.unwrap();
    next_batch(&mut connection).await;
    client.close().await;
    assert!(matches!(a.await, Err(Error::Unconfirmed { .. })));
    assert!(matches!(producer.send(&batch(&["b"])).await.map(drop), Err(Error::Closed { .. })));
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anything_is_sent() {
    let peer = Peer::new().await;
    let (client, _connection) = peer.client().await;
    let options = ProducerOptions { level: Level::None, ..ProducerOptions::new(namespace()) };
    assert!(matches!(client.producer(options).map(drop), Err(Error::Invalid(_))));
}
