//! `bench loud`: what a quiet tenant notices of a loud one. How long a message of one tenant takes until it is delivered,
//! and how many of another tenant go before it: alone, and while very many of that one's wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use clap::Args;
use hdrhistogram::Histogram;
use millpond_types::{GroupName, Millis, Policy};

use super::Level;
use super::consumer::{Consumer, Task, stamps};
use super::fill::Fill;
use super::order::Order;
use super::producer::histogram;
use super::progress::Progress;
use super::report::Report;
use super::slots::{Shape, Slots};
use super::spread::{Spread, TOPICS, TOPICS_MAX};
use super::target::{Target, TargetArgs};
use super::wire::{Wire, nanos};
use crate::cli::Globals;
use crate::failure::Failure;
use crate::quantity;

/// Let one tenant have very many messages waiting, and see what another one notices of it
#[derive(Args)]
pub struct Loud {
    #[command(flatten)]
    target: TargetArgs,
    /// Messages of the loud tenant
    #[arg(long, value_name = "N", default_value = "5000000", value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,
    /// Topics that these are spread over
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=TOPICS_MAX as i64))]
    topics: u32,
    /// How long each part is measured, alone and beside
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = quantity::duration)]
    duration: Duration,
    /// Connections that consume
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u64).range(1..=1000))]
    consumers: u64,
    /// Messages that each of them may hold unacked
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..))]
    credit: u32,
}

/// Bytes of a body.
const SIZE: usize = 24;
/// The pause of the quiet tenant between a confirmation and its next publish.
const PAUSE: Duration = Duration::from_millis(1);
/// The quiet tenant's topic, of a tenant that no other topic of the run is of.
const QUIET: u32 = 0;
/// Set in the numbers of the quiet tenant's messages; the rest is how many of the loud one's had arrived before.
const IS_QUIET: u64 = 1 << 63;

/// What became of the quiet tenant's messages.
struct Noticed {
    /// From sending to arrival, in nanoseconds.
    latency: Histogram<u64>,
    /// Messages of the loud tenant that arrived in between.
    before: Histogram<u64>,
}

impl Loud {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let target = self.target.open(globals, Policy::default(), TOPICS)?;
        let mut report = Report::new(&target);
        let (alone, _) = self.measure(&target)?;
        let spread = Spread {
            namespace: target.namespace.clone(),
            topics: self.topics,
            tenants: 1,
            order: Order::Sequential,
            dedup: false,
            runs: self.topics.min(1000) as usize,
            run: if self.topics == 1 { 1000 } else { 1 },
            size: SIZE,
            delay: Millis::ZERO,
        };
        let fill = Fill { address: target.address, spread, messages: self.messages, connections: 1, window: 100_000 };
        if let Some((count, why)) = fill.run()?.refused {
            report.fault(format!("{count} messages were refused: {why}"));
        }
        let (beside, arrived) = self.measure(&target)?;
        report.figure("messages", self.messages as f64, "");
        report.figure("topics", f64::from(self.topics), "");
        report.figure("consumers", self.consumers as f64, "");
        report.figure("credit of each", f64::from(self.credit), "messages");
        report.figure("loud tenant's rate", arrived as f64 / self.duration.as_secs_f64(), "messages/s");
        report.latency("quiet alone", &alone.latency);
        report.latency("quiet beside", &beside.latency);
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("max", 1.0)] {
            let before = beside.before.value_at_quantile(quantile) as f64;
            report.figure(format!("loud before a quiet one {name}"), before, "messages");
        }
        if arrived >= self.messages {
            report.fault(
                "the loud tenant's messages were gone before the end: ask for more of them, or for less time".into(),
            );
        }
        target.close(&report)
    }

    /// Consumes everything for the time that was asked for, while the quiet tenant publishes. Also how many messages of
    /// the loud tenant arrived.
    fn measure(&self, target: &Target) -> Result<(Noticed, u64), Failure> {
        let (stop, settled, loud) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
        let progress = Progress::of_time(self.duration, Arc::new(AtomicU64::new(0)), "measured");
        let (sent, noticed) = thread::scope(|scope| {
            let consumers: Vec<_> =
                (0..self.consumers).map(|_| scope.spawn(|| self.consume(target, &loud, &settled))).collect();
            let producer = scope.spawn(|| publish(target, &loud, &stop));
            thread::sleep(self.duration);
            stop.store(true, Relaxed);
            let sent = producer.join().expect("a producer does not panic");
            settled.store(true, Relaxed);
            let ends = consumers.into_iter().map(|thread| thread.join().expect("a consumer does not panic"));
            (sent, ends.collect::<Result<Vec<_>, _>>())
        });
        drop(progress);
        sent?;
        let mut sum = Noticed { latency: histogram(), before: histogram() };
        for noticed in noticed? {
            sum.latency.add(&noticed.latency).expect("all histograms have the same bounds");
            sum.before.add(&noticed.before).expect("all histograms have the same bounds");
        }
        Ok((sum, loud.into_inner()))
    }

    fn consume(&self, target: &Target, loud: &AtomicU64, stop: &AtomicBool) -> Result<Noticed, Failure> {
        let (namespace, group) = (target.namespace.clone(), GroupName::default());
        let task = Task { address: target.address, namespace, group, credit: self.credit };
        let mut consumer = Consumer::attach(&task)?;
        let mut noticed = Noticed { latency: histogram(), before: histogram() };
        while !consumer.is_done(stop)? {
            let arrived = consumer.take(|messages, now| {
                stamps(messages, |time, number| {
                    if number & IS_QUIET == 0 {
                        loud.fetch_add(1, Relaxed);
                    } else {
                        let before = loud.load(Relaxed) - (number & !IS_QUIET);
                        noticed.before.saturating_record(before.max(1));
                        noticed.latency.saturating_record(now.saturating_sub(time).max(1));
                    }
                })
            })?;
            if arrived.messages > 0 {
                consumer.ack(&arrived.receipts);
                if !stop.load(Relaxed) {
                    consumer.grant(arrived.messages, arrived.bytes);
                }
            }
            consumer.flush()?;
        }
        consumer.end()?;
        Ok(noticed)
    }
}

/// Publishes one message of the quiet tenant after the other.
fn publish(target: &Target, loud: &AtomicU64, stop: &AtomicBool) -> Result<(), Failure> {
    let namespace = target.namespace.clone();
    let shape = Shape { namespace, topics: 1, size: SIZE, batch: 1, window: 1, level: Level::Durable.into() };
    let (mut wire, mut slots) = (Wire::connect(target.address)?, Slots::new(&shape));
    while !stop.load(Relaxed) {
        slots.stamp(0, QUIET, nanos(), IS_QUIET | loud.load(Relaxed));
        wire.publish(slots.frames(0, 1))?;
        thread::sleep(PAUSE);
    }
    Ok(())
}
