//! Consumers that hold all they can get: leased topics cannot leave memory, so there is an end to what they are given, and not
//! to what others are.

use std::collections::BTreeSet;
use std::time::Duration;

use millpond_client::{Client, Deliveries, Error, Message, ReceiveOptions, SubscribeOptions, Subscription};
use millpond_types::limits::RECEIVE_MESSAGES_MAX;
use millpond_types::{Code, MessageId, NamespaceName, TopicName};
use tokio::time::timeout;

use crate::broker::{Broker, Running, fresh_directory, serve};
use crate::starving::in_runtime;

const MIB: u64 = 1 << 20;
/// Each with a message: three times what fits into the memory.
const TOPICS: usize = 200_000;
/// Published at once.
const BATCH: usize = 1000;
/// Whoever is given nothing for so long is held back: others have it within milliseconds.
const QUIET: Duration = Duration::from_secs(2);

#[test]
fn leased_topics_leave_room_for_everyone() {
    let directory = fresh_directory();
    let broker = Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
    in_runtime(async {
        let publisher = Client::connect(broker.address.as_str()).await.unwrap();
        for from in (0..TOPICS).step_by(BATCH) {
            let message = |at| Message::new(TopicName::try_from(format!("t/{at}").as_str()).unwrap(), "x");
            let messages = (from..from + BATCH).map(message).collect();
            publisher.publish_many(&NamespaceName::default(), messages).await.unwrap();
        }
        let mut all = BTreeSet::new();
        let mut hog = subscribe(&broker, TOPICS as u32).await;
        let mut held = Vec::new();
        while let Ok(deliveries) = timeout(QUIET, hog.next_batch(TOPICS)).await {
            held.push(deliveries.unwrap());
        }
        let count: usize = held.iter().map(Deliveries::len).sum();
        assert!(count > BATCH && count < TOPICS / 10, "{count} topics of 64 MiB are leased to one consumer");
        assert!(broker.metrics().contains("millpond_consumers_rationed 1\n"), "as is shown");
        let mut modest = subscribe(&broker, 10).await;
        for _ in 0..100 {
            let some = timeout(QUIET, modest.next_batch(10)).await.expect("who holds little is served").unwrap();
            ack(&modest, some, &mut all).await;
        }
        modest.close().await.unwrap();
        broker.ok(&["publish", "default/one-more", "x"]);
        while all.len() < TOPICS + 1 {
            for deliveries in held.drain(..) {
                ack(&hog, deliveries, &mut all).await;
            }
            held.push(timeout(10 * QUIET, hog.next_batch(TOPICS)).await.expect("it goes on").unwrap());
            for deliveries in held.drain(..) {
                ack(&hog, deliveries, &mut all).await;
            }
        }
    });
    let most = broker.status("VmHWM:") * 1024;
    assert!(most < 64 * MIB, "{most} bytes");
    assert!(broker.metrics().contains("millpond_forgotten_total 0\n"), "nobody was forgotten");
}

/// Who takes all that it is given, with the longest leases, and goes away.
#[test]
fn who_hoards_by_receives_and_goes_away_leaves_something_to_other_receives() {
    let directory = fresh_directory();
    let start = || Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
    let broker = start();
    broker.ok(&["namespace", "create", "quiet"]);
    broker.call_with(&["publish", "quiet/m", "--lines"], &b"x\n".repeat(100)).ok();
    broker.call_with(&["publish", "default/m", "--lines"], &b"x\n".repeat(50_000)).ok();
    let many = in_runtime(hoard(&broker, |got| got == 1));
    assert!(many.iter().map(Deliveries::len).sum::<usize>() > BATCH, "it is given very many in a few receives");
    let each_is_served = |broker: &Broker| {
        for from in ["default", "quiet"].repeat(10) {
            assert_eq!(broker.json(&["receive", from, "--lease", "12h"]).len(), 1, "a receive from {from}");
        }
    };
    each_is_served(&broker);
    drop(broker);
    let broker = start();
    each_is_served(&broker);
    // What is given one at a time has an end too, in the namespace where it was taken.
    let rest = in_runtime(hoard(&broker, |got| got == 0));
    let one = ["receive", "default", "--wait", "10m"];
    broker.call(&one[..2]).failed(1, &["overloaded", "ack what is leased"]);
    for _ in 0..10 {
        assert_eq!(broker.json(&["receive", "quiet", "--lease", "12h"]).len(), 1, "others have theirs");
    }
    let waiting = Running::of(&mut broker.command(&one));
    while !broker.metrics().contains("millpond_consumers_rationed 1\n") {}
    in_runtime(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        for one in rest.iter().take(100) {
            assert_eq!(client.ack(one.receipts()).await.unwrap().done(), 1);
        }
    });
    assert_eq!(waiting.wait().ok().lines().count(), 1, "who waits is served when there is room");
    assert!(broker.metrics().contains("millpond_forgotten_total 0\n"), "nobody was forgotten");
}

/// Receives as many as one request may ask for until one is given no more than is said, and is gone then.
async fn hoard(broker: &Broker, is_end: impl Fn(usize) -> bool) -> Vec<Deliveries> {
    let client = Client::connect(broker.address.as_str()).await.unwrap();
    let mut held = Vec::new();
    loop {
        let lease = Some(Duration::from_secs(12 * 3600));
        let options =
            ReceiveOptions { messages: RECEIVE_MESSAGES_MAX, lease, ..ReceiveOptions::new(NamespaceName::default()) };
        let got = match client.receive(options).await {
            Err(Error::Refused { code: Code::Overloaded, .. }) => 0,
            got => {
                held.push(got.unwrap());
                held.last().map_or(0, Deliveries::len)
            }
        };
        if is_end(got) {
            return held;
        }
    }
}

async fn subscribe(broker: &Broker, messages: u32) -> Subscription {
    let client = Client::connect(broker.address.as_str()).await.unwrap();
    let options =
        SubscribeOptions { messages, bytes: u64::from(u32::MAX), ..SubscribeOptions::new(NamespaceName::default()) };
    client.subscribe(options).await.unwrap()
}

/// Each message comes once.
async fn ack(subscription: &Subscription, deliveries: Deliveries, all: &mut BTreeSet<MessageId>) {
    let (receipts, count) = (deliveries.receipts(), deliveries.len());
    for delivery in deliveries {
        assert!(all.insert(delivery.id), "{:?} was delivered twice", delivery.id);
    }
    assert_eq!(subscription.client().ack(receipts).await.unwrap().done(), count);
}
