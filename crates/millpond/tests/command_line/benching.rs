//! `bench`: that it runs, verifies and reports. What it measures is nobody's promise here.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::broker::{Broker, Running, call, hangup, millpond};

#[test]
fn publish_reports_what_was_confirmed() {
    let broker = Broker::start();
    let report = run(&broker, &["publish", "--connections", "3", "--topics", "5", "--duration", "100ms"]);
    let figure = |name: &str| report["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} in {report}"));
    assert!(figure("messages_confirmed") >= 100.0);
    assert!(figure("confirmation_p99_us") >= figure("confirmation_p50_us"));
    assert!(report["command"].as_str().unwrap().starts_with("millpond bench publish"));
    assert!(report["machine"]["cores"].as_u64().unwrap() > 0);
    assert!(report["broker"]["pid"].as_u64().is_some(), "{report}");
    // The run leaves nothing behind.
    assert!(!broker.ok(&["namespace", "list"]).contains("bench"));
    let table = broker.ok(&["bench", "publish", "--window", "1", "--batch", "1", "--duration", "50ms", "--size", "0"]);
    assert!(table.contains("messages confirmed"), "{table}");
}

#[test]
fn every_level_and_a_rate_are_kept() {
    let broker = Broker::start();
    for level in ["buffered", "none"] {
        let report = run(&broker, &["publish", "--level", level, "--duration", "50ms"]);
        assert!(report["figures"]["messages_confirmed"].as_f64().unwrap() > 0.0, "{report}");
    }
    let report = run(&broker, &["publish", "--rate", "200", "--batch", "1", "--duration", "200ms"]);
    let confirmed = report["figures"]["messages_confirmed"].as_f64().unwrap();
    assert!((1.0..=41.0).contains(&confirmed), "{report}");
}

#[test]
fn worker_verifies_that_every_message_arrives_once() {
    let broker = Broker::start();
    let report =
        run(&broker, &["worker", "--duration", "200ms", "--producers", "2", "--consumers", "2", "--topics", "7"]);
    let figures = &report["figures"];
    assert_eq!(figures["every_message_arrived_exactly_once"], 1.0);
    assert!(figures["cycles"].as_f64().unwrap() >= 100.0 && figures["end_to_end_p50_us"].is_number());
}

#[test]
fn worker_verifies_each_group_by_itself_and_takes_rules() {
    let broker = Broker::start();
    let load = ["worker", "--duration", "200ms", "--consumers", "2", "--topics", "7", "--groups", "3"];
    let report = run(&broker, &[&load[..], &["--rule", "bench/* max-in-flight=50,weight=3"]].concat());
    let figure = |name: &str| report["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} in {report}"));
    assert_eq!(figure("every_message_arrived_exactly_once"), 1.0);
    assert_eq!(figure("cycles") % 3.0, 0.0);
    assert!(!broker.ok(&["namespace", "list"]).contains("bench"));
    let twice = ["bench", "worker", "--rule", "t weight=2", "--rule", "t weight=3"];
    broker.call(&twice).failed(2, &["two rules for t"]);
    let of_none = ["bench", "worker", "--rule", "topic* weight=2", "--rule", "ben weight=3"];
    broker.call(&of_none).failed(2, &["no --rule fits", "`bench/`"]);
    broker.call(&["bench", "topics", "--rule", "bench/* weight=2"]).failed(2, &["no --rule fits", "`t`"]);
}

#[test]
fn latency_and_burst_report() {
    let broker = Broker::start();
    let said = broker.call(&["bench", "latency", "--rate", "100", "--duration", "300ms", "--producers", "2", "--json"]);
    let report = only_slow(serde_json::from_str(&said.out).unwrap());
    assert!(report["figures"]["delivery_p99_us"].is_number(), "{report}");
    let report = run(&broker, &["burst", "--clients", "50", "--ramp", "20"]);
    assert_eq!(report["figures"]["share_confirmed_percent"], 100.0, "{report}");
}

#[test]
fn messages_are_rescheduled_while_others_publish() {
    let broker = Broker::start();
    let report = run(&broker, &["reschedule", "--messages", "2500", "--each", "1000"]);
    let figures = &report["figures"];
    assert_eq!((&figures["messages"], &figures["topics"]), (&2500.0.into(), &3.0.into()), "{report}");
    assert!(figures["others_beside_p99_us"].is_number() && figures["rate_messages_per_s"].is_number(), "{report}");
}

