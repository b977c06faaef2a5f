//! `group`: makes, lists and deletes the groups of a namespace.

use clap::{Args, Subcommand};
use millpond_types::{Counts, GroupName, GroupView, NamespaceName, NamespaceView, Start};

use crate::cli::{Globals, Output};
use crate::command::namespace::name;
use crate::connection::with_client;
use crate::failure::Failure;
use crate::say;
use crate::table::Table;
use crate::{json, quantity};

/// Make, list and delete the groups of a namespace
///
/// Every group sees every message once; consumers of one group share its messages. A namespace has the group `default`.
#[derive(Subcommand)]
pub enum Group {
    /// Make a group, which has all that is published from now on, and older messages where it is told to start with them
    Create(Create),
    /// List the groups of a namespace
    List(List),
    /// Delete a group, with all messages and dead letters that it holds
    Delete(One),
}

#[derive(Args)]
pub struct Create {
    #[command(flatten)]
    of: One,
    /// What it is given of what was published before: all that other groups still hold, nothing, or what of it was published at this time or later, in RFC 3339 or as in '10m ago' [default: latest]
    #[arg(long, value_name = "earliest|latest|TIME", value_parser = quantity::start)]
    start: Option<Start>,
}

#[derive(Args)]
pub struct One {
    /// The namespace
    #[arg(value_name = "NS", value_parser = name)]
    namespace: NamespaceName,
    /// The group
    #[arg(value_name = "NAME", value_parser = group)]
    group: GroupName,
}

#[derive(Args)]
pub struct List {
    /// The namespace
    #[arg(value_name = "NS", value_parser = name)]
    namespace: NamespaceName,
}

fn group(text: &str) -> Result<GroupName, String> {
    GroupName::try_from(text).map_err(|bad| format!("it is no name of a group: {bad}"))
}

impl Group {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        match self {
            Group::Create(Create { of: One { namespace, group }, start }) => with_client(globals, async |client| {
                Ok(client.create_group(namespace, group, start.unwrap_or_default()).await?)
            }),
            Group::Delete(One { namespace, group }) => {
                with_client(globals, async |client| Ok(client.delete_group(namespace, group).await?))
            }
            Group::List(List { namespace }) => {
                let view = with_client(globals, async |client| Ok(client.stats(namespace).await?))?;
                match globals.output {
                    Output::Json => view.groups.iter().for_each(|group| say::line(json::group(group))),
                    Output::Table => say::print(table(&view)),
                }
                Ok(())
            }
        }
    }
}

fn table(view: &NamespaceView) -> Table {
    let mut table = Table::new(&["group", "start", "waiting", "delayed", "retrying", "leased", "dead"]);
    for group in &view.groups {
        let Counts { waiting, delayed, retrying, leased, dead } = group.counts;
        let [waiting, delayed, retrying, leased, dead] =
            [waiting, delayed, retrying, leased, dead].map(|count| count.to_string());
        table.row([group.name.to_string(), start(group), waiting, delayed, retrying, leased, dead]);
    }
    table
}

/// Where a group began, and how far it has come.
fn start(group: &GroupView) -> String {
    let start = json::start_text(group.start);
    match &group.reached {
        _ if !group.is_starting => start,
        None => format!("{start}, starting"),
        Some(reached) => format!("{start}, starting, has come to {reached}"),
    }
}
