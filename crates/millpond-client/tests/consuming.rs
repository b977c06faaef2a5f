//! Subscriptions: credit, the session's life across connections, and what becomes of leases.

mod peer;

use std::time::Duration;

use bytes::Bytes;
use millpond_client::{
    ClientOptions, Code, Error, Event, FinishOutcome, FinishVerb, Message, Millis, OutcomeRun, Receipts,
    ReceiveOptions, Subscription,
};
use millpond_protocol::{Request, Response};
use millpond_types::SessionId;
use peer::{
    Connection, Peer, SESSION, done, forwarded, leased, namespace, next_finish, receipt, subscribed,
    subscribed_with_heartbeats, window,
};

async fn body(subscription: &mut Subscription) -> Bytes {
    subscription.next().await.unwrap().body
}

#[tokio::test]
async fn deliveries_come_one_by_one_or_in_batches_and_are_acked_as_runs() {
    let peer = Peer::new().await;
    let (client, mut connection, mut subscription) = subscribed(&peer, window(100)).await;
    connection
        .tell(Response::Delivery {
            consumer: 1,
            epoch: None,
            leases: vec![leased(1, &["a", "b", "c"]), leased(8, &["d"])],
        })
        .await;
    assert_eq!(body(&mut subscription).await, "a");
    let batch = subscription.next_batch(2).await.unwrap();
    let receipts = batch.receipts();
    assert_eq!(batch.map(|delivery| delivery.body).collect::<Vec<_>>(), ["b", "c"]);
    assert_eq!(subscription.next_batch(10).await.unwrap().len(), 1);
    assert!(client.is_current(&receipt(2)) && client.is_current(&receipt(8)) && !client.is_current(&receipt(4)));

    let (outcomes, ()) = tokio::join!(client.ack(receipts), async {
        let (correlation, finish) = next_finish(&mut connection).await;
        assert_eq!((finish.verb, finish.confirm, finish.receipts), (FinishVerb::Ack, true, vec![(receipt(2), 2)]));
        done(&mut connection, correlation, 2).await;
    });
    assert_eq!(outcomes.unwrap().iter().collect::<Vec<_>>(), [FinishOutcome::Done, FinishOutcome::Done]);
    assert!(!client.is_current(&receipt(2)) && client.is_current(&receipt(1)));

    client.ack_unconfirmed(receipt(1)).await.unwrap();
    let (_, finish) = next_finish(&mut connection).await;
    assert_eq!((finish.confirm, finish.receipts), (false, vec![(receipt(1), 1)]));
}

#[tokio::test]
async fn credit_comes_back_as_deliveries_are_finished() {
    let peer = Peer::new().await;
    let (client, mut connection, mut subscription) = subscribed(&peer, window(8)).await;
    let run = leased(1, &["a", "b", "c", "d", "e", "f", "g", "h"]);
    let bytes = run.block.len() as u64;
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![run] }).await;
    assert_eq!(subscription.next_batch(8).await.unwrap().len(), 8);
    // A quarter of the window is given back at a time: one ack alone brings nothing.
    for lease in 1..=3 {
        client.ack_unconfirmed(receipt(lease)).await.unwrap();
    }
    next_finish(&mut connection).await;
    next_finish(&mut connection).await;
    let credit = connection.next().await;
    assert_eq!(credit.frame, Request::Credit { consumer: 1, messages: 2, bytes: bytes / 8 * 2 });
    next_finish(&mut connection).await;
    // A handler that is let go frees its place; finishing it later does not free it twice.
    client.let_go(receipt(4));
    let credit = connection.next().await;
    assert_eq!(credit.frame, Request::Credit { consumer: 1, messages: 2, bytes: bytes / 8 * 2 });
    client.ack_unconfirmed(receipt(4)).await.unwrap();
    next_finish(&mut connection).await;
    let mut rest = Receipts::default();
    rest.push_run(receipt(5), 4);
    client.ack_unconfirmed(rest).await.unwrap();
    next_finish(&mut connection).await;
    let credit = connection.next().await;
    assert_eq!(credit.frame, Request::Credit { consumer: 1, messages: 4, bytes: bytes / 8 * 4 });
}

