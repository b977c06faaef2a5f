//! Calls that are wrong before anything is sent: exit code 2, and what to do. A broker that is away: exit code 3.

use std::net::TcpListener;

use crate::broker::{call, millpond};

#[test]
fn wrong_calls_say_what_is_right() {
    let long_topic = format!("default/{}", "x".repeat(513));
    let long_reason = "x".repeat(1025);
    let cases: &[(&[&str], &[&str])] = &[
        (&["publsh"], &["publsh", "publish"]),
        (&["publish", "default/a", "x", "--prio", "1"], &["--prio", "--priority"]),
        (&["publish", "default/a", "x", "--priority", "10"], &["0 to 9"]),
        (&["publish", "default/a", "x", "--delay", "5"], &["--delay", "unit", "5s"]),
        (&["publish", "default/a", "x", "--ttl", "soon"], &["--ttl", "5s"]),
        (&["publish", "default/a", "x", "--ttl", "0s"], &["--ttl", "none"]),
        (&["publish", "default/a", "x", "--dedup-id", ""], &["--dedup-id"]),
        (&["publish", "default/a", "x", "--header", "kind"], &["KEY=VALUE"]),
        (&["publish", "default/a", "x", "--level", "high"], &["durable", "buffered", "none"]),
        (&["publish", "default/a", "--lines", "--dedup-id", "d"], &["--dedup-id"]),
        (&["publish", "default", "x"], &["default/TOPIC"]),
        (&["publish", "default/a*", "x"], &[r"\*"]),
        (&["publish", "default/a*b", "x"], &[r"\*"]),
        (&["publish", "no such/a", "x"], &["namespace", "no such", "letters"]),
        (&["publish", "default/a\nb", "x"], &["control"]),
        (&["publish", &long_topic, "x"], &["512"]),
        (&["receive"], &["NS[/TOPIC|/PREFIX*]"]),
        (&["receive", "default/a", "other/b"], &["two namespaces"]),
        (&["receive", "default/a", "default/b*"], &["mixed"]),
        (&["receive", "default", "--max", "0"], &["--max"]),
        (&["receive", "default", "--wait", "10"], &["unit"]),
        (&["receive", "default", "--wait", "11m"], &["10m", "work"]),
        (&["receive", "default", "--group", "a b"], &["group"]),
        (&["ack", "default"], &["RECEIPT"]),
        (&["ack", "default", "nonsense"], &["three decimal numbers", "receive"]),
        (&["reject", "default", "1.0.1", "--reason", &long_reason], &["1024"]),
        (&["work", "default"], &["COMMAND"]),
        (&["work", "default", "--concurrency", "0", "--", "true"], &["1..32"]),
        (&["look", "default/a", "--id", "1", "--first", "2"], &["three decimal numbers"]),
        (&["cancel", "default/a"], &["--id", "--dedup-id"]),
        (&["cancel", "default/a", "--id", "1.4.1", "--dedup-id", "d"], &["--id", "--dedup-id"]),
        (&["reschedule", "default/a", "--id", "1.4.1"], &["--delay"]),
        (&["namespace", "create", "-x"], &["-x"]),
        (&["namespace", "create", "a/b"], &["letters"]),
        (&["namespace", "set", "default", "--retry", "sometimes"], &["backoff:1s..10m"]),
        (&["namespace", "set", "default", "--dedup-window", "2"], &["forever"]),
        (&["namespace", "set", "default", "--max-in-flight", "some"], &["none"]),
        (&["namespace", "set", "default", "--on-expiry", "keep"], &["drop", "dead"]),
        (&["namespace", "set", "default", "--rule", "a weight=2,weight=3"], &["weight is said twice"]),
        (&["namespace", "set", "default", "--rule", "a weight=2", "--no-rule", "a"], &["both name a"]),
        (&["receive", "default", "--at-most-once", "--lease", "5s"], &["--lease", "--at-most-once"]),
        (&["work", "default", "--at-most-once", "--lease", "5s", "--", "true"], &["--lease", "--at-most-once"]),
        (&["topics", "default/a", "--top", "depth"], &["--top", "not one topic"]),
        (&["forget", "default/a", "--dedup-id", ""], &["--dedup-id"]),
        (&["topics", "default", "--limit", "0"], &["--limit"]),
        (&["stats", "default", "--output", "yaml"], &["table", "json"]),
        (&["stats", "--server", "localhost"], &["--server", "HOST:PORT"]),
        (&["stats", "--server", "localhost:99999"], &["--server", "HOST:PORT"]),
        (&["serve", "--memory", "1GB"], &["1GiB"]),
        (&["serve", "--memory", "1M"], &["memory", "64 MiB"]),
        (&["serve", "--body-max", "1T"], &["body_max"]),
        (&["serve", "--listen", "localhost"], &["--listen", "HOST:PORT"]),
        (&["serve", "--listen", "127.0.0.1:9", "--http", "127.0.0.1:9"], &["different ports"]),
        (&["serve", "--log", "loud"], &["info"]),
        (&["bench", "publish", "--batch", "100", "--window", "10"], &["--window", "--batch"]),
        (&["bench", "publish", "--size", "2M"], &["--size"]),
        (&["bench", "worker", "--size", "8"], &["--size"]),
        (&["bench", "latency", "--rate", "0"], &["--rate"]),
        (&["bench", "topics", "--ready", "10,none"], &["--ready", "above zero"]),
        (&["bench", "topics", "--batch", "65536", "--window", "65536", "--size", "48"], &["--batch", "too large"]),
        (&["bench", "topics", "--topics", "999999999", "--messages", "11"], &["too many"]),
        (&["bench", "topics", "--kill"], &["--spawn"]),
        (&["bench", "backlog", "--size", "8"], &["--size"]),
    ];
    for (args, words) in cases {
        call(args).failed(2, words);
    }
}

#[test]
fn a_broker_that_is_away_is_told() {
    // A port that was free a moment ago, and that nobody listens on.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let calls: &[&[&str]] = &[
        &["publish", "default/a", "x"],
        &["receive", "default"],
        &["ack", "default", "1.0.1"],
        &["work", "default", "--", "true"],
        &["look", "default/a"],
        &["stats"],
        &["bench", "publish", "--duration", "1s"],
        &["bench", "burst"],
    ];
    for args in calls {
        call(&[&["--server", &address], *args].concat()).failed(3, &[&address, "millpond serve"]);
    }
    let mut command = millpond();
    let said = command.args(["stats"]).env("MILLPOND_SERVER", &address).output().unwrap();
    crate::broker::Said::of(said).failed(3, &[&address]);
}

#[test]
fn something_else_behind_the_port_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let other = std::thread::spawn(move || {
        use std::io::Write;
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Held open until the client has drawn its conclusion.
        let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
    });
    call(&["stats", "--server", &address]).failed(3, &[&address, "Millpond broker"]);
    other.join().unwrap();
}

#[test]
fn help_and_version_are_no_errors() {
    assert!(call(&["--help"]).ok().contains("Exit codes"));
    assert!(call(&["--version"]).ok().starts_with("millpond "));
    assert!(call(&["work", "--help"]).ok().contains("75 releases"));
}
