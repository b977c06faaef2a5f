//! Groups that start with what was published before they were made.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::broker::Broker;

fn bodies(broker: &Broker, group: &str) -> BTreeSet<String> {
    let rows = broker.json(&["receive", "default", "--group", group, "--max", "1000", "--ack"]);
    rows.iter().map(|row| row["body"].as_str().unwrap().to_owned()).collect()
}

fn group(broker: &Broker, name: &str) -> Value {
    let rows = broker.json(&["group", "list", "default", "--output", "json"]);
    rows.into_iter().find(|row| row["group"] == name).expect("the group is listed")
}

#[test]
fn a_group_starts_with_what_others_hold() {
    let broker = Broker::start();
    for topic in 0..20 {
        let lines: String = (0..20).map(|n| format!("{topic}-{n}\n")).collect();
        broker.call_with(&["publish", &format!("default/t{topic}"), "--lines"], lines.as_bytes()).ok();
    }
    let acked = broker.json(&["receive", "default", "--max", "50", "--ack"]);
    let acked: BTreeSet<String> = acked.iter().map(|row| row["body"].as_str().unwrap().to_owned()).collect();
    broker.ok(&["group", "create", "default", "audit", "--start", "earliest"]);
    broker.ok(&["publish", "default/t7", "later"]);
    broker.ok(&["group", "create", "default", "recent", "--start", "1h ago"]);
    broker.ok(&["group", "create", "default", "late"]);
    let broker = Broker::start_on(broker.kill());
    while ["audit", "recent"].iter().any(|name| group(&broker, name)["starting"] == true) {}
    let audit = group(&broker, "audit");
    assert_eq!((&audit["start"], &audit["waiting"]), (&json!("earliest"), &json!(351)));
    let groups = &broker.json(&["stats", "default", "--output", "json"])[0]["groups"];
    let accepted = ["default", "audit", "recent", "late"].map(|name| &groups[name]["accepted"]);
    assert_eq!(accepted, [401, 351, 351, 0].map(|count| json!(count)).each_ref(), "what each was given");
    let mut expected: BTreeSet<String> = (0..400).map(|n| format!("{}-{}", n / 20, n % 20)).collect();
    expected.insert("later".into());
    let expected = &expected - &acked;
    assert_eq!(bodies(&broker, "audit"), expected);
    assert_eq!(bodies(&broker, "recent"), expected);
    assert_eq!(bodies(&broker, "late"), BTreeSet::new());
    assert_eq!(bodies(&broker, "default"), expected);
    assert_eq!(broker.counts("default")["unfinished"], 0);
    broker
        .call(&["group", "create", "default", "x", "--start", "2999-01-01T00:00:00Z"])
        .failed(1, &["argument_invalid"]);
    broker.call(&["group", "create", "default", "x", "--start", "soon"]).failed(2, &["10m ago"]);
}