#[test]
fn a_quiet_tenant_is_measured_beside_a_loud_one() {
    let broker = Broker::start();
    // Whether the loud one's messages last depends on the machine.
    let said =
        broker.call(&["bench", "loud", "--messages", "20000", "--topics", "50", "--duration", "200ms", "--json"]);
    let report: Value = serde_json::from_str(&said.out).unwrap();
    let figures = &report["figures"];
    assert_eq!((&figures["messages"], &figures["topics"]), (&20000.0.into(), &50.0.into()), "{report}");
    assert!(figures["quiet_beside_p99_us"].is_number() && figures["quiet_alone_p99_us"].is_number(), "{report}");
}

#[test]
fn a_broker_is_started_for_the_run() {
    let said = call(&["bench", "publish", "--spawn", "--duration", "50ms", "--json"]).ok();
    let report: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(report["broker"]["version"], env!("CARGO_PKG_VERSION"));
    assert!(report["figures"]["broker_memory_MiB"].is_number() || report["figures"]["broker_memory_mib"].is_number());
}

#[test]
fn topics_are_filled_and_drained_over_a_restart() {
    // The last frame is a shorter one, and one producer has none at all.
    let spawn =
        ["--spawn", "--memory", "64M", "--producers", "4", "--batch", "400", "--window", "400", "--settle", "0s"];
    let load = ["--topics", "1050", "--tenants", "7", "--ready", "3,100,N"];
    for end in [&[][..], &["--kill", "--order", "random", "--dedup"]] {
        let report = spawned(&[&["topics"], &spawn[..], &load, end].concat());
        let figure = |name: &str| report["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} in {report}"));
        assert_eq!((figure("messages"), figure("every_message_arrived_exactly_once")), (1050.0, 1.0));
        // A message is at least its body, which the journal holds.
        assert!(figure("disk_per_message_b") >= 24.0 && figure("disk_in_advance_mib") > 0.0);
        assert!(figure("time_to_first_delivery_s") >= figure("time_to_ready_s"));
        for name in ["publish_rate_messages_per_s", "drain_rate_messages_per_s", "memory_after_restart_mib"] {
            assert!(figure(name) > 0.0, "{name} in {report}");
        }
        // No time to come to rest: the report says so, and not zero.
        assert!(report["figures"]["time_to_rest_after_publish_s"].is_null());
        assert_eq!(report["figures"].get("repeat_rate_messages_per_s").is_some(), end.contains(&"--dedup"));
        for ready in [3, 100, 1050] {
            assert!(figure(&format!("{ready}_ready_topics_writer_cpu_per_message_us")) > 0.0);
        }
    }
}

#[test]
fn topics_of_a_running_broker_are_filled_and_drained() {
    let broker = Broker::start();
    let load = ["topics", "--topics", "50", "--messages", "3", "--batch", "20", "--window", "20", "--ready", "50"];
    let report = run(&broker, &load);
    assert_eq!(report["figures"]["messages"], 150.0);
    assert_eq!(report["figures"]["every_message_arrived_exactly_once"], 1.0);
    assert!(report["figures"].get("time_to_ready_s").is_none(), "{report}");
    assert!(!broker.ok(&["namespace", "list"]).contains("bench"));
}

#[test]
fn a_backlog_is_filled_and_drained_over_a_restart() {
    let report =
        spawned(&["backlog", "--spawn", "--messages", "5050", "--batch", "100", "--size", "40", "--settle", "20s"]);
    let figure = |name: &str| report["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} in {report}"));
    assert_eq!((figure("messages"), figure("every_message_arrived_exactly_once")), (5050.0, 1.0));
    assert!(figure("disk_per_message_b") >= 40.0);
    assert!(figure("time_to_first_delivery_s") >= figure("time_to_ready_s"));
    assert!(figure("time_to_rest_after_publish_s") < 20.0);
    assert!(figure("memory_max_after_drain_mib") >= figure("memory_after_drain_mib"));
}

