//! Starts that have to apply a long journal: however many topics there are, they have a bound of memory.

use millpond_client::{Client, Message};
use millpond_types::{NamespaceName, TopicName};
use tempfile::TempDir;

use crate::broker::{Broker, fresh_directory, serve};

const MIB: u64 = 1 << 20;
/// More than 64 MiB has room for, each with some 300 bytes.
const TOPICS: usize = 200_000;

/// A directory in which a message waits in each of so many topics, without its checkpoint.
fn without_checkpoint(topics: usize, name: impl Fn(usize) -> String) -> TempDir {
    let directory = fresh_directory();
    let broker = Broker::run_on(serve(directory.path()).args(["--memory", "64MiB"]), directory);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        for from in (0..topics).step_by(10_000) {
            let topic = |at| TopicName::try_from(name(at).as_str()).unwrap();
            let messages = (from..topics.min(from + 10_000)).map(|at| Message::new(topic(at), "x")).collect();
            client.publish_many(&NamespaceName::default(), messages).await.unwrap();
        }
    });
    let directory = broker.kill_running();
    std::fs::remove_dir_all(directory.path().join("tree")).expect("there was a checkpoint");
    directory
}

/// A start with as little memory as there may be; what it took at most, and how many messages it found.
fn start(directory: TempDir) -> (u64, u64) {
    let broker = Broker::run_on(serve(directory.path()).args(["--memory", "64MiB"]), directory);
    (broker.status("VmHWM:") * 1024, broker.counts("default")["waiting"].as_u64().unwrap())
}

#[test]
fn a_checkpoint_of_many_topics_is_made_anew_in_the_memory_that_there_is() {
    let (most, found) = start(without_checkpoint(TOPICS, |at| format!("t/{at:0>100}")));
    assert_eq!(found, TOPICS as u64);
    assert!(most < 64 * MIB, "it took {most} bytes");
}
