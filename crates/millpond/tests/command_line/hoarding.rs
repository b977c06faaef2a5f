//! Consumers that hold all they can get: leased topics cannot leave memory, so there is an end to what they are given, and not
//! to what others are.

use std::collections::BTreeSet;
use std::time::Duration;

use millpond_client::{Client, Deliveries, Message, SubscribeOptions, Subscription};
use millpond_types::{MessageId, NamespaceName, TopicName};
use tokio::time::timeout;

use crate::broker::{Broker, fresh_directory, serve};
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
