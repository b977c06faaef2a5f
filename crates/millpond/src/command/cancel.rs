//! `cancel`: ends messages that are not leased.

use clap::Args;

use super::which::WhichArgs;
use crate::address::TopicAddress;
use crate::cli::Globals;
use crate::connection::with_client;
use crate::failure::Failure;

/// End messages that are not leased; their dedup ids are forgotten
#[derive(Args)]
pub struct Cancel {
    /// The topic
    #[arg(value_name = "NS/TOPIC")]
    topic: TopicAddress,
    #[command(flatten)]
    which: WhichArgs,
}

impl Cancel {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let Cancel { topic, which } = self;
        with_client(globals, async |client| {
            which.each(async |which| client.cancel(topic.clone().into(), which).await).await
        })
    }
}
