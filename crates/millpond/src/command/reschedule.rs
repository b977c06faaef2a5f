//! `reschedule`: gives a message that is not leased another delay.

use std::time::Duration;

use clap::Args;

use super::which::WhichArgs;
use crate::address::TopicAddress;
use crate::cli::Globals;
use crate::connection::with_client;
use crate::failure::Failure;
use crate::quantity;

/// Give a message that is not leased another delay
#[derive(Args)]
pub struct Reschedule {
    /// The topic
    #[arg(value_name = "NS/TOPIC")]
    topic: TopicAddress,
    #[command(flatten)]
    which: WhichArgs,
    /// How long from now until it is ready; 0s makes it ready at once
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    delay: Duration,
}

impl Reschedule {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let which = self.which.which();
        with_client(globals, async |client| Ok(client.reschedule(self.topic.into(), which, self.delay).await?))
    }
}
