//! The verbs that look at messages, topics, dead letters and namespaces, and change them.

use serde_json::{Value, json};

use crate::broker::Broker;

#[test]
fn messages_are_looked_at_by_id_by_dedup_id_and_in_order() {
    let broker = Broker::start();
    let id = publish(&broker, "a", &["one", "--dedup-id", "d"]);
    publish(&broker, "a", &["two", "--priority", "9"]);
    let look = |args: &[&str]| broker.json(&[&["look", "default/a", "--output", "json"], args].concat());
    assert_eq!(look(&[]).iter().map(|m| m["body"].clone()).collect::<Vec<_>>(), ["two", "one"]);
    assert_eq!(look(&["--first", "1"])[0]["body"], "two");
    for which in [["--id", &id], ["--dedup-id", "d"]] {
        let found = &look(&which)[0];
        assert_eq!((&found["id"], &found["state"], &found["dedup_id"]), (&json!(id), &json!("waiting"), &json!("d")));
    }
    let table = broker.ok(&["look", "default/a"]);
    assert!(table.trim_start().starts_with("id ") && table.contains(&id), "{table}");
    broker.call(&["look", "default/a", "--id", "9.4.9"]).failed(1, &["message_unknown"]);
    broker.call(&["look", "default/none"]).failed(1, &["topic_unknown"]);
}

#[test]
fn a_message_is_cancelled_and_its_dedup_id_forgotten() {
    let broker = Broker::start();
    let id = publish(&broker, "a", &["one", "--dedup-id", "d"]);
    broker.ok(&["cancel", "default/a", "--id", &id]);
    assert_eq!(broker.counts("default")["unfinished"], 0);
    // With its last message the topic is gone.
    broker.call(&["cancel", "default/a", "--id", &id]).failed(1, &["topic_unknown"]);
    publish(&broker, "a", &["other"]);
    broker.call(&["cancel", "default/a", "--id", &id]).failed(1, &["message_unknown"]);
    broker.ok(&["purge", "default"]);
    publish(&broker, "a", &["two", "--dedup-id", "d"]);
    broker.ok(&["receive", "default"]);
    broker.call(&["cancel", "default/a", "--dedup-id", "d"]).failed(1, &["message_leased"]);
}

/// A retry's pause runs in the broker's run time, and people read clocks: it is told when it is over if the broker runs on.
#[test]
fn a_message_in_retry_is_shown_with_when_it_is_due() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--retry", "backoff:1h..2h"]);
    publish(&broker, "a", &["x"]);
    let lease = broker.json(&["receive", "default"])[0].clone();
    broker.ok(&["fail", "default", lease["receipt"].as_str().unwrap()]);
    let row = broker.json(&["look", "default/a", "--output", "json"])[0].clone();
    let due = |of: &Value| humantime::parse_rfc3339(of["due"].as_str().unwrap_or_else(|| panic!("{of}"))).unwrap();
    let published = humantime::parse_rfc3339(row["published"].as_str().unwrap()).unwrap();
    let after = due(&row).duration_since(published).unwrap();
    // An hour, and a quarter of it either way by chance.
    assert!(row["state"] == "retrying" && (2700..=4600).contains(&after.as_secs()), "{row}");
    let table = broker.ok(&["look", "default/a"]);
    let due_minute = &row["due"].as_str().unwrap()[..16];
    assert!(table.contains(due_minute), "when it is due: {table}");
    // And so is its topic, in a list as alone.
    for topics in [&["topics", "default"][..], &["topics", "default/a"], &["topics", "default", "--top", "due"]] {
        let listed = broker.json(&[topics, &["--output", "json"]].concat())[0].clone();
        assert!(due(&listed).duration_since(published).unwrap().as_secs() >= 2700, "{listed}");
        let table = broker.ok(topics);
        assert!(table.contains(due_minute), "when it is due: {table}");
    }
}

