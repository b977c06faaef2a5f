//! Messages of one topic, as `--id` or `--dedup-id` name them.

use clap::Args;
use millpond_client::{Error, Which};
use millpond_types::MessageId;

use crate::failure::{Exit, Failure};
use crate::quantity;
use crate::say;

/// Which messages of the topic.
#[derive(Args)]
#[group(required = true, multiple = false)]
pub struct WhichArgs {
    /// A message's id, as publish prints it; may be given more than once
    #[arg(long = "id", value_name = "ID")]
    ids: Vec<MessageId>,
    /// The dedup id that a message was published with, while the dedup window lasts; after it, take --id. May be given more than once
    #[arg(long = "dedup-id", value_name = "ID", value_parser = quantity::dedup_id)]
    dedup_ids: Vec<String>,
}

impl WhichArgs {
    /// Does `verb` with each of them. Those of several that are refused are told, and the others done; where nobody answers any
    /// more, it ends.
    pub async fn each(self, verb: impl AsyncFn(Which) -> Result<(), Error>) -> Result<(), Failure> {
        let by_id = self.ids.into_iter().map(|id| (id.to_string(), Which::Id(id)));
        let by_dedup_id = self.dedup_ids.into_iter().map(|id| (id.clone(), Which::Dedup(id.into())));
        let all: Vec<(String, Which)> = by_id.chain(by_dedup_id).collect();
        let (count, mut refused) = (all.len(), 0);
        for (at, (name, which)) in all.into_iter().enumerate() {
            let Err(failure) = verb(which).await.map_err(Failure::from) else { continue };
            if count == 1 {
                return Err(failure);
            }
            if failure.exit != Exit::Refused {
                let done = at - refused;
                let text = format!(
                    "{name}: {failure}. Of those before it {done} done and {refused} refused; {} behind it not asked for",
                    count - at - 1
                );
                return Err(Failure { text, ..failure });
            }
            say::note(format!("{name}: {failure}"));
            refused += 1;
        }
        match refused {
            0 => Ok(()),
            _ if refused == count => Err(Failure::refused(format!("all {count} were refused, for the reasons above"))),
            _ => Err(Failure::refused(format!(
                "{refused} of {count} were refused, for the reasons above; the others are done"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use millpond_types::Code;

    use super::*;
    use crate::connection::runtime;

    /// What is behind it may still be wanted: it is not asked for, and whoever called is told so.
    #[test]
    fn where_nobody_answers_any_more_it_ends_and_says_where() {
        let all = ["a", "b", "c", "d", "e"].map(str::to_owned).into();
        let asked = Cell::new(0);
        let verb = async |_| {
            asked.set(asked.get() + 1);
            match asked.get() {
                1 | 3 => Ok(()),
                2 => Err(Error::Refused { code: Code::MessageUnknown, detail: "no such".into() }),
                _ => Err(Error::Refused { code: Code::Stopping, detail: "it stops".into() }),
            }
        };
        let args = WhichArgs { ids: Vec::new(), dedup_ids: all };
        let failure = runtime().unwrap().block_on(args.each(verb)).unwrap_err();
        assert_eq!((failure.exit, asked.get()), (Exit::Unreachable, 4));
        assert!(failure.text.starts_with("d: "), "{failure}");
        assert!(
            failure.text.ends_with("Of those before it 2 done and 1 refused; 1 behind it not asked for"),
            "{failure}"
        );
    }
}