#[test]
fn a_soak_is_written_down_drawn_and_judged() {
    let directory = tempfile::tempdir().unwrap();
    let (csv, svg) = (directory.path().join("a.csv"), directory.path().join("a.svg"));
    let files = ["--csv", csv.to_str().unwrap(), "--svg", svg.to_str().unwrap()];
    let load = ["--for", "3s", "--topics", "500", "--tenants", "9", "--rate", "2000", "--period", "1500ms"];
    let fill = ["--fill", "delayed", "--stragglers", "5"];
    let report = soaked(&[&["--spawn", "--memory", "64M"], &load[..], &fill, &files].concat());
    let figure = |name: &str| report["figures"][name].as_f64().unwrap_or_else(|| panic!("{name} in {report}"));
    assert_eq!((figure("every_message_arrived_exactly_once"), figure("stragglers_messages")), (1.0, 5.0));
    // While the consumers stand still, messages wait.
    assert!(figure("messages") > 0.0 && figure("backlog_max_messages") > 200.0);
    for name in ["publish_p99_early_ms", "delivery_p99_late_ms", "resident_memory_early_mib", "disk_late_mib", "flat"] {
        assert!(figure(name) >= 0.0, "{name} in {report}");
    }
    let csv = std::fs::read_to_string(csv).unwrap();
    assert!(csv.starts_with("seconds,published_per_second,"), "{csv}");
    assert_eq!(csv.lines().count() as f64, 1.0 + figure("samples"));
    let svg = std::fs::read_to_string(svg).unwrap();
    assert_eq!(svg.matches("<g>").count(), 6, "{svg}");
}

#[test]
fn a_soak_of_a_running_broker_takes_what_waits_and_leaves_nothing() {
    let broker = Broker::start();
    let load = ["--for", "1s", "--topics", "300", "--rate", "500", "--fill", "waiting", "--stragglers", "0"];
    let said = broker.call(&[&["bench", "soak", "--json"], &load[..]].concat());
    let report = only_slow(serde_json::from_str(&said.out).unwrap());
    assert_eq!(report["figures"]["every_message_arrived_exactly_once"], 1.0, "{report}");
    // Its directory is not known: no figure, and no word on whether it is flat.
    assert!(report["figures"]["disk_late_mib"].is_null() && report["figures"]["flat"].is_null(), "{report}");
    assert!(!broker.ok(&["namespace", "list"]).contains("bench"));
}

/// A run purges and deletes its namespace in the end, so it takes none that is there, however little that holds.
#[test]
fn a_namespace_that_is_there_is_not_touched() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "mine", "--max-failures", "3"]);
    broker.ok(&["group", "create", "mine", "audit"]);
    for namespace in ["mine", "default"] {
        let args = ["bench", "publish", "--namespace", namespace, "--duration", "50ms"];
        broker.call(&args).failed(1, &[namespace, "is there already", "--namespace"]);
    }
    assert!(broker.ok(&["group", "list", "mine"]).contains("audit"));
}

/// Whoever ends a run early is left no broker and no directory of it.
#[test]
fn a_run_that_a_signal_ends_leaves_nothing_behind() {
    for signal in [Signal::INT, Signal::TERM].into_iter().chain(hangup()) {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().to_str().unwrap();
        let mut command = millpond();
        command.args(["bench", "publish", "--spawn", "--duration", "60s", "--dir", path]);
        let mut run = Running::of(command.stdout(Stdio::null()).stderr(Stdio::null()));
        // It is under way once its broker has written.
        let is_under_way = || {
            let made = std::fs::read_dir(path).unwrap().flatten().next();
            made.is_some_and(|directory| directory.path().join("FORMAT").exists())
                && !processes_with(path, "serve").is_empty()
        };
        until(is_under_way);
        run.signal(signal);
        assert_ne!(run.wait().code, 0);
        until(|| processes_with(path, "serve").is_empty());
        assert_eq!(std::fs::read_dir(path).unwrap().count(), 0, "{signal:?}");
    }
}

/// The processes whose command line has these words in it.
fn processes_with(path: &str, verb: &str) -> Vec<String> {
    let lines = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("cmdline"));
    let lines = lines.filter_map(|file| std::fs::read_to_string(file).ok());
    lines.filter(|line| line.contains(path) && line.split('\0').nth(1) == Some(verb)).collect()
}

fn until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "it does not come to that");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn soaked(args: &[&str]) -> Value {
    only_slow(serde_json::from_str(&call(&[&["bench", "soak", "--json"], args].concat()).out).unwrap())
}

/// A report without faults but that a machine that is busy with other tests missed the rate.
fn only_slow(report: Value) -> Value {
    let faults = report["faults"].as_array().unwrap();
    assert!(faults.iter().all(|fault| fault.as_str().unwrap().contains("messages/s were reached")), "{report}");
    report
}

fn spawned(args: &[&str]) -> Value {
    let report: Value = serde_json::from_str(&call(&[&["bench"], args, &["--json"]].concat()).ok()).unwrap();
    assert_eq!(report["faults"], serde_json::json!([]), "{report}");
    report
}

fn run(broker: &Broker, args: &[&str]) -> Value {
    let report = broker.json(&[&["bench"], args, &["--json"]].concat()).remove(0);
    assert_eq!(report["faults"], serde_json::json!([]), "{report}");
    report
}
