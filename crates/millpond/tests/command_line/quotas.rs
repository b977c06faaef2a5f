//! A namespace that holds as much as it may.

use serde_json::{Value, json};

use crate::broker::{Broker, serve};

#[test]
fn what_is_over_a_quota_is_refused_and_finishing_makes_room() {
    let broker = Broker::start();
    let quotas = ["--quota-messages", "2", "--quota-bytes", "1KiB", "--quota-topics", "1", "--quota-connections", "9"];
    broker.ok(&[&["namespace", "create", "small"][..], &quotas].concat());
    broker.ok(&["publish", "small/a", "one"]);
    broker.call(&["publish", "small/b", "x"]).failed(1, &["quota_exceeded", "holds 1 topic and may hold 1"]);
    let large = "x".repeat(1100);
    let said = broker.call(&["publish", "small/a", &large]);
    said.failed(1, &["quota_exceeded", "holds 12 bytes and may hold 1024, and this needs 1109 more"]);
    let said = broker.call_with(&["publish", "small/a", "--lines"], b"two\nthree\n");
    said.failed(1, &["quota_exceeded", "holds 2 messages and may hold 2", "raise quota-messages"]);

    let stats = &broker.json(&["stats", "small", "--json"])[0];
    let read = |key: &str| stats[key].clone();
    assert_eq!((read("messages"), read("bytes"), read("topics")), (json!(2), json!(24), json!(1)));
    assert_eq!(read("quotas"), json!({ "messages": 2, "bytes": 1024, "topics": 1, "connections": 9 }));
    let table = broker.ok(&["stats", "small"]);
    let row = |line: &str| line.split_whitespace().collect::<Vec<_>>() == ["small", "messages", "2", "2"];
    assert!(table.lines().any(row), "{table}");
    // Of all namespaces, those that have quotas.
    let all = broker.ok(&["stats"]);
    assert!(all.lines().any(row) && !all.contains("connections  0"), "{all}");
    let shown = broker.ok(&["namespace", "show", "small"]);
    assert!(shown.contains("at most 1024 bytes that its messages take in the journal"), "{shown}");

    let receipt = broker.json(&["receive", "small"])[0]["receipt"].as_str().unwrap().to_owned();
    broker.ok(&["ack", "small", &receipt]);
    broker.ok(&["publish", "small/a", "three"]);
    broker.ok(&["namespace", "set", "small", "--quota-messages", "none"]);
    broker.ok(&["publish", "small/a", "four"]);
    let figures = broker.metrics();
    assert!(figures.lines().any(|line| line == "millpond_messages_over_quota_total 3"), "{figures}");
}

/// It is kept as it was said, and is not what stands for no limit.
#[test]
fn the_largest_number_is_a_limit_and_not_none() {
    let mut broker = Broker::start();
    let (largest, largest32) = (u64::MAX.to_string(), u32::MAX.to_string());
    let numbers = ["--quota-messages", "--quota-bytes", "--quota-topics", "--quota-connections", "--retention-count"];
    let mut create = vec!["namespace", "create", "wide", "--max-waiting", &largest32, "--max-in-flight", &largest32];
    numbers.iter().for_each(|number| create.extend([number, largest.as_str()]));
    broker.ok(&create);
    for _ in 0..2 {
        let shown = &broker.json(&["namespace", "show", "wide", "--output", "json"])[0];
        let quotas = ["messages", "bytes", "topics", "connections"].map(|what| shown["quotas"][what].clone());
        assert_eq!(quotas, [json!(u64::MAX), json!(u64::MAX), json!(u64::MAX), json!(u64::MAX)], "{shown}");
        let limits = ["retention-count", "max-waiting", "max-in-flight"].map(|limit| shown["policy"][limit].clone());
        assert_eq!(limits, [json!(largest), json!(largest32), json!(largest32)], "{shown}");
        broker.ok(&["publish", "wide/a", "x"]);
        // The next time they come from the journal.
        let directory = broker.kill();
        broker = Broker::run_on(&mut serve(directory.path()), directory);
    }
    // One more is too large to be read, and is not cut to what fits.
    broker.call(&["namespace", "set", "wide", "--quota-messages", "18446744073709551616"]).failed(2, &["too large"]);
    broker.call(&["namespace", "set", "wide", "--max-waiting", "4294967296"]).failed(2, &["too large"]);
}

#[test]
fn what_is_stored_whole_or_not_at_all_is_held_against_a_quota_as_a_whole() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "small", "--quota-messages", "1"]);
    broker.ok(&["exchange", "create", "small", "all", "--kind", "fanout"]);
    for topic in ["a", "b"] {
        broker.ok(&["exchange", "bind", "small", "all", topic]);
    }
    let said = broker.call(&["publish", "small", "--exchange", "all", "--key", "k", "one"]);
    said.failed(1, &["with what the same call stores and acks, namespace small would hold 1 message and may hold 1"]);
    assert_eq!(broker.json(&["stats", "small", "--json"])[0]["messages"], json!(0), "nothing is stored");
}

#[test]
fn so_many_connections_use_a_namespace() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "small", "--quota-connections", "1"]);
    let used = |broker: &Broker| broker.json(&["stats", "small", "--json"])[0]["connections"].clone();
    assert_eq!(used(&broker), Value::from(0), "who looks does not use it");
    broker.ok(&["publish", "small/a", "one"]);

    let worker = broker.spawn(&["work", "small", "--", "cat"]);
    while used(&broker) != 1 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    broker.call(&["publish", "small/a", "two"]).failed(1, &["quota_exceeded", "raise quota-connections"]);
    broker.call(&["receive", "small"]).failed(1, &["quota_exceeded"]);
    broker.ok(&["publish", "default/a", "elsewhere"]);
    let figures = broker.metrics();
    assert!(figures.lines().any(|line| line == "millpond_connections_over_quota_total 2"), "{figures}");

    drop(worker);
    while used(&broker) != 0 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    broker.ok(&["publish", "small/a", "two"]);
}
