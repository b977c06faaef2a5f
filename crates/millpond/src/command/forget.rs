//! `forget`: makes a topic forget a dedup id.

use clap::Args;

use crate::address::TopicAddress;
use crate::cli::{Globals, Output};
use crate::connection::with_client;
use crate::failure::Failure;
use crate::{quantity, say};

/// Forget a dedup id, so that a message with it may be published again
#[derive(Args)]
pub struct Forget {
    /// The topic
    #[arg(value_name = "NS/TOPIC")]
    topic: TopicAddress,
    /// The dedup id
    #[arg(long, value_name = "ID", value_parser = quantity::dedup_id)]
    dedup_id: String,
}

impl Forget {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let forgotten =
            with_client(globals, async |client| Ok(client.forget(self.topic.into(), self.dedup_id).await?))?;
        match globals.output {
            Output::Json => say::line(serde_json::json!({ "forgotten": forgotten })),
            Output::Table if forgotten => say::line("forgotten"),
            Output::Table => say::line("it was not remembered"),
        }
        Ok(())
    }
}
