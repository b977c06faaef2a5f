//! What a client sees of a broker that works as it should: over a real connection, with restarts.

mod wire;

use millpond_protocol::*;
use millpond_types::{Code, FinishOutcome, Millis, OutcomeRun, PublishOutcome, SessionId};
use wire::*;

#[test]
fn publish_receive_ack() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    let outcomes = client.publish("orders/7", &["one", "two"]);
    assert!(matches!(outcomes[..], [OutcomeRun { count: 2, outcome: PublishOutcome::Queued { .. } }]), "{outcomes:?}");
    let leases = client.receive(10, Millis::ZERO);
    assert_eq!(bodies(&leases), ["one", "two"]);
    assert_eq!(leases[0].topic, topic("orders/7"));
    let outcomes = client.ack(leases[0].receipt, 2);
    assert_eq!(outcomes, [OutcomeRun { count: 2, outcome: FinishOutcome::Done }]);
    let again = client.ack(leases[0].receipt, 2);
    assert_eq!(again, [OutcomeRun { count: 2, outcome: FinishOutcome::LeaseLost }]);
    assert!(client.receive(10, Millis::ZERO).is_empty());
    server.shutdown().unwrap();
}

#[test]
fn a_receive_waits_for_its_first_message() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut worker = Client::connect(server.address());
    let waiting = worker.send(Request::Receive(receive(1, Millis::minutes(5))));
    // The answer to the ping shows that the receive was read before the publish is sent.
    assert_eq!(worker.ask(Request::Ping), Response::Pong);
    Client::connect(server.address()).publish("t", &["late"]);
    match worker.answer(waiting) {
        Response::Received(leases) => assert_eq!(bodies(&leases), ["late"]),
        other => panic!("{other:?}"),
    }
    server.shutdown().unwrap();
}

#[test]
fn a_restart_keeps_what_was_confirmed() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    client.publish("t", &["kept", "acked"]);
    let leases = client.receive(2, Millis::ZERO);
    let mut second = leases[0].receipt;
    second.lease.0 += 1;
    client.ack(second, 1);
    let finish = Finish {
        verb: FinishVerb::Release { delay: Millis::ZERO },
        confirm: true,
        namespace: None,
        receipts: vec![(leases[0].receipt, 1)],
    };
    client.ask(Request::Finish(finish));
    server.shutdown().unwrap();
    assert!(matches!(client.closing(), Some(Response::Closing { code: Code::Stopping, .. })));

    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    let leases = client.receive(10, Millis::ZERO);
    assert_eq!(bodies(&leases), ["kept"]);
    assert_eq!(leases[0].deliveries, 2);
    server.shutdown().unwrap();
}

#[test]
fn all_levels_are_stored_and_none_is_never_answered() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    client.send(publish("t", &["none"], Level::None));
    let buffered = client.send(publish("t", &["buffered"], Level::Buffered));
    let durable = client.send(publish("t", &["durable"], Level::Durable));
    let mut answered = vec![client.next().unwrap().0, client.next().unwrap().0];
    answered.sort_unstable();
    assert_eq!(answered, [buffered, durable]);
    assert_eq!(bodies(&client.receive(10, Millis::ZERO)), ["none", "buffered", "durable"]);
    server.shutdown().unwrap();
}

#[test]
fn a_consumer_gets_messages_as_they_come_within_its_credit() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut worker = Client::connect(server.address());
    worker.begin_session(SessionId(0), Vec::new());
    worker.attach(1, 2);
    let mut producer = Client::connect(server.address());
    producer.publish("t", &["a", "b", "c"]);
    let mut got = bodies(&worker.delivery());
    while got.len() < 2 {
        got.extend(bodies(&worker.delivery()));
    }
    assert_eq!(got, ["a", "b"]);
    assert_eq!(producer.stats().waiting, 1, "the third waits for credit");
    worker.send(Request::Credit { consumer: 1, messages: 1, bytes: 1000 });
    assert_eq!(bodies(&worker.delivery()), ["c"]);
    server.shutdown().unwrap();
}

#[test]
fn a_session_is_resumed_with_the_leases_that_are_still_held() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut worker = Client::connect(server.address());
    let (session, resumed) = worker.begin_session(SessionId(0), Vec::new());
    assert!(!resumed);
    worker.attach(1, 2);
    worker.publish("t", &["held", "forgotten"]);
    let mut leases = Vec::new();
    while count(&leases) < 2 {
        leases.extend(worker.delivery());
    }
    let held = leases[0].receipt;
    worker.close();

    let mut worker = Client::connect(server.address());
    let (same, resumed) = worker.begin_session(session, vec![(held, 1)]);
    assert_eq!((same, resumed), (session, true));
    assert_eq!(worker.ack(held, 1)[0].outcome, FinishOutcome::Done);
    worker.attach(1, 10);
    assert_eq!(bodies(&worker.delivery()), ["forgotten"], "it was released at once");
    server.shutdown().unwrap();
}

