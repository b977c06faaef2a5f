//! `bench publish`: how fast messages are confirmed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use clap::Args;
use millpond_types::Policy;

use super::Level;
use super::producer::{self, histogram, produce};
use super::progress::Progress;
use super::report::Report;
use super::slots::{Shape, TOPICS};
use super::target::{Costs, TargetArgs};
use super::wire::nanos;
use crate::cli::Globals;
use crate::failure::Failure;
use crate::quantity;

/// Publish on several connections and wait for confirmations: messages confirmed a second
#[derive(Args)]
pub struct Publish {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Connections that publish
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    connections: u64,
    /// Messages a second of all connections together [default: as many as the window allows]
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Messages that a connection may have unconfirmed
    #[arg(long, value_name = "N", default_value = "2000")]
    window: usize,
    /// Messages in a frame; 1 with --window 1 is one in flight
    #[arg(long, value_name = "N", default_value = "100")]
    batch: usize,
}

/// What the publishing benchmarks share.
#[derive(Args)]
pub struct LoadArgs {
    /// Bytes of a body
    #[arg(long, value_name = "SIZE", default_value = "24", value_parser = quantity::size)]
    pub size: u64,
    /// Topics that the messages are spread over
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=99_999_999))]
    pub topics: u32,
    /// How long to publish
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = quantity::duration)]
    pub duration: Duration,
    /// When a message is confirmed
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "durable")]
    pub level: Level,
}

impl Publish {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let Publish { load, connections, rate, window, batch, .. } = &self;
        check_batch(load.size, *window, *batch)?;
        let target = self.target.open(globals, Policy::default(), TOPICS)?;
        let shape = Shape {
            namespace: target.namespace.clone(),
            topics: load.topics,
            size: load.size as usize,
            batch: *batch,
            window: *window,
            level: load.level.into(),
        };
        let (stop, total) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
        let before = Costs::now(&target);
        let begin = nanos();
        let results = thread::scope(|scope| {
            let threads: Vec<_> = (0..*connections)
                .map(|index| {
                    let task = producer::Task {
                        address: target.address,
                        shape: shape.clone(),
                        index,
                        producers: *connections,
                        rate: rate.map(|rate| rate / *connections as f64),
                    };
                    let (stop, total) = (&stop, &total);
                    scope.spawn(move || produce(&task, stop, total))
                })
                .collect();
            let progress = Progress::of_time(load.duration, Arc::clone(&total), "confirmed");
            sleep_while_running(load.duration, &threads);
            stop.store(true, Relaxed);
            drop(progress);
            threads.into_iter().map(|thread| thread.join().expect("a producer does not panic")).collect::<Vec<_>>()
        });
        let seconds = (nanos() - begin) as f64 / 1e9;

        let mut report = Report::new(&target);
        let (mut confirmed, mut latency) = (0, histogram());
        for result in results {
            let produced = result?;
            confirmed += produced.confirmed;
            latency.add(&produced.latency).expect("all histograms have the same bounds");
            if let Some((count, why)) = produced.refused {
                report.fault(format!("{count} messages were refused: {why}"));
            }
        }
        report.figure("connections", *connections as f64, "");
        report.figure("size", load.size as f64, "B");
        report.figure("window", *window as f64, "messages");
        report.figure("batch", *batch as f64, "messages");
        report.figure("messages confirmed", confirmed as f64, "");
        report.figure("duration", seconds, "s");
        report.figure("rate", confirmed as f64 / seconds, "messages/s");
        report.latency("confirmation", &latency);
        target.costs(&mut report, before, seconds, confirmed);
        target.close(&report)
    }
}

/// Refuses frames that no broker takes.
pub fn check_batch(size: u64, window: usize, batch: usize) -> Result<(), Failure> {
    use millpond_types::block::MESSAGE_MIN;
    use millpond_types::limits::{BODY_MAX_DEFAULT, PUBLISH_BYTES_MAX, PUBLISH_MESSAGES_MAX};

    if batch == 0 || window < batch {
        return Err(Failure::usage(format!("--window {window} must hold at least one batch, and --batch is {batch}")));
    }
    if size > BODY_MAX_DEFAULT as u64 {
        let limit = quantity::size_text(BODY_MAX_DEFAULT as u64);
        return Err(Failure::usage(format!("--size {size} is over the usual limit of a body, {limit}")));
    }
    if batch > PUBLISH_MESSAGES_MAX || batch * (size as usize + MESSAGE_MIN) > PUBLISH_BYTES_MAX {
        return Err(Failure::usage(format!(
            "--batch {batch} of --size {size} is over {PUBLISH_BYTES_MAX} bytes or {PUBLISH_MESSAGES_MAX} messages: lower one"
        )));
    }
    Ok(())
}

/// Sleeps, but no longer than until the first thread ends, which it only does when it fails.
pub fn sleep_while_running<T>(duration: Duration, threads: &[thread::ScopedJoinHandle<'_, T>]) {
    let end = nanos() + duration.as_nanos() as u64;
    while nanos() < end && !threads.iter().any(thread::ScopedJoinHandle::is_finished) {
        thread::sleep(Duration::from_nanos(end.saturating_sub(nanos())).min(Duration::from_millis(50)));
    }
}
