//! Answers that would be larger than a frame: they come in pages, and the command line shows all that was asked for.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{io, thread};

use millpond_client::{
    Batch, Client, Level, Message, NamespaceName, PausedTopics, Policy, Receipts, ReceiveOptions, Rules, TopicName,
};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::broker::{Broker, millpond};

/// Of a body so large a frame holds five.
const LARGE: usize = 1_000_000;

#[test]
fn all_dead_letters_are_shown_with_their_bodies_however_large() {
    let broker = Broker::start();
    let bodies: Vec<String> = (0..8).map(|number| number.to_string().repeat(LARGE)).collect();
    run(
        async |client| {
            publish(client, bodies.iter().map(|body| message("a", body))).await;
            reject_all(client, "why not").await;
        },
        &broker,
    );
    let rows = broker.json(&["dead", "list", "default", "--output", "json"]);
    assert!(are_bodies(&rows, &bodies), "the rows have {:?}", lengths(&rows));
    for (row, body) in rows.iter().zip(&bodies) {
        let id = row["id"].as_str().unwrap();
        let shown = broker.json(&["dead", "look", "default/a", "--id", id, "--output", "json"]);
        assert!(are_bodies(&shown, std::slice::from_ref(body)), "{id} has {:?}", lengths(&shown));
    }
}

#[test]
fn no_more_dead_letters_are_asked_for_than_are_shown() {
    let broker = Broker::start();
    let body = "x".repeat(LARGE);
    run(
        async |client| {
            publish(client, (0..8).map(|_| message("a", &body))).await;
            reject_all(client, "why not").await;
        },
        &broker,
    );
    let ids = broker.json(&["dead", "list", "default", "--output", "json"]);
    let last = ids.last().unwrap()["id"].as_str().unwrap();
    // One more than are shown tells that there are more.
    let list = received(&broker, &["dead", "list", "default", "--limit", "1"]);
    assert!((LARGE..5 * LARGE / 2).contains(&list), "the list took {list} bytes");
    let look = received(&broker, &["dead", "look", "default/a", "--id", last]);
    assert!((LARGE..3 * LARGE / 2).contains(&look), "the look took {look} bytes");
}

#[test]
fn dead_letters_with_long_names_and_reasons_fit_their_frames() {
    let broker = Broker::start();
    let (body, reason) = ("x".repeat(4000), "r".repeat(1024));
    run(
        async |client| {
            let topics = (0..1000).map(|number| format!("{number:0512}"));
            publish(client, topics.map(|topic| message(&topic, &body))).await;
            reject_all(client, &reason).await;
        },
        &broker,
    );
    let rows = broker.json(&["dead", "list", "default", "--limit", "1000", "--output", "json"]);
    assert_eq!(rows.len(), 1000);
    assert!(rows.iter().all(|row| row["body"] == body && row["detail"] == reason));
}

#[test]
fn a_look_shows_the_bodies_of_all_messages_however_large() {
    let broker = Broker::start();
    let bodies: Vec<String> = (0..8).map(|number| number.to_string().repeat(LARGE)).collect();
    run(async |client| publish(client, bodies.iter().map(|body| message("a", body))).await, &broker);
    let rows = broker.json(&["look", "default/a", "--first", "8", "--output", "json"]);
    assert!(are_bodies(&rows, &bodies), "the rows have {:?}", lengths(&rows));
}

/// 13 namespaces with as much paused as may be, by the longest names: seven megabytes.
#[test]
fn namespaces_with_much_to_tell_come_in_pages() {
    const NAMESPACES: usize = 13;
    let broker = Broker::start();
    let name = |namespace: usize| format!("n{namespace:02}");
    (0..NAMESPACES).for_each(|namespace| drop(broker.ok(&["namespace", "create", &name(namespace)])));
    run(
        async |client| {
            let pauses = (0..NAMESPACES * 1000).map(|number| {
                let namespace = NamespaceName::try_from(&*name(number / 1000)).unwrap();
                let (client, name) = (client.clone(), topic(&format!("{number:0512}")));
                async move { client.pause(namespace, PausedTopics::from(&name), None).await.unwrap() }
            });
            do_all(pauses).await;
        },
        &broker,
    );
    let expected: Vec<String> = ["default".to_owned()].into_iter().chain((0..NAMESPACES).map(name)).collect();
    for command in [&["namespace", "list"][..], &["stats"]] {
        let rows = broker.json(&[command, &["--output", "json"]].concat());
        let names: Vec<&str> = rows.iter().map(|row| row["namespace"].as_str().unwrap()).collect();
        assert_eq!(names, expected);
        assert!(expected.iter().all(|name| broker.ok(command).contains(name)));
    }
    let shown = &broker.json(&["namespace", "show", "n07", "--output", "json"])[0];
    assert_eq!(shown["paused"].as_array().unwrap().len(), 1000);
    assert_eq!(broker.json(&["group", "list", "n07", "--output", "json"]).len(), 1);
}

