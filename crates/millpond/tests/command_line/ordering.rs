//! The order and the pace in which a topic's messages go: strict order, though workers are killed, and rates.

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::broker::{Broker, fresh_directory};

const TOPICS: usize = 8;
const WORKERS: usize = 4;
/// Each so many milliseconds one of the workers is killed, wherever it is.
const LIFE: u64 = 150;

/// A worker that takes down what it was given before it finishes it, and lets some of it fail.
const WORKER: &str = r#"
while :; do
    message=$("$0" receive strict --wait 2s --lease 300ms) || exit
    [ -n "$message" ] || continue
    printf '%s\n' "$message" >> "$1"
    receipt=${message#*'"receipt":"'} lease=${message#*'"lease":'}
    case ${lease%%,*} in
        *3) "$0" fail strict "${receipt%%'"'*}" ;;
        *) "$0" ack strict "${receipt%%'"'*}" ;;
    esac
done > /dev/null 2>&1
"#;

#[test]
fn strict_order_survives_workers_that_are_killed() {
    let broker = Broker::start();
    let policy = ["--max-in-flight", "1", "--retry", "backoff:50ms..50ms", "--max-failures", "1000000"];
    broker.ok(&[&["namespace", "create", "strict"][..], &policy].concat());
    let names: Vec<String> = (0..TOPICS).map(|topic| format!("tenant{}/{topic}", topic % 3)).collect();
    for name in &names {
        let to = format!("strict/{name}");
        // What is merely delayed holds nobody, and comes when it comes.
        broker.ok(&["publish", &to, "later", "--priority", "9", "--delay", "500ms"]);
        for (priority, bodies) in [("2", &b"c1\nc2\n"[..]), ("7", b"a1\na2\na3\n"), ("4", b"b1\nb2\nb3\n")] {
            broker.call_with(&["publish", &to, "--lines", "--priority", priority], bodies).ok();
        }
    }
    let directory = fresh_directory();
    let log = directory.path().join("given");
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| Worker::start(&broker, &log)).collect();
    let mut deaths = 0;
    while broker.counts("strict")["unfinished"] != 0 {
        thread::sleep(Duration::from_millis(LIFE));
        workers[deaths % WORKERS] = Worker::start(&broker, &log);
        deaths += 1;
    }
    drop(workers);
    let mut given: BTreeMap<String, BTreeMap<u64, String>> = BTreeMap::new();
    for line in std::fs::read_to_string(&log).unwrap().lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| message[key].as_str().unwrap().to_owned();
        given.entry(text("topic")).or_default().insert(message["lease"].as_u64().unwrap(), text("body"));
    }
    assert!(deaths > 0 && given.len() == TOPICS);
    for (topic, given) in given {
        // In the order of their leases. What was not finished came again, and nothing overtook it.
        let mut bodies: Vec<String> = given.into_values().collect();
        assert!(bodies.contains(&"later".to_owned()), "{topic}");
        bodies.retain(|body| body != "later");
        bodies.dedup();
        assert_eq!(bodies, ["a1", "a2", "a3", "b1", "b2", "b3", "c1", "c2"], "the order of {topic}");
    }
}

#[test]
fn a_rate_holds_over_a_restart() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--rule", "slow/* rate=2/h", "--rule", "fast rate=1000/s:1"]);
    broker.call_with(&["publish", "default/slow/a", "--lines"], b"1\n2\n3\n").ok();
    let taken = |broker: &Broker| broker.json(&["receive", "default/slow/*", "--max", "10", "--ack"]).len();
    assert_eq!(taken(&broker), 2, "what comes in a period goes at once");
    assert_eq!(taken(&broker), 0, "the next one is half an hour away");
    let (_, directory) = broker.stop();
    let broker = Broker::start_on(directory);
    assert_eq!(taken(&broker), 0, "nor does a start bring it");
    // Another topic has tokens of its own, and one after the other goes when it comes.
    broker.call_with(&["publish", "default/fast", "--lines"], b"1\n2\n3\n").ok();
    for body in ["1", "2", "3"] {
        let message = &broker.json(&["receive", "default/fast", "--wait", "10s", "--ack"])[0];
        assert_eq!(message["body"], body);
    }
    assert_eq!(broker.counts("default")["waiting"], 1);
}

#[test]
fn what_waits_is_raised_in_the_end() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--ageing", "1s"]);
    broker.ok(&["publish", "default/low", "old", "--priority", "3"]);
    // Something newer of a higher priority is there at any time.
    let overtaken = (0..)
        .take_while(|_| {
            broker.ok(&["publish", "default/high", "new", "--priority", "4"]);
            thread::sleep(Duration::from_millis(100));
            broker.json(&["receive", "default", "--ack"])[0]["body"] == "new"
        })
        .count();
    assert!(overtaken > 0, "at first the higher priority goes first");
}

/// A shell and what it has started, killed together.
struct Worker(Child);

impl Worker {
    fn start(broker: &Broker, log: &Path) -> Worker {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", WORKER, env!("CARGO_BIN_EXE_millpond")]).arg(log);
        command.env("MILLPOND_SERVER", &broker.address).process_group(0);
        Worker(command.spawn().expect("there is a shell"))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        let _ = self.0.wait();
    }
}
