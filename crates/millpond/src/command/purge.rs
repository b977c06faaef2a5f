//! `purge`: ends all messages of topics but those that are leased.

use clap::Args;
use millpond_types::GroupName;

use super::receive::group;
use crate::address::{Address, filter};
use crate::cli::{Globals, Output};
use crate::connection::with_client;
use crate::failure::Failure;
use crate::say;

/// End all messages of topics but those that are leased; dead letters stay
#[derive(Args)]
pub struct Purge {
    /// A namespace, topics of it, or prefixes of topics
    #[arg(value_name = "NS[/TOPIC|/PREFIX*]", required = true)]
    topics: Vec<Address>,
    /// In this group alone [default: in all]
    #[arg(long, value_name = "G", value_parser = group)]
    group: Option<GroupName>,
}

impl Purge {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let (namespace, filter) = filter(&self.topics).map_err(Failure::usage)?;
        let count = with_client(globals, async |client| Ok(client.purge(namespace, filter, self.group).await?))?;
        print_count(globals.output, "purged", count);
        Ok(())
    }
}

/// Tells how many messages something was done to.
pub fn print_count(output: Output, done: &str, count: u64) {
    match output {
        Output::Table => say::line(format!("{done} {count}")),
        Output::Json => say::line(serde_json::json!({ done: count })),
    }
}
