//! `publish` in all its forms.

use crate::broker::{Broker, fresh_directory, millpond, serve};

#[test]
fn a_body_comes_from_the_call_or_from_stdin() {
    let broker = Broker::start();
    let first = broker.ok(&["publish", "default/a", "one"]);
    assert!(first.starts_with("queued "), "{first}");
    broker.call_with(&["publish", "default/a", "-"], b"two").ok();
    broker.call_with(&["publish", "default/a"], b"three\n").ok();
    broker.ok(&["publish", "default/a", ""]);
    let bodies: Vec<_> = broker.json(&["receive", "default", "--max", "10"]).iter().map(body).collect();
    assert_eq!(bodies, ["one", "two", "three\n", ""]);
}

#[test]
fn lines_become_messages_of_their_own() {
    let broker = Broker::start();
    let said = broker.call_with(&["publish", "default/a", "--lines"], b"one\n\nthree\nlast").ok();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("and the 3 after it"), "{said}");
    let bodies: Vec<_> = broker.json(&["receive", "default", "--max", "10"]).iter().map(body).collect();
    assert_eq!(bodies, ["one", "", "three", "last"]);

    let many: String = (0..2_500).map(|i| format!("line {i}\n")).collect();
    broker.call_with(&["publish", "default/many", "-", "--lines"], many.as_bytes()).ok();
    assert_eq!(broker.counts("default")["waiting"], 2_500);
    // A pipe that turns out to be empty holds no lines, and that is no mistake.
    assert_eq!(broker.call_with(&["publish", "default/a", "--lines"], b"").ok(), "");
}

#[test]
fn a_body_is_published_whole_or_not_at_all() {
    let directory = fresh_directory();
    let broker = Broker::run(serve(directory.path()).args(["--body-max", "3MiB"]));
    let large = vec![b'x'; 2_000_000];
    broker.call_with(&["publish", "default/a", "-"], &large).ok();
    assert_eq!(body(&broker.json(&["receive", "default", "--ack"])[0]).len(), large.len());
    broker.call_with(&["publish", "default/a", "-"], &vec![b'x'; 3_500_000]).failed(1, &["3500000", "3145728"]);
    broker.call_with(&["publish", "default/a", "-"], &vec![b'x'; 5_000_000]).failed(2, &["4194304"]);
    assert_eq!(broker.counts("default")["unfinished"], 0);
}

#[test]
fn what_was_published_before_a_bad_line_is_told() {
    let broker = Broker::start();
    let mut lines: Vec<u8> = (0..1_000).flat_map(|i| format!("{i}\n").into_bytes()).collect();
    lines.extend(vec![b'x'; 5_000_000]);
    let said = broker.call_with(&["publish", "default/a", "--lines"], &lines);
    let told = said.failed(1, &["a line", "4194304", "the first 1000 lines"]).out;
    assert!(told.starts_with("queued ") && told.contains("and the 999 after it"), "{told}");
    assert_eq!(broker.counts("default")["waiting"], 1_000);
    broker.call_with(&["publish", "default/a", "--lines"], &lines[lines.len() - 5_000_000..]).failed(2, &["a line"]);
}

#[test]
fn a_ttl_of_none_goes_before_the_namespaces() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--ttl", "1h"]);
    broker.ok(&["publish", "default/a", "x"]);
    broker.ok(&["publish", "default/a", "y", "--ttl", "none"]);
    let looked = broker.json(&["look", "default/a", "--output", "json"]);
    assert!(looked[0]["expires"].is_string() && looked[1]["expires"].is_null(), "{looked:?}");
}

