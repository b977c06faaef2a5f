//! `bench latency`: how long a message takes from its publish being sent to its delivery being received.

use std::time::Duration;

use clap::Args;
use millpond_types::Policy;

use super::Level;
use super::cycle::Plan;
use super::publish::check_batch;
use super::report::Report;
use super::slots::{Shape, TOPICS};
use super::target::{Costs, TargetArgs};
use super::worker::check_stamp;
use crate::cli::Globals;
use crate::failure::Failure;
use crate::quantity;

/// Publish at a fixed rate, one message a frame: time from publish sent to delivery received
#[derive(Args)]
pub struct Latency {
    #[command(flatten)]
    target: TargetArgs,
    /// Messages a second of all producers together
    #[arg(long, value_name = "N", default_value = "5000")]
    rate: f64,
    /// Bytes of a body
    #[arg(long, value_name = "SIZE", default_value = "24", value_parser = quantity::size)]
    size: u64,
    /// Topics that the messages are spread over
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=99_999_999))]
    topics: u32,
    /// How long to publish
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = quantity::duration)]
    duration: Duration,
    /// When a message is confirmed; it is delivered when it is durable, whatever is said here
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "durable")]
    level: Level,
    /// Connections that publish
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    producers: u64,
    /// Connections that consume
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    consumers: u64,
}

/// Unconfirmed messages of a producer: a second's worth and more at any rate that makes sense here, so that a broker
/// that stalls is measured as late and not as idle.
const WINDOW: usize = 10_000;
/// Messages that a consumer may hold unacked, for the same reason.
const CREDIT: u32 = 100_000;
/// Reaching less than this share of the rate is a fault: the figures are then those of another load.
pub const REACHED: f64 = 0.98;

impl Latency {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            return Err(Failure::usage("--rate is a number of messages a second above zero"));
        }
        check_batch(self.size, WINDOW, 1)?;
        check_stamp(self.size)?;
        let target = self.target.open(globals, Policy::default(), TOPICS)?;
        let plan = Plan {
            shape: Shape {
                namespace: target.namespace.clone(),
                topics: self.topics,
                size: self.size as usize,
                batch: 1,
                window: WINDOW,
                level: self.level.into(),
            },
            producers: self.producers,
            groups: 1,
            consumers: self.consumers,
            credit: CREDIT,
            rate: Some(self.rate),
            duration: self.duration,
        };
        let before = Costs::now(&target);
        let mut report = Report::new(&target);
        let outcome = plan.run(&target, &mut report)?;
        let reached = outcome.received as f64 / self.duration.as_secs_f64().max(outcome.seconds);
        report.figure("producers", self.producers as f64, "");
        report.figure("consumers", self.consumers as f64, "");
        report.figure("size", self.size as f64, "B");
        report.figure("rate asked for", self.rate, "messages/s");
        report.figure("rate reached", reached, "messages/s");
        report.figure("messages", outcome.received as f64, "");
        report.latency("delivery", &outcome.latency);
        report.latency("confirmation", &outcome.confirmation);
        target.costs(&mut report, before, outcome.seconds, outcome.received);
        if reached < self.rate * REACHED {
            report.fault(format!("{reached:.0} of {:.0} messages/s were reached: ask for a lower rate", self.rate));
        }
        target.close(&report)
    }
}