#[test]
fn an_orderly_end_releases_and_a_lost_session_expires() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut other = Client::connect(server.address());
    other.publish("t", &["x"]);

    let mut worker = Client::connect(server.address());
    worker.begin_session(SessionId(0), Vec::new());
    worker.attach(1, 1);
    worker.delivery();
    assert_eq!(worker.ask(Request::SessionEnd), Response::Done);
    let leases = other.receive(1, Millis::minutes(1));
    assert_eq!((leases[0].deliveries, leases[0].failures), (2, 0), "an orderly end is no failure");
    let release = FinishVerb::Release { delay: Millis::ZERO };
    other.ask(Request::Finish(Finish {
        verb: release,
        confirm: true,
        namespace: None,
        receipts: vec![(leases[0].receipt, 1)],
    }));

    let mut worker = Client::connect(server.address());
    let begin = Request::SessionBegin { session: SessionId(0), resume: Millis(500), held: Vec::new() };
    assert!(matches!(worker.ask(begin), Response::SessionBegun { heartbeat: Millis(500), .. }));
    worker.attach(1, 1);
    worker.delivery();
    worker.close();
    // A fresh directory's back-off is a second; nothing is waited for but the message itself.
    let leases = other.receive(1, Millis::minutes(1));
    assert_eq!((leases[0].deliveries, leases[0].failures), (4, 1), "a lost session is a failure");
    server.shutdown().unwrap();
}

#[test]
fn a_session_without_heartbeats_is_closed() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut worker = Client::connect(server.address());
    worker.ask(Request::SessionBegin { session: SessionId(0), resume: Millis(500), held: Vec::new() });
    match worker.closing() {
        Some(Response::Closing { code: Code::SessionUnknown, detail }) => assert!(detail.contains("heartbeat")),
        other => panic!("{other:?}"),
    }
    server.shutdown().unwrap();
}

#[test]
fn a_receive_that_waits_is_withdrawn_with_its_connection() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut gone = Client::connect(server.address());
    gone.send(Request::Receive(receive(1, Millis::minutes(5))));
    assert_eq!(gone.ask(Request::Ping), Response::Pong);
    gone.close();
    let mut other = Client::connect(server.address());
    let handle = server.handle();
    // The connection is forgotten when its goodbye is on its way, before anything that is sent from here on.
    while handle.connections() > 1 {
        std::thread::yield_now();
    }
    other.publish("t", &["mine"]);
    assert_eq!(bodies(&other.receive(1, Millis::ZERO)), ["mine"]);
    server.shutdown().unwrap();
}

#[test]
fn shutdown_answers_what_was_asked() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    let asked: Vec<u32> = (0..50).map(|_| client.send(publish("t", &["x"; 100], Level::Durable))).collect();
    // The first answer shows that the broker is in the middle of them.
    client.answer(asked[0]);
    let stopping = std::thread::spawn(move || server.shutdown().unwrap());
    let (mut confirmed, mut closing) = (100, None);
    while let Some((_, response)) = client.next() {
        match response {
            Response::Published(outcomes) => confirmed += outcomes.iter().map(|run| run.count).sum::<u32>(),
            Response::Closing { code, .. } => closing = Some(code),
            other => panic!("{other:?}"),
        }
    }
    stopping.join().unwrap();
    assert_eq!(closing, Some(Code::Stopping));

    let server = start(directory.path());
    let stored = Client::connect(server.address()).stats().waiting;
    // What was read was answered; the rest was not stored.
    assert_eq!(stored, u64::from(confirmed));
    server.shutdown().unwrap();
}

#[test]
fn old_messages_are_read_from_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    let long = "x".repeat(100_000);
    for i in 0..5 {
        client.publish("t", &[&format!("{i}{long}"), "short"]);
    }
    server.shutdown().unwrap();
    // After a restart nothing is in memory.
    let server = start(directory.path());
    let mut client = Client::connect(server.address());
    let mut leases = Vec::new();
    while count(&leases) < 10 {
        leases.extend(client.receive(10, Millis::minutes(1)));
    }
    let found = bodies(&leases);
    for i in 0..5 {
        assert!(found[2 * i].starts_with(&i.to_string()) && found[2 * i].len() == 100_001);
        assert_eq!(found[2 * i + 1], "short");
    }
    server.shutdown().unwrap();
}