#[test]
fn what_is_due_is_listed_however_much_is_ready_before_it() {
    let broker = Broker::start();
    broker.call_with(&["publish", "default/a", "--lines"], "ready\n".repeat(1200).as_bytes()).ok();
    for (delay, body) in [("2h", "second"), ("1h", "first"), ("3h", "third")] {
        broker.ok(&["publish", "default/a", body, "--delay", delay]);
    }
    let due = broker.json(&["look", "default/a", "--due", "2", "--output", "json"]);
    assert_eq!(due.iter().map(|row| row["body"].as_str().unwrap()).collect::<Vec<_>>(), ["first", "second"]);
    broker.ok(&["cancel", "default/a", "--id", due[0]["id"].as_str().unwrap()]);
    assert_eq!(broker.json(&["look", "default/a", "--due", "9", "--output", "json"]).len(), 2);
}

#[test]
fn a_quota_of_topics_says_that_some_stay_for_their_rate() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "slow", "--rate", "1/1h:1", "--quota-topics", "1"]);
    broker.ok(&["publish", "slow/a", "one"]);
    broker.ok(&["receive", "slow", "--ack"]);
    broker.call(&["publish", "slow/b", "two"]).failed(1, &["quota_exceeded", "stays until its bucket is full"]);
    broker.ok(&["namespace", "set", "slow", "--rate", "none"]);
    broker.ok(&["publish", "slow/b", "two"]);
}

/// What one of them is refused for keeps nothing from the others.
#[test]
fn several_messages_are_cancelled_or_rescheduled_in_one_call() {
    let broker = Broker::start();
    publish(&broker, "a", &["one", "--delay", "1h"]);
    publish(&broker, "a", &["two", "--delay", "1h"]);
    publish(&broker, "a", &["three", "--dedup-id", "d", "--delay", "1h"]);
    let looked = broker.json(&["look", "default/a", "--due", "9", "--output", "json"]);
    let ids: Vec<&str> = looked.iter().map(|row| row["id"].as_str().unwrap()).collect();
    broker.ok(&["reschedule", "default/a", "--id", ids[0], "--id", ids[1], "--delay", "2h"]);
    broker.ok(&["reschedule", "default/a", "--dedup-id", "d", "--delay", "0s"]);
    assert_eq!(
        (broker.counts("default")["delayed"].as_u64(), broker.counts("default")["waiting"].as_u64()),
        (Some(2), Some(1))
    );
    let said = broker.call(&["cancel", "default/a", "--id", ids[0], "--id", "999.4.999", "--id", ids[1]]);
    said.failed(1, &["999.4.999: ", "1 of 3 were refused"]);
    assert_eq!(broker.counts("default")["delayed"], 0);
    broker.call(&["cancel", "default/a", "--id", "999.4.999"]).failed(1, &["refused by the broker"]);
    broker.ok(&["publish", "default/a", "four", "--dedup-id", "e", "--delay", "1h"]);
    let both = ["cancel", "default/a", "--dedup-id", "d", "--dedup-id", "e"];
    broker.ok(&both);
    broker.call(&both).failed(1, &["d: ", "e: ", "all 2 were refused"]);
}

#[test]
fn a_message_is_rescheduled() {
    let broker = Broker::start();
    publish(&broker, "a", &["one", "--dedup-id", "d", "--delay", "1h"]);
    assert_eq!(broker.ok(&["receive", "default"]), "");
    broker.ok(&["reschedule", "default/a", "--dedup-id", "d", "--delay", "0s"]);
    assert_eq!(broker.counts("default")["waiting"], 1);
    broker.ok(&["reschedule", "default/a", "--dedup-id", "d", "--delay", "1h"]);
    assert_eq!(broker.counts("default")["delayed"], 1);
}

#[test]
fn a_dedup_id_is_forgotten() {
    let broker = Broker::start();
    publish(&broker, "a", &["one", "--dedup-id", "d"]);
    assert_eq!(broker.ok(&["forget", "default/a", "--dedup-id", "d"]), "forgotten\n");
    assert_eq!(broker.ok(&["forget", "default/a", "--dedup-id", "d"]), "it was not remembered\n");
    publish(&broker, "a", &["two", "--dedup-id", "d"]);
    assert_eq!(broker.counts("default")["waiting"], 2);
}