#[tokio::test]
async fn a_session_is_resumed_with_what_it_holds_and_deliveries_go_on() {
    let peer = Peer::new().await;
    let (client, mut connection, mut subscription) = subscribed(&peer, window(10)).await;
    connection
        .tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(1, &["a", "b", "c", "d"])] })
        .await;
    assert_eq!(body(&mut subscription).await, "a");
    client.ack_unconfirmed(receipt(1)).await.unwrap();
    next_finish(&mut connection).await;
    let mut events = client.events();
    drop(connection);
    assert!(matches!(events.recv().await.unwrap(), Event::Disconnected { .. }));
    // While the session may be lost nothing is handed out, though three are here.
    assert!(poll_once(subscription.next()).await.is_none());

    let mut connection = peer.accept().await;
    let begin = connection.next().await;
    let held = vec![(receipt(2), 3)];
    assert_eq!(begin.frame, Request::SessionBegin { session: SESSION, resume: Millis::ZERO, held });
    // An ack that is made now goes behind what was said to be held.
    let (acked, attach) = tokio::join!(client.ack(receipt(2)), async {
        let (correlation, _) = next_finish(&mut connection).await;
        done(&mut connection, correlation, 1).await;
        connection.begun(begin.correlation, SESSION, true).await;
        connection.attach().await
    });
    assert_eq!(acked.unwrap().done(), 1);
    let two = leased(3, &["c", "d"]).block.len() as u64;
    assert_eq!((attach.messages, attach.bytes), (10 - 2, window(10).bytes - two));
    assert_eq!(body(&mut subscription).await, "b");
    assert_eq!(body(&mut subscription).await, "c");
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(5, &["e"])] }).await;
    assert_eq!(body(&mut subscription).await, "d");
    assert_eq!(body(&mut subscription).await, "e");
}

async fn poll_once<F: Future>(future: F) -> Option<F::Output> {
    tokio::select! { biased; output = future => Some(output), () = async {} => None }
}

#[tokio::test]
async fn deliveries_of_a_lost_session_are_not_handed_out() {
    let peer = Peer::new().await;
    let (client, mut connection, mut subscription) = subscribed(&peer, window(10)).await;
    let mut events = client.events();
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(1, &["a", "b"])] }).await;
    assert_eq!(body(&mut subscription).await, "a");
    drop(connection);

    let mut connection = peer.accept().await;
    let first = receipt(1);
    let (attach, ()) = tokio::join!(connection.begin_session(SessionId(8), false), client.lease_lost(&first));
    assert_eq!(attach.messages, 10);
    assert!(!client.is_current(&receipt(1)) && !client.is_current(&receipt(2)));
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(9, &["b"])] }).await;
    let delivery = subscription.next().await.unwrap();
    assert_eq!((delivery.receipt, &delivery.body[..]), (receipt(9), &b"b"[..]));
    let lost = loop {
        if let Event::SessionLost { leases } = events.recv().await.unwrap() {
            break leases;
        }
    };
    assert_eq!(lost, 2);
}

#[tokio::test]
async fn a_session_that_expires_on_a_live_connection_is_begun_anew() {
    let peer = Peer::new().await;
    let (client, mut connection, mut subscription) = subscribed(&peer, window(10)).await;
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(1, &["a"])] }).await;
    connection.tell(Response::SessionExpired).await;
    let begin = connection.next().await;
    let fresh = Request::SessionBegin { session: SessionId::default(), resume: Millis::ZERO, held: Vec::new() };
    assert_eq!(begin.frame, fresh);
    connection.begun(begin.correlation, SessionId(8), false).await;
    connection.attach().await;
    assert!(!client.is_current(&receipt(1)));
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(2, &["a"])] }).await;
    assert_eq!(subscription.next().await.unwrap().receipt, receipt(2));
}

