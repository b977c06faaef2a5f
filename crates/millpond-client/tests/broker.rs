//! The client against the real broker, which is stopped and started in between.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millpond_client::{
    Batch, Binding, Client, ClientOptions, Code, Condition, DeadWhich, Decision, DedupWindow, Error, ExchangeKind,
    ExchangeName, Filter, FinishOutcome, GroupName, Level, Listing, LookWhich, Message, MessageState, NamespaceName,
    PausedTopics, Policy, ProducerOptions, PublishOutcome, ReceiveOptions, Reconnect, RoutingKey, Rules,
    SubscribeOptions, TopicName, TopicRef, Unroutable, Which, Workers, block,
};
use millpond_server::{Config, Server};
use tempfile::TempDir;

/// A broker on a directory and a port that it keeps across restarts.
struct Broker {
    directory: TempDir,
    address: SocketAddr,
    server: Server,
}

impl Broker {
    async fn start() -> Broker {
        let directory = tempfile::tempdir().unwrap();
        let server = start(directory.path(), SocketAddr::from(([127, 0, 0, 1], 0))).await;
        Broker { directory, address: server.address(), server }
    }

    async fn restart(self) -> Broker {
        let Broker { directory, address, server } = self;
        stop(server).await;
        let server = start(directory.path(), address).await;
        Broker { directory, address, server }
    }

    async fn stop(self) {
        stop(self.server).await;
    }

    async fn client(&self) -> Client {
        let pause = Duration::from_millis(5);
        let reconnect = Some(Reconnect { first: pause, longest: pause });
        let options = ClientOptions { reconnect, ..ClientOptions::new(self.address.to_string()) };
        Client::connect(options).await.unwrap()
    }
}

/// A server has a runtime of its own, which is neither made nor dropped inside another one.
async fn start(directory: &Path, listen: SocketAddr) -> Server {
    let data: PathBuf = directory.to_owned();
    let config = Config { data, listen, http: None, ..Config::default() };
    tokio::task::spawn_blocking(move || Server::start(config.validate().unwrap()).unwrap()).await.unwrap()
}

async fn stop(server: Server) {
    tokio::task::spawn_blocking(move || server.shutdown().unwrap()).await.unwrap();
}

fn namespace() -> NamespaceName {
    NamespaceName::default()
}

fn topic(name: &str) -> TopicName {
    name.try_into().unwrap()
}