#[test]
fn topics_and_prefixes_are_paused_and_resumed() {
    let broker = Broker::start();
    broker.ok(&["pause", "default/acme/*"]);
    broker.ok(&["pause", "default/beta"]);
    publish(&broker, "acme/1", &["x"]);
    publish(&broker, "beta", &["x"]);
    assert_eq!(broker.ok(&["receive", "default", "--max", "9"]), "");
    let shown = broker.ok(&["namespace", "show", "default"]);
    assert!(shown.contains("acme/*") && shown.contains("beta"), "{shown}");
    assert_eq!(broker.json(&["topics", "default/beta", "--output", "json"])[0]["paused"], true);
    broker.ok(&["resume", "default/acme/*"]);
    assert_eq!(broker.json(&["receive", "default", "--max", "9"])[0]["topic"], "acme/1");
    broker.ok(&["resume", "default/beta"]);
    assert_eq!(broker.json(&["receive", "default", "--max", "9"])[0]["topic"], "beta");
}

/// A pause of a namespace is of all that comes later, too, and narrower ones go on behind it.
#[test]
fn a_whole_namespace_is_paused_and_resumed() {
    let broker = Broker::start();
    broker.ok(&["pause", "default/acme/*"]);
    broker.ok(&["pause", "default"]);
    broker.ok(&["namespace", "create", "other"]);
    for topic in ["default/acme/1", "default/beta", "other/beta"] {
        broker.ok(&["publish", topic, "x"]);
    }
    assert_eq!(broker.ok(&["receive", "default", "--max", "9"]), "");
    assert_eq!(broker.json(&["receive", "other", "--max", "9"])[0]["topic"], "beta");
    assert_eq!(
        broker.json(&["namespace", "show", "default", "--output", "json"])[0]["paused"],
        json!([
            { "topics": "*", "until": null },
            { "topics": "acme/*", "until": null },
        ])
    );
    broker.call(&["resume", "default/beta"]).failed(1, &["beta is not paused by itself", "`millpond resume default`"]);
    broker.call(&["resume", "other"]).failed(1, &["other is not paused"]);
    broker.ok(&["resume", "default/*"]);
    assert_eq!(broker.json(&["receive", "default", "--max", "9"]).len(), 1, "that of beta, and not of acme");
}

#[test]
fn a_pause_for_a_time_is_over_by_itself() {
    let broker = Broker::start();
    broker.ok(&["publish", "default/orders", "held"]);
    broker.ok(&["pause", "default/orders", "--for", "1s"]);
    let shown = broker.json(&["namespace", "show", "default", "--output", "json"]);
    assert_eq!(shown[0]["paused"][0]["topics"], "orders");
    assert!(shown[0]["paused"][0]["until"].as_str().unwrap().ends_with('Z'), "{shown:?}");
    assert!(broker.ok(&["namespace", "show", "default"]).contains("until 2"));
    assert!(broker.ok(&["receive", "default", "--wait", "0s"]).is_empty());
    assert_eq!(broker.json(&["receive", "default", "--wait", "30s", "--ack"])[0]["body"], "held");
    assert_eq!(broker.json(&["namespace", "show", "default", "--output", "json"])[0]["paused"], json!([]));
    broker.call(&["pause", "default/orders", "--for", "0s"]).failed(1, &["at least 1 ms"]);
}

/// Who resumes what is not paused is told so, and what it is paused by.
#[test]
fn a_resume_of_what_is_not_paused_is_refused() {
    let broker = Broker::start();
    broker.call(&["resume", "default/acme/1"]).failed(1, &["acme/1 is not paused"]);
    for paused in ["default/acme/*", "default/a*", "default/acme/2", r"default/acme/1\*"] {
        broker.ok(&["pause", paused]);
    }
    let said = broker.call(&["resume", "default/acme/1"]);
    let said = said.failed(
        1,
        &["acme/1 is not paused by itself", "millpond resume 'default/a*'", "millpond resume 'default/acme/*'"],
    );
    assert!(!said.err.contains("acme/2") && !said.err.contains(r"1\*"), "{said:?}");
    broker.call(&["resume", "default/acme/1*"]).failed(1, &["acme/1* is not paused by itself", "'default/acme/*'"]);
    broker.ok(&["resume", r"default/acme/1\*"]);
}

