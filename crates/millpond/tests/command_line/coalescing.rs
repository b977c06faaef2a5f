//! Hot topics, many workers, workers that die with their leases, and a broker that is killed as well: each topic is worked on
//! once at a time, its last message is worked on after it came, and a poisoned key comes to its dead letter.

use std::cell::RefCell;
use std::collections::HashMap;
use std::env;
use std::rc::Rc;
use std::time::{Duration, Instant};

use millpond_client::{
    Batch, Client, Delivery, FinishOutcome, GroupName, Listing, Message, NamespaceName, ProducerOptions,
    ReceiveOptions, TopicName,
};
use tokio::task::LocalSet;

use crate::broker::{Broker, serve_at};

/// Each so many messages of a worker it dies, with all that it holds.
const LIFE: u64 = 200;
const WORKERS: u64 = 6;
/// So often the broker is killed while messages are published.
const KILLS: u64 = 3;
/// Of the topics, one in so many is poisoned.
const POISONED: u64 = 50;

/// At full size: `PUBLISHES=1000000 TOPICS=10000 cargo test --release -p millpond hot_topics -- --nocapture`.
#[test]
fn hot_topics_are_worked_on_once_at_a_time() {
    let of = |key: &str, default: u64| env::var(key).map_or(default, |text| text.parse().expect("a number"));
    run(of("PUBLISHES", 10_000), of("TOPICS", 200));
}

/// What is known of the topics, by number.
#[derive(Default)]
struct Known {
    /// The number of the last message that was published.
    last: HashMap<u64, u64>,
    /// The highest number of a message that was worked on.
    done: HashMap<u64, u64>,
    /// The latest lease that was given to anybody.
    leases: HashMap<u64, u64>,
    runs: u64,
    deaths: u64,
    /// How often the broker was killed.
    kills: u64,
    is_over: bool,
}