/// As many namespaces as there may be are more than a page has rows.
#[test]
fn many_namespaces_come_in_pages() {
    const NAMESPACES: usize = 2500;
    let broker = Broker::start();
    run(
        async |client| {
            let made = (1..NAMESPACES).map(|number| {
                let (client, name) = (client.clone(), NamespaceName::try_from(&*format!("n{number:04}")).unwrap());
                async move { client.set_namespace(name, Policy::default(), Rules::default()).await.unwrap() }
            });
            do_all(made).await;
        },
        &broker,
    );
    assert_eq!(broker.json(&["namespace", "list", "--output", "json"]).len(), NAMESPACES);
    assert_eq!(broker.json(&["stats", "--json"]).len(), NAMESPACES);
}

fn run(what: impl AsyncFnOnce(&Client), broker: &Broker) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { what(&Client::connect(broker.address.as_str()).await.unwrap()).await });
}

async fn publish(client: &Client, messages: impl Iterator<Item = Message>) {
    for message in messages {
        let batch = Batch::try_from(message).unwrap();
        assert_eq!(client.publish_batch(&NamespaceName::default(), Level::Durable, &batch).await.unwrap().queued(), 1);
    }
}

async fn reject_all(client: &Client, reason: &str) {
    loop {
        let options = ReceiveOptions { messages: 1000, ..ReceiveOptions::new(NamespaceName::default()) };
        let mut receipts = Receipts::default();
        client.receive(options).await.unwrap().for_each(|delivery| receipts.push(delivery.receipt));
        if receipts.is_empty() {
            return;
        }
        client.reject(receipts, reason.to_owned()).await.unwrap();
    }
}

/// Some at a time: a connection may have no more of these unanswered.
async fn do_all(requests: impl Iterator<Item = impl Future<Output = ()> + Send + 'static>) {
    let mut going = JoinSet::new();
    for request in requests {
        if going.len() == 200 {
            going.join_next().await.unwrap().unwrap();
        }
        going.spawn(request);
    }
    going.join_all().await;
}

fn message(name: &str, body: &str) -> Message {
    Message::new(topic(name), body.to_owned())
}

fn topic(name: &str) -> TopicName {
    TopicName::try_from(name).unwrap()
}

fn are_bodies(rows: &[Value], bodies: &[String]) -> bool {
    rows.len() == bodies.len() && rows.iter().zip(bodies).all(|(row, body)| row["body"] == **body)
}

/// How long the body of each row is; -1 where there is none.
fn lengths(rows: &[Value]) -> Vec<i64> {
    rows.iter().map(|row| row["body"].as_str().map_or(-1, |body| body.len() as i64)).collect()
}

/// How many bytes a call has the broker send.
fn received(broker: &Broker, args: &[&str]) -> usize {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (there, broker) = (listener.local_addr().unwrap().to_string(), broker.address.clone());
    let received = Arc::new(AtomicUsize::new(0));
    let counted = received.clone();
    let counter = thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(broker).unwrap();
        let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
        thread::spawn(move || io::copy(&mut from, &mut to).and_then(|_| to.shutdown(std::net::Shutdown::Write)));
        counted.store(io::copy(&mut server, &mut client).unwrap_or_default() as usize, Ordering::SeqCst);
    });
    assert!(millpond().args(args).env("MILLPOND_SERVER", there).output().unwrap().status.success());
    counter.join().unwrap();
    received.load(Ordering::SeqCst)
}