/// With `--group`, a topic's figures are that group's, and not those of the first that has the topic.
#[test]
fn a_topic_is_shown_as_a_group_has_it() {
    let broker = Broker::start();
    broker.ok(&["group", "create", "default", "audit"]);
    publish(&broker, "a", &["x"]);
    publish(&broker, "a", &["y"]);
    broker.ok(&["receive", "default", "--ack"]);
    let waiting = |group: &str| {
        let rows = broker.json(&["topics", "default/a", "--group", group, "--output", "json"]);
        (rows[0]["waiting"].clone(), rows[0]["cursors"].as_array().map_or(0, Vec::len))
    };
    assert_eq!((waiting("default"), waiting("audit")), ((1.into(), 1), (2.into(), 1)));
    broker.ok(&["receive", "default", "--ack"]);
    assert_eq!((waiting("default"), waiting("audit")), ((0.into(), 0), (2.into(), 1)));
    broker.call(&["topics", "default/a", "--group", "none"]).failed(1, &["has no group none"]);
}

#[test]
fn topics_are_purged_by_name_prefix_and_namespace() {
    let broker = Broker::start();
    for topic in ["a", "b/1", "b/2", "c"] {
        publish(&broker, topic, &["x"]);
    }
    assert_eq!(broker.ok(&["purge", "default/b/*"]), "purged 2\n");
    assert_eq!(broker.ok(&["purge", "default/a", "--output", "json"]), "{\"purged\":1}\n");
    assert_eq!(broker.ok(&["purge", "default"]), "purged 1\n");
    assert_eq!(broker.counts("default")["unfinished"], 0);
}

