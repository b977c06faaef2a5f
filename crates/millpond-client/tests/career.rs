//! The career of a leader: what the broker tells it, what it is given when, and what becomes of what it has.

mod peer;

use std::time::Duration;

use millpond_client::{Career, Client, FinishVerb, LeaderEpoch, Millis, Role, Standing, SubscribeOptions};
use millpond_protocol::{Request, Response};
use millpond_types::SessionId;
use peer::{Connection, Peer, leased, namespace, receipt, window};

async fn begun(peer: &Peer) -> (Client, Connection, Career) {
    let (client, mut connection) = peer.client().await;
    let options = SubscribeOptions::new(namespace());
    let (career, _) = tokio::join!(Career::begin(&client, options), connection.begin_session(SessionId(7), false));
    (client, connection, career.unwrap())
}

async fn told(connection: &mut Connection, role: Role, epoch: u64) {
    let (term, handover) = (Millis::seconds(3600), Millis::seconds(3600));
    let standing = Standing { role, epoch: LeaderEpoch(epoch), term, handover };
    connection.tell(Response::Standing { consumer: 1, standing }).await;
}

async fn delivered(connection: &mut Connection, epoch: u64, lease: u64, bodies: &[&str]) {
    let epoch = Some(LeaderEpoch(epoch));
    connection.tell(Response::Delivery { consumer: 1, epoch, leases: vec![leased(lease, bodies)] }).await;
}

/// The next frame, which has to give leases back.
async fn released(connection: &mut Connection) -> Vec<(millpond_client::Receipt, u32)> {
    let incoming = connection.next().await;
    let Request::Finish(finish) = incoming.frame else { panic!("{incoming:?}") };
    assert_eq!(finish.verb, FinishVerb::Release { delay: Millis::ZERO });
    finish.receipts
}

#[tokio::test]
async fn a_leader_works_in_its_office_and_gives_back_what_it_has_not_seen() {
    let peer = Peer::new().await;
    let (client, mut connection, mut career) = begun(&peer).await;
    told(&mut connection, Role::Candidate, 4).await;
    told(&mut connection, Role::Inaugurate, 5).await;
    assert_eq!(career.inaugurated().await.unwrap(), LeaderEpoch(5));

    told(&mut connection, Role::Lead, 5).await;
    delivered(&mut connection, 5, 1, &["a", "b", "c"]).await;
    let delivery = career.next().await.unwrap().unwrap();
    assert_eq!((&delivery.body[..], delivery.epoch), (&b"a"[..], Some(LeaderEpoch(5))));

    // What is in work stays, the rest goes to the next one.
    told(&mut connection, Role::Deposed, 5).await;
    while career.role() != Some(Role::Deposed) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(career.next().await.unwrap(), None);
    assert_eq!(released(&mut connection).await, [(receipt(2), 2)]);
    assert!(client.is_current(&receipt(1)) && !client.is_current(&receipt(2)));

    // The hand-over is up: whoever works on it learns that it is lost.
    let (first, lost) = (receipt(1), client.clone());
    let lost = tokio::spawn(async move { lost.lease_lost(&first).await });
    told(&mut connection, Role::Candidate, 6).await;
    lost.await.unwrap();

    told(&mut connection, Role::Lead, 7).await;
    assert_eq!(career.inaugurated().await.unwrap(), LeaderEpoch(7));
    delivered(&mut connection, 7, 9, &["a"]).await;
    assert_eq!(career.next().await.unwrap().unwrap().epoch, Some(LeaderEpoch(7)));
}

