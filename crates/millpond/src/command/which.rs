//! Messages of one topic, as `--id` or `--dedup-id` name them.

use clap::Args;
use millpond_client::{Error, Which};
use millpond_types::{Counted, MessageId};

use crate::failure::{Exit, Failure};
use crate::quantity;
use crate::say;

/// Which messages of the topic.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct WhichArgs {
    /// A message's id, as publish prints it; may be given often
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<MessageId>,
    /// The dedup id that a message was published with, while the dedup window lasts; after it, take --id. May be given often
    #[arg(long = "dedup-id", value_name = "ID", value_parser = quantity::dedup_id)]
    dedup_ids: Vec<String>,
}

impl WhichArgs {
    /// Does `verb` with each of them. Those of several that are refused are told, and the others done.
    pub async fn each(self, verb: impl AsyncFn(Which) -> Result<(), Error>) -> Result<(), Failure> {
        let by_id = self.ids.into_iter().map(|id| (id.to_string(), Which::Id(id)));
        let by_dedup_id = self.dedup_ids.into_iter().map(|id| (id.clone(), Which::Dedup(id.into())));
        let all: Vec<(String, Which)> = by_id.chain(by_dedup_id).collect();
        let (count, mut refused) = (all.len(), 0);
        for (name, which) in all {
            let Err(failure) = verb(which).await.map_err(Failure::from) else { continue };
            if count == 1 || failure.exit != Exit::Refused {
                return Err(failure);
            }
            say::note(format!("{name}: {failure}"));
            refused += 1;
        }
        match refused {
            0 => Ok(()),
            refused => Err(Failure::refused(format!(
                "{refused} of {} refused, for the reasons above; the others are done",
                Counted(count as u64, "message")
            ))),
        }
    }
}