#[test]
fn topics_are_listed_in_pages_and_shown_with_cursors() {
    let broker = Broker::start();
    for topic in ["b/2", "a", "b/1", "c"] {
        publish(&broker, topic, &["x"]);
    }
    let names = |args: &[&str]| {
        let rows = broker.json(&[&["topics", "--output", "json"], args].concat());
        rows.iter().map(|row| row["topic"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&["default"]), ["a", "b/1", "b/2", "c"]);
    assert_eq!(names(&["default/b/*"]), ["b/1", "b/2"]);
    assert_eq!(names(&["default", "--limit", "2"]), ["a", "b/1"]);
    assert_eq!(names(&["default", "--limit", "2", "--after", "b/1"]), ["b/2", "c"]);
    assert!(broker.call(&["topics", "default", "--limit", "2"]).err.contains("--after b/1\n"));
    assert_eq!(names(&["default", "--top", "age", "--limit", "2"]), ["b/2", "a"]);

    broker.ok(&["receive", "default/a", "--ack"]);
    publish(&broker, "a", &["y"]);
    publish(&broker, "a", &["z"]);
    assert_eq!(names(&["default", "--top", "depth"]), ["a", "b/1", "b/2", "c"]);
    assert_eq!(names(&["default/b/*", "--top", "depth", "--limit", "1"]), ["b/1"]);
    broker.ok(&["receive", "default/a"]);
    let topic = &broker.json(&["topics", "default/a", "--output", "json"])[0];
    assert_eq!((&topic["waiting"], &topic["leased"]), (&json!(1), &json!(1)));
    let cursors = &topic["cursors"][0];
    assert_eq!((&cursors["group"], &cursors["priority"]), (&json!("default"), &json!(4)));
    let number = |name: &str| cursors[name].as_u64().unwrap();
    assert_eq!((number("scan") - number("completion"), number("next") - number("scan")), (1, 1));
    assert!(broker.ok(&["topics", "default/a"]).contains("completion"));
    broker.call(&["topics", "default/none"]).failed(1, &["topic_unknown"]);
}

#[test]
fn whoever_stops_reading_has_seen_enough() {
    let broker = Broker::start();
    publish(&broker, "a", &["x"]);
    for args in
        [&["topics", "default"][..], &["stats"], &["namespace", "list", "--output", "json"], &["bench", "publish"]]
    {
        let mut command =
            broker.command(&[args, if args[0] == "bench" { &["--duration", "1ms"] } else { &[] }].concat());
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        crate::broker::Said::of(command.stdout(writer).output().unwrap()).ok();
    }
}

#[test]
fn dead_letters_are_listed_shown_redriven_and_purged() {
    let broker = Broker::start();
    for (topic, body) in [("a", "1"), ("a", "2"), ("ab", "3")] {
        publish(&broker, topic, &[body]);
    }
    for message in broker.json(&["receive", "default", "--max", "3"]) {
        broker.ok(&["reject", "default", message["receipt"].as_str().unwrap(), "--reason", "why not"]);
    }
    let list = |args: &[&str]| broker.json(&[&["dead", "list", "--output", "json"], args].concat());
    let bodies = |rows: &[Value]| rows.iter().map(|r| r["body"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    assert_eq!(bodies(&list(&["default"])), ["1", "2", "3"]);
    assert_eq!(bodies(&list(&["default/a"])), ["1", "2"]);
    assert_eq!(bodies(&list(&["default/a*", "--limit", "1"])), ["1"]);
    let more = broker.call(&["dead", "list", "default", "--limit", "1"]).err;
    let after = more.trim().rsplit_once("there are more: --after ").expect("it says where to go on").1;
    assert_eq!(bodies(&list(&["default", "--after", after])), ["2", "3"]);
    assert_eq!(bodies(&list(&["default/a", "--limit", "1", "--after", after])), ["2"]);
    broker.call(&["dead", "list", "default", "--after", "a"]).failed(1, &["ID/TOPIC"]);

    let id = list(&["default/ab"])[0]["id"].as_str().unwrap().to_owned();
    let shown = &broker.json(&["dead", "look", "default/ab", "--id", &id, "--output", "json"])[0];
    assert_eq!((&shown["reason"], &shown["detail"]), (&json!("rejected"), &json!("why not")));
    assert!(broker.ok(&["dead", "look", "default/ab", "--id", &id]).contains("why not"));
    broker.call(&["dead", "look", "default/a", "--id", &id]).failed(1, &[&id, "dead list"]);
    broker.call(&["dead", "purge", "default", "--id", &id]).failed(2, &["--id"]);

    assert_eq!(broker.ok(&["dead", "redrive", "default/ab", "--id", &id]), "redriven 1\n");
    assert_eq!(broker.json(&["receive", "default", "--ack"])[0]["body"], "3");
    assert_eq!(broker.ok(&["dead", "redrive", "default", "--first", "1"]), "redriven 1\n");
    assert_eq!(bodies(&list(&["default"])), ["2"]);
    broker.call(&["dead", "redrive", "default/a", "--first", "1", "--id", &id]).failed(2, &["--first"]);
    broker.call(&["dead", "purge", "default", "--first", "0"]).failed(2, &["--first"]);
    assert_eq!(broker.ok(&["dead", "redrive", "default/a", "--first", "5"]), "redriven 1\n");
    assert_eq!(broker.counts("default")["waiting"], 2);
    for message in broker.json(&["receive", "default", "--max", "3"]) {
        broker.ok(&["reject", "default", message["receipt"].as_str().unwrap()]);
    }
    assert_eq!(broker.ok(&["dead", "purge", "default"]), "purged 2\n");
    assert_eq!(broker.counts("default")["dead"], 0);
}

#[test]
fn namespaces_are_made_changed_shown_and_deleted() {
    let broker = Broker::start();
    let policy = [
        ["--lease", "5s"],
        ["--max-failures", "3"],
        ["--retry", "backoff:2s..1m"],
        ["--ttl", "1day"],
        ["--on-expiry", "dead"],
        ["--dedup-window", "forever"],
        ["--max-in-flight", "1"],
        ["--rate", "10/m:3"],
        ["--weight", "7"],
        ["--dispatch", "fair"],
        ["--ageing", "30s"],
        ["--retention-age", "7days"],
        ["--retention-count", "1000000"],
    ];
    broker.ok(&[&["namespace", "create", "orders"], policy.as_flattened()].concat());
    let show = || broker.json(&["namespace", "show", "orders", "--output", "json"])[0]["policy"].clone();
    for [flag, value] in policy {
        assert_eq!(show()[&flag[2..]], value);
    }
    broker.call(&["namespace", "create", "orders"]).failed(1, &["exists already", "namespace set"]);
    broker.ok(&["namespace", "set", "orders", "--ttl", "none", "--max-in-flight", "none"]);
    assert_eq!(
        (&show()["ttl"], &show()["max-in-flight"], &show()["weight"]),
        (&json!("none"), &json!("none"), &json!("7"))
    );
    broker.ok(&["publish", "orders/a", "x"]);
    assert!(broker.ok(&["namespace", "list"]).contains("orders"));
    let list = broker.json(&["namespace", "list", "--output", "json"]);
    let figures = |row: &Value| ["topics", "unfinished", "dead"].map(|name| row[name].clone());
    assert_eq!(list.iter().map(figures).collect::<Vec<_>>(), [[0, 0, 0], [1, 1, 0]].map(|row| row.map(Value::from)));
    broker.call(&["namespace", "delete", "orders"]).failed(1, &["namespace_in_use"]);
    broker.ok(&["purge", "orders"]);
    broker.ok(&["namespace", "delete", "orders"]);
    broker.call(&["namespace", "show", "orders"]).failed(1, &["no namespace orders", "namespace create"]);
    broker.call(&["namespace", "set", "orders", "--weight", "2"]).failed(1, &["no namespace orders"]);
    broker.call(&["namespace", "delete", "orders"]).failed(1, &["namespace_unknown"]);
    let contradiction = ["namespace", "set", "default", "--max-in-flight", "1", "--retry", "tail"];
    broker.call(&contradiction).failed(2, &["strict order"]);
    for (rate, why) in [
        ("1/d:2", "within a day"),
        ("0/s", "at least one message"),
        ("5/0s", "the period of a rate"),
        ("1/10s:0", "the burst of a rate"),
    ] {
        broker.call(&["namespace", "set", "default", "--rate", rate]).failed(2, &[why]);
    }
    broker.call(&["namespace", "set", "default", "--ageing", "10ms"]).failed(2, &["at least 1 s"]);
    broker.call(&["namespace", "set", "default", "--retention-age", "1s"]).failed(2, &["at least 10 s"]);
    let rule = ["namespace", "set", "default", "--rule", "a dispatch=fair"];
    broker.call(&rule).failed(2, &["of the whole namespace"]);
}

#[test]
fn rules_are_set_shown_and_dropped() {
    let broker = Broker::start();
    broker.ok(&[
        "namespace",
        "create",
        "n",
        "--max-failures",
        "3",
        "--rule",
        "a* max-failures=0",
        "--rule",
        "ab weight=2",
    ]);
    let of = |topic: &str| broker.json(&["namespace", "show", "n", "--topic", topic, "--output", "json"])[0].clone();
    assert_eq!((&of("ab")["rule"], &of("ab")["policy"]["max-failures"]), (&json!("ab"), &json!("3")));
    assert_eq!((&of("ac")["rule"], &of("ac")["policy"]["max-failures"]), (&json!("a*"), &json!("0")));
    assert_eq!(of("b")["rule"], Value::Null);
    let table = broker.ok(&["namespace", "show", "n", "--topic", "ac"]);
    assert!(table.contains("rule a*") && table.contains("failure 1 of a message makes it a dead letter"), "{table}");
    // It is what the broker does, too.
    broker.ok(&["publish", "n/ac", "x"]);
    let receipt = broker.json(&["receive", "n"])[0]["receipt"].as_str().unwrap().to_owned();
    broker.ok(&["fail", "n", &receipt]);
    assert_eq!(broker.counts("n")["dead"], 1);
    // A rule is changed as a whole, and the others stay.
    broker.ok(&["namespace", "set", "n", "--rule", "a* weight=9", "--no-rule", "ab"]);
    let rules = broker.json(&["namespace", "show", "n", "--output", "json"])[0]["rules"].clone();
    assert_eq!(rules, json!([{ "pattern": "a*", "policy": { "weight": "9" } }]));
    let strict = ["namespace", "set", "n", "--retry", "tail", "--rule", "b max-in-flight=1"];
    broker.call(&strict).failed(2, &["the rule for b", "strict order"]);
}

#[test]
fn one_message_of_a_topic_stands_for_those_that_come_while_it_waits() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "n", "--coalesce", "keep-latest", "--rule", "first/* coalesce=keep-first"]);
    let publish = |topic: &str, body: &str| broker.json(&["publish", topic, body, "--output", "json"])[0].clone();
    let first = publish("n/a", "one");
    let second = publish("n/a", "two");
    assert_eq!((&second["outcome"], &second["replaced"]), (&json!("replaced"), &first["id"]));
    assert_eq!(broker.json(&["receive", "n", "--max", "9", "--ack"])[0]["body"], "two");
    let kept = publish("n/first/a", "one");
    let declined = publish("n/first/a", "two");
    assert_eq!((&declined["outcome"], &declined["id"]), (&json!("declined"), &kept["id"]));
    let stats = broker.json(&["stats", "n", "--json"])[0].clone();
    let tally = ["accepted", "declined", "superseded", "dropped"]
        .map(|name| stats["groups"]["default"][name].as_u64().unwrap());
    assert_eq!(tally, [3, 1, 1, 0]);
}

