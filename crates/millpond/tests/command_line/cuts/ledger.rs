//! A load, and what was told to who made it: what has to be there after a cut at a place of the trace, and what must not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use millpond_client::{Batch, Client, Filter, Level, Message, NamespaceName, ReceiveOptions};

use crate::broker::{Broker, Running, call, serve};
use crate::starving::in_runtime;

/// Messages of a round, each in a topic of its own: those of two rounds are more than a checkpoint waits for with 64 MiB of
/// memory.
const MESSAGES: usize = 1000;
/// Taken at once.
const TAKEN: u32 = 200;
/// Of each round but the first ones, which are there so that the journal loses its beginning, one in so many stays.
const STAYS: usize = 10;
const ROUNDS_WITHOUT: usize = 6;
/// Longer than a start and all that is taken behind it take, so that no lease runs out meanwhile.
const LEASE: Duration = Duration::from_secs(600);
/// For what is there.
const WAIT: Duration = Duration::from_secs(60);
/// What has not happened stands behind every trace.
const NEVER: usize = usize::MAX;

/// What was told of each message, by its topic.
pub struct Ledger(BTreeMap<String, Told>);

/// How long the trace was when something was asked for or told; all that the broker did before stands before that.
#[derive(Clone, Copy)]
struct Told {
    confirmed: usize,
    receiving: usize,
    acking: usize,
    acked: usize,
}

impl Ledger {
    /// Publishes, receives and acks until enough has happened.
    pub fn fill(broker: &Broker, trace: &Path, is_enough: impl Fn(usize) -> bool) -> Ledger {
        let length = || usize::try_from(std::fs::metadata(trace).unwrap().len()).unwrap();
        let mut ledger = Ledger(BTreeMap::new());
        let namespace = NamespaceName::default();
        in_runtime(async {
            let client = Client::connect(broker.address.as_str()).await.unwrap();
            for round in 0.. {
                let mut batch = Batch::builder();
                let topics: Vec<String> = (0..MESSAGES).map(|at| topic(round, at)).collect();
                topics.iter().for_each(|topic| batch.push(&message(topic)).unwrap());
                let outcomes = client.publish_batch(&namespace, Level::Durable, &batch.build()).await.unwrap();
                assert_eq!(outcomes.queued(), MESSAGES);
                let told = Told { confirmed: length(), receiving: NEVER, acking: NEVER, acked: NEVER };
                ledger.0.extend(topics.into_iter().map(|topic| (topic, told)));
                let Some(last) = round.checked_sub(1) else { continue };
                let stay = if last < ROUNDS_WITHOUT { 0 } else { MESSAGES / STAYS };
                let mut left = MESSAGES - stay;
                while left > 0 {
                    let receiving = length();
                    let options = ReceiveOptions {
                        messages: TAKEN.min(left as u32),
                        filter: Filter::Prefixes(vec![prefix(last).as_str().try_into().unwrap()]),
                        lease: Some(LEASE),
                        wait: WAIT,
                        ..ReceiveOptions::new(namespace.clone())
                    };
                    let deliveries = client.receive(options).await.unwrap();
                    let (receipts, acking) = (deliveries.receipts(), length());
                    let acks = client.ack(receipts).await.unwrap();
                    assert!(acks.done() == deliveries.len() && acks.done() > 0, "{acks:?}");
                    left -= acks.done();
                    let told = (receiving, acking, length());
                    for delivery in deliveries {
                        let of = ledger.0.get_mut(delivery.topic.as_str()).expect("it was published");
                        (of.receiving, of.acking, of.acked) = told;
                    }
                }
                if is_enough(round) {
                    return;
                }
            }
        });
        ledger
    }

    /// Where the first of it was told.
    pub fn begin(&self) -> usize {
        self.0.values().map(|told| told.confirmed).min().expect("something was published")
    }

    /// What is wrong with a directory that a cut at a place of the trace has left: it is looked at, a broker starts on it, and
    /// all that this one has to give is taken.
    pub fn check(&self, place: &Path, cut: usize) -> Result<(), String> {
        let said = call(&["inspect", place.to_str().unwrap()]);
        if said.code != 0 {
            let report: Vec<&str> = said.out.lines().rev().take(5).collect();
            return Err(format!("an inspection says, from its end, {report:?}, {}", said.err.trim_end()));
        }
        let mut broker = Running::of(serve(place).stdout(Stdio::piped()).stderr(Stdio::piped()));
        let line = broker.next_line();
        let address = line.strip_prefix("listening on ").and_then(|rest| rest.split_once(", http "));
        let Some((address, _)) = address else { return Err(format!("no broker starts: {}", broker.wait().err)) };
        let (found, leased) = in_runtime(take_all(address))?;
        if let Some(status) = broker.kill() {
            return Err(format!("the broker ended with {status}"));
        }
        self.compare(&found, leased, cut)
    }

    fn compare(&self, found: &BTreeSet<String>, leased: usize, cut: usize) -> Result<(), String> {
        let is_back = |(topic, told): &(&String, &Told)| told.acked <= cut && found.contains(*topic);
        if let Some((topic, _)) = self.0.iter().find(is_back) {
            return Err(format!("{} is back, which was acked", short(topic)));
        }
        let due = self.0.iter().filter(|(_, told)| told.confirmed <= cut && told.acking >= cut);
        let missing: Vec<_> = due.filter(|(topic, _)| !found.contains(*topic)).collect();
        // Who has leased it does not come back, and nobody else is given it yet.
        match missing.iter().find(|(_, told)| told.receiving >= cut) {
            Some((topic, _)) => Err(format!("{} is lost, with {} more", short(topic), missing.len() - 1)),
            None if missing.len() > leased => Err(format!("of {} leased messages {leased} are there", missing.len())),
            None => Ok(()),
        }
    }
}

/// The topics of the messages that wait, each with its own body, and how many others are leased.
async fn take_all(address: &str) -> Result<(BTreeSet<String>, usize), String> {
    let client = Client::connect(address).await.map_err(|error| error.to_string())?;
    let view = client.stats(NamespaceName::default()).await.map_err(|error| error.to_string())?;
    let counts = view.groups[0].counts;
    let mut found = BTreeSet::new();
    while found.len() < counts.waiting as usize {
        let options = ReceiveOptions { messages: 1000, wait: WAIT, ..ReceiveOptions::new(NamespaceName::default()) };
        let deliveries = client.receive(options).await.map_err(|error| error.to_string())?;
        if deliveries.is_empty() {
            return Err(format!("of {} that wait {} are given", counts.waiting, found.len()));
        }
        for delivery in deliveries {
            let topic = delivery.topic.as_str().to_owned();
            if delivery.body != message(&topic).body() {
                return Err(format!("{} has the body of another", short(&topic)));
            }
            if !found.insert(topic) {
                return Err(format!("{} comes twice", short(delivery.topic.as_str())));
            }
        }
    }
    Ok((found, counts.leased as usize))
}

fn prefix(round: usize) -> String {
    format!("{round}/")
}

/// As long as most of what the memory is for: it takes few of them for a checkpoint.
fn topic(round: usize, at: usize) -> String {
    format!("{}{at}/{}", prefix(round), "x".repeat(480))
}

/// What is its own of a topic's name.
fn short(topic: &str) -> &str {
    topic.trim_end_matches(['/', 'x'])
}

fn message(topic: &str) -> Message {
    Message::new(topic.try_into().expect("it is a name"), topic.repeat(2))
}
