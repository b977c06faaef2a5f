//! `group`: makes, lists and deletes the groups of a namespace, and deposes their leaders.

use clap::{Args, Subcommand};
use millpond_types::{
    Counts, GroupKind, GroupName, GroupView, Millis, NamespaceName, NamespaceView, OfficeTerms, OfficeView, Start,
};

use crate::cli::{Globals, Output};
use crate::command::namespace::name;
use crate::connection::with_client;
use crate::failure::Failure;
use crate::say;
use crate::table::Table;
use crate::{json, quantity};

/// Make, list and delete the groups of a namespace, and depose their leaders
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
    /// End the term of the leader of an exclusive group: it may finish what it has, and waits behind all other candidates
    Depose(One),
}

#[derive(Args)]
pub struct Create {
    #[command(flatten)]
    of: One,
    /// What it is given of what was published before: all that other groups still hold, nothing, or what of it was published at this time or later, in RFC 3339 or as in '10m ago' [default: latest]
    #[arg(long, value_name = "earliest|latest|TIME", value_parser = quantity::start)]
    start: Option<Start>,
    /// Let one consumer have all messages, the leader, and another one only when the leader is gone
    #[arg(long)]
    exclusive: bool,
    /// How long a leader may be silent before another one takes over: 500ms to 10m [default: 10s]
    #[arg(long, requires = "exclusive", value_name = "TIME", value_parser = quantity::millis)]
    term: Option<Millis>,
    /// How long a leader that was replaced may finish what it has, at most 12h [default: 30s]
    #[arg(long, requires = "exclusive", value_name = "TIME", value_parser = quantity::millis)]
    handover: Option<Millis>,
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
            Group::Create(create) => {
                let (kind, start) = (create.kind(), create.start.unwrap_or_default());
                let One { namespace, group } = create.of;
                with_client(globals, async |client| Ok(client.create_group(namespace, group, start, kind).await?))
            }
            Group::Delete(One { namespace, group }) => {
                with_client(globals, async |client| Ok(client.delete_group(namespace, group).await?))
            }
            Group::Depose(One { namespace, group }) => {
                with_client(globals, async |client| Ok(client.depose(namespace, group).await?))
            }
            Group::List(List { namespace }) => {
                let view = with_client(globals, async |client| Ok(client.stats(namespace).await?))?;
                match globals.output {
                    Output::Json => view.groups.iter().for_each(|group| {
                        say::line(json::group(group, office_of(&view, &group.name)));
                    }),
                    Output::Table => say::print(table(&view)),
                }
                Ok(())
            }
        }
    }
}

impl Create {
    fn kind(&self) -> GroupKind {
        if !self.exclusive {
            return GroupKind::Shared;
        }
        let usual = OfficeTerms::default();
        GroupKind::Exclusive(OfficeTerms {
            term: self.term.unwrap_or(usual.term),
            handover: self.handover.unwrap_or(usual.handover),
        })
    }
}

fn office_of<'a>(view: &'a NamespaceView, group: &GroupName) -> Option<&'a OfficeView> {
    view.offices.iter().find(|office| office.group == *group)
}

fn table(view: &NamespaceView) -> Table {
    let heads = [
        "group",
        "start",
        "waiting",
        "delayed",
        "retrying",
        "leased",
        "dead",
        "retained out",
        "leader",
        "epoch",
        "candidates",
        "term",
        "hand-over",
    ];
    let mut table = Table::new(&heads);
    for group in &view.groups {
        let Counts { waiting, delayed, retrying, leased, dead } = group.counts;
        let [waiting, delayed, retrying, leased, dead] =
            [waiting, delayed, retrying, leased, dead].map(|count| count.to_string());
        let office = office_of(view, &group.name);
        let of = |say: fn(&OfficeView) -> String| office.map_or_else(String::new, say);
        let (leader, epoch) = (of(json::leader), of(|office| office.epoch.0.to_string()));
        let candidates = of(|office| office.candidates.to_string());
        let (term, handover) = (
            of(|office| quantity::millis_text(office.terms.term)),
            of(|office| quantity::millis_text(office.terms.handover)),
        );
        let (name, retained_out) = (group.name.to_string(), group.tally.retained_out.to_string());
        table.row([
            name,
            start(group),
            waiting,
            delayed,
            retrying,
            leased,
            dead,
            retained_out,
            leader,
            epoch,
            candidates,
            term,
            handover,
        ]);
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
