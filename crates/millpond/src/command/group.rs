//! `group`: makes, lists and deletes the groups of a namespace.

use clap::{Args, Subcommand};
use millpond_types::{Counts, GroupName, NamespaceName, NamespaceView};
use serde_json::json;

use crate::cli::{Globals, Output};
use crate::command::namespace::name;
use crate::connection::with_client;
use crate::failure::Failure;
use crate::say;
use crate::table::Table;

/// Make, list and delete the groups of a namespace
///
/// Every group sees every message once; consumers of one group share its messages. A namespace has the group `default`.
#[derive(Subcommand)]
pub enum Group {
    /// Make a group, which has all that is published from now on
    Create(One),
    /// List the groups of a namespace
    List(List),
    /// Delete a group, with all messages and dead letters that it holds
    Delete(One),
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
            Group::Create(One { namespace, group }) => {
                with_client(globals, async |client| Ok(client.create_group(namespace, group).await?))
            }
            Group::Delete(One { namespace, group }) => {
                with_client(globals, async |client| Ok(client.delete_group(namespace, group).await?))
            }
            Group::List(List { namespace }) => {
                let view = with_client(globals, async |client| Ok(client.stats(namespace).await?))?;
                match globals.output {
                    Output::Json => lines(&view).for_each(say::line),
                    Output::Table => say::print(table(&view)),
                }
                Ok(())
            }
        }
    }
}

fn lines(view: &NamespaceView) -> impl Iterator<Item = serde_json::Value> + '_ {
    view.groups.iter().map(|(name, counts)| {
        let Counts { waiting, delayed, retrying, leased, dead } = *counts;
        json!({
            "group": name.as_str(), "waiting": waiting, "delayed": delayed, "retrying": retrying, "leased": leased,
            "dead": dead,
        })
    })
}

fn table(view: &NamespaceView) -> Table {
    let mut table = Table::new(&["group", "waiting", "delayed", "retrying", "leased", "dead"]);
    for (name, counts) in &view.groups {
        let Counts { waiting, delayed, retrying, leased, dead } = *counts;
        let [waiting, delayed, retrying, leased, dead] =
            [waiting, delayed, retrying, leased, dead].map(|count| count.to_string());
        table.row([name.to_string(), waiting, delayed, retrying, leased, dead]);
    }
    table
}
