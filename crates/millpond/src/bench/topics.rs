//! `bench topics`: a broker that holds messages in very many topics.

use clap::Args;
use millpond_types::Millis;

use super::hold::HoldArgs;
use super::order::Order;
use super::report::Report;
use super::spread::{Spread, TENANTS_MAX, TOPICS, TOPICS_MAX};
use super::target::TargetArgs;
use crate::cli::Globals;
use crate::failure::Failure;

/// Publish to very many topics, restart the broker, drain them: memory, disk, time to first delivery, cost of a dispatch
#[derive(Args)]
pub struct Topics {
    #[command(flatten)]
    target: TargetArgs,
    /// How many topics; their names have 16 bytes
    #[arg(long, value_name = "N", default_value = "100000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(TOPICS_MAX)))]
    topics: u32,
    /// Messages for each topic, one after the other over all topics
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..))]
    messages: u32,
    /// The order in which topics are published to
    #[arg(long, value_enum, value_name = "ORDER", default_value = "sequential")]
    order: Order,
    /// Tenants that the topics are spread over, each with as many that are next to one another by name, or N for one for
    /// each topic
    #[arg(long, value_name = "N", default_value = "1000", value_parser = tenants)]
    tenants: u32,
    /// Numbers of ready topics at which the cost of a dispatch is compared, each with as many messages as the whole
    /// run, 10,000,000 at most; N, or more than there are, is all topics
    #[arg(long, value_name = "N,...", default_value = "10,1000,1000000,N", value_delimiter = ',', value_parser = ready)]
    ready: Vec<u32>,
    #[command(flatten)]
    hold: HoldArgs,
}

fn tenants(text: &str) -> Result<u32, String> {
    match text.parse() {
        _ if text == "N" => Ok(u32::MAX),
        Ok(tenants @ 1..=TENANTS_MAX) => Ok(tenants),
        _ => Err(format!("a number of tenants up to {TENANTS_MAX}, or N for one for each topic")),
    }
}

fn ready(text: &str) -> Result<u32, String> {
    match text.parse() {
        _ if text == "N" => Ok(u32::MAX),
        Ok(0) | Err(_) => Err("a number of topics above zero, or N for all".into()),
        Ok(topics) => Ok(topics),
    }
}

impl Topics {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let spread = |namespace, topics| Spread {
            namespace,
            topics,
            tenants: self.tenants.min(topics),
            order: self.order,
            dedup: self.hold.dedup,
            runs: self.hold.batch,
            run: 1,
            size: self.hold.size as usize,
            delay: Millis::ZERO,
        };
        let messages = u64::from(self.topics) * u64::from(self.messages);
        self.hold.check(&spread(self.target.namespace(), self.topics), messages)?;
        let mut target = self.target.open(globals, self.hold.policy(), TOPICS)?;
        let namespace = target.namespace.clone();
        let mut report = Report::new(&target);
        report.figure("topics", f64::from(self.topics), "");
        report.figure("tenants", f64::from(self.tenants.min(self.topics)), "");
        report.figure("messages", messages as f64, "");
        let all = spread(namespace.clone(), self.topics);
        let mut verified = self.hold.run(&all, messages, &mut target, &mut report)?;
        let mut ready: Vec<u32> = self.ready.iter().map(|ready| *ready.min(&self.topics)).collect();
        ready.dedup();
        let mut fewest = None;
        for ready in ready {
            let some = spread(namespace.clone(), ready);
            let (writer, arrived) = self.hold.dispatch(&some, messages, &target, &mut report)?;
            verified &= arrived;
            if let (Some(writer), Some(fewest)) = (writer, fewest) {
                report.figure(format!("{ready} ready topics writer cpu, times that of the first"), writer / fewest, "");
            }
            fewest = fewest.or(writer);
        }
        report.figure("every message arrived exactly once", f64::from(u8::from(verified)), "");
        target.close(&report)
    }
}
