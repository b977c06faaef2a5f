//! The client processes: this test's own program again, told by its environment what to be. Each goes on over every loss of
//! its broker, and ends when it is told to by a file, or is killed.

mod mixing;

use std::collections::VecDeque;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use millpond_client::{
    Batch, Client, ClientOptions, Confirmation, Delivery, Error, FinishOutcome, FinishVerb, GroupName, Level, Message,
    Millis, NamespaceName, Outcomes, Producer, ProducerId, ProducerOptions, PublishOutcome, Receipts, ReceiveOptions,
    Reconnect, SubscribeOptions,
};
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::broker::Running;
use crate::ledger::Scribe;
use crate::load::{self, AUDIT, COALESCING, KEPT, LATE, LEAD, MIXED, OUT, RATED, SHELF, WORK};
use crate::random::Random;

/// What a process is to be: its name, which life of it this is, and the broker's address.
const ROLE: &str = "MILLPOND_CRASHES_ROLE";
/// Where the ledger is.
const LEDGER: &str = "MILLPOND_CRASHES_LEDGER";

/// Those that publish; told to end first.
pub const PUBLISHERS: [&str; 5] = ["session-1", "session-2", "plain", "trigger", "mixer"];
/// Those that take, with their namespace and group.
const CONSUMERS: [(&str, &str, &str); 15] = [
    ("worker-1", WORK, "default"),
    ("worker-2", WORK, "default"),
    ("receiver", WORK, "default"),
    ("audit", WORK, AUDIT),
    ("out", OUT, "default"),
    ("candidate-1", OUT, LEAD),
    ("candidate-2", OUT, LEAD),
    ("first", COALESCING[0], "default"),
    ("latest", COALESCING[1], "default"),
    ("mixed", MIXED, "default"),
    ("mixed-audit", MIXED, AUDIT),
    ("shelf", MIXED, SHELF),
    ("late", MIXED, LATE),
    ("rated", RATED, "default"),
    ("kept", KEPT, "default"),
];

/// Messages that wait in a group while its publishers go on; a crash meets a backlog, and the end comes soon.
const BACKLOG: u64 = 3_000;
/// How often a file is looked for that tells to end.
const TICK: Duration = Duration::from_millis(100);

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    PUBLISHERS.into_iter().chain(CONSUMERS.map(|(name, _, _)| name))
}

/// Starts a process.
pub fn start(name: &str, life: u32, address: &str, ledger: &Path) -> Running {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command
        .args(["killed_at_random_moments_nothing_is_lost_ended_twice_or_stuck", "--exact", "--nocapture"])
        .env(ROLE, format!("{name} {life} {address}"))
        .env(LEDGER, ledger)
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Running::of(&mut command)
}

/// In a client process, does its work until it is told to end; elsewhere `false`.
pub fn run_if_asked() -> bool {
    let (Some(role), Some(ledger)) = (std::env::var(ROLE).ok(), std::env::var_os(LEDGER)) else { return false };
    set_parent_process_death_signal(Some(Signal::KILL)).expect("a process may choose how it ends");
    let words: Vec<&str> = role.split(' ').collect();
    let [name, life, address] = words[..] else { panic!("no role: {role:?}") };
    let ledger = PathBuf::from(ledger);
    let life: u32 = life.parse().expect("lives are counted");
    let scribe = Scribe::new(&ledger, &format!("{name}.{life}"));
    let seed = name.bytes().fold(u64::from(life), |seed, byte| (seed << 5 ^ seed >> 59) ^ u64::from(byte));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let client = connect(address, name).await;
        let client =
            Process { name: name.to_owned(), life, ledger, client, scribe, random: Random::new(seed), tags: 0 };
        match CONSUMERS.iter().find(|consumer| consumer.0 == name) {
            Some(("receiver", space, group)) => client.receive(space, group).await,
            Some((_, space, group)) => client.work(space, group).await,
            None if name == "plain" => client.publish_plainly().await,
            None if name == "trigger" => client.trigger().await,
            None if name == "mixer" => client.mix().await,
            None => client.publish_in_a_session().await,
        }
    });
    true
}

async fn connect(address: &str, name: &str) -> Client {
    let options = ClientOptions {
        name: name.to_owned(),
        reconnect: Some(Reconnect { first: Duration::from_millis(5), longest: Duration::from_millis(100) }),
        resume: Duration::from_secs(2),
        ..ClientOptions::new(address)
    };
    again(|| Client::connect(options.clone())).await
}

