//! Publishes whose dedup ids are all known: each is told what became of the first, in the memory that there is.

use std::time::Duration;

use millpond_client::{Client, ClientOptions, Message};
use millpond_types::{MessageState, NamespaceName, PublishOutcome, TopicName};
use tokio::task::JoinSet;

use crate::broker::{Broker, fresh_directory, serve};
use crate::memory::{LEAST, runtime};

/// Messages of a publish, nearly as many as one may have.
const BATCH: u64 = 9_000;
/// What was published: so much that most of what is known of it is on the disk alone.
const BATCHES: u64 = 40;
/// Who repeats at once.
const CLIENTS: u64 = 12;

/// One client first, and then many at once, each what another does not.
#[test]
fn repeats_of_tens_of_thousands_have_a_bound() {
    let directory = fresh_directory();
    let broker = Broker::run(serve(directory.path()).args(["--memory", "64MiB"]));
    let namespace = NamespaceName::default();
    let (first, all) = runtime().block_on(async {
        // On a machine that is busy otherwise the last of them is answered after more than the usual half minute.
        let options = || ClientOptions {
            request_timeout: Duration::from_secs(300),
            ..ClientOptions::new(broker.address.as_str())
        };
        let connect = || Client::connect(options());
        let client = connect().await.unwrap();
        for batch in 0..BATCHES {
            let told = client.publish_many(&namespace, messages(batch)).await.unwrap();
            assert!(told.iter().all(|outcome| matches!(outcome, PublishOutcome::Queued { .. })), "batch {batch}");
        }
        let is_known = |outcome: &PublishOutcome| {
            matches!(outcome, PublishOutcome::Duplicate { state: MessageState::Waiting, .. })
        };
        let told = client.publish_many(&namespace, messages(0)).await.unwrap();
        assert!(told.len() as u64 == BATCH && told.iter().all(is_known));
        let first = broker.status("VmHWM:") * 1024;
        let mut repeats = JoinSet::new();
        for at in 0..CLIENTS {
            let (client, namespace) = (connect().await.unwrap(), namespace.clone());
            repeats.spawn(async move { client.publish_many(&namespace, messages(at % BATCHES)).await.unwrap() });
        }
        for told in repeats.join_all().await {
            assert!(told.len() as u64 == BATCH && told.iter().all(is_known));
        }
        (first, broker.status("VmHWM:") * 1024)
    });
    assert!(first < LEAST && all < LEAST, "{first} bytes for one repeat of {BATCH}, and {all} for {CLIENTS} at once");
}

fn messages(batch: u64) -> Vec<Message> {
    let topic = TopicName::try_from("jobs").expect("a good name");
    let message = |at: u64| Message::new(topic.clone(), "x").dedup_id(at.to_le_bytes().to_vec());
    (batch * BATCH..(batch + 1) * BATCH).map(message).collect()
}
