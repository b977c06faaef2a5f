//! What a kill and a stop leave behind: all that was confirmed, nothing that was finished.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::broker::{Broker, fresh_directory, serve, serve_at};

#[test]
fn a_kill_loses_nothing_confirmed_and_brings_nothing_acked_back() {
    let broker = Broker::start();
    let lines: String = (0..300).map(|i| format!("{i}\n")).collect();
    broker.call_with(&["publish", "default/a", "--lines"], lines.as_bytes()).ok();
    let acked = bodies(&broker.json(&["receive", "default", "--max", "100", "--ack"]));
    broker.ok(&["publish", "default/a", "delayed", "--delay", "1h"]);
    let leased = broker.json(&["receive", "default", "--max", "10", "--lease", "1h"]);

    let broker = Broker::start_on(broker.kill());
    let counts = broker.counts("default");
    assert_eq!((&counts["waiting"], &counts["leased"], &counts["delayed"]), (&190.into(), &10.into(), &1.into()));
    // A lease lives on: its receipt is as good as before.
    broker.ok(&["ack", "default", leased[0]["receipt"].as_str().unwrap()]);
    let rest = bodies(&broker.json(&["receive", "default", "--max", "1000", "--ack"]));
    assert_eq!(rest.len(), 190);
    assert!(acked.is_disjoint(&rest) && rest.is_disjoint(&bodies(&leased)));
}

#[test]
fn a_stop_answers_what_was_asked_and_ends_in_order() {
    let broker = Broker::start();
    broker.call_with(&["publish", "default/a", "--lines"], b"1\n2\n3\n").ok();
    let _worker = broker.spawn(&["work", "default/b", "--", "true"]);
    let (code, directory) = broker.stop();
    assert_eq!(code, Some(0));
    let broker = Broker::start_on(directory);
    assert_eq!(broker.counts("default")["waiting"], 3);
}

#[test]
fn a_worker_outlives_its_broker() {
    let directory = fresh_directory();
    let broker = Broker::run(&mut serve(directory.path()));
    let address = broker.address.clone();
    let mut worker = broker.spawn(&["work", "default", "--", "sh", "-c", "cat; echo"]);
    broker.ok(&["publish", "default/a", "before"]);
    assert_eq!(worker.next_line(), "before");
    // An ack that is lost with the broker would bring the message again.
    while broker.counts("default")["unfinished"] != 0 {}
    drop(broker);
    let broker = Broker::run(&mut serve_at(directory.path(), &address));
    broker.ok(&["publish", "default/a", "after"]);
    assert_eq!(worker.next_line(), "after");
}

fn bodies(messages: &[Value]) -> BTreeSet<String> {
    messages.iter().map(|message| message["body"].as_str().unwrap().to_owned()).collect()
}