#[tokio::test]
async fn heartbeats_leave_out_what_was_let_go() {
    let peer = Peer::new().await;
    let (client, mut connection, mut subscription) = subscribed_with_heartbeats(&peer, window(10)).await;
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(1, &["a", "b"])] }).await;
    subscription.next_batch(2).await.unwrap();
    assert_eq!(next_heartbeat(&mut connection).await, []);
    client.let_go(receipt(2));
    while next_heartbeat(&mut connection).await != [receipt(2)] {}
}

async fn next_heartbeat(connection: &mut Connection) -> Vec<millpond_client::Receipt> {
    loop {
        let incoming = connection.next().await;
        match incoming.frame {
            Request::Heartbeat { except } => return except,
            Request::Ping => connection.reply(incoming.correlation, Response::Pong).await,
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_dropped_subscription_detaches_and_releases_what_it_did_not_hand_out() {
    let peer = Peer::new().await;
    let (_client, mut connection, mut subscription) = subscribed(&peer, window(10)).await;
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(1, &["a", "b", "c"])] }).await;
    assert_eq!(body(&mut subscription).await, "a");
    drop(subscription);
    assert_eq!(connection.next().await.frame, Request::Detach { consumer: 1 });
    let (_, finish) = next_finish(&mut connection).await;
    assert_eq!((finish.verb, finish.receipts), (FinishVerb::Release { delay: Millis::ZERO }, vec![(receipt(2), 2)]));
    // What was on its way meanwhile goes back too.
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(4, &["d"])] }).await;
    let (_, finish) = next_finish(&mut connection).await;
    assert_eq!(finish.receipts, [(receipt(4), 1)]);
}

#[tokio::test]
async fn a_refused_subscription_is_an_error_and_a_lost_lease_an_outcome() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let (refused, ()) = tokio::join!(client.subscribe(window(10)), async {
        let begin = connection.next().await;
        connection.begun(begin.correlation, SESSION, false).await;
        let attach = connection.next().await;
        let detail = "create it".to_owned();
        connection.reply(attach.correlation, Response::Error { code: Code::NamespaceUnknown, detail }).await;
    });
    assert!(matches!(refused.err(), Some(Error::Refused { code: Code::NamespaceUnknown, .. })));
    assert!(matches!(client.subscribe(window(0)).await.err(), Some(Error::Invalid(_))));

    let (outcomes, ()) = tokio::join!(client.extend(receipt(1), Some(Duration::from_secs(5))), async {
        let (correlation, finish) = next_finish(&mut connection).await;
        assert_eq!(finish.verb, FinishVerb::Extend { lease: Some(Millis::seconds(5)) });
        let outcomes = vec![OutcomeRun { count: 1, outcome: FinishOutcome::LeaseLost }];
        connection.reply(correlation, Response::Finished(outcomes)).await;
    });
    assert_eq!(outcomes.unwrap().lost(), 1);
}

#[tokio::test]
async fn an_extend_that_finds_its_lease_lost_tells_the_handler() {
    let peer = Peer::new().await;
    let (client, mut connection, mut subscription) = subscribed(&peer, window(1)).await;
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(1, &["a"])] }).await;
    let delivery = subscription.next().await.unwrap();
    let broker = async {
        let (correlation, _) = next_finish(&mut connection).await;
        let outcomes = vec![OutcomeRun { count: 1, outcome: FinishOutcome::LeaseLost }];
        connection.reply(correlation, Response::Finished(outcomes)).await;
        assert!(matches!(connection.next().await.frame, Request::Credit { messages: 1, .. }));
    };
    let (extended, (), ()) = tokio::join!(client.extend(&delivery, None), client.lease_lost(&delivery.receipt), broker);
    assert_eq!(extended.unwrap().lost(), 1);
}