#[test]
fn changes_of_a_namespace_at_the_same_time_are_all_there() {
    let broker = Broker::start();
    let made: Vec<_> = (0..6)
        .map(|number: u32| {
            let failures = number.to_string();
            broker.spawn(&["namespace", "create", "race", "--max-failures", &failures])
        })
        .collect();
    let made = made.into_iter().map(|create| create.wait().code).filter(|code| *code == 0).count();
    assert_eq!(made, 1, "one of them has made it, and the others were told");
    let changes: Vec<_> = (0..12)
        .map(|number| broker.spawn(&["namespace", "set", "race", "--rule", &format!("t{number} weight=2")]))
        .collect();
    changes.into_iter().for_each(|change| _ = change.wait().ok());
    let shown = broker.json(&["namespace", "show", "race", "--output", "json"])[0].clone();
    assert_eq!(shown["rules"].as_array().unwrap().len(), 12, "{shown}");
    broker.call(&["namespace", "set", "race", "--no-rule", "nowhere"]).failed(1, &["no rule for nowhere"]);
}

#[test]
fn a_full_topic_refuses_or_drops() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "n", "--max-waiting", "1", "--rule", "drop overflow=drop-oldest"]);
    broker.ok(&["publish", "n/a", "one"]);
    broker.call(&["publish", "n/a", "two"]).failed(1, &["topic_full"]);
    broker.ok(&["publish", "n/drop", "one"]);
    broker.ok(&["publish", "n/drop", "two"]);
    assert_eq!(broker.json(&["receive", "n/drop"])[0]["body"], "two");
}

