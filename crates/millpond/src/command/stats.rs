//! `stats`: how many messages a namespace holds in each state, all counted at one journal position.

use clap::Args;
use millpond_types::{GroupName, GroupView, NamespaceName, NamespaceView, Quotas, Tally};

use super::receive::group;
use crate::cli::{Globals, Output};
use crate::connection::with_client;
use crate::failure::Failure;
use crate::json;
use crate::say;
use crate::table::Table;

/// Count messages by state, all at one journal position
#[derive(Args)]
pub struct Stats {
    /// The namespace [default: all of them]
    #[arg(value_name = "NS", value_parser = super::namespace::name)]
    namespace: Option<NamespaceName>,
    /// Only this group, of the namespaces that have it
    #[arg(long, value_name = "G", value_parser = group)]
    group: Option<GroupName>,
    /// Print JSON; the same as --output json
    #[arg(long)]
    json: bool,
}

impl Stats {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let mut views = with_client(globals, async |client| match self.namespace {
            Some(namespace) => Ok(vec![client.stats(namespace).await?]),
            None => super::namespace::all(client).await,
        })?;
        if let Some(group) = &self.group {
            for view in &mut views {
                view.groups.retain(|view| view.name == *group);
                view.offices.retain(|office| office.group == *group);
            }
            views.retain(|view| !view.groups.is_empty());
            if views.is_empty() {
                return Err(Failure::refused(format!(
                    "there is no group {group} there: `millpond group list` tells which are"
                )));
            }
        }
        if self.json || globals.output == Output::Json {
            views.iter().for_each(|view| say::line(json::stats(view)));
        } else {
            say::print(table(&views));
            say::print(became(&views));
            if views.iter().any(|view| !view.offices.is_empty()) {
                say::print(offices(&views));
            }
            views.retain(|view| view.policy.quotas != Quotas::default());
            if !views.is_empty() {
                say::print(usage(&views));
            }
        }
        Ok(())
    }
}

/// What the namespaces hold of what their quotas limit.
fn usage(views: &[NamespaceView]) -> Table {
    let mut table = Table::new(&["namespace", "of it", "used", "quota"]);
    for view in views {
        let (quotas, usage) = (view.policy.quotas, view.usage);
        for (what, used, quota) in [
            ("messages", usage.messages, quotas.messages),
            ("bytes", usage.bytes, quotas.bytes),
            ("topics", usage.topics, quotas.topics),
            ("connections", usage.connections, quotas.connections),
        ] {
            let quota = quota.map_or_else(|| "none".into(), |quota| quota.to_string());
            table.row([view.name.to_string(), what.into(), used.to_string(), quota]);
        }
    }
    table
}

/// Who leads exclusive groups.
fn offices(views: &[NamespaceView]) -> Table {
    let mut table = Table::new(&["namespace", "group", "leader", "epoch", "candidates"]);
    for view in views {
        for office in &view.offices {
            table.row([
                view.name.to_string(),
                office.group.to_string(),
                json::leader(office),
                office.epoch.0.to_string(),
                office.candidates.to_string(),
            ]);
        }
    }
    table
}

/// What has become of what was published since each group was made.
fn became(views: &[NamespaceView]) -> Table {
    let mut table =
        Table::new(&["namespace", "group", "accepted", "declined", "superseded", "dropped", "retained out"]);
    for view in views {
        for group in &view.groups {
            let Tally { accepted, declined, superseded, dropped, retained_out } = group.tally;
            let [accepted, declined, superseded, dropped, retained_out] =
                [accepted, declined, superseded, dropped, retained_out].map(|count| count.to_string());
            let (namespace, name) = (view.name.to_string(), group.name.to_string());
            table.row([namespace, name, accepted, declined, superseded, dropped, retained_out]);
        }
    }
    table
}

fn table(views: &[NamespaceView]) -> Table {
    let heads =
        ["namespace", "group", "topics", "waiting", "delayed", "retrying", "leased", "dead", "unfinished", "position"];
    let mut table = Table::new(&heads);
    for view in views {
        for (at, GroupView { name, counts, .. }) in view.groups.iter().enumerate() {
            table.row([
                view.name.to_string(),
                name.to_string(),
                // Of the namespace, whose topics are those of all groups.
                if at == 0 { view.usage.topics.to_string() } else { String::new() },
                counts.waiting.to_string(),
                counts.delayed.to_string(),
                counts.retrying.to_string(),
                counts.leased.to_string(),
                counts.dead.to_string(),
                counts.unfinished().to_string(),
                view.position.to_string(),
            ]);
        }
    }
    table
}