#[test]
fn options_travel_with_the_message() {
    let broker = Broker::start();
    broker.ok(&["publish", "default/a", "later", "--priority", "1"]);
    broker.ok(&[
        "publish",
        "default/a",
        "first",
        "--priority",
        "9",
        "--header",
        "kind=test",
        "--header",
        "empty=",
        "--dedup-id",
        "d1",
        "--level",
        "buffered",
    ]);
    broker.ok(&["publish", "default/a", "not yet", "--delay", "1h", "--ttl", "2h"]);
    let messages = broker.json(&["receive", "default", "--max", "10"]);
    assert_eq!(messages.iter().map(body).collect::<Vec<_>>(), ["first", "later"]);
    let first = &messages[0];
    assert_eq!(first["priority"], 9);
    assert_eq!(first["headers"], serde_json::json!({ "kind": "test", "empty": "" }));
    assert_eq!(first["dedup_id"], "d1");
    assert_eq!(first["topic"], "a");
    assert_eq!(first["deliveries"], 1);
    assert_eq!(broker.counts("default")["delayed"], 1);
    let looked = &broker.json(&["look", "default/a", "--output", "json"]);
    let delayed = looked.iter().find(|m| m["state"] == "delayed").unwrap();
    assert!(delayed["due"].as_str() > delayed["published"].as_str(), "{delayed}");
    assert!(delayed["expires"].as_str() > delayed["due"].as_str(), "{delayed}");
}

#[test]
fn a_dedup_id_is_stored_once() {
    let broker = Broker::start();
    let publish = |output| broker.ok(&["publish", "default/a", "x", "--dedup-id", "d", "--output", output]);
    let first: serde_json::Value = serde_json::from_str(&publish("json")).unwrap();
    assert_eq!(first["outcome"], "queued");
    let again: serde_json::Value = serde_json::from_str(&publish("json")).unwrap();
    assert_eq!((&again["outcome"], &again["id"]), (&"duplicate".into(), &first["id"]));
    assert_eq!(again["state"], "waiting");
    assert!(publish("table").starts_with("duplicate of "));
    assert_eq!(broker.counts("default")["waiting"], 1);
}

#[test]
fn at_level_none_nothing_is_confirmed_and_the_message_arrives() {
    let broker = Broker::start();
    assert_eq!(broker.ok(&["publish", "default/a", "x", "--level", "none"]), "");
    let got = broker.json(&["receive", "default", "--wait", "30s"]);
    assert_eq!(got.iter().map(body).collect::<Vec<_>>(), ["x"]);
}

#[test]
fn a_star_in_a_name_is_escaped() {
    let broker = Broker::start();
    broker.ok(&["publish", r"default/a\*b\\", "x"]);
    assert_eq!(broker.json(&["receive", "default"])[0]["topic"], r"a*b\");
}

#[test]
fn a_body_that_is_not_there_is_told() {
    let broker = Broker::start();
    let closed = |args: &[&str]| broker.call_with(args, b"").failed(2, &["there is no body", "BODY"]);
    closed(&["publish", "default/a"]);
    closed(&["publish", "default/a", "-"]);
    // A shell's `<&-`: there is no stdin at all.
    let script = format!("'{}' publish default/a --server {} <&-", millpond().get_program().display(), broker.address);
    let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
    crate::broker::Said::of(output).failed(2, &["there is no body"]);
    broker.call(&["publish", "default/a", "body", "--lines"]).failed(2, &["--lines", "BODY"]);
    assert_eq!(broker.counts("default")["waiting"], 0);
}

#[test]
fn what_the_broker_refuses_is_told_with_the_reason() {
    let broker = Broker::start();
    broker.call(&["publish", "nowhere/a", "x"]).failed(1, &["namespace_unknown", "nowhere"]);
    broker.ok(&["namespace", "create", "plain", "--dedup-window", "off"]);
    broker.call(&["publish", "plain/a", "x", "--dedup-id", "d"]).failed(1, &["dedup_off"]);
    let large = vec![b'x'; 1024 * 1024 + 1];
    broker.call_with(&["publish", "default/a"], &large).failed(1, &["message_too_large", "1048576"]);
    broker.call_with(&["publish", "default/a"], &large[1..]).ok();
}

fn body(message: &serde_json::Value) -> String {
    assert_eq!(message["encoding"], "utf8");
    message["body"].as_str().unwrap().to_owned()
}
