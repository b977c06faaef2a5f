//! `publish` in all its forms.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use millpond_client::{Client, Message, NamespaceName};

use crate::broker::{Broker, Said, fresh_directory, millpond, serve};

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
    let told =
        said.failed(1, &["line 1001", "4194304", "1000 are confirmed", "nothing from line 1001 on was sent"]).out;
    assert!(told.starts_with("queued ") && told.contains("and the 999 after it"), "{told}");
    assert_eq!(broker.counts("default")["waiting"], 1_000);
    broker.call_with(&["publish", "default/a", "--lines"], &lines[lines.len() - 5_000_000..]).failed(2, &["line 1 "]);
}

/// Every line has an outcome: those that are refused are named, and counted as refused.
#[test]
fn lines_that_are_refused_are_named_and_not_counted_as_published() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "small", "--quota-messages", "2"]);
    let publish = ["publish", "small/a", "--lines", "--output", "json"];
    let said = broker.call_with(&publish, b"1\n2\n3\n4\n");
    let said = said.failed(1, &["lines 3 to 4 were refused (quota_exceeded: ", "2 of 4 lines"]);
    let rows: Vec<serde_json::Value> = said.out.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!((&rows[0]["outcome"], &rows[0]["line"], &rows[0]["count"]), (&"queued".into(), &1.into(), &2.into()));
    assert_eq!((&rows[1]["outcome"], &rows[1]["line"], &rows[1]["count"]), (&"refused".into(), &3.into(), &2.into()));
    assert_eq!(rows[1]["code"], "quota_exceeded");
    assert!(rows[1]["detail"].as_str().unwrap().contains("raise quota-messages"), "{rows:?}");

    // What ends the command does not make published lines of refused ones.
    let mut lines = b"5\n6\n".to_vec();
    lines.extend(vec![b'x'; 5_000_000]);
    broker.ok(&["namespace", "set", "small", "--quota-messages", "3"]);
    let said = broker.call_with(&publish, &lines);
    said.failed(1, &["line 2 was refused (quota_exceeded: ", "line 3 ", "1 is confirmed and 1 was refused"]);
    assert_eq!(broker.counts("small")["waiting"], 3);

    // A publish that is refused as a whole is that of each of its lines.
    let said = broker.call_with(&["publish", "nowhere/a", "--lines"], b"1\n2\n");
    said.failed(1, &["lines 1 to 2 were refused (namespace_unknown: ", "0 are confirmed and 2 were refused"]);
}

/// A program reads on stdout what became of its one message as well, whoever refuses it and for whatever reason.
#[test]
fn a_message_that_is_refused_has_an_object_like_any_other() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "small", "--max-waiting", "1"]);
    broker.ok(&["exchange", "create", "small", "all", "--kind", "fanout"]);
    broker.ok(&["exchange", "bind", "small", "all", "full"]);
    broker.ok(&["publish", "small/full", "before"]);
    broker.ok(&["publish", "default/in", "x"]);
    let receipt = broker.json(&["receive", "default"])[0]["receipt"].as_str().unwrap().to_owned();
    let refused: [(&[&str], &str); 6] = [
        (&["small/full", "x"], "topic_full"),
        (&["small", "x", "--exchange", "all"], "topic_full"),
        (&["small/full", "x", "--ack", &receipt], "topic_full"),
        (&["nowhere/a", "x"], "namespace_unknown"),
        (&["nowhere", "x", "--exchange", "all"], "namespace_unknown"),
        (&["nowhere/a", "x", "--ack", &receipt], "namespace_unknown"),
    ];
    for (args, code) in refused {
        let args = [&["publish", "--output", "json"], args].concat();
        let said = broker.call(&args).failed(1, &[code]);
        let rows: Vec<serde_json::Value> = said.out.lines().map(|row| serde_json::from_str(row).unwrap()).collect();
        assert_eq!(
            (&rows[0]["outcome"], &rows[0]["code"], &rows[0]["count"]),
            (&"refused".into(), &code.into(), &1.into())
        );
        assert!(said.err.contains(rows[0]["detail"].as_str().unwrap()), "{said:?}");
        assert_eq!(said.err.lines().count(), 1, "the error is told once: {said:?}");
        // Behind it stand leases that are still to be finished.
        assert!(rows[1..].iter().all(|row| row["outcome"] == "kept"), "{said:?}");
        let table = broker.call(&args.iter().map(|arg| if *arg == "json" { "table" } else { arg }).collect::<Vec<_>>());
        assert!(!table.out.contains("refused"), "{table:?}");
    }
    // What is not published because a lease is lost is refused with it.
    let said =
        broker.call(&["publish", "default/out", "x", "--ack", "0.99.99", "--output", "json"]).failed(1, &["lost"]);
    assert!(said.out.starts_with(r#"{"code":"refused_together""#), "{said:?}");
}

/// The first ten refusals are named, and then there is a count.
#[test]
fn very_many_refusals_are_counted_and_not_all_named() {
    let directory = fresh_directory();
    let broker = Broker::run(serve(directory.path()).args(["--body-max", "3"]));
    let lines = "yes\nlong\n".repeat(12);
    let said = broker.call_with(&["publish", "default/a", "--lines"], lines.as_bytes());
    let said = said.failed(1, &["line 2 was refused (message_too_large: ", "line 20 was refused", "12 of 24 lines"]);
    assert!(!said.err.contains("line 22"), "{said:?}");
    assert_eq!(broker.counts("default")["waiting"], 12);
}

/// After a loss it is said how many lines are confirmed, and from where on nothing is.
#[test]
fn what_became_of_the_lines_before_a_loss_is_told() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "small", "--quota-messages", "1"]);
    let mut command = broker.command(&["publish", "small/a", "--lines"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"1\n2\n").unwrap();
    // Its refusal says that the answer is there.
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let (mut first, mut rest) = (String::new(), String::new());
    errors.read_line(&mut first).unwrap();
    assert!(first.contains("line 2 was refused"), "{first}");
    let _directory = broker.kill();
    input.write_all(b"3\n").unwrap();
    drop(input);
    errors.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{rest}");
    assert!(rest.contains("1 is confirmed and 1 was refused"), "{rest}");
    assert!(rest.contains("nothing from line 3 on was sent") || rest.contains("line 3 may be published"), "{rest}");
}