fn topic_ref(name: &str) -> TopicRef {
    TopicRef { namespace: namespace(), name: topic(name) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_published_through_restarts_is_stored_once_and_worked_off() {
    const BATCHES: u32 = 300;
    const EACH: u32 = 10;
    let mut broker = Broker::start().await;
    let (publisher, worker) = (broker.client().await, broker.client().await);

    // By body, the ids that it was delivered under.
    let (seen, mut deliveries) = tokio::sync::mpsc::unbounded_channel();
    let subscription =
        worker.subscribe(SubscribeOptions { messages: 64, ..SubscribeOptions::new(namespace()) }).await.unwrap();
    let workers = Workers::start(subscription, 8, move |delivery| {
        let seen = seen.clone();
        async move {
            seen.send((delivery.body.clone(), delivery.id)).unwrap();
            Decision::Ack
        }
    });

    let batches_sent = Arc::new(AtomicU64::new(0));
    let sent = Arc::clone(&batches_sent);
    let publishing = tokio::spawn(async move {
        let producer = publisher.producer(ProducerOptions::new(namespace())).unwrap();
        let mut confirmations = Vec::new();
        for i in 0..BATCHES {
            let message = |j| Message::new(topic(&format!("site/{}", (i + j) % 7)), format!("{i}/{j}"));
            let batch = Batch::try_from((0..EACH).map(message).collect::<Vec<_>>()).unwrap();
            confirmations.push(producer.send(&batch).await.unwrap());
            sent.fetch_add(1, Ordering::Relaxed);
        }
        for confirmation in confirmations {
            assert_eq!(confirmation.await.unwrap().queued(), EACH as usize);
        }
    });
    // In the middle of the publishing, and of the working.
    for part in [1, 2] {
        while batches_sent.load(Ordering::Relaxed) < u64::from(BATCHES * part / 3) {
            tokio::task::yield_now().await;
        }
        broker = broker.restart().await;
    }
    publishing.await.unwrap();

    let mut ids: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    while ids.len() < (BATCHES * EACH) as usize {
        let (body, id) = deliveries.recv().await.unwrap();
        ids.entry(body).or_default().insert(id);
    }
    let doubled: Vec<_> = ids.iter().filter(|(_, ids)| ids.len() > 1).collect();
    assert!(doubled.is_empty(), "stored twice: {doubled:?}");
    // An ack that was lost with a connection brings its message back, so the last ones may take another round.
    let counts = loop {
        let counts = worker.stats(namespace()).await.unwrap().groups[0].counts;
        if counts.unfinished() == 0 {
            break counts;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert_eq!(counts.dead, 0);
    workers.stop().await.unwrap();
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_outlives_a_restart_of_the_broker() {
    let broker = Broker::start().await;
    let client = broker.client().await;
    client.publish(&namespace(), Message::new(topic("t"), "work")).await.unwrap();
    let mut subscription = client.subscribe(SubscribeOptions::new(namespace())).await.unwrap();
    let delivery = subscription.next().await.unwrap();
    let broker = broker.restart().await;
    client.publish(&namespace(), Message::new(topic("t"), "more")).await.unwrap();
    let next = subscription.next().await.unwrap();
    assert_eq!(next.body, "more");
    assert!(client.is_current(&delivery.receipt));
    let outcomes = client.ack(&delivery).await.unwrap();
    assert_eq!(outcomes.iter().collect::<Vec<_>>(), [FinishOutcome::Done]);
    assert_eq!(client.stats(namespace()).await.unwrap().groups[0].counts.leased, 1);
    // The orderly end gives the other one back at once.
    drop(subscription);
    client.close().await;
    let other = broker.client().await;
    let again = loop {
        let mut received = other.receive(ReceiveOptions::new(namespace())).await.unwrap();
        if let Some(delivery) = received.next() {
            break delivery;
        }
    };
    assert_eq!((&again.body[..], again.deliveries, again.failures), (&b"more"[..], 2, 0));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_does_what_it_says() {
    let broker = Broker::start().await;
    let client = broker.client().await;
    let ns = namespace();

    // Publish: ids one by one, duplicates, options.
    let with_id = |body: &str| Message::new(topic("orders"), body.to_owned()).dedup_id("order-1").header("k", "v");
    let outcomes = client.publish_many(&ns, vec![with_id("first"), with_id("second")]).await.unwrap();
    let [PublishOutcome::Queued { id }, PublishOutcome::Duplicate { id: first, .. }] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(id, first);
    let later = Message::new(topic("orders"), "later").delay(Duration::from_secs(3600));
    let PublishOutcome::Queued { id: delayed } = client.publish(&ns, later).await.unwrap() else { panic!("refused") };
    let quiet = Batch::try_from(Message::new(topic("quiet"), "x")).unwrap();
    assert!(client.publish_batch(&ns, Level::None, &quiet).await.unwrap().is_empty());

    // Look, reschedule, cancel, forget.
    let looked = client.look(topic_ref("orders"), LookWhich::First(10), None).await.unwrap();
    assert_eq!(looked.len(), 2);
    assert_eq!(block::first(&looked[0].block).unwrap().body, b"first");
    assert!(matches!(looked[1].state, MessageState::Delayed { .. }));
    client.reschedule(topic_ref("orders"), Which::Id(delayed), Duration::ZERO).await.unwrap();
    client.cancel(topic_ref("orders"), Which::Id(delayed)).await.unwrap();
    let gone = client.cancel(topic_ref("orders"), Which::Id(delayed)).await.unwrap_err();
    assert!(matches!(gone, Error::Refused { code: Code::MessageUnknown, .. }), "{gone}");
    assert!(client.forget(topic_ref("orders"), "order-1").await.unwrap());
    assert!(!client.forget(topic_ref("orders"), "order-1").await.unwrap());

    // Pause, receive, resume; fail, release, reject, extend.
    client.pause(topic_ref("orders").namespace, PausedTopics::from(&topic_ref("orders").name), None).await.unwrap();
    let orders = ReceiveOptions { filter: Filter::Topics(vec![topic("orders")]), ..ReceiveOptions::new(namespace()) };
    assert!(client.receive(orders.clone()).await.unwrap().is_empty());
    client.resume(topic_ref("orders").namespace, PausedTopics::from(&topic_ref("orders").name)).await.unwrap();
    let delivery = client.receive(orders.clone()).await.unwrap().next().unwrap();
    assert_eq!((&delivery.dedup_id[..], delivery.header("k")), (&b"order-1"[..], Some(&b"v"[..])));
    assert_eq!(client.extend(&delivery, Some(Duration::from_secs(60))).await.unwrap().done(), 1);
    assert_eq!(client.release(&delivery, Duration::ZERO).await.unwrap().done(), 1);
    assert_eq!(client.ack(&delivery).await.unwrap().lost(), 1);
    let delivery = client.receive(orders.clone()).await.unwrap().next().unwrap();
    assert_eq!((delivery.deliveries, delivery.failures), (2, 0));
    let rejected = client.reject(&delivery, "no sense").await.unwrap();
    assert_eq!(rejected.iter().collect::<Vec<_>>(), [FinishOutcome::Dead]);

    // Dead letters.
    let page = Listing { namespace: namespace(), prefix: "".into(), after: "".into(), limit: 10 };
    let dead = client.dead_letters(page.clone(), GroupName::default()).await.unwrap();
    assert_eq!((dead.rows.len(), &dead.rows[0].detail[..]), (1, "no sense"));
    let letter = &dead.rows[0];
    assert_eq!(letter.message.bytes as usize, letter.message.block.len());
    let found = client.dead_letter(topic_ref("orders"), letter.message.id, GroupName::default()).await.unwrap();
    assert_eq!(found, *letter);
    let all = DeadWhich::Filter(Filter::All);
    assert_eq!(client.redrive(namespace(), GroupName::default(), all.clone()).await.unwrap(), 1);
    assert_eq!(client.purge_dead(namespace(), GroupName::default(), all).await.unwrap(), 0);

    // Topics and namespaces.
    let topics = client.topics(page, Default::default()).await.unwrap();
    assert_eq!(topics.iter().map(|topic| topic.name.as_str()).collect::<Vec<_>>(), ["orders", "quiet"]);
    assert_eq!(client.topic(namespace(), topic("orders")).await.unwrap().counts.waiting, 1);
    assert_eq!(client.purge(namespace(), Filter::All, None).await.unwrap(), 2);
    let work: NamespaceName = "work".try_into().unwrap();
    let policy = Policy { dedup_window: DedupWindow::Forever, ..Policy::default() };
    client.set_namespace(work.clone(), policy.clone(), Rules::default()).await.unwrap();
    assert_eq!(client.namespaces(None).await.unwrap().rows.len(), 2);
    assert_eq!(client.stats(work.clone()).await.unwrap().policy, policy);
    client.delete_namespace(work.clone()).await.unwrap();
    let unknown = client.stats(work.clone()).await.unwrap_err();
    assert!(matches!(unknown, Error::Refused { code: Code::NamespaceUnknown, .. }), "{unknown}");
    let unknown = client.subscribe(SubscribeOptions::new(work.clone())).await.err().unwrap();
    assert!(matches!(unknown, Error::Refused { code: Code::NamespaceUnknown, .. }), "{unknown}");

    // A refused batch leaves no gap behind for the next one.
    let producer = client.producer(ProducerOptions::new(work.clone())).unwrap();
    let batch = Batch::try_from(Message::new(topic("t"), "x")).unwrap();
    let (a, b) = (producer.send(&batch).await.unwrap(), producer.send(&batch).await.unwrap());
    assert!(matches!(a.await, Err(Error::Refused { code: Code::NamespaceUnknown, .. })));
    assert!(matches!(b.await, Err(Error::Refused { .. })));
    client.set_namespace(work, Policy::default(), Rules::default()).await.unwrap();
    assert_eq!(producer.send(&batch).await.unwrap().await.unwrap().queued(), 1);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn far_more_than_the_credit_flows_both_ways() {
    let broker = Broker::start().await;
    let (publisher, worker) = (broker.client().await, broker.client().await);
    let ns = namespace();
    // 48 MiB, three times the publish credit, in parts of 4 MiB.
    let messages = vec![Message::new(topic("bulk"), vec![b'x'; 64 * 1024]); 768];
    let batch = Batch::try_from(messages).unwrap();
    let publish = publisher.publish_batch(&ns, Level::Durable, &batch);
    let options = SubscribeOptions { bytes: 1024 * 1024, ..SubscribeOptions::new(namespace()) };
    let mut subscription = worker.subscribe(options).await.unwrap();
    let work = async {
        let mut taken = 0;
        while taken < 768 {
            let deliveries = subscription.next_batch(100).await.unwrap();
            taken += deliveries.len();
            assert_eq!(worker.ack(&deliveries).await.unwrap().lost(), 0);
        }
    };
    let (published, ()) = tokio::join!(publish, work);
    assert_eq!(published.unwrap().queued(), 768);
    subscription.close().await.unwrap();
    assert_eq!(worker.stats(namespace()).await.unwrap().groups[0].counts.unfinished(), 0);
    broker.stop().await;
}

#[tokio::test]
async fn what_is_forwarded_is_acked_and_published_or_neither() {
    let broker = Broker::start().await;
    let client = broker.client().await;
    let ns = namespace();
    client.publish(&ns, Message::new(topic("in"), "input")).await.unwrap();
    let input = client.receive(ReceiveOptions::new(ns.clone())).await.unwrap().next().unwrap();
    let outputs = || vec![Message::new(topic("out"), "x"), Message::new(topic("out"), "y")];
    let forwarded = client.forward(&input, &ns, outputs()).await.unwrap();
    assert!(forwarded.is_done() && forwarded.published.queued() == 2, "{forwarded:?}");
    let again = client.forward(&input, &ns, outputs()).await.unwrap();
    assert!(again.is_lost() && !again.is_done(), "{again:?}");
    assert_eq!(again.published.duplicates(), 2, "its outputs carry ids made of the input's");

    // A window of one message, and nothing to finish: the next one comes by itself.
    let options = SubscribeOptions { messages: 1, at_most_once: true, ..SubscribeOptions::new(ns.clone()) };
    let mut subscription = client.subscribe(options).await.unwrap();
    for body in ["x", "y"] {
        assert_eq!(subscription.next().await.unwrap().body, body);
    }
    assert_eq!(client.stats(ns).await.unwrap().usage.topics, 0, "nothing is left");
    client.close().await;
    broker.stop().await;
}

#[tokio::test]
async fn what_is_forwarded_to_an_exchange_is_acked_and_has_all_of_its_copies_or_neither() {
    let broker = Broker::start().await;
    let client = broker.client().await;
    let (ns, exchange) = (namespace(), ExchangeName::try_from("events").unwrap());
    client.create_exchange(ns.clone(), exchange.clone(), ExchangeKind::Topic, Unroutable::Refuse).await.unwrap();
    let bind = async |target: &str, key: &str| {
        let condition = Condition::Key(RoutingKey::try_from(key).unwrap());
        client.bind(ns.clone(), exchange.clone(), Binding { condition, target: topic(target) }).await.unwrap();
    };
    bind("all", "paid.#").await;
    bind("eu", "*.eu").await;
    client.publish(&ns, Message::new(topic("in"), "input")).await.unwrap();
    let input = client.receive(ReceiveOptions::new(ns.clone())).await.unwrap().next().unwrap();
    let forward = async |key: &str| {
        let output = Message::routed(exchange.clone(), RoutingKey::try_from(key).unwrap(), "output");
        client.forward_routed(&input, &ns, output).await.unwrap()
    };
    let nowhere = forward("sent").await;
    assert_eq!(nowhere.refusal().map(|(code, _)| code), Some(Code::Unroutable));
    assert!(!nowhere.is_done() && !nowhere.is_lost() && nowhere.topics.is_empty(), "{nowhere:?}");
    let done = forward("paid.eu").await;
    assert!(done.is_done() && done.published.queued() == 2, "{done:?}");
    assert_eq!(done.topics, [topic("all"), topic("eu")]);
    bind("later", "#").await;
    let again = forward("paid.eu").await;
    assert!(again.is_lost() && !again.is_done(), "{again:?}");
    assert_eq!(again.published.duplicates(), 2, "each copy carries an id made of the input's");
    let waiting = client.stats(ns).await.unwrap().groups[0].counts.waiting;
    assert_eq!(waiting, 2, "and the topic that was bound later has none");
    client.close().await;
    broker.stop().await;
}
