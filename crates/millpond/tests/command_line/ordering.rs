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

/// A worker that takes down what it was given before it finishes it, one after the other, and lets some of it fail. It leaves
/// the rest where one fails, or is lost.
const WORKER: &str = r#"
while :; do
    "$0" receive strict --max "$2" --wait 2s --lease 300ms > "$1.$$" || exit
    while read -r message; do
        printf '%s\n' "$message" >> "$1"
        receipt=${message#*'"receipt":"'} lease=${message#*'"lease":'}
        case ${lease%%,*} in
            *3) "$0" fail strict "${receipt%%'"'*}"; break ;;
            *) "$0" ack strict "${receipt%%'"'*}" || break ;;
        esac
    done < "$1.$$"
done > /dev/null 2>&1
"#;

#[test]
fn strict_order_survives_workers_that_are_killed() {
    kill_workers_at("1");
}

#[test]
fn runs_are_finished_in_order_though_workers_are_killed() {
    kill_workers_at("4");
}

/// Lets workers be killed while they finish the messages of strict topics, so many of them at a time.
fn kill_workers_at(run: &str) {
    let broker = Broker::start();
    let policy = ["--max-in-flight", "1", "--retry", "backoff:50ms..50ms", "--max-failures", "1000000", "--run", run];
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
    broker.call_with(&["publish", "strict/first", "--lines"], b"a\nb\nc\nd\ne\n").ok();
    let at_once = broker.json(&["receive", "strict/first", "--max", "9"]);
    assert_eq!(at_once.len().to_string(), run, "no more than a run goes together");
    let receipts = at_once.iter().map(|message| message["receipt"].as_str().unwrap());
    broker.ok(&["ack", "strict"].into_iter().chain(receipts).collect::<Vec<_>>());
    broker.ok(&["purge", "strict/first"]);
    let directory = fresh_directory();
    let log = directory.path().join("given");
    let mut workers: Vec<Worker> = (0..WORKERS).map(|_| Worker::start(&broker, &log, run)).collect();
    let mut deaths = 0;
    while broker.counts("strict")["unfinished"] != 0 {
        thread::sleep(Duration::from_millis(LIFE));
        workers[deaths % WORKERS] = Worker::start(&broker, &log, run);
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
fn a_worker_goes_on_with_a_run_where_nothing_has_failed() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--max-in-flight", "1", "--retry", "head", "--run", "3"]);
    for topic in ["x", "y"] {
        broker.call_with(&["publish", &format!("default/{topic}"), "--lines"], b"a\nb\nc\nd\ne\n").ok();
    }
    let directory = fresh_directory();
    let log = directory.path().join("handled");
    // Each second message fails once.
    let script = r#"body=$(cat); echo "$MILLPOND_TOPIC $body" >> "$0"
        case $body in b|d) [ "$MILLPOND_FAILURES" -gt 0 ] ;; esac"#;
    let flags = ["--concurrency", "4", "--window", "8"];
    let command = ["--", "sh", "-c", script, log.to_str().unwrap()];
    let mut worker = broker.spawn(&[&["work", "default"][..], &flags, &command].concat());
    while broker.counts("default")["unfinished"] != 0 {
        thread::sleep(Duration::from_millis(20));
    }
    worker.signal(Signal::TERM);
    let told = worker.wait().ok();
    assert!(!told.contains("lost"), "what was not begun is no loss: {told}");
    let handled = std::fs::read_to_string(&log).unwrap();
    for topic in ["x", "y"] {
        let of = handled.lines().filter_map(|line| line.strip_prefix(topic)?.strip_prefix(' '));
        assert_eq!(of.collect::<Vec<_>>(), ["a", "b", "b", "c", "d", "d", "e"], "the order of {topic}");
    }
    let refused = broker.call(&["namespace", "set", "default", "--max-in-flight", "none", "--run", "2"]);
    assert!(refused.err.contains("run is for strict order"), "{}", refused.err);
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
    fn start(broker: &Broker, log: &Path, run: &str) -> Worker {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", WORKER, env!("CARGO_BIN_EXE_millpond")]).arg(log).arg(run);
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