/// All that knows of it goes on as before: the handler, the heartbeats, and a session that is resumed.
#[tokio::test]
async fn a_lease_that_a_refused_forward_leaves_is_held_as_before() {
    let peer = Peer::new().await;
    let (client, mut connection, mut subscription) = subscribed_with_heartbeats(&peer, window(10)).await;
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(1, &["a", "b"])] }).await;
    let delivery = subscription.next().await.unwrap();
    let (to, output) = (namespace(), Message::new("out".try_into().unwrap(), "of a"));
    let (answer, ()) = tokio::join!(client.forward(&delivery, &to, vec![output]), async {
        let incoming = loop {
            let incoming = connection.next().await;
            if !matches!(incoming.frame, Request::Heartbeat { .. }) {
                break incoming;
            }
        };
        assert!(matches!(incoming.frame, Request::Forward(_)), "{incoming:?}");
        connection.reply(incoming.correlation, forwarded(FinishOutcome::Kept)).await;
    });
    assert_eq!(answer.unwrap().refusal(), Some((Code::TopicFull, "full")));
    assert!(client.is_current(&delivery.receipt));
    assert!(poll_once(client.lease_lost(&delivery.receipt)).await.is_none());
    client.let_go(&delivery);
    while next_heartbeat(&mut connection).await != [receipt(1)] {}
    drop(connection);
    let mut connection = peer.accept().await;
    let begin = connection.next().await;
    let held = vec![(receipt(1), 1), (receipt(2), 1)];
    assert_eq!(begin.frame, Request::SessionBegin { session: SESSION, resume: Millis::ZERO, held });
}

#[tokio::test]
async fn what_a_refused_finish_gave_back_too_soon_is_not_given_twice() {
    let peer = Peer::new().await;
    let (client, mut connection, mut subscription) = subscribed(&peer, window(4)).await;
    let run = leased(1, &["a", "b", "c", "d"]);
    let bytes = run.block.len() as u64 / 4;
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![run] }).await;
    subscription.next_batch(4).await.unwrap();
    let one = || Request::Credit { consumer: 1, messages: 1, bytes };
    let (acked, ()) = tokio::join!(client.ack(Receipts::from(receipt(1)).within(namespace())), async {
        let (correlation, _) = next_finish(&mut connection).await;
        // In front of the answer, so that the next message is on its way while the ack is made durable.
        assert_eq!(connection.next().await.frame, one());
        let detail = "of another namespace".to_owned();
        connection.reply(correlation, Response::Error { code: Code::ArgumentInvalid, detail }).await;
    });
    assert!(matches!(acked, Err(Error::Refused { code: Code::ArgumentInvalid, .. })));
    assert!(client.is_current(&receipt(1)));
    // One more is out than the window says, until the next one is finished.
    client.ack_unconfirmed(receipt(2)).await.unwrap();
    client.ack_unconfirmed(receipt(1)).await.unwrap();
    assert_eq!(next_finish(&mut connection).await.1.receipts, [(receipt(2), 1)]);
    assert_eq!(next_finish(&mut connection).await.1.receipts, [(receipt(1), 1)]);
    assert_eq!(connection.next().await.frame, one());
}

/// The broker takes back what it has not finished, and the caller was told that nobody knows.
#[tokio::test]
async fn what_was_being_finished_on_a_lost_connection_is_held_no_more() {
    let peer = Peer::new().await;
    let (client, mut connection, mut subscription) = subscribed(&peer, window(4)).await;
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(1, &["a", "b"])] }).await;
    subscription.next_batch(2).await.unwrap();
    let (acked, begin) = tokio::join!(client.ack(receipt(1)), async {
        next_finish(&mut connection).await;
        assert!(client.is_current(&receipt(1)), "it may still be refused");
        drop(connection);
        let mut connection = peer.accept().await;
        connection.next().await
    });
    assert!(matches!(acked, Err(Error::Unconfirmed { .. })));
    let held = vec![(receipt(2), 1)];
    assert_eq!(begin.frame, Request::SessionBegin { session: SESSION, resume: Millis::ZERO, held });
    assert!(!client.is_current(&receipt(1)));
}

