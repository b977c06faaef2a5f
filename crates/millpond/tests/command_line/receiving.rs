//! `receive`, and what can be done with what it leases.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::broker::{Broker, Running, Said};

#[test]
fn one_message_is_one_json_object_on_a_line() {
    let broker = Broker::start();
    broker.call_with(&["publish", "default/a"], b"\xff\x00").ok();
    broker.ok(&["publish", "default/b", "zwei Zeilen\nü"]);
    let messages = broker.json(&["receive", "default", "--max", "5"]);
    assert_eq!(messages.len(), 2);
    assert_eq!((&messages[0]["encoding"], &messages[0]["body"]), (&"base64".into(), &"/wA=".into()));
    assert_eq!((&messages[1]["encoding"], &messages[1]["body"]), (&"utf8".into(), &"zwei Zeilen\nü".into()));
    assert!(messages[0]["published"].as_str().unwrap().ends_with('Z'));
    assert_eq!(broker.ok(&["receive", "default"]), "");
}

#[test]
fn topics_and_prefixes_are_told_apart() {
    let broker = Broker::start();
    for topic in ["acme/1", "acme/2", "beta/1", "acme"] {
        broker.ok(&["publish", &format!("default/{topic}"), topic]);
    }
    let receive = |from: &[&str]| {
        let mut topics: Vec<_> = broker
            .json(&[&["receive", "--max", "10", "--lease", "1h"], from].concat())
            .iter()
            .map(|m| m["topic"].as_str().unwrap().to_owned())
            .collect();
        topics.sort();
        topics
    };
    assert_eq!(receive(&["default/acme/*"]), ["acme/1", "acme/2"]);
    assert_eq!(receive(&["default/acme", "default/none"]), ["acme"]);
    assert_eq!(receive(&["default/*"]), ["beta/1"]);
}

#[test]
fn a_receive_that_has_a_name_is_given_the_same_leases_again() {
    let broker = Broker::start();
    broker.call_with(&["publish", "default/a", "--lines"], b"1\n2\n3\n").ok();
    let named = ["receive", "default", "--max", "2", "--request", "9f0c2c9e-6a5f-4b6e-8f4d-2a1b3c4d5e6f"];
    let first = broker.json(&named);
    assert_eq!(first.len(), 2);
    assert_eq!(broker.json(&named), first, "a second command, on a connection of its own");
    broker.ok(&["ack", "default", &receipt(&first[0])]);
    assert_eq!(broker.json(&named), first[1..], "what was acked since is not told again");
    for bad in ["", "9f0c2c9e", "9f0c2c9e-6a5f-4b6e-8f4d-2a1b3c4d5e6x"] {
        broker.call(&["receive", "default", "--request", bad]).failed(2, &["32 hexadecimal digits"]);
    }
}

#[test]
fn ack_after_printing_leaves_nothing() {
    let broker = Broker::start();
    broker.call_with(&["publish", "default/a", "--lines"], b"1\n2\n3\n").ok();
    assert_eq!(broker.json(&["receive", "default", "--max", "2", "--ack"]).len(), 2);
    let counts = broker.counts("default");
    assert_eq!((&counts["waiting"], &counts["leased"]), (&1.into(), &0.into()));
}