#[test]
fn stats_count_every_state_at_one_position() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--retry", "backoff:1h..2h"]);
    broker.call_with(&["publish", "default/a", "--lines"], b"1\n2\n3\n4\n").ok();
    publish(&broker, "a", &["5", "--delay", "1h"]);
    let receipts: Vec<_> = broker.json(&["receive", "default", "--max", "3"]);
    let receipt = |i: usize| receipts[i]["receipt"].as_str().unwrap();
    broker.ok(&["fail", "default", receipt(0)]);
    broker.ok(&["reject", "default", receipt(1)]);
    let mut expected = json!({ "waiting": 1, "delayed": 1, "retrying": 1, "leased": 1, "dead": 1, "unfinished": 4 });
    for (name, count) in [("accepted", 5), ("declined", 0), ("superseded", 0), ("dropped", 0), ("retained_out", 0)] {
        expected[name] = count.into();
    }
    assert_eq!(broker.counts("default"), expected);
    let all = broker.json(&["stats", "--json"]);
    assert_eq!((&all[0]["namespace"], &all[0]["topics"]), (&json!("default"), &json!(1)));
    assert!(all[0]["position"].as_u64().unwrap() > 0);
    assert!(broker.ok(&["stats", "default"]).starts_with("namespace "));
    broker.call(&["stats", "nowhere"]).failed(1, &["namespace_unknown"]);
}