/// Who asks for outcomes is told when they cannot be written; who has read enough is not.
#[test]
fn outcomes_that_cannot_be_written_are_an_error() {
    let broker = Broker::start();
    for args in ["publish default/a x", "stats", "dead list default --output json"] {
        let script = format!("'{}' {args} --server {}", millpond().get_program().display(), broker.address);
        let run = |script: &str| Said::of(std::process::Command::new("sh").args(["-c", script]).output().unwrap());
        // There is something to list.
        if args.starts_with("dead") {
            broker.ok(&["namespace", "set", "default", "--max-failures", "0"]);
            let receipt = broker.json(&["receive", "default"])[0]["receipt"].as_str().unwrap().to_owned();
            broker.ok(&["fail", "default", &receipt]);
        }
        run(&format!("{script} >/dev/full")).failed(1, &["stdout", "No space left on device"]);
        assert_eq!(run(&format!("({script}; echo $? >&2) | true")).err, "0\n", "{args}");
    }
}

#[test]
fn a_message_that_would_be_over_before_it_is_due_is_refused() {
    let broker = Broker::start();
    broker.ok(&["namespace", "create", "short", "--ttl", "1h"]);
    broker
        .call(&["publish", "short/a", "x", "--delay", "1h"])
        .failed(1, &["argument_invalid", "before the delay does"]);
    for ttl in ["1h", "2h"] {
        broker.call(&["publish", "default/a", "x", "--delay", "2h", "--ttl", ttl]).failed(1, &["argument_invalid"]);
    }
    let id = broker.ok(&["publish", "short/a", "x", "--delay", "30m"]).split_whitespace().last().unwrap().to_owned();
    let reschedule = |delay| broker.call(&["reschedule", "short/a", "--id", &id, "--delay", delay]);
    reschedule("2h").failed(1, &["argument_invalid", "before that delay does"]);
    reschedule("40m").ok();
    broker.call(&["publish", "short/a", "x", "--delay", "500us"]).failed(2, &["whole milliseconds"]);
}

#[test]
fn a_ttl_of_none_goes_before_the_namespaces() {
    let broker = Broker::start();
    broker.ok(&["namespace", "set", "default", "--ttl", "1h"]);
    broker.ok(&["publish", "default/a", "x"]);
    broker.ok(&["publish", "default/a", "y", "--ttl", "none"]);
    let looked = broker.json(&["look", "default/a", "--output", "json"]);
    assert!(looked[0]["expires"].is_string() && looked[1]["expires"].is_null(), "{looked:?}");
    // It is no TTL that a delay could be longer than.
    broker.ok(&["publish", "default/b", "x", "--delay", "2h", "--ttl", "none"]);
    broker.call_with(&["publish", "default/b", "--lines", "--delay", "2h", "--ttl", "none"], b"y\nz\n").ok();
    let looked = broker.json(&["look", "default/b", "--output", "json"]);
    assert!(looked.len() == 3 && looked.iter().all(|message| message["expires"].is_null()), "{looked:?}");
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
    Said::of(output).failed(2, &["there is no body"]);
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

/// A header has one value: a map that a program makes of them would keep one of two, and nobody would know which. Clients may
/// send more; all of them are shown.
#[test]
fn a_header_has_one_value_and_all_are_shown_of_a_client_that_sends_more() {
    let broker = Broker::start();
    let twice = ["publish", "default/a", "x", "--header", "k=1", "--header", "l=", "--header", "k=2"];
    broker.call(&twice).failed(2, &["--header gives k more than one value"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        let message = Message::new("a".try_into().unwrap(), "x").header("k", "1").header("l", "").header("k", "2");
        client.publish(&NamespaceName::default(), message).await.unwrap();
    });
    let looked = broker.json(&["look", "default/a", "--output", "json"]);
    assert_eq!(looked[0]["headers"], serde_json::json!({ "k": ["1", "2"], "l": "" }));
}
