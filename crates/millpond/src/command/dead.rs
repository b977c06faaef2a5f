//! `dead`: lists, shows, puts back to work and throws away dead letters.

use bytes::Bytes;
use clap::{Args, Subcommand};
use millpond_client::{Client, DeadPage, DeadWhich, Listing};
use millpond_types::limits::PAGE_MAX;
use millpond_types::{DeadView, GroupName, MessageId, NamespaceName, block};
use serde_json::Value;

use super::look::{NOT_SHOWN, shown};
use super::purge::print_count;
use super::receive::group;
use crate::address::{Address, Place, TopicAddress, filter};
use crate::cli::{Globals, Output};
use crate::connection::with_client;
use crate::failure::Failure;
use crate::json;
use crate::say;
use crate::shell;
use crate::table::Table;

/// List, show, redrive and purge dead letters
#[derive(Subcommand)]
pub enum Dead {
    /// List dead letters by topic
    List(List),
    /// Show one dead letter
    Look(Look),
    /// Put dead letters back to work, at the tails of their topics; those are counted as well that give way at once, where
    /// topics coalesce
    Redrive(Chosen),
    /// Throw dead letters away
    Purge(Chosen),
}

#[derive(Args)]
pub struct List {
    /// A namespace, a prefix of topics, or one topic
    #[arg(value_name = "NS[/TOPIC|/PREFIX*]")]
    topics: Address,
    /// The group that gave up on them
    #[arg(long, value_name = "G", default_value = "default", value_parser = group)]
    group: GroupName,
    /// At most so many
    #[arg(long, value_name = "N", default_value = "100")]
    limit: usize,
    /// Only those behind this one, which may be gone
    #[arg(long, value_name = "ID/TOPIC")]
    after: Option<String>,
}

#[derive(Args)]
pub struct Look {
    /// The topic that it came from
    #[arg(value_name = "NS/TOPIC")]
    topic: TopicAddress,
    /// The message's id
    #[arg(long, value_name = "ID")]
    id: MessageId,
    /// The group that gave up on it
    #[arg(long, value_name = "G", default_value = "default", value_parser = group)]
    group: GroupName,
}

/// Which dead letters.
#[derive(Args)]
pub struct Chosen {
    /// A namespace, topics of it, or prefixes of topics
    #[arg(value_name = "NS[/TOPIC|/PREFIX*]", required = true)]
    topics: Vec<Address>,
    /// Only the message with this id, of the one topic named
    #[arg(long, value_name = "ID")]
    id: Option<MessageId>,
    /// Only so many, the first in the order of `dead list`
    #[arg(long, value_name = "N", conflicts_with = "id", value_parser = clap::value_parser!(u32).range(1..))]
    first: Option<u32>,
    /// The group that gave up on them
    #[arg(long, value_name = "G", default_value = "default", value_parser = group)]
    group: GroupName,
}

impl Dead {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        match self {
            Dead::List(list) => list.run(globals),
            Dead::Look(look) => look.run(globals),
            Dead::Redrive(Chosen { topics, id, first, group }) => {
                let (namespace, which) = chosen(&topics, id, first)?;
                let count = with_client(globals, async |client| Ok(client.redrive(namespace, group, which).await?))?;
                print_count(globals.output, "redriven", count);
                Ok(())
            }
            Dead::Purge(Chosen { topics, id, first, group }) => {
                let (namespace, which) = chosen(&topics, id, first)?;
                let count =
                    with_client(globals, async |client| Ok(client.purge_dead(namespace, group, which).await?))?;
                print_count(globals.output, "purged", count);
                Ok(())
            }
        }
    }
}

fn chosen(
    topics: &[Address],
    id: Option<MessageId>,
    first: Option<u32>,
) -> Result<(NamespaceName, DeadWhich), Failure> {
    match (topics, id) {
        (_, None) => {
            let (namespace, filter) = filter(topics).map_err(Failure::usage)?;
            let which = match first {
                Some(count) => DeadWhich::First(filter, count),
                None => DeadWhich::Filter(filter),
            };
            Ok((namespace, which))
        }
        ([Address { namespace, place: Place::Topic(topic) }], Some(id)) => {
            Ok((namespace.clone(), DeadWhich::One(topic.clone(), id)))
        }
        _ => Err(Failure::usage("with --id, name the one topic that the message came from: NS/TOPIC")),
    }
}

impl List {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let (prefix, only) = match &self.topics.place {
            Place::All => ("", None),
            Place::Prefix(prefix) => (prefix.as_str(), None),
            Place::Topic(topic) => (topic.as_str(), Some(topic)),
        };
        let mut rows = Vec::new();
        let more = with_client(globals, async |client| {
            // One row past the limit tells whether there are more.
            let (namespace, limit) = (self.topics.namespace.clone(), self.limit.saturating_add(1).min(PAGE_MAX));
            let prefix = Bytes::copy_from_slice(prefix.as_bytes());
            let after = Bytes::from(self.after.unwrap_or_default());
            let listing = Listing { namespace, prefix, after, limit: limit as u32 };
            walk(client, listing, &self.group, |row| {
                // The topic of that very name comes before all that merely begin with it.
                let is_meant = only.is_none_or(|only| *only == row.topic);
                if is_meant {
                    rows.push(row);
                }
                is_meant && rows.len() <= self.limit
            })
            .await?;
            Ok(rows.len() > self.limit)
        })?;
        rows.truncate(self.limit);
        match globals.output {
            Output::Json => rows.iter().for_each(|row| say::line(Value::Object(json::dead(row)))),
            Output::Table => say::print(table(&rows)),
        }
        if let Some(last) = rows.last().filter(|_| more) {
            say::note(format!(
                "there are more: --after {}",
                shell::quoted(&format!("{}/{}", last.message.id, last.topic))
            ));
        }
        Ok(())
    }
}

impl Look {
    fn run(self, globals: &Globals) -> Result<(), Failure> {
        let row = with_client(globals, async |client| {
            Ok(client.dead_letter(self.topic.into(), self.id, self.group).await?)
        })?;
        match globals.output {
            Output::Json => say::line(Value::Object(json::dead(&row))),
            Output::Table => {
                let mut table = Table::new(&["field", "value"]);
                for (name, value) in json::dead(&row) {
                    table.row([name, value.as_str().map_or_else(|| value.to_string(), |text| shown(text.as_bytes()))]);
                }
                say::print(table);
            }
        }
        Ok(())
    }
}

/// Hands dead letters to `each`, page after page, until it has enough.
async fn walk(
    client: &Client,
    mut listing: Listing,
    group: &GroupName,
    mut each: impl FnMut(DeadView) -> bool,
) -> Result<(), Failure> {
    loop {
        let DeadPage { rows, next } = client.dead_letters(listing.clone(), group.clone()).await?;
        for row in rows {
            if !each(row) {
                return Ok(());
            }
        }
        if next.is_empty() {
            return Ok(());
        }
        listing.after = next;
    }
}

fn table(rows: &[DeadView]) -> Table {
    let heads = ["topic", "id", "reason", "detail", "died", "deliveries", "failures", "body"];
    let mut table = Table::new(&heads);
    for row in rows {
        let body = block::first(&row.message.block).map_or_else(|_| NOT_SHOWN.into(), |parts| shown(parts.body));
        table.row([
            row.topic.to_string(),
            row.message.id.to_string(),
            row.reason.clone(),
            shown(row.detail.as_bytes()),
            json::time_text(row.died),
            row.message.deliveries.to_string(),
            row.message.failures.to_string(),
            body,
        ]);
    }
    table
}