/// Publishes one message and returns its id.
fn publish(broker: &Broker, topic: &str, args: &[&str]) -> String {
    let said = broker.ok(&[&["publish", &format!("default/{topic}")], args].concat());
    said.trim().strip_prefix("queued ").expect("it is queued").to_owned()
}

#[test]
fn every_group_is_given_every_message_until_it_is_deleted() {
    let broker = Broker::start();
    broker.ok(&["group", "create", "default", "audit"]);
    broker.call(&["group", "create", "default", "audit"]).failed(1, &["group_exists"]);
    publish(&broker, "a", &["one"]);
    let receive = |args: &[&str]| broker.json(&[&["receive", "default", "--ack"], args].concat());
    assert_eq!(receive(&[])[0]["body"], "one");
    assert_eq!(broker.ok(&["receive", "default"]), "");
    let groups = broker.json(&["group", "list", "default", "--output", "json"]);
    let of = |n: usize| (groups[n]["group"].clone(), groups[n]["waiting"].clone());
    assert_eq!([of(0), of(1)], [(json!("default"), json!(0)), (json!("audit"), json!(1))]);
    assert_eq!(receive(&["--group", "audit"])[0]["body"], "one");
    publish(&broker, "a", &["two"]);
    publish(&broker, "b", &["three"]);
    assert_eq!(receive(&["--max", "1"])[0]["body"], "three");
    let rows = |args: &[&str]| broker.json(&[args, &["--output", "json"]].concat());
    let names = |group: &str| {
        let rows = rows(&["topics", "default", "--group", group]);
        rows.iter().map(|row| (row["topic"].clone(), row["lag"].clone())).collect::<Vec<_>>()
    };
    assert_eq!(names("default"), [(json!("a"), json!(1))]);
    assert_eq!(names("audit"), [(json!("a"), json!(1)), (json!("b"), json!(1))]);
    assert_eq!(rows(&["topics", "default/a", "--group", "audit"])[0]["cursors"][0]["lag"], 1);
    assert_eq!(rows(&["look", "default/b", "--group", "audit"])[0]["body"], "three");
    broker.call(&["look", "default/b", "--group", "default"]).failed(1, &["topic_unknown"]);
    assert_eq!(broker.ok(&["purge", "default/b", "--group", "audit"]).trim(), "purged 1");
    let groups = rows(&["stats", "default", "--group", "audit"])[0]["groups"].clone();
    assert_eq!((groups.as_object().unwrap().len(), &groups["audit"]["waiting"]), (1, &json!(1)));
    broker.call(&["stats", "default", "--group", "nowhere"]).failed(1, &["no group nowhere"]);
    // Without a namespace, those are shown that have it.
    broker.ok(&["namespace", "create", "other"]);
    let shown = rows(&["stats", "--group", "audit"]);
    assert_eq!((shown.len(), &shown[0]["groups"]["audit"]["waiting"]), (1, &json!(1)));
    assert_eq!(rows(&["stats", "--group", "default"]).len(), 2);
    broker.call(&["stats", "--group", "nowhere"]).failed(1, &["no group nowhere"]);
    broker.ok(&["group", "delete", "default", "audit"]);
    broker.call(&["receive", "default", "--group", "audit"]).failed(1, &["group_unknown"]);
    broker.call(&["group", "delete", "default", "default"]).failed(1, &["group_in_use"]);
    assert!(broker.ok(&["group", "list", "default"]).contains("default"));
    assert_eq!(receive(&[])[0]["body"], "two");
}