#[test]
fn a_reader_that_goes_away_gets_nothing_acked() {
    for rest in [&["--ack"][..], &[]] {
        let broker = Broker::start();
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = broker.command(&[&["receive", "default", "--wait", "1m"], rest].concat());
        let waiting = Running::of(command.stdout(writer));
        drop(command);
        while broker.json(&["stats", "default", "--json"])[0]["connections"] != 1 {
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(reader);
        broker.ok(&["publish", "default/a", "x"]);
        waiting.wait().failed(1, &["stdout is closed", "given back"]);
        assert_eq!(broker.counts("default")["waiting"], 1);
    }
}

/// What would end as it is delivered is not asked for where nobody reads it.
#[test]
fn nothing_is_received_at_most_once_for_a_reader_that_went_away() {
    let broker = Broker::start();
    broker.ok(&["publish", "default/a", "x"]);
    let mut child = broker.command(&["receive", "default", "--at-most-once"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let said = Said::of(child.stdout(Stdio::from(writer)).output().unwrap());
    said.failed(1, &["stdout is closed", "nothing was received"]);
    assert_eq!(broker.counts("default")["waiting"], 1);
}

#[test]
fn a_wait_ends_with_the_message() {
    let broker = Broker::start();
    let waiting = broker.spawn(&["receive", "default", "--wait", "1m"]);
    broker.ok(&["publish", "default/a", "x"]);
    let said = waiting.wait().ok();
    assert!(said.contains("\"body\":\"x\""), "{said}");
}

#[test]
fn each_verb_does_what_it_says() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--retry", "head", "--max-failures", "1"]);
    let publish_and_lease = || {
        broker.ok(&["publish", "default/a", "x"]);
        lease(&broker)
    };
    let receipt = publish_and_lease();
    assert_eq!(broker.ok(&["ack", "default", &receipt]), format!("acked {receipt}\n"));
    assert_eq!(broker.counts("default")["unfinished"], 0);

    let receipt = publish_and_lease();
    broker.ok(&["release", "default", &receipt]);
    let receipt = lease(&broker);
    assert_eq!(broker.ok(&["release", "default", &receipt, "--delay", "1h"]), format!("released {receipt}\n"));
    // It is back, and not ready: a release with a delay counts as a retry.
    let counts = broker.counts("default");
    assert_eq!((&counts["retrying"], &counts["leased"]), (&1.into(), &0.into()));
    broker.ok(&["purge", "default"]);

    let receipt = publish_and_lease();
    assert_eq!(broker.ok(&["fail", "default", &receipt, "--delay", "1h"]), format!("failed {receipt}\n"));
    assert_eq!(broker.counts("default")["retrying"], 1, "whatever the policy says");
    broker.ok(&["purge", "default"]);

    let receipt = publish_and_lease();
    assert_eq!(broker.ok(&["extend", "default", &receipt, "--lease", "1h"]), format!("extended {receipt}\n"));
    assert_eq!(broker.ok(&["fail", "default", &receipt, "--reason", "once"]), format!("failed {receipt}\n"));
    let receipt = lease(&broker);
    assert_eq!(broker.ok(&["fail", "default", &receipt, "--reason", "twice"]), format!("dead {receipt}\n"));

    let receipt = publish_and_lease();
    let said = &broker.json(&["reject", "default", &receipt, "--reason", "no good", "--output", "json"])[0];
    assert_eq!(said["receipt"], receipt.as_str());
    let details: Vec<_> = broker.json(&["dead", "list", "default", "--output", "json"]);
    let details: Vec<_> = details.iter().map(|d| d["detail"].as_str().unwrap()).collect();
    assert_eq!(details, ["twice", "no good"]);
}

#[test]
fn a_lost_lease_is_refused_and_the_others_are_done() {
    let broker = Broker::start();
    broker.call_with(&["publish", "default/a", "--lines"], b"1\n2\n").ok();
    let receipts: Vec<_> = broker.json(&["receive", "default", "--max", "2"]).iter().map(receipt).collect();
    broker.ok(&["ack", "default", &receipts[0]]);
    let said = broker.call(&["ack", "default", &receipts[0], &receipts[1]]).failed(1, &["1 of 2 leases lost"]);
    assert_eq!(said.out, format!("lease_lost {}\nacked {}\n", receipts[0], receipts[1]));
    for verb in ["ack", "release", "fail", "reject", "extend"] {
        broker.call(&[verb, "default", &receipts[0]]).failed(1, &["lost"]);
        broker.call(&[verb, "nowhere", &receipts[0]]).failed(1, &["namespace_unknown"]);
    }
}

/// A receipt is of the whole broker; a call that names another namespace than the lease's does nothing, not even with the
/// receipts that are of it.
#[test]
fn a_receipt_of_another_namespace_is_refused_and_nothing_is_done() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "other"]);
    for namespace in ["default", "other"] {
        broker.ok(&["publish", &format!("{namespace}/a"), "x"]);
    }
    let lease = |namespace: &str| receipt(&broker.json(&["receive", namespace, "--lease", "1h"])[0]);
    let (ours, theirs) = (lease("default"), lease("other"));
    for verb in ["ack", "release", "fail", "reject", "extend"] {
        let said = broker.call(&[verb, "default", &ours, &theirs]);
        let said = said.failed(1, &["argument_invalid", &theirs, "namespace other", "nothing was done"]);
        assert_eq!(said.out, "");
    }
    for namespace in ["default", "other"] {
        assert_eq!(broker.counts(namespace)["leased"], 1, "{namespace}");
    }
    broker.ok(&["ack", "default", &ours]);
    broker.ok(&["ack", "other", &theirs]);
}

/// No receipt is so large that a command breaks on it.
#[test]
fn a_receipt_of_the_largest_numbers_is_a_lost_lease() {
    let broker = Broker::start();
    let largest = "18446744073709551615.9.18446744073709551615";
    for verb in ["ack", "release", "fail", "reject", "extend"] {
        broker.call(&[verb, "default", largest, largest]).failed(1, &["2 of 2 leases lost"]);
    }
}

fn lease(broker: &Broker) -> String {
    receipt(&broker.json(&["receive", "default", "--wait", "30s"])[0])
}

fn receipt(message: &Value) -> String {
    message["receipt"].as_str().unwrap().to_owned()
}