/// Calls until the broker is there to answer.
async fn again<T, F: Future<Output = Result<T, Error>>>(call: impl Fn() -> F) -> T {
    loop {
        if let Some(done) = passing(call().await) {
            return done;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What came of a call, unless nobody knows, or a later one may have it. Nothing else goes wrong here.
fn passing<T>(result: Result<T, Error>) -> Option<T> {
    result.map_err(|error| assert!(error.is_passing(), "{error}")).ok()
}

struct Process {
    name: String,
    life: u32,
    ledger: PathBuf,
    client: Client,
    scribe: Scribe,
    random: Random,
    tags: u64,
}

/// What is done with a message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Ack,
    Forward,
    Fail,
    Release,
    Reject,
    LetGo,
}

/// A batch that was sent: the topic and tag of each of its messages.
type Sent = Vec<(String, String)>;

impl Process {
    /// Whether a file says that it is time to end.
    fn is_told(&self, word: &str) -> bool {
        self.ledger.join(word).exists()
    }

    fn tag(&mut self) -> String {
        self.tags += 1;
        format!("{}.{}.{}", self.name, self.life, self.tags)
    }

    fn draw(&mut self, with_dedup_ids: bool) -> (Batch, Sent) {
        let mut messages: Vec<Message> = Vec::new();
        let mut sent = Sent::new();
        for _ in 0..1 + self.random.below(20) {
            let tag = self.tag();
            let message = load::work(&mut self.random, &tag);
            sent.push((message.topic().as_str().to_owned(), tag.clone()));
            messages.push(if with_dedup_ids { message.dedup_id(tag) } else { message });
        }
        (Batch::try_from(messages).expect("a publish holds it"), sent)
    }

    fn note(&mut self, space: &str, sent: Sent, outcomes: &Outcomes<PublishOutcome>) {
        assert_eq!(outcomes.len(), sent.len());
        for ((topic, tag), outcome) in sent.into_iter().zip(outcomes.iter()) {
            match outcome {
                PublishOutcome::Queued { id } | PublishOutcome::Duplicate { id, .. } => {
                    self.scribe.published(space, &topic, id, &tag);
                }
                PublishOutcome::Coalesced { id, .. } => self.scribe.coalesced(space, &topic, id, &tag),
                PublishOutcome::Refused { code, detail } => panic!("refused ({}): {detail}", code.name()),
            }
        }
        self.scribe.write();
    }

    /// Waits until the consumers have come closer.
    async fn pace(&mut self, space: &str) {
        tokio::time::sleep(Duration::from_millis(1 + self.random.below(4))).await;
        while self.random.one_in(4) && !self.is_told("stop") {
            let view = passing(self.client.stats(name(space)).await);
            if view.is_some_and(|view| view.groups.iter().all(|group| group.counts.unfinished() < BACKLOG)) {
                return;
            }
            tokio::time::sleep(TICK).await;
        }
    }

    /// A producer session with many batches under way. Each is stored once, however often the connection is lost.
    async fn publish_in_a_session(mut self) {
        let id = ProducerId(self.name.bytes().fold(0, |id, byte| id * 256 + u128::from(byte)));
        let identity = Some((id, self.life * 10_000));
        let options = ProducerOptions { identity, ..ProducerOptions::new(name(WORK)) };
        let producer: Producer = self.client.producer(options).expect("a producer session");
        let mut under_way: VecDeque<(Sent, Confirmation)> = VecDeque::new();
        while !self.is_told("stop") {
            let (batch, sent) = self.draw(false);
            if let Some(confirmation) = passing(producer.send(&batch).await) {
                under_way.push_back((sent, confirmation));
            }
            if under_way.len() > 16 {
                self.settle(under_way.pop_front().expect("there are some")).await;
            }
            self.pace(WORK).await;
        }
        for batch in under_way {
            self.settle(batch).await;
        }
    }

    async fn settle(&mut self, (sent, confirmation): (Sent, Confirmation)) {
        let outcomes = confirmation.await.expect("a producer session has an outcome for each batch");
        self.note(WORK, sent, &outcomes);
    }

    /// Publishes that are repeated until they are confirmed; their dedup ids say that they are the same.
    async fn publish_plainly(mut self) {
        while !self.is_told("stop") {
            let (batch, sent) = self.draw(true);
            let level = if self.random.one_in(2) { Level::Durable } else { Level::Buffered };
            let (client, space) = (self.client.clone(), name(WORK));
            let outcomes = again(|| client.publish_batch(&space, level, &batch)).await;
            self.note(WORK, sent, &outcomes);
            self.pace(WORK).await;
        }
    }

    /// Publishes of which one may stand for others.
    async fn trigger(mut self) {
        while !self.is_told("stop") {
            let space = COALESCING[self.random.below(2) as usize];
            let tag = self.tag();
            let message = load::trigger(&mut self.random, &tag);
            let sent = vec![(message.topic().as_str().to_owned(), tag)];
            if let Some(outcome) = passing(self.client.publish(&name(space), message).await) {
                let outcomes = Outcomes::from(vec![millpond_client::OutcomeRun { count: 1, outcome }]);
                self.note(space, sent, &outcomes);
            }
            self.pace(space).await;
        }
    }

    /// Takes what comes, and does with it what is drawn.
    async fn work(mut self, space: &str, group: &str) {
        // What begins with a word: the end, or that the group is there.
        let begins = match (space, group) {
            (KEPT, _) | (MIXED, SHELF) => Some("stop"),
            (MIXED, LATE) => Some(LATE),
            _ => None,
        };
        while begins.is_some_and(|word| !self.is_told(word)) {
            tokio::time::sleep(TICK).await;
        }
        let client = self.client.clone();
        let options =
            SubscribeOptions { group: group_name(group), messages: 200, ..SubscribeOptions::new(name(space)) };
        let mut subscription = again(|| client.subscribe(options.clone())).await;
        while !self.is_told("drained") {
            let Ok(batch) = tokio::time::timeout(TICK, subscription.next_batch(50)).await else { continue };
            let batch: Vec<Delivery> = batch.expect("a subscription goes on").collect();
            self.deliver(space, group, &batch);
            let mut fates: Vec<(Fate, Vec<Delivery>)> = Vec::new();
            for delivery in batch {
                let fate = self.fate(space, group);
                match fates.iter_mut().find(|(found, _)| *found == fate && fate != Fate::Forward) {
                    Some((_, deliveries)) => deliveries.push(delivery),
                    None => fates.push((fate, vec![delivery])),
                }
            }
            for (fate, deliveries) in fates {
                self.finish(space, group, fate, &deliveries).await;
            }
        }
    }

    /// Takes a few at a time without a session: their leases end by themselves.
    async fn receive(mut self, space: &str, group: &str) {
        while !self.is_told("drained") {
            let options = ReceiveOptions {
                group: group_name(group),
                messages: 20,
                lease: Some(Duration::from_secs(2)),
                wait: TICK,
                ..ReceiveOptions::new(name(space))
            };
            let Some(batch) = passing(self.client.receive(options).await) else { continue };
            let batch: Vec<Delivery> = batch.collect();
            self.deliver(space, group, &batch);
            self.finish(space, group, Fate::Ack, &batch).await;
        }
    }

    fn deliver(&mut self, space: &str, group: &str, batch: &[Delivery]) {
        for delivery in batch {
            self.scribe.delivered(space, group, delivery, &load::tag(delivery.topic.as_str(), &delivery.body));
        }
        self.scribe.write();
    }

    fn fate(&mut self, space: &str, group: &str) -> Fate {
        match (space, group, self.random.below(400)) {
            (WORK, "default", 0..40) => Fate::Forward,
            (WORK | MIXED, "default", 40..60) => Fate::Reject,
            (_, _, 60..80) => Fate::Fail,
            (_, _, 80..90) => Fate::Release,
            (_, _, 90) => Fate::LetGo,
            _ => Fate::Ack,
        }
    }

    async fn finish(&mut self, space: &str, group: &str, fate: Fate, deliveries: &[Delivery]) {
        let (verb, how) = match fate {
            Fate::LetGo => return deliveries.iter().for_each(|delivery| self.client.let_go(delivery)),
            Fate::Forward => return self.forward(space, group, &deliveries[0]).await,
            Fate::Ack => ("ack", FinishVerb::Ack),
            Fate::Fail => ("fail", FinishVerb::Fail { delay: None, reason: "drawn".into() }),
            Fate::Release => ("release", FinishVerb::Release { delay: Millis::ZERO }),
            Fate::Reject => ("reject", FinishVerb::Reject { reason: "drawn".into() }),
        };
        for delivery in deliveries {
            self.scribe.end("asked", verb, space, group, delivery);
        }
        self.scribe.write();
        let receipts: Receipts = deliveries.iter().map(|delivery| delivery.receipt).collect();
        let Some(outcomes) = passing(self.client.finish(how, receipts).await) else { return };
        for (delivery, outcome) in deliveries.iter().zip(outcomes.iter()) {
            self.scribe.end(word(&outcome), verb, space, group, delivery);
        }
        self.scribe.write();
    }

    async fn forward(&mut self, space: &str, group: &str, input: &Delivery) {
        self.scribe.end("asked", "forward", space, group, input);
        self.scribe.write();
        let output = load::output(input);
        let topic = output.topic().as_str().to_owned();
        let forwarded = self.client.forward(input, &name(OUT), vec![output]).await;
        let Some(forwarded) = passing(forwarded) else { return };
        for outcome in forwarded.finished.iter() {
            self.scribe.end(word(&outcome), "forward", space, group, input);
        }
        if forwarded.is_done() {
            self.note(OUT, vec![(topic, format!("out-{}", input.id))], &forwarded.published);
        }
        self.scribe.write();
    }
}

fn word(outcome: &FinishOutcome) -> &'static str {
    match outcome {
        FinishOutcome::Done => "done",
        FinishOutcome::Dead => "dead",
        FinishOutcome::LeaseLost => "lost",
        FinishOutcome::Kept | FinishOutcome::Deposed | FinishOutcome::OutOfOrder => "kept",
    }
}

fn name(space: &str) -> NamespaceName {
    NamespaceName::try_from(space).expect("a valid name")
}

fn group_name(group: &str) -> GroupName {
    GroupName::try_from(group).expect("a valid name")
}
