//! `reschedule`: gives messages that are not leased another delay.

use std::time::Duration;

use clap::Args;

use super::which::WhichArgs;
use crate::address::TopicAddress;
use crate::cli::Globals;
use crate::connection::with_client;
use crate::failure::Failure;
use crate::quantity;

/// Give messages that are not leased another delay
#[derive(Args)]
pub struct Reschedule {
    /// The topic
    #[arg(value_name = "NS/TOPIC")]
    topic: TopicAddress,
    #[command(flatten)]
    which: WhichArgs,
    /// How long from now until they are ready; 0s makes them ready at once
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    delay: Duration,
}

impl Reschedule {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let Reschedule { topic, which, delay } = self;
        with_client(globals, async |client| {
            which.each(async |which| client.reschedule(topic.clone().into(), which, delay).await).await
        })
    }
}
