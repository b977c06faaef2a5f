//! Starts that have to apply a long journal, and salvages: however many topics there are, each has its bound of memory.

use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use millpond_client::{Client, Message};
use millpond_types::{NamespaceName, TopicName};
use tempfile::TempDir;

use crate::broker::{Broker, Said, fresh_directory, millpond, serve};

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

#[test]
fn a_salvage_and_the_start_behind_it_take_little_for_each_topic() {
    let (few, many) = (50_000, 200_000);
    let mut took = Vec::new();
    for topics in [few, many] {
        let (from, to) = (without_checkpoint(topics, |at| format!("topic/{at}")), fresh_directory());
        let command = &mut millpond();
        command.arg("inspect").arg(from.path()).arg("--salvage").arg(to.path());
        let (most, said) = salvage(command);
        assert!(said.contains(&format!("{topics} messages and 0 dead letters of {topics} topics")), "{said}");
        took.push((most, to));
    }
    let (all, to) = took.pop().unwrap();
    let each = (all - took[0].0) / (many - few) as u64;
    // With what it writes of each, of which the last 64 MiB are in memory.
    assert!(each < 1000, "a topic takes {each} bytes");
    let (most, found) = start(to);
    assert_eq!(found, many as u64);
    assert!(most < 64 * MIB, "the start behind it took {most} bytes");
}

/// What a command took at most, and what it said.
fn salvage(command: &mut Command) -> (u64, String) {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut most = 0;
    while child.try_wait().unwrap().is_none() {
        most = peak(&child).unwrap_or(most);
        sleep(Duration::from_millis(2));
    }
    (most, Said::of(child.wait_with_output().unwrap()).ok())
}

/// `None` where it has just ended.
fn peak(child: &Child) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024)
}
