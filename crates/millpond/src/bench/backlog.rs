//! `bench backlog`: a broker that holds very many messages in one topic.

use clap::Args;
use millpond_types::Millis;

use super::hold::HoldArgs;
use super::order::Order;
use super::report::Report;
use super::spread::{Spread, TOPICS};
use super::target::TargetArgs;
use crate::cli::Globals;
use crate::failure::Failure;

/// Publish very many messages to one topic, restart the broker, drain it: memory, disk, time to first delivery
#[derive(Args)]
pub struct Backlog {
    #[command(flatten)]
    target: TargetArgs,
    /// How many messages
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = clap::value_parser!(u64).range(1..))]
    messages: u64,
    #[command(flatten)]
    hold: HoldArgs,
}

impl Backlog {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let spread = Spread {
            namespace: self.target.namespace(),
            topics: 1,
            tenants: 1,
            order: Order::Sequential,
            dedup: self.hold.dedup,
            runs: 1,
            run: self.hold.batch,
            size: self.hold.size as usize,
            delay: Millis::ZERO,
        };
        self.hold.check(&spread, self.messages)?;
        let mut target = self.target.open(globals, self.hold.policy(), TOPICS)?;
        let mut report = Report::new(&target);
        report.figure("messages", self.messages as f64, "");
        let verified = self.hold.run(&spread, self.messages, &mut target, &mut report)?;
        report.figure("every message arrived exactly once", f64::from(u8::from(verified)), "");
        target.close(&report)
    }
}
