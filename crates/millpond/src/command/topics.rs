//! `topics`: lists topics by name or those that stand out, or shows one with its cursors.

use bytes::Bytes;
use clap::{Args, ValueEnum};
use millpond_client::{Client, Listing};
use millpond_types::limits::{PAGE_MAX, TOP_MAX};
use millpond_types::{Counts, GroupName, NamespaceName, TopBy, TopicName, TopicView};

use super::receive::group;
use crate::address::{Address, Place};
use crate::cli::{Globals, Output};
use crate::connection::with_client;
use crate::failure::Failure;
use crate::json;
use crate::say;
use crate::shell;
use crate::table::Table;

/// List the topics of a namespace, by name or the deepest or oldest first, or show one with its cursors
#[derive(Args)]
pub struct Topics {
    /// A namespace, a prefix of topics, or one topic
    #[arg(value_name = "NS[/TOPIC|/PREFIX*]")]
    topics: Address,
    /// As this group has them [default: default; one topic as the first has it, with the cursors of all]
    #[arg(long, value_name = "G", value_parser = group)]
    group: Option<GroupName>,
    /// At most so many; what follows is named at the end
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=PAGE_MAX as i64))]
    limit: u32,
    /// Only topics after this name, the last one of the page before, as it is listed
    #[arg(long, value_name = "NAME", value_parser = topic)]
    after: Option<TopicName>,
    /// The topics that stand out instead, at most 100: with the most messages that wait, with the oldest of them, or with
    /// those that are delayed or in retry and due first
    #[arg(long, value_enum, value_name = "BY", conflicts_with = "after")]
    top: Option<By>,
}

/// What puts a topic before others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum By {
    Depth,
    Age,
    Due,
}

/// Reads the name of a topic as it is, without escapes.
fn topic(text: &str) -> Result<TopicName, String> {
    TopicName::try_from(text).map_err(|bad| format!("it is no name of a topic: {bad}"))
}

impl Topics {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let Address { namespace, place } = self.topics;
        let prefix = match place {
            Place::All => Bytes::new(),
            Place::Prefix(prefix) => Bytes::copy_from_slice(prefix.as_bytes()),
            Place::Topic(topic) => {
                if self.top.is_some() {
                    return Err(Failure::usage(
                        "--top compares topics: name a namespace or PREFIX*, and not one topic",
                    ));
                }
                let view = with_client(globals, async |client| match self.group {
                    Some(group) => of_group(client, namespace, topic, group).await,
                    None => Ok(client.topic(namespace, topic).await?),
                })?;
                print_one(globals, &view);
                return Ok(());
            }
        };
        let group = self.group.unwrap_or_default();
        if let Some(by) = self.top {
            let by = match by {
                By::Depth => TopBy::Depth,
                By::Age => TopBy::Age,
                By::Due => TopBy::Due,
            };
            let limit = self.limit.min(TOP_MAX as u32);
            let views = with_client(globals, async |client| {
                Ok(client.top_topics(namespace, group, prefix, by, limit).await?)
            })?;
            print_page(globals, &views);
            return Ok(());
        }
        let after = self.after.map_or_else(Bytes::new, |name| Bytes::copy_from_slice(name.as_bytes()));
        let listing = Listing { namespace, prefix, after, limit: self.limit };
        let views = with_client(globals, async |client| Ok(client.topics(listing, group).await?))?;
        print_page(globals, &views);
        if let Some(last) = views.last()
            && views.len() == self.limit as usize
        {
            say::note(format!("there may be more: --after {}", shell::quoted(last.name.as_str())));
        }
        Ok(())
    }
}

/// A topic as one group has it, with nothing where that has finished what it had of it.
async fn of_group(
    client: &Client,
    namespace: NamespaceName,
    topic: TopicName,
    group: GroupName,
) -> Result<TopicView, Failure> {
    let mut view = client.topic(namespace.clone(), topic.clone()).await?;
    view.cursors.retain(|cursors| cursors.group == group);
    if view.cursors.is_empty() {
        must_have(client, namespace.clone(), &group).await?;
    }
    // The name itself comes before all that begin with it.
    let prefix = Bytes::copy_from_slice(topic.as_bytes());
    let listing = Listing { namespace, prefix, after: Bytes::new(), limit: 1 };
    let row = client.topics(listing, group).await?.into_iter().find(|row| row.name == topic);
    let TopicView { name, paused, cursors, .. } = view;
    Ok(match row {
        Some(row) => TopicView { cursors, ..row },
        None => TopicView { name, paused, counts: Counts::default(), oldest: None, due: None, cursors },
    })
}

/// A topic may have no cursors of a group that is there.
async fn must_have(client: &Client, namespace: NamespaceName, group: &GroupName) -> Result<(), Failure> {
    let view = client.stats(namespace.clone()).await?;
    if view.groups.iter().any(|of| of.name == *group) {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "namespace {namespace} has no group {group}: `millpond group list {namespace}` lists its groups"
    )))
}

fn print_one(globals: &Globals, view: &TopicView) {
    print_page(globals, std::slice::from_ref(view));
    if globals.output == Output::Table {
        let mut table = Table::new(&["group", "priority", "completion", "scan", "next", "lag"]);
        for cursors in &view.cursors {
            table.row([
                cursors.group.to_string(),
                cursors.priority.level().to_string(),
                cursors.completion.0.to_string(),
                cursors.scan.0.to_string(),
                cursors.next.0.to_string(),
                cursors.lag.to_string(),
            ]);
        }
        say::print(format!("\n{table}"));
    }
}

fn print_page(globals: &Globals, views: &[TopicView]) {
    if globals.output == Output::Json {
        views.iter().for_each(|view| say::line(json::topic(view)));
        return;
    }
    let mut table =
        Table::new(&["topic", "paused", "waiting", "delayed", "retrying", "leased", "lag", "oldest", "due"]);
    for view in views {
        table.row([
            view.name.to_string(),
            if view.paused { "yes".into() } else { "no".into() },
            view.counts.waiting.to_string(),
            view.counts.delayed.to_string(),
            view.counts.retrying.to_string(),
            view.counts.leased.to_string(),
            view.counts.unfinished().to_string(),
            view.oldest.map_or("-".into(), json::time_text),
            view.due.map_or("-".into(), json::time_text),
        ]);
    }
    say::print(table);
}
