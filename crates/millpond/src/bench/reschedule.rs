//! `bench reschedule`: very many messages are given another delay, one command for each, while others publish.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use hdrhistogram::Histogram;
use millpond_protocol::{LookWhich, Request, Response, TopicRef, Which, encode_request};
use millpond_types::limits::PAGE_MAX;
use millpond_types::{MessageId, Millis, NamespaceName, Policy, TopicName};

use super::Level;
use super::fill::Fill;
use super::order::Order;
use super::producer::histogram;
use super::progress::Progress;
use super::report::Report;
use super::slots::{Shape, Slots};
use super::spread::{Spread, TOPICS, topic_name};
use super::target::{Costs, Target, TargetArgs};
use super::wire::{Wire, nanos, unexpected};
use crate::cli::Globals;
use crate::failure::Failure;

/// How long the messages are delayed at first.
const DELAY: Millis = Millis::seconds(24 * 60 * 60);
/// By how much each one's new delay is longer than that of the one before, so that no two are due at once.
const STEP: u64 = 17;
/// Commands on their way: as many as a connection may have unanswered.
const WINDOW: usize = 256;
/// Where there is a rate, what has come due in so many nanoseconds is sent together.
const TICK: u64 = 1_000_000;
/// Bytes of a body.
const SIZE: usize = 24;
/// How long others are measured alone.
const ALONE: Duration = Duration::from_secs(3);
/// The pause of others between a confirmation and their next publish.
const PAUSE: Duration = Duration::from_millis(1);
/// The topic that others publish to, which no other one of the run is named as.
const OTHERS: u32 = 0;

/// Give very many delayed messages another delay, each by its id, and see what others notice of it
#[derive(Args)]
pub struct Reschedule {
    #[command(flatten)]
    target: TargetArgs,
    /// How many messages
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,
    /// Messages of each topic
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u64).range(1..=PAGE_MAX as u64))]
    each: u64,
    /// Connections that the commands come on
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u64).range(1..=1000))]
    connections: u64,
    /// Commands a second of all connections together [default: as many as are answered]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
}

impl Reschedule {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let target = self.target.open(globals, Policy::default(), TOPICS)?;
        let mut report = Report::new(&target);
        let topics = self.messages.div_ceil(self.each) as u32;
        let spread = Spread {
            namespace: target.namespace.clone(),
            topics,
            tenants: 1,
            order: Order::Sequential,
            dedup: false,
            runs: topics.min(1000) as usize,
            run: 1,
            size: SIZE,
            delay: DELAY,
        };
        let fill = Fill { address: target.address, spread, messages: self.messages, connections: 1, window: 100_000 };
        if let Some((count, why)) = fill.run()?.refused {
            report.fault(format!("{count} messages were refused: {why}"));
        }
        let ids = ids(&target, topics)?;
        let (alone, ()) = while_running(&target, || {
            thread::sleep(ALONE);
            Ok(())
        })?;
        let before = Costs::now(&target);
        let (beside, seconds) = while_running(&target, || self.reschedule(&target, &ids))?;
        report.figure("messages", self.messages as f64, "");
        report.figure("topics", f64::from(topics), "");
        report.figure("time", seconds, "s");
        report.figure("rate", ids.len() as f64 / seconds, "messages/s");
        report.latency("others alone", &alone);
        report.latency("others beside", &beside);
        let ratio = beside.value_at_quantile(0.99) as f64 / alone.value_at_quantile(0.99) as f64;
        report.figure("others p99, times that of alone", ratio, "");
        target.costs(&mut report, before, seconds, ids.len() as u64);
        if ids.len() as u64 != self.messages {
            report.fault(format!("of {} messages {} were found", self.messages, ids.len()));
        }
        target.close(&report)
    }

    /// Sends a command for each message and waits for the last answer. Returns the seconds that it took.
    fn reschedule(&self, target: &Target, ids: &[(TopicName, MessageId)]) -> Result<f64, Failure> {
        let done = Arc::new(AtomicU64::new(0));
        let _progress = Progress::of_count(self.messages, Arc::clone(&done), "rescheduled");
        let begin = nanos();
        thread::scope(|scope| {
            let parts = ids.chunks(ids.len().div_ceil(self.connections as usize).max(1));
            let done = &*done;
            let rate = self.rate.map(|rate| rate as f64 / self.connections as f64);
            let threads: Vec<_> = parts.map(|part| scope.spawn(move || reschedule(target, part, rate, done))).collect();
            let mut ends = threads.into_iter().map(|thread| thread.join().expect("a connection does not panic"));
            ends.try_for_each(|end| end)
        })?;
        Ok((nanos() - begin) as f64 / 1e9)
    }
}