fn run(publishes: u64, topics: u64) {
    let broker = Broker::start();
    let policy = ["--coalesce", "keep-latest", "--retry", "head", "--max-failures", "6"];
    broker.ok(&[&["namespace", "create", "hot"][..], &policy].concat());
    let (address, broker) = (broker.address.clone(), RefCell::new(Some(broker)));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let known = Rc::new(RefCell::new(Known::default()));
    let begun = Instant::now();
    LocalSet::new().block_on(&runtime, async {
        let workers: Vec<_> =
            (0..WORKERS).map(|seed| tokio::task::spawn_local(work(address.clone(), Rc::clone(&known), seed))).collect();
        publish(&broker, &known, publishes, topics).await;
        let client = Client::connect(address.as_str()).await.unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        while client.stats(namespace()).await.unwrap().groups[0].counts.unfinished() > 0 {
            assert!(Instant::now() < patience, "the topics do not come to rest");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        known.borrow_mut().is_over = true;
        for worker in workers {
            worker.await.unwrap();
        }
        check(&client, &known.take(), publishes, begun.elapsed()).await;
    });
}

/// Publishes each message once, whatever becomes of the broker meanwhile.
async fn publish(broker: &RefCell<Option<Broker>>, known: &RefCell<Known>, publishes: u64, topics: u64) {
    let address = broker.borrow().as_ref().unwrap().address.clone();
    let producer = Client::connect(&*address).await.unwrap().producer(ProducerOptions::new(namespace())).unwrap();
    let mut random = 1;
    for from in (0..publishes).step_by(256) {
        if known.borrow().kills < from * (KILLS + 1) / publishes {
            known.borrow_mut().kills += 1;
            let directory = broker.take().unwrap().kill();
            broker.replace(Some(Broker::run_on(&mut serve_at(directory.path(), &address), directory)));
        }
        let messages = (from..publishes.min(from + 256)).map(|number| {
            let topic = draw(&mut random) % topics;
            known.borrow_mut().last.insert(topic, number);
            Message::new(name(topic), number.to_string())
        });
        let batch = Batch::try_from(messages.collect::<Vec<Message>>()).unwrap();
        producer.send(&batch).await.unwrap().await.unwrap();
    }
}

/// A worker after the other, each until it dies.
async fn work(address: String, known: Rc<RefCell<Known>>, seed: u64) {
    let mut random = seed + 2;
    while !known.borrow().is_over {
        // The broker may be killed just as it has been reached.
        let Ok(client) = Client::connect(address.as_str()).await else { continue };
        let lives = draw(&mut random) % (2 * LIFE);
        let mut got = 0;
        while got <= lives && !known.borrow().is_over {
            let (lease, wait) = (Some(Duration::from_millis(500)), Duration::from_millis(100));
            let options = ReceiveOptions { messages: 8, lease, wait, ..ReceiveOptions::new(namespace()) };
            let deliveries: Vec<Delivery> = client.receive(options).await.unwrap().collect();
            deliveries.iter().for_each(|delivery| known.borrow_mut().leased(delivery));
            let kills = known.borrow().kills;
            for delivery in deliveries {
                got += 1;
                if got <= lives {
                    finish(&client, &known, &delivery, kills).await;
                }
            }
        }
        known.borrow_mut().deaths += 1;
    }
}

/// Works on a message that was given when the broker had been killed so often.
async fn finish(client: &Client, known: &RefCell<Known>, delivery: &Delivery, kills: u64) {
    let topic = number(&delivery.topic);
    if topic.is_multiple_of(POISONED) {
        _ = client.fail(delivery, "poisoned").await;
        return;
    }
    let is_latest = known.borrow().leases[&topic] == delivery.receipt.lease.0;
    let outcome = client.ack(delivery).await.ok().and_then(|outcomes| outcomes.iter().next());
    let is_done = outcome == Some(FinishOutcome::Done);
    assert!(is_latest || !is_done, "{} was leased to two at a time", delivery.topic);
    // With the broker the answer to an ack may be lost, and a second one comes too late.
    if is_done || known.borrow().kills > kills {
        known.borrow_mut().done(topic, &delivery.body);
    }
}

impl Known {
    fn leased(&mut self, delivery: &Delivery) {
        let latest = self.leases.entry(number(&delivery.topic)).or_default();
        *latest = delivery.receipt.lease.0.max(*latest);
        self.runs += 1;
    }

    fn done(&mut self, topic: u64, body: &[u8]) {
        let number: u64 = std::str::from_utf8(body).unwrap().parse().unwrap();
        let done = self.done.entry(topic).or_default();
        *done = number.max(*done);
    }
}

async fn check(client: &Client, known: &Known, publishes: u64, took: Duration) {
    let mut dead = 0;
    for (topic, last) in &known.last {
        if topic.is_multiple_of(POISONED) {
            let (prefix, after) = (name(*topic).to_string().into(), "".into());
            let listing = Listing { namespace: namespace(), prefix, after, limit: 1 };
            let letters = client.dead_letters(listing, GroupName::default()).await.unwrap().rows.len();
            assert!(letters > 0, "{topic} has its dead letter");
            dead += 1;
        } else {
            assert_eq!(known.done.get(topic), Some(last), "the last message of {topic} was worked on");
        }
    }
    let tally = client.stats(namespace()).await.unwrap().groups[0].tally;
    assert_eq!((tally.accepted, tally.declined), (publishes, 0));
    assert!(tally.superseded > 0, "one stood for many");
    println!(
        "{publishes} publishes over {} topics in {took:.1?}: {} deliveries, {} superseded, {:.0} % of the runs saved, {} \
         poisoned topics with dead letters, {} deaths of workers, {} of the broker",
        known.last.len(),
        known.runs,
        tally.superseded,
        100.0 - 100.0 * known.runs as f64 / publishes as f64,
        dead,
        known.deaths,
        known.kills,
    );
}

fn namespace() -> NamespaceName {
    NamespaceName::try_from("hot").unwrap()
}

/// Tenants of a hundred topics each.
fn name(topic: u64) -> TopicName {
    TopicName::try_from(&format!("{}/{topic}", topic / 100)[..]).unwrap()
}

fn number(topic: &TopicName) -> u64 {
    topic.as_str().rsplit('/').next().unwrap().parse().unwrap()
}

/// The next of a sequence of numbers that look random.
fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}
