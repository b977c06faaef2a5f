//! `cancel`: ends a message that is not leased.

use clap::Args;

use super::which::WhichArgs;
use crate::address::TopicAddress;
use crate::cli::Globals;
use crate::connection::with_client;
use crate::failure::Failure;

/// End a message that is not leased; its dedup id is forgotten
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
        let which = self.which.which();
        with_client(globals, async |client| Ok(client.cancel(self.topic.into(), which).await?))
    }
}
