//! `namespace`: makes, changes, shows and deletes namespaces.

use clap::{Args, Subcommand, ValueEnum};
use millpond_client::Client;
use millpond_types::{DedupWindow, Millis, NamespaceName, NamespaceView, OnExpiry, Policy, Retry};

use crate::cli::{Globals, Output};
use crate::connection::with_client;
use crate::failure::Failure;
use crate::table::Table;
use crate::{json, quantity, say};

/// Make, change, show and delete namespaces
#[derive(Subcommand)]
pub enum Namespace {
    /// Make a namespace
    Create(Create),
    /// Change what is given of a namespace's policy, and leave the rest
    Set(Set),
    /// Show a namespace's policy and what is paused
    Show(Show),
    /// List the namespaces
    List,
    /// Delete a namespace that holds nothing
    Delete(Delete),
}

#[derive(Args)]
pub struct Create {
    /// Its name
    #[arg(value_name = "NAME", value_parser = name)]
    name: NamespaceName,
    #[command(flatten)]
    policy: PolicyArgs,
}

#[derive(Args)]
pub struct Set {
    /// Its name
    #[arg(value_name = "NAME", value_parser = name)]
    name: NamespaceName,
    #[command(flatten)]
    policy: PolicyArgs,
}

#[derive(Args)]
pub struct Show {
    /// Its name
    #[arg(value_name = "NAME", value_parser = name)]
    name: NamespaceName,
}

#[derive(Args)]
pub struct Delete {
    /// Its name
    #[arg(value_name = "NAME", value_parser = name)]
    name: NamespaceName,
}

/// A policy, or the part of it that is given.
#[derive(Args)]
struct PolicyArgs {
    /// How long a lease lasts, 100ms to 12h [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = quantity::millis)]
    lease: Option<Millis>,
    /// Failures that a message survives; one more makes it a dead letter [default: 10]
    #[arg(long, value_name = "N")]
    max_failures: Option<u32>,
    /// Where a failed message goes: head, tail, or back to the front after a pause [default: backoff:1s..10m]
    #[arg(long, value_name = "head|tail|backoff:FIRST..LONGEST", value_parser = quantity::retry)]
    retry: Option<Retry>,
    /// How long after its publishing a message is worth delivering [default: none]
    #[arg(long, value_name = "TIME|none", value_parser = ttl)]
    ttl: Option<Ttl>,
    /// What becomes of a message past its TTL [default: drop]
    #[arg(long, value_enum, value_name = "drop|dead")]
    on_expiry: Option<Expiry>,
    /// How long a dedup id is remembered [default: 10m]
    #[arg(long, value_name = "off|TIME|forever", value_parser = quantity::dedup_window)]
    dedup_window: Option<DedupWindow>,
    /// Leases at a time per topic; 1 is strict order [default: none]
    #[arg(long, value_name = "N|none", value_parser = in_flight)]
    max_in_flight: Option<InFlight>,
    /// Messages that a topic is given in one turn, 1 to 1000 [default: 1]
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
}

/// A TTL or none: clap would take an `Option` for a flag that may be left out.
#[derive(Clone, Copy)]
struct Ttl(Option<Millis>);

/// A limit or none, for the same reason.
#[derive(Clone, Copy)]
struct InFlight(Option<u32>);

fn ttl(text: &str) -> Result<Ttl, String> {
    quantity::millis_or_none(text).map(Ttl)
}

fn in_flight(text: &str) -> Result<InFlight, String> {
    quantity::count_or_none(text).map(InFlight)
}

#[derive(Clone, Copy, ValueEnum)]
enum Expiry {
    Drop,
    Dead,
}

/// Reads the name of a namespace.
pub fn name(text: &str) -> Result<NamespaceName, String> {
    NamespaceName::try_from(text).map_err(|bad| format!("it is no name of a namespace: {bad}"))
}

impl Namespace {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        match self {
            Namespace::Create(Create { name, policy }) => with_client(globals, async |client| {
                if find(client, &name).await?.is_some() {
                    return Err(Failure::refused(format!(
                        "namespace {name} exists already: change it with `millpond namespace set {name}`"
                    )));
                }
                Ok(client.set_namespace(name, policy.over(Policy::default())?).await?)
            }),
            Namespace::Set(Set { name, policy }) => with_client(globals, async |client| {
                let view = found(client, &name).await?;
                Ok(client.set_namespace(name, policy.over(view.policy)?).await?)
            }),
            Namespace::Show(Show { name }) => {
                let view = with_client(globals, async |client| found(client, &name).await)?;
                match globals.output {
                    Output::Json => say::line(json::namespace(&view)),
                    Output::Table => say::print(show(&view)),
                }
                Ok(())
            }
            Namespace::List => {
                let views = with_client(globals, async |client| Ok(client.namespaces().await?))?;
                match globals.output {
                    Output::Json => views.iter().for_each(|view| say::line(json::namespace(view))),
                    Output::Table => say::print(list(&views)),
                }
                Ok(())
            }
            Namespace::Delete(Delete { name }) => {
                with_client(globals, async |client| Ok(client.delete_namespace(name).await?))
            }
        }
    }
}

async fn find(client: &Client, name: &NamespaceName) -> Result<Option<NamespaceView>, Failure> {
    Ok(client.namespaces().await?.into_iter().find(|view| view.name == *name))
}

async fn found(client: &Client, name: &NamespaceName) -> Result<NamespaceView, Failure> {
    find(client, name).await?.ok_or_else(|| {
        Failure::refused(format!("there is no namespace {name}: make it with `millpond namespace create {name}`"))
    })
}

impl PolicyArgs {
    /// These values over those of `base`, checked.
    fn over(&self, base: Policy) -> Result<Policy, Failure> {
        let policy = Policy {
            lease: self.lease.unwrap_or(base.lease),
            max_failures: self.max_failures.unwrap_or(base.max_failures),
            retry: self.retry.unwrap_or(base.retry),
            ttl: self.ttl.map_or(base.ttl, |ttl| ttl.0),
            on_expiry: match self.on_expiry {
                Some(Expiry::Drop) => OnExpiry::Drop,
                Some(Expiry::Dead) => OnExpiry::Dead,
                None => base.on_expiry,
            },
            dedup_window: self.dedup_window.unwrap_or(base.dedup_window),
            max_in_flight: self.max_in_flight.map_or(base.max_in_flight, |limit| limit.0),
            weight: self.weight.unwrap_or(base.weight),
        };
        policy.validate().map_err(Failure::usage)?;
        Ok(policy)
    }
}

fn show(view: &NamespaceView) -> Table {
    let mut table = Table::new(&["setting", "value"]);
    for (name, value) in json::policy_entries(&view.policy) {
        table.row([name.into(), value]);
    }
    for paused in &view.paused {
        table.row(["paused".into(), json::paused_text(paused)]);
    }
    table
}

fn list(views: &[NamespaceView]) -> Table {
    let mut table = Table::new(&["namespace", "topics", "unfinished", "dead"]);
    for view in views {
        let sum = |of: fn(&millpond_types::Counts) -> u64| view.groups.iter().map(|(_, c)| of(c)).sum::<u64>();
        let (unfinished, dead) = (sum(|c| c.unfinished()), sum(|c| c.dead));
        table.row([view.name.to_string(), view.topics.to_string(), unfinished.to_string(), dead.to_string()]);
    }
    table
}
