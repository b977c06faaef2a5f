//! Pools of workers: what handlers decide is carried out, in the order of runs.

mod peer;

use millpond_client::{Decision, FinishOutcome, FinishVerb, Message, Millis, OutcomeRun, Report, Workers};
use millpond_protocol::{LeasedRun, Request, Response};
use millpond_types::LeaseNumber;
use peer::{Peer, done, forwarded, leased, namespace, next_finish, receipt, subscribed, window};

#[tokio::test]
async fn workers_finish_as_their_handlers_decide_and_stop_in_order() {
    let peer = Peer::new().await;
    let (_client, mut connection, subscription) = subscribed(&peer, window(100)).await;
    let workers = Workers::start(subscription, 2, |delivery| async move {
        match &delivery.body[..] {
            b"bad" => Decision::reject("no sense"),
            b"panic" => panic!("on purpose"),
            _ => Decision::Ack,
        }
    });
    connection
        .tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(1, &["ok", "bad", "panic", "ok"])] })
        .await;
    let mut verbs = Vec::new();
    while verbs.len() < 4 {
        let incoming = connection.next().await;
        let Request::Finish(finish) = incoming.frame else { continue };
        let count = finish.receipts.iter().map(|(_, count)| *count).sum();
        verbs.extend(std::iter::repeat_n(verb_name(&finish.verb), count as usize));
        done(&mut connection, incoming.correlation, count).await;
    }
    verbs.sort_unstable();
    assert_eq!(verbs, ["ack", "ack", "fail", "reject"]);
    let (report, ()) = tokio::join!(workers.stop(), async {
        let incoming = connection.next().await;
        assert!(matches!(incoming.frame, Request::Detach { consumer: 1 }), "{incoming:?}");
        connection.reply(incoming.correlation, Response::Done).await;
    });
    assert_eq!(report.unwrap(), Report { finished: 4, ..Report::default() });
}

#[tokio::test]
async fn what_comes_in_a_run_is_handled_one_after_the_other_and_not_behind_a_failure() {
    let peer = Peer::new().await;
    let (_client, mut connection, subscription) = subscribed(&peer, window(100)).await;
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let go_on = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let may = go_on.clone();
    let workers = Workers::start(subscription, 4, move |delivery| {
        begun.send(delivery.body.clone()).unwrap();
        let may = may.clone();
        async move {
            may.acquire().await.unwrap().forget();
            if delivery.body == "b" { Decision::fail("on purpose") } else { Decision::Ack }
        }
    });
    let of_run = |lease: u64, bodies: &[&str]| LeasedRun { run: Some(LeaseNumber(1)), ..leased(lease, bodies) };
    let runs = vec![of_run(1, &["a", "b"]), of_run(3, &["c"]), leased(9, &["alone"])];
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: runs }).await;
    assert_eq!(begins.recv().await.unwrap(), "a");
    assert_eq!(begins.recv().await.unwrap(), "alone", "the rest of the run waits, and others do not");
    let (mut finished, mut said) = (0, Vec::new());
    go_on.add_permits(3);
    while finished < 4 {
        let (correlation, finish) = next_finish(&mut connection).await;
        for (first, count) in &finish.receipts {
            said.extend((0..u64::from(*count)).map(|n| (first.lease.0 + n, verb_name(&finish.verb))));
            finished += count;
        }
        done(&mut connection, correlation, finish.receipts.iter().map(|(_, count)| *count).sum()).await;
    }
    said.sort_unstable();
    assert_eq!(said, [(1, "ack"), (2, "fail"), (3, "release"), (9, "ack")]);
    assert_eq!(begins.recv().await.unwrap(), "b");
    assert!(begins.try_recv().is_err(), "nothing is begun behind what has failed");
    drop(workers);
}

/// So a forward finds all before it in its run finished.
#[tokio::test]
async fn what_comes_next_in_a_run_is_begun_when_the_ack_before_it_is_sent() {
    let peer = Peer::new().await;
    let (client, mut connection, subscription) = subscribed(&peer, window(100)).await;
    let workers = Workers::start(subscription, 1, move |delivery| {
        let client = client.clone();
        async move {
            if delivery.body != "c" {
                return Decision::Ack;
            }
            let output = Message::new("out".try_into().unwrap(), "of c");
            let forwarded = client.forward(&delivery, &namespace(), vec![output]).await.unwrap();
            assert!(forwarded.is_done());
            Decision::Settled
        }
    });
    let run = LeasedRun { run: Some(LeaseNumber(1)), ..leased(1, &["a", "b", "c"]) };
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![run] }).await;
    // Neither is confirmed before the forward comes, and the one comes before the other.
    let mut acks = Vec::new();
    for lease in 1..=2 {
        let (correlation, finish) = next_finish(&mut connection).await;
        assert_eq!(finish.receipts, [(receipt(lease), 1)]);
        acks.push(correlation);
    }
    let incoming = connection.next().await;
    assert!(matches!(&incoming.frame, Request::Forward(of) if of.receipts == [(receipt(3), 1)]), "{incoming:?}");
    connection.reply(incoming.correlation, forwarded(FinishOutcome::Done)).await;
    for correlation in acks {
        done(&mut connection, correlation, 1).await;
    }
    let (report, ()) = tokio::join!(workers.stop(), async {
        let incoming = connection.next().await;
        assert!(matches!(incoming.frame, Request::Detach { consumer: 1 }), "{incoming:?}");
        connection.reply(incoming.correlation, Response::Done).await;
    });
    assert_eq!(report.unwrap(), Report { finished: 3, ..Report::default() });
}

/// Nobody would work on it, and heartbeats would keep it.
#[tokio::test]
async fn what_a_pool_may_not_finish_is_given_back_and_counted() {
    let peer = Peer::new().await;
    let (_client, mut connection, subscription) = subscribed(&peer, window(10)).await;
    let workers = Workers::start(subscription, 1, |_| async { Decision::Ack });
    connection.tell(Response::Delivery { consumer: 1, epoch: None, leases: vec![leased(1, &["a"])] }).await;
    let (correlation, ack) = next_finish(&mut connection).await;
    assert_eq!(ack.verb, FinishVerb::Ack);
    let outcomes = vec![OutcomeRun { count: 1, outcome: FinishOutcome::OutOfOrder }];
    connection.reply(correlation, Response::Finished(outcomes)).await;
    let (correlation, release) = next_finish(&mut connection).await;
    assert_eq!(release.verb, FinishVerb::Release { delay: Millis::ZERO });
    done(&mut connection, correlation, 1).await;
    let (report, ()) = tokio::join!(workers.stop(), async {
        let incoming = connection.next().await;
        assert!(matches!(incoming.frame, Request::Detach { consumer: 1 }), "{incoming:?}");
        connection.reply(incoming.correlation, Response::Done).await;
    });
    assert_eq!(report.unwrap(), Report { unconfirmed: 1, ..Report::default() });
}

fn verb_name(verb: &FinishVerb) -> &'static str {
    match verb {
        FinishVerb::Ack => "ack",
        FinishVerb::Fail { .. } => "fail",
        FinishVerb::Reject { .. } => "reject",
        FinishVerb::Release { .. } => "release",
        other => panic!("{other:?}"),
    }
}
