//! `namespace`: makes, changes, shows and deletes namespaces.

use clap::{Args, Subcommand};
use millpond_client::{Client, Error, NamespacePage};
use millpond_types::{
    Coalesce, Code, DedupWindow, Dispatch, Millis, NamespaceName, NamespaceView, OnExpiry, Overflow, Overrides,
    Pattern, Pause, Policy, Quotas, Rate, Retention, Retry, Rule, Rules, TopicName, WallTime,
};

use crate::cli::{Globals, Output};
use crate::connection::with_client;
use crate::failure::Failure;
use crate::table::Table;
use crate::{json, policy, quantity, say};

/// How often a change is tried while others change the same namespace.
const CHANGES_MAX: u32 = 100;

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
    /// What is otherwise for one topic or PREFIX*, by the names of the flags: 'acme/* max-in-flight=1,weight=3'. Of several that fit, the longest counts, and alone
    #[arg(long = "rule", value_name = "PATTERN KEY=VALUE,...", value_parser = policy::rule)]
    rules: Vec<Rule>,
}

#[derive(Args)]
pub struct Set {
    /// Its name
    #[arg(value_name = "NAME", value_parser = name)]
    name: NamespaceName,
    #[command(flatten)]
    policy: PolicyArgs,
    /// What is otherwise for one topic or PREFIX*, by the names of the flags: 'acme/* max-in-flight=1,weight=3'. Takes the place of the rule that was there for it
    #[arg(long = "rule", value_name = "PATTERN KEY=VALUE,...", value_parser = policy::rule)]
    rules: Vec<Rule>,
    /// Drop the rule for one topic or PREFIX*
    #[arg(long = "no-rule", value_name = "PATTERN", value_parser = policy::pattern)]
    no_rules: Vec<Pattern>,
}

#[derive(Args)]
pub struct Show {
    /// Its name
    #[arg(value_name = "NAME", value_parser = name)]
    name: NamespaceName,
    /// Show the policy of one topic, named as it is listed, and which rule it is from
    #[arg(long, value_name = "TOPIC", value_parser = topic)]
    topic: Option<TopicName>,
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
    #[arg(long, value_name = "TIME|none", value_parser = time_or_none)]
    ttl: Option<TimeOrNone>,
    /// What becomes of a message past its TTL [default: drop]
    #[arg(long, value_name = "drop|dead", value_parser = quantity::on_expiry)]
    on_expiry: Option<OnExpiry>,
    /// How long a dedup id is remembered [default: 10m]
    #[arg(long, value_name = "off|TIME|forever", value_parser = quantity::dedup_window)]
    dedup_window: Option<DedupWindow>,
    /// Leases at a time per topic; 1 is strict order [default: none]
    #[arg(long, value_name = "N|none", value_parser = limit)]
    max_in_flight: Option<Limit>,
    /// Messages that may wait in a topic, delayed and retrying ones included [default: none]
    #[arg(long, value_name = "N|none", value_parser = limit)]
    max_waiting: Option<Limit>,
    /// What becomes of a message that comes to a full topic: it is refused, or the oldest ends in its place [default: reject]
    #[arg(long, value_name = "reject|drop-oldest", value_parser = quantity::overflow)]
    overflow: Option<Overflow>,
    /// While one message of a topic waits, decline another one or put it in its place; one is worked on at a time [default: off]
    #[arg(long, value_name = "off|keep-first|keep-latest", value_parser = quantity::coalesce)]
    coalesce: Option<Coalesce>,
    /// In strict order, messages of a topic that one consumer is leased at a time, to finish them one after another, 1 to 100 [default: 1]
    #[arg(long, value_name = "N")]
    run: Option<u32>,
    /// Messages of a topic that go in a period, evenly, and at once; the burst is those of a period unless it is said [default: none]
    #[arg(long, value_name = "N/PERIOD[:BURST]|none", value_parser = rate)]
    rate: Option<RateOrNone>,
    /// Messages that a topic is given in one turn, 1 to 1000 [default: 1]
    #[arg(long, value_name = "N")]
    weight: Option<u32>,
    /// Messages that the namespace may hold, dead letters among them; 0 lets none in, as with the other quotas [default: none]
    #[arg(long, value_name = "N|none", value_parser = quota)]
    quota_messages: Option<Quota>,
    /// Bytes that these messages may take in the journal, as 10GiB [default: none]
    #[arg(long, value_name = "SIZE|none", value_parser = quota_bytes)]
    quota_bytes: Option<Quota>,
    /// Topics that the namespace may hold [default: none]
    #[arg(long, value_name = "N|none", value_parser = quota)]
    quota_topics: Option<Quota>,
    /// Connections that may publish to the namespace or receive from it [default: none]
    #[arg(long, value_name = "N|none", value_parser = quota)]
    quota_connections: Option<Quota>,
    /// What goes first: the highest priority, or the tenant whose turn it is. No rule says otherwise [default: priority]
    #[arg(long, value_name = "priority|fair", value_parser = quantity::dispatch)]
    dispatch: Option<Dispatch>,
    /// What waits is raised a priority in each step of this time, at least 1s, up to 9. No rule says otherwise [default: none]
    #[arg(long, value_name = "TIME|none", value_parser = time_or_none)]
    ageing: Option<TimeOrNone>,
    /// How long a group keeps what nobody takes from it, the oldest going first; at least 10s. No rule says otherwise [default: none]
    #[arg(long, value_name = "TIME|none", value_parser = time_or_none)]
    retention_age: Option<TimeOrNone>,
    /// How many messages a group keeps that nobody takes from it, about. No rule says otherwise [default: none]
    #[arg(long, value_name = "N|none", value_parser = quota)]
    retention_count: Option<Quota>,
}