fn damaged() -> Response {
    Response::Error { code: Code::Damaged, detail: "all of it".to_owned() }
}

#[tokio::test]
async fn a_receive_of_which_all_is_damaged_is_asked_again_until_its_time_is_over() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let options = ReceiveOptions { wait: Duration::from_secs(60), ..ReceiveOptions::new(namespace()) };
    let (received, ()) = tokio::join!(client.receive(options), async {
        let mut before = Millis::seconds(61);
        for _ in 0..3 {
            let incoming = connection.next().await;
            let Request::Receive(receive) = &incoming.frame else { panic!("{incoming:?}") };
            assert!(receive.wait < before, "no longer than what is left of it");
            before = receive.wait;
            tokio::time::sleep(Duration::from_millis(3)).await;
            connection.reply(incoming.correlation, damaged()).await;
        }
        let incoming = connection.next().await;
        connection.reply(incoming.correlation, Response::Received(vec![leased(1, &["a"])])).await;
    });
    assert_eq!(received.unwrap().next().unwrap().body, "a");

    let options = ClientOptions { request_timeout: Duration::from_millis(500), ..peer.options() };
    let (client, mut connection) = peer.client_with(options).await;
    let told = tokio::select! {
        received = client.receive(ReceiveOptions::new(namespace())) => received.unwrap_err(),
        () = async {
            loop {
                let incoming = connection.next().await;
                tokio::time::sleep(Duration::from_millis(10)).await;
                connection.reply(incoming.correlation, damaged()).await;
            }
        } => unreachable!("it is refused for ever"),
    };
    assert!(matches!(told, Error::Refused { code: Code::Damaged, .. }), "{told}");
}

#[tokio::test]
async fn whoever_receives_at_most_once_or_from_a_disk_that_gives_nothing_is_told() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let refused = |code| Response::Error { code, detail: String::new() };
    for (at_most_once, code) in [(true, Code::Damaged), (false, Code::Unreadable), (true, Code::Unreadable)] {
        let wait = Duration::from_secs(60);
        let options = ReceiveOptions { wait, at_most_once, ..ReceiveOptions::new(namespace()) };
        let (received, ()) = tokio::join!(client.receive(options), async {
            let incoming = connection.next().await;
            connection.reply(incoming.correlation, refused(code)).await;
        });
        let told = received.unwrap_err();
        assert!(matches!(&told, Error::Refused { code: why, .. } if *why == code), "{told}");
    }
}

#[tokio::test]
async fn a_receive_waits_beyond_the_request_timeout() {
    let peer = Peer::new().await;
    let options = ClientOptions { request_timeout: Duration::from_millis(40), ..peer.options() };
    let (client, mut connection) = peer.client_with(options).await;
    let receive = |wait| ReceiveOptions { wait, ..ReceiveOptions::new(namespace()) };
    let (received, ()) = tokio::join!(client.receive(receive(Duration::from_secs(60))), async {
        let incoming = connection.next().await;
        assert!(matches!(&incoming.frame, Request::Receive(r) if r.wait == Millis::seconds(60)), "{incoming:?}");
        tokio::time::sleep(Duration::from_millis(80)).await;
        connection.reply(incoming.correlation, Response::Received(vec![leased(1, &["a"])])).await;
    });
    assert_eq!(received.unwrap().next().unwrap().body, "a");
    let timed_out = client.receive(receive(Duration::ZERO)).await.unwrap_err();
    assert!(matches!(timed_out, Error::Timeout { what: "receive", .. }), "{timed_out}");
}
