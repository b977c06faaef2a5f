//! One message of a topic, as `--id` or `--dedup-id` name it.

use clap::Args;
use millpond_client::Which;
use millpond_types::MessageId;

use crate::quantity;

/// Which message of the topic.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct WhichArgs {
    /// The message's id, as publish prints it
    #[arg(long, value_name = "ID")]
    id: Option<MessageId>,
    /// The dedup id that it was published with, while the dedup window lasts; after it, take --id
    #[arg(long, value_name = "ID", value_parser = quantity::dedup_id)]
    dedup_id: Option<String>,
}

impl WhichArgs {
    /// The message that is meant.
    pub fn which(self) -> Which {
        match (self.id, self.dedup_id) {
            (Some(id), None) => Which::Id(id),
            (None, Some(dedup_id)) => Which::Dedup(dedup_id.into()),
            _ => unreachable!("exactly one is required"),
        }
    }
}
