//! `bench worker`: how fast messages are published, delivered and acked.

use clap::Args;
use millpond_types::Policy;

use super::cycle::Plan;
use super::publish::{LoadArgs, check_batch};
use super::report::Report;
use super::slots::{STAMP, Shape, TOPICS};
use super::target::{Costs, TargetArgs};
use crate::cli::Globals;
use crate::failure::Failure;

/// Publish, deliver and ack at once: cycles a second, and whether every message arrived exactly once
#[derive(Args)]
pub struct Worker {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    load: LoadArgs,
    /// Connections that publish
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    producers: u64,
    /// Groups that consume; every message is delivered in each
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=100))]
    groups: u64,
    /// Connections that consume in each group
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    consumers: u64,
    /// Messages a second of all producers together [default: as many as the window allows]
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Messages that a producer may have unconfirmed
    #[arg(long, value_name = "N", default_value = "2000")]
    window: usize,
    /// Messages in a publish frame
    #[arg(long, value_name = "N", default_value = "100")]
    batch: usize,
    /// Messages that a consumer may hold unacked
    #[arg(long, value_name = "N", default_value = "4000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    credit: u32,
}

impl Worker {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let load = &self.load;
        check_batch(load.size, self.window, self.batch)?;
        check_stamp(load.size)?;
        let target = self.target.open(globals, Policy::default(), TOPICS)?;
        let plan = Plan {
            shape: Shape {
                namespace: target.namespace.clone(),
                topics: load.topics,
                size: load.size as usize,
                batch: self.batch,
                window: self.window,
                level: load.level.into(),
            },
            producers: self.producers,
            groups: self.groups,
            consumers: self.consumers,
            credit: self.credit,
            rate: self.rate,
            duration: load.duration,
        };
        let before = Costs::now(&target);
        let mut report = Report::new(&target);
        let outcome = plan.run(&target, &mut report)?;
        report.figure("producers", self.producers as f64, "");
        report.figure("groups", self.groups as f64, "");
        report.figure("consumers", self.consumers as f64, "");
        report.figure("size", load.size as f64, "B");
        report.figure("window", self.window as f64, "messages");
        report.figure("batch", self.batch as f64, "messages");
        report.figure("cycles", outcome.received as f64, "");
        report.figure("duration", outcome.seconds, "s");
        report.figure("cycle rate", outcome.received as f64 / outcome.seconds, "cycles/s");
        report.figure("publish rate", outcome.confirmed as f64 / outcome.publishing, "messages/s");
        report.figure("backlog at stop", outcome.backlog as f64, "messages");
        report.latency("end to end", &outcome.latency);
        report.latency("confirmation", &outcome.confirmation);
        target.costs(&mut report, before, outcome.seconds, outcome.received);
        target.close(&report)
    }
}

/// Refuses bodies that have no room for what tells messages apart.
pub fn check_stamp(size: u64) -> Result<(), Failure> {
    if size < STAMP as u64 {
        return Err(Failure::usage(format!(
            "--size {size} has no room for the {STAMP} bytes that tell messages apart"
        )));
    }
    Ok(())
}