/// A time or none: clap would take an `Option` for a flag that may be left out.
#[derive(Clone, Copy)]
struct TimeOrNone(Option<Millis>);

/// A limit or none, for the same reason.
#[derive(Clone, Copy)]
struct Limit(Option<u32>);

/// A quota or none, likewise.
#[derive(Clone, Copy)]
struct Quota(Option<u64>);

/// A rate or none, likewise.
#[derive(Clone, Copy)]
struct RateOrNone(Option<Rate>);

fn rate(text: &str) -> Result<RateOrNone, String> {
    quantity::rate(text).map(RateOrNone)
}

fn time_or_none(text: &str) -> Result<TimeOrNone, String> {
    quantity::millis_or_none(text).map(TimeOrNone)
}

fn limit(text: &str) -> Result<Limit, String> {
    quantity::count_or_none(text).map(Limit)
}

fn quota(text: &str) -> Result<Quota, String> {
    quantity::count_or_none(text).map(Quota)
}

fn quota_bytes(text: &str) -> Result<Quota, String> {
    quantity::or_none(text, quantity::size).map(Quota)
}

/// Reads the name of a namespace.
pub fn name(text: &str) -> Result<NamespaceName, String> {
    NamespaceName::try_from(text).map_err(|bad| format!("it is no name of a namespace: {bad}"))
}

fn topic(text: &str) -> Result<TopicName, String> {
    TopicName::try_from(text).map_err(|bad| format!("it is no name of a topic: {bad}"))
}

