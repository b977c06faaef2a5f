//! `look`: shows messages without leasing them.

use bytes::Bytes;
use clap::Args;
use millpond_client::{Client, Error, LookWhich, TopicRef, Which};
use millpond_types::limits::PAGE_MAX;
use millpond_types::{Code, GroupName, MessageId, MessageState, MessageView, block};
use serde_json::Value;

use super::receive::group;
use crate::address::TopicAddress;
use crate::cli::{Globals, Output};
use crate::connection::with_client;
use crate::failure::Failure;
use crate::json;
use crate::say;
use crate::table::Table;

/// Show messages of a topic without leasing them
#[derive(Args)]
pub struct Look {
    /// The topic
    #[arg(value_name = "NS/TOPIC")]
    topic: TopicAddress,
    #[command(flatten)]
    which: LookArgs,
    /// As this group has them [default: the first that has the topic or, by an id, the message]
    #[arg(long, value_name = "G", value_parser = group)]
    group: Option<GroupName>,
}

#[derive(Args)]
#[group(multiple = false)]
struct LookArgs {
    /// The message with this id
    #[arg(long, value_name = "ID")]
    id: Option<MessageId>,
    /// The message that was published with this dedup id, while the dedup window lasts; after it, take --id
    #[arg(long, value_name = "ID")]
    dedup_id: Option<String>,
    /// So many in the order of their delivery [default: 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=PAGE_MAX as i64))]
    first: Option<u32>,
    /// So many of those that are delayed or in retry, what is due first before others
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=PAGE_MAX as i64))]
    due: Option<u32>,
}

/// Messages shown unless the call says otherwise: a screen of them.
const FIRST_DEFAULT: u32 = 10;
/// What a table shows in place of a body that is gone or damaged.
pub const NOT_SHOWN: &str = "(ended since, or cannot be read)";
/// Characters of a body in a table.
const BODY_SHOWN: usize = 60;

impl Look {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let topic = self.topic.topic.clone();
        let which = match self.which {
            LookArgs { id: Some(id), .. } => LookWhich::One(Which::Id(id)),
            LookArgs { dedup_id: Some(id), .. } => LookWhich::One(Which::Dedup(id.into())),
            LookArgs { due: Some(count), .. } => LookWhich::Due(count),
            LookArgs { first, .. } => LookWhich::First(first.unwrap_or(FIRST_DEFAULT)),
        };
        let mut table =
            Table::new(&["id", "state", "due", "priority", "published", "deliveries", "failures", "bytes", "body"]);
        with_client(globals, async |client| {
            let of: TopicRef = self.topic.into();
            for mut view in client.look(of.clone(), which, self.group.clone()).await? {
                if view.block.is_empty() {
                    view.block = block_of(client, &of, view.id, self.group.clone()).await?;
                }
                match globals.output {
                    Output::Json => say::line(Value::Object(json::message(&topic, &view))),
                    Output::Table => table.row(row(&view)),
                }
            }
            Ok(())
        })?;
        if let Output::Table = globals.output {
            say::print(table);
        }
        Ok(())
    }
}

/// The block of a message that came without, because the answer had no room for it; empty if it has ended since or cannot be
/// read.
async fn block_of(
    client: &Client,
    topic: &TopicRef,
    id: MessageId,
    group: Option<GroupName>,
) -> Result<Bytes, Failure> {
    match client.look(topic.clone(), LookWhich::One(Which::Id(id)), group).await {
        Ok(mut found) => Ok(found.pop().map_or_else(Bytes::new, |view| view.block)),
        Err(Error::Refused { code: Code::MessageUnknown | Code::TopicUnknown, .. }) => Ok(Bytes::new()),
        Err(error) => Err(error.into()),
    }
}

fn row(view: &MessageView) -> [String; 9] {
    let (bytes, body) = match block::first(&view.block) {
        Ok(parts) => (parts.body.len().to_string(), shown(parts.body)),
        Err(_) => (view.bytes.to_string(), NOT_SHOWN.into()),
    };
    [
        view.id.to_string(),
        json::state_name(view.state).into(),
        due(view.state),
        view.id.priority.level().to_string(),
        json::time_text(view.published),
        view.deliveries.to_string(),
        view.failures.to_string(),
        bytes,
        body,
    ]
}

/// When a message is due that has a delay or is in retry.
fn due(state: MessageState) -> String {
    match state {
        MessageState::Delayed { due } | MessageState::Retrying { due } => json::time_text(due),
        _ => String::new(),
    }
}

/// The beginning of a body, on one line.
pub fn shown(body: &[u8]) -> String {
    // A multiple of the characters that are shown is enough, however long the body is.
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * BODY_SHOWN)]);
    let line: String = text.chars().take(BODY_SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().count() > BODY_SHOWN { line + "..." } else { line }
}