/// On one connection.
fn reschedule(
    target: &Target,
    ids: &[(TopicName, MessageId)],
    rate: Option<f64>,
    done: &AtomicU64,
) -> Result<(), Failure> {
    let mut wire = Wire::connect(target.address)?;
    let (mut sent, mut answered, mut outbox) = (0, 0, Vec::new());
    let begin = nanos();
    while answered < ids.len() {
        let ticks = (nanos() - begin) / TICK;
        let due = rate.map_or(ids.len(), |rate| ((ticks * TICK) as f64 / 1e9 * rate) as usize);
        for (at, (topic, id)) in ids.iter().enumerate().take(due.min(answered + WINDOW)).skip(sent) {
            let topic = TopicRef { namespace: target.namespace.clone(), name: topic.clone() };
            let delay = Millis(DELAY.0 + at as u64 * STEP);
            let request: Request = Request::Reschedule { topic, which: Which::Id(*id), delay };
            encode_request(&request, at as u32, &mut outbox);
            sent = at + 1;
        }
        wire.send(&outbox)?;
        outbox.clear();
        wire.wait(rate.map(|_| begin + (ticks + 1) * TICK))?;
        while let Some(incoming) = wire.next()? {
            match incoming.frame {
                Response::Done => answered += 1,
                other => return Err(unexpected(&other)),
            }
            done.fetch_add(1, Relaxed);
        }
    }
    Ok(())
}

/// The ids of all delayed messages, topic by topic.
fn ids(target: &Target, topics: u32) -> Result<Vec<(TopicName, MessageId)>, Failure> {
    let mut wire = Wire::connect(target.address)?;
    let mut ids = Vec::new();
    for topic in 0..topics {
        let name = TopicName::new(Bytes::copy_from_slice(&topic_name(topic))).expect("the name is valid");
        let topic = TopicRef { namespace: target.namespace.clone(), name: name.clone() };
        match wire.call(&Request::Look { topic, which: LookWhich::First(PAGE_MAX as u32), group: None })? {
            Response::Messages(views) => ids.extend(views.into_iter().map(|view| (name.clone(), view.id))),
            other => return Err(unexpected(&other)),
        }
    }
    Ok(ids)
}

/// Does something, while another connection publishes one message after the other: how long each took to be confirmed.
fn while_running<T>(
    target: &Target,
    task: impl FnOnce() -> Result<T, Failure>,
) -> Result<(Histogram<u64>, T), Failure> {
    let stop = AtomicBool::new(false);
    let (others, done) = thread::scope(|scope| {
        let others = scope.spawn(|| publish_on(target.address, target.namespace.clone(), &stop));
        let done = task();
        stop.store(true, Relaxed);
        (others.join().expect("a producer does not panic"), done)
    });
    Ok((others?, done?))
}

fn publish_on(address: SocketAddr, namespace: NamespaceName, stop: &AtomicBool) -> Result<Histogram<u64>, Failure> {
    let shape = Shape { namespace, topics: 1, size: SIZE, batch: 1, window: 1, level: Level::Durable.into() };
    let (mut wire, mut slots, mut latency) = (Wire::connect(address)?, Slots::new(&shape), histogram());
    while !stop.load(Relaxed) {
        let begin = nanos();
        slots.stamp(0, OTHERS, begin, 0);
        wire.publish(slots.frames(0, 1))?;
        latency.saturating_record((nanos() - begin).max(1));
        thread::sleep(PAUSE);
    }
    Ok(latency)
}