impl Namespace {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        match self {
            Namespace::Create(Create { name, policy, rules }) => with_client(globals, async |client| {
                let (policy, rules) = checked(policy.over(&Policy::default()), rules)?;
                match client.change_namespace(name.clone(), 0, policy, rules).await {
                    Err(Error::Refused { code: Code::NamespaceChanged, .. }) => Err(Failure::refused(format!(
                        "namespace {name} exists already: change it with `millpond namespace set {name}`"
                    ))),
                    done => Ok(done?),
                }
            }),
            Namespace::Set(set) => {
                if let Some(both) = set.said_twice() {
                    let both = json::pattern_text(both);
                    return Err(Failure::usage(format!("--rule and --no-rule both name {both}; say one of the two")));
                }
                with_client(globals, async |client| set.change(client).await)
            }
            Namespace::Show(Show { name, topic }) => {
                let view = with_client(globals, async |client| found(client, &name).await)?;
                match (globals.output, &topic) {
                    (Output::Json, None) => say::line(json::namespace(&view)),
                    (Output::Json, Some(topic)) => say::line(json::topic_policy(&view, topic)),
                    (Output::Table, None) => say::print(show(&view)),
                    (Output::Table, Some(topic)) => say::print(show_topic(&view, topic)),
                }
                Ok(())
            }
            Namespace::List => {
                let views = with_client(globals, async |client| all(client).await)?;
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

impl Set {
    /// A pattern that is to have a rule and to have none.
    fn said_twice(&self) -> Option<&Pattern> {
        self.no_rules.iter().find(|pattern| self.rules.iter().any(|rule| rule.pattern == **pattern))
    }

    /// Reads the namespace and changes what was read; where somebody else has been quicker, once more.
    async fn change(&self, client: &Client) -> Result<(), Failure> {
        for _ in 1..CHANGES_MAX {
            match self.try_to_change(client).await? {
                Err(Error::Refused { code: Code::NamespaceChanged, .. }) => {}
                done => return Ok(done?),
            }
        }
        Ok(self.try_to_change(client).await??)
    }

    async fn try_to_change(&self, client: &Client) -> Result<Result<(), Error>, Failure> {
        let Set { name, policy, rules, no_rules } = self;
        let view = found(client, name).await?;
        let is_there = |pattern: &&Pattern| view.rules.iter().any(|rule| rule.pattern == **pattern);
        if let Some(missing) = no_rules.iter().find(|pattern| !is_there(pattern)) {
            let missing = json::pattern_text(missing);
            return Err(Failure::refused(format!(
                "namespace {name} has no rule for {missing}: `millpond namespace show {name}` lists its rules"
            )));
        }
        let is_over =
            |rule: &&Rule| no_rules.contains(&rule.pattern) || rules.iter().any(|other| other.pattern == rule.pattern);
        let kept = view.rules.iter().filter(|rule| !is_over(rule)).cloned();
        let (policy, rules) = checked(policy.over(&view.policy), kept.chain(rules.iter().cloned()).collect())?;
        Ok(client.change_namespace(name.clone(), view.version, policy, rules).await)
    }
}

/// All namespaces, page after page.
pub async fn all(client: &Client) -> Result<Vec<NamespaceView>, Failure> {
    let (mut views, mut after) = (Vec::new(), None);
    loop {
        let NamespacePage { rows, next } = client.namespaces(after).await?;
        views.extend(rows);
        if next.is_none() {
            return Ok(views);
        }
        after = next;
    }
}

async fn found(client: &Client, name: &NamespaceName) -> Result<NamespaceView, Failure> {
    match client.stats(name.clone()).await {
        Err(Error::Refused { code: Code::NamespaceUnknown, .. }) => Err(Failure::refused(format!(
            "there is no namespace {name}: make it with `millpond namespace create {name}`"
        ))),
        found => Ok(found?),
    }
}

impl PolicyArgs {
    /// A policy with the values that are given in place of its own.
    fn over(&self, base: &Policy) -> Policy {
        let or = |given: Option<Quota>, base| given.map_or(base, |quota| quota.0);
        let quotas = Quotas {
            messages: or(self.quota_messages, base.quotas.messages),
            bytes: or(self.quota_bytes, base.quotas.bytes),
            topics: or(self.quota_topics, base.quotas.topics),
            connections: or(self.quota_connections, base.quotas.connections),
        };
        let overrides = Overrides {
            lease: self.lease,
            max_failures: self.max_failures,
            retry: self.retry,
            ttl: self.ttl.map(|ttl| ttl.0),
            on_expiry: self.on_expiry,
            dedup_window: self.dedup_window,
            max_in_flight: self.max_in_flight.map(|limit| limit.0),
            max_waiting: self.max_waiting.map(|limit| limit.0),
            overflow: self.overflow,
            coalesce: self.coalesce,
            run: self.run,
            rate: self.rate.map(|rate| rate.0),
            weight: self.weight,
        };
        let dispatch = self.dispatch.unwrap_or(base.dispatch);
        let ageing = self.ageing.map_or(base.ageing, |ageing| ageing.0);
        let retention = Retention {
            age: self.retention_age.map_or(base.retention.age, |age| age.0),
            count: or(self.retention_count, base.retention.count),
        };
        Policy { quotas, dispatch, ageing, retention, ..overrides.over(base) }
    }
}

/// A policy and rules that make sense together.
fn checked(policy: Policy, rules: Vec<Rule>) -> Result<(Policy, Rules), Failure> {
    let rules = Rules::new(rules).map_err(Failure::usage)?;
    rules.validate(&policy).map_err(Failure::usage)?;
    Ok((policy, rules))
}

fn show(view: &NamespaceView) -> Table {
    let mut table = Table::new(&["setting", "value", "in words"]);
    for ((name, value), meaning) in
        policy::entries(&(&view.policy).into()).into_iter().zip(policy::meanings(&view.policy))
    {
        table.row([name.into(), value, meaning]);
    }
    for (name, value, meaning) in policy::alone(&view.policy) {
        table.row([name.into(), value, meaning]);
    }
    for rule in view.rules.iter() {
        let values = policy::entries_text(&rule.overrides);
        table.row(["rule".into(), format!("{} {values}", json::pattern_text(&rule.pattern)), String::new()]);
    }
    for Pause { topics, until } in &view.paused {
        let until = match *until {
            WallTime::NEVER => "until it is resumed".into(),
            until => format!("until {}", json::time_text(until)),
        };
        table.row(["paused".into(), json::paused_text(topics), until]);
    }
    table
}

fn show_topic(view: &NamespaceView, topic: &TopicName) -> Table {
    let rule = view.rules.find(topic).and_then(|at| view.rules.iter().nth(at));
    let none = Overrides::default();
    let overrides = rule.map_or(&none, |rule| &rule.overrides);
    let (policy, said) = (overrides.over(&view.policy), policy::entries(overrides));
    let mut table = Table::new(&["setting", "value", "from", "in words"]);
    for ((name, value), meaning) in policy::entries(&(&policy).into()).into_iter().zip(policy::meanings(&policy)) {
        let rule = rule.filter(|_| said.iter().any(|(said, _)| *said == name));
        let from =
            rule.map_or_else(|| "namespace".into(), |rule| format!("rule {}", json::pattern_text(&rule.pattern)));
        table.row([name.into(), value, from, meaning]);
    }
    for (name, value, meaning) in policy::alone(&policy) {
        table.row([name.into(), value, "namespace".into(), meaning]);
    }
    table
}

fn list(views: &[NamespaceView]) -> Table {
    let mut table = Table::new(&["namespace", "topics", "unfinished", "dead"]);
    for view in views {
        let (unfinished, dead) = (json::unfinished(view), json::dead_letters(view));
        table.row([view.name.to_string(), view.usage.topics.to_string(), unfinished.to_string(), dead.to_string()]);
    }
    table
}