#[tokio::test]
async fn a_leader_that_takes_its_own_office_again_learns_that_what_it_had_is_lost() {
    let peer = Peer::new().await;
    let (client, mut connection) = peer.client().await;
    let (career, _) = tokio::join!(Career::begin(&client, window(1)), connection.begin_session(SessionId(7), false));
    let mut career = career.unwrap();
    told(&mut connection, Role::Lead, 1).await;
    assert_eq!(career.inaugurated().await.unwrap(), LeaderEpoch(1));
    delivered(&mut connection, 1, 1, &["a"]).await;
    assert_eq!(&career.next().await.unwrap().unwrap().body[..], b"a");

    // Nobody else wants the office. What is in work may be finished until the hand-over is up.
    told(&mut connection, Role::Deposed, 1).await;
    told(&mut connection, Role::Inaugurate, 2).await;
    assert_eq!(career.inaugurated().await.unwrap(), LeaderEpoch(2));
    assert!(client.is_current(&receipt(1)));

    told(&mut connection, Role::Lead, 2).await;
    let (first, patience) = (receipt(1), Duration::from_secs(10));
    tokio::time::timeout(patience, client.lease_lost(&first))
        .await
        .expect("whoever works on it learns that it is lost");
    let credit = connection.next().await;
    assert!(matches!(credit.frame, Request::Credit { consumer: 1, messages: 1, .. }), "{credit:?}");

    // On another connection it is told so once more, and keeps what it has.
    delivered(&mut connection, 2, 2, &["a"]).await;
    assert_eq!(&career.next().await.unwrap().unwrap().body[..], b"a");
    drop(connection);
    let mut connection = peer.accept().await;
    connection.begin_session(SessionId(7), true).await;
    told(&mut connection, Role::Lead, 2).await;
    delivered(&mut connection, 2, 3, &["b"]).await;
    assert_eq!(&career.next().await.unwrap().unwrap().body[..], b"b");
    assert!(client.is_current(&receipt(2)));
}

#[tokio::test]
async fn what_was_not_seen_of_an_office_is_given_back_though_its_loss_was_not_told() {
    let peer = Peer::new().await;
    let (client, mut connection, mut career) = begun(&peer).await;
    told(&mut connection, Role::Lead, 1).await;
    assert_eq!(career.inaugurated().await.unwrap(), LeaderEpoch(1));
    delivered(&mut connection, 1, 1, &["a", "b"]).await;
    while !client.is_current(&receipt(2)) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // The office is lost while the connection is.
    drop(connection);
    let mut connection = peer.accept().await;
    connection.begin_session(SessionId(7), true).await;
    told(&mut connection, Role::Inaugurate, 2).await;
    assert_eq!(released(&mut connection).await, [(receipt(1), 2)]);
    assert_eq!(career.inaugurated().await.unwrap(), LeaderEpoch(2));
    told(&mut connection, Role::Lead, 2).await;
    delivered(&mut connection, 2, 3, &["c"]).await;
    assert_eq!(career.next().await.unwrap().unwrap().epoch, Some(LeaderEpoch(2)));
}

#[tokio::test]
async fn what_comes_before_the_office_is_entered_waits_for_that() {
    let peer = Peer::new().await;
    let (_client, mut connection, mut career) = begun(&peer).await;
    told(&mut connection, Role::Lead, 1).await;
    delivered(&mut connection, 1, 1, &["a"]).await;
    assert_eq!(career.next().await.unwrap(), None, "no office was entered");
    assert_eq!(career.inaugurated().await.unwrap(), LeaderEpoch(1));
    assert_eq!(&career.next().await.unwrap().unwrap().body[..], b"a");
    // One that lost its office and has another one by now hears of both.
    told(&mut connection, Role::Deposed, 1).await;
    told(&mut connection, Role::Inaugurate, 2).await;
    assert_eq!(career.next().await.unwrap(), None);
    assert_eq!(career.inaugurated().await.unwrap(), LeaderEpoch(2));
}

#[tokio::test]
async fn heartbeats_keep_the_pace_of_the_term() {
    let peer = Peer::new().await;
    let (_client, mut connection, _career) = begun(&peer).await;
    let standing = Standing { role: Role::Candidate, epoch: LeaderEpoch(0), term: Millis(600), handover: Millis::ZERO };
    connection.tell(Response::Standing { consumer: 1, standing }).await;
    // By the session alone the first would come in twenty minutes.
    for _ in 0..2 {
        let incoming = connection.next().await;
        assert!(matches!(incoming.frame, Request::Heartbeat { .. } | Request::Ping), "{incoming:?}");
    }
}
