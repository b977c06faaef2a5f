//! Exchanges: what is published to them goes where they lead, and nowhere twice.

use millpond_client::{Client, Message, NamespaceName, ProducerOptions};
use serde_json::{Value, json};

use crate::broker::Broker;

#[test]
fn messages_go_where_exchanges_lead() {
    let broker = Broker::start();
    broker.ok(&["exchange", "create", "default", "events", "--kind", "topic"]);
    broker.call(&["exchange", "create", "default", "events", "--kind", "direct"]).failed(1, &["exchange_exists"]);
    broker.ok(&["exchange", "bind", "default", "events", "all", "--key", "#"]);
    broker.ok(&["exchange", "bind", "default", "events", "paid/{key}", "--key", "*.paid"]);
    let again = broker.call(&["exchange", "bind", "default", "events", "all", "--key", "#"]);
    assert!(again.code == 0 && again.err.contains("already"), "{again:?}");

    let route = |key: &str, rest: &[&str]| {
        let args =
            [&["publish", "default", "--exchange", "events", "--key", key, "--output", "json"][..], rest].concat();
        let copies = broker.json(&args);
        copies.iter().map(|copy| copy["topic"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(route("eu.paid", &["m1", "--dedup-id", "1"]), ["all", "paid/eu.paid"]);
    assert_eq!(route("eu.paid", &["m1", "--dedup-id", "1"]), ["all", "paid/eu.paid"], "two duplicates");
    assert_eq!(route("eu.sent", &["m2", "--priority", "9"]), ["all"]);
    let table = broker.ok(&["publish", "default", "--exchange", "events", "--key", "us.paid", "m0"]);
    let lines: Vec<&str> = table.lines().map(|line| line.split_once(" queued ").expect(&table).0).collect();
    assert_eq!(lines, ["all:", "paid/us.paid:"]);
    let waiting = |topic: &str| {
        let rows = broker.json(&["topics", &format!("default/{topic}"), "--output", "json"]);
        rows[0]["waiting"].clone()
    };
    assert_eq!((waiting("all"), waiting("paid/eu.paid")), (json!(3), json!(1)));
    let lines = broker.call_with(&["publish", "default", "--exchange", "events", "--lines"], b"m3\nm4\n").ok();
    assert_eq!(lines.lines().count(), 1, "two messages of one topic, one after the other: {lines}");

    broker.ok(&["exchange", "unbind", "default", "events", "all", "--key", "#"]);
    broker.call(&["exchange", "unbind", "default", "events", "all", "--key", "#"]).failed(1, &["no such binding"]);
    broker.call(&["publish", "default", "--exchange", "events", "--key", "x", "m"]).failed(1, &["unroutable"]);
    broker.call(&["publish", "default", "--exchange", "none", "m"]).failed(1, &["exchange_unknown"]);
    broker.call(&["publish", "default/t", "--exchange", "events", "m"]).failed(2, &["write default alone"]);
    broker.call(&["publish", "default", "m"]).failed(2, &["write default/TOPIC", "--exchange"]);

    broker.ok(&["namespace", "create", "small", "--rule", "full max-waiting=1"]);
    broker.ok(&["exchange", "create", "small", "all", "--kind", "fanout"]);
    for topic in ["full", "other"] {
        broker.ok(&["exchange", "bind", "small", "all", topic]);
    }
    broker.ok(&["publish", "small/full", "m"]);
    let refused = broker.call(&["publish", "small", "--exchange", "all", "m"]);
    refused.failed(1, &["the message was refused", "topic_full: topic full: "]);

    broker.ok(&["exchange", "create", "default", "mail", "--kind", "headers", "--unroutable", "drop"]);
    let big = ["--header", "size=big", "--header", "lang=de", "--match", "any"];
    broker.ok(&[&["exchange", "bind", "default", "mail", "heavy"][..], &big].concat());
    let said = broker.ok(&["publish", "default", "--exchange", "mail", "m"]);
    assert!(said.contains("nowhere"), "{said}");
    let figures = broker.metrics();
    assert!(figures.lines().any(|line| line == "millpond_messages_unroutable_total 1"), "{figures}");
    broker.ok(&["publish", "default", "--exchange", "mail", "--header", "size=big", "m"]);
    assert_eq!(waiting("heavy"), 1);

    let list = broker.json(&["exchange", "list", "default", "--output", "json"]);
    let read = |key: &str| list.iter().map(|row| row[key].clone()).collect::<Vec<Value>>();
    assert_eq!((read("exchange"), read("bindings")), (vec![json!("events"), json!("mail")], vec![json!(1), json!(1)]));
    let bindings = broker.json(&["exchange", "bindings", "default", "mail", "--output", "json"]);
    let expected = json!({ "topic": "heavy", "match": "any", "headers": { "size": "big", "lang": "de" } });
    assert_eq!(bindings, [expected]);
    let table = broker.ok(&["exchange", "bindings", "default", "events"]);
    assert!(table.contains("paid/{key}") && table.contains("*.paid"), "{table}");
    broker.ok(&["exchange", "delete", "default", "mail"]);
    assert_eq!(broker.json(&["exchange", "list", "default", "--output", "json"]).len(), 1);
}

#[test]
fn a_producer_routes_many_messages_at_a_time() {
    let broker = Broker::start();
    broker.ok(&["exchange", "create", "default", "devices", "--kind", "topic"]);
    broker.ok(&["exchange", "bind", "default", "devices", "{key}", "--key", "#"]);
    broker.ok(&["exchange", "bind", "default", "devices", "log", "--key", "#"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(broker.address.as_str()).await.unwrap();
        let producer = client.producer(ProducerOptions::new(NamespaceName::default())).unwrap();
        let mut confirmations = Vec::new();
        for n in 0..200 {
            let key = format!("device.{}", n % 10);
            let message =
                Message::routed("devices".try_into().unwrap(), key.as_str().try_into().unwrap(), format!("{n}"));
            confirmations.push(producer.route(&message).await.unwrap());
        }
        for confirmation in confirmations {
            assert_eq!(confirmation.await.unwrap().queued(), 2);
        }
        assert_eq!(producer.instance(), 1, "none was refused");
    });
    assert_eq!(broker.counts("default")["waiting"], 400);
}
