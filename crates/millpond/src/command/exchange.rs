//! `exchange`: makes, lists and deletes exchanges, and binds topics to them.

use bytes::Bytes;
use clap::{Args, Subcommand, ValueEnum};
use millpond_types::{
    Binding, Condition, ExchangeKind, ExchangeName, ExchangeView, NamespaceName, RoutingKey, TopicName, Unroutable,
};
use serde_json::{Value, json};

use crate::cli::{Globals, Output};
use crate::command::namespace::name;
use crate::connection::with_client;
use crate::failure::Failure;
use crate::table::Table;
use crate::{json, quantity, say};

/// Make exchanges, which give what is published to them to the topics that are bound to them
///
/// A message is published to an exchange with `millpond publish NS --exchange NAME --key KEY`.
#[derive(Subcommand)]
pub enum Exchange {
    /// Make an exchange
    Create(Create),
    /// Delete an exchange with its bindings
    Delete(One),
    /// List the exchanges of a namespace
    List(List),
    /// Bind a topic to an exchange
    Bind(Bind),
    /// Drop a binding, written as it was made
    Unbind(Bind),
    /// List the bindings of an exchange
    Bindings(One),
}

#[derive(Args)]
pub struct Create {
    #[command(flatten)]
    one: One,
    /// What its bindings ask of a message: its key, a pattern of keys with * for a word and # for any number, nothing, or headers
    #[arg(long, value_enum, value_name = "KIND")]
    kind: Kind,
    /// What becomes of a message that no binding takes
    #[arg(long, value_enum, value_name = "WHAT", default_value = "refuse")]
    unroutable: Stray,
}

#[derive(Args)]
pub struct One {
    /// The namespace
    #[arg(value_name = "NS", value_parser = name)]
    namespace: NamespaceName,
    /// The exchange
    #[arg(value_name = "NAME", value_parser = exchange)]
    exchange: ExchangeName,
}

#[derive(Args)]
pub struct List {
    /// The namespace
    #[arg(value_name = "NS", value_parser = name)]
    namespace: NamespaceName,
}

#[derive(Args)]
pub struct Bind {
    #[command(flatten)]
    one: One,
    /// The topic; {key} in it stands for the key of the message
    #[arg(value_name = "TOPIC", value_parser = topic)]
    target: TopicName,
    /// The key, or the pattern: words with dots between, * for one, # for any number
    #[arg(long, value_name = "KEY", value_parser = key, conflicts_with = "headers")]
    key: Option<RoutingKey>,
    /// A header that the message has; may be given several times
    #[arg(long = "header", value_name = "K=V", value_parser = quantity::header)]
    headers: Vec<(String, String)>,
    /// How many of the headers it has
    #[arg(long = "match", value_enum, value_name = "WHICH", default_value = "all", requires = "headers")]
    of: Of,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kind {
    Direct,
    Topic,
    Fanout,
    Headers,
}

#[derive(Clone, Copy, ValueEnum)]
enum Stray {
    Refuse,
    Drop,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Of {
    All,
    Any,
}

/// Reads the name of an exchange.
pub fn exchange(text: &str) -> Result<ExchangeName, String> {
    ExchangeName::try_from(text).map_err(|bad| format!("it is no name of an exchange: {bad}"))
}

/// Reads a routing key.
pub fn key(text: &str) -> Result<RoutingKey, String> {
    RoutingKey::try_from(text).map_err(|bad| format!("it is no routing key: {bad}"))
}

fn topic(text: &str) -> Result<TopicName, String> {
    TopicName::try_from(text).map_err(|bad| format!("it is no name of a topic: {bad}"))
}

impl Exchange {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        match self {
            Exchange::Create(Create { one: One { namespace, exchange }, kind, unroutable }) => {
                let kind = match kind {
                    Kind::Direct => ExchangeKind::Direct,
                    Kind::Topic => ExchangeKind::Topic,
                    Kind::Fanout => ExchangeKind::Fanout,
                    Kind::Headers => ExchangeKind::Headers,
                };
                let unroutable = match unroutable {
                    Stray::Refuse => Unroutable::Refuse,
                    Stray::Drop => Unroutable::Drop,
                };
                with_client(globals, async |client| {
                    Ok(client.create_exchange(namespace, exchange, kind, unroutable).await?)
                })
            }
            Exchange::Delete(One { namespace, exchange }) => {
                with_client(globals, async |client| Ok(client.delete_exchange(namespace, exchange).await?))
            }
            Exchange::List(List { namespace }) => {
                let views = with_client(globals, async |client| Ok(client.exchanges(namespace).await?))?;
                match globals.output {
                    Output::Json => views.iter().for_each(|view| say::line(line(view))),
                    Output::Table => say::print(table(&views)),
                }
                Ok(())
            }
            Exchange::Bind(bind) => {
                let (One { namespace, exchange }, binding) = bind.parts();
                with_client(globals, async |client| {
                    if !client.bind(namespace, exchange, binding).await? {
                        say::note("it was bound so already");
                    }
                    Ok(())
                })
            }
            Exchange::Unbind(bind) => {
                let (One { namespace, exchange }, binding) = bind.parts();
                with_client(globals, async |client| match client.unbind(namespace, exchange, binding).await? {
                    true => Ok(()),
                    false => Err(Failure::refused("there is no such binding; see `millpond exchange bindings`")),
                })
            }
            Exchange::Bindings(One { namespace, exchange }) => {
                let bindings = with_client(globals, async |client| Ok(client.bindings(namespace, exchange).await?))?;
                match globals.output {
                    Output::Json => bindings.iter().for_each(|binding| say::line(binding_line(binding))),
                    Output::Table => say::print(bindings_table(&bindings)),
                }
                Ok(())
            }
        }
    }
}

impl Bind {
    fn parts(self) -> (One, Binding) {
        let bytes = |text: String| Bytes::from(text.into_bytes());
        let condition = match self.key {
            Some(key) => Condition::Key(key),
            None if self.headers.is_empty() => Condition::Always,
            None => {
                let headers = self.headers.into_iter().map(|(key, value)| (bytes(key), bytes(value))).collect();
                Condition::Headers { all: self.of == Of::All, headers }
            }
        };
        (self.one, Binding { condition, target: self.target })
    }
}

fn kind_text(kind: ExchangeKind) -> &'static str {
    match kind {
        ExchangeKind::Direct => "direct",
        ExchangeKind::Topic => "topic",
        ExchangeKind::Fanout => "fanout",
        ExchangeKind::Headers => "headers",
    }
}

fn unroutable_text(unroutable: Unroutable) -> &'static str {
    match unroutable {
        Unroutable::Refuse => "refuse",
        Unroutable::Drop => "drop",
    }
}

fn line(view: &ExchangeView) -> Value {
    json!({
        "exchange": view.name.as_str(), "kind": kind_text(view.kind), "unroutable": unroutable_text(view.unroutable),
        "bindings": view.bindings, "version": view.version,
    })
}

fn table(views: &[ExchangeView]) -> Table {
    let mut table = Table::new(&["exchange", "kind", "unroutable", "bindings"]);
    for view in views {
        let (kind, unroutable) = (kind_text(view.kind).into(), unroutable_text(view.unroutable).into());
        table.row([view.name.to_string(), kind, unroutable, view.bindings.to_string()]);
    }
    table
}

fn binding_line(binding: &Binding) -> Value {
    let mut line = json!({ "topic": binding.target.as_str() });
    match &binding.condition {
        Condition::Always => {}
        Condition::Key(key) => line["key"] = key.as_str().into(),
        Condition::Headers { all, headers } => {
            line["match"] = if *all { "all".into() } else { "any".into() };
            line["headers"] = json::headers(headers.iter().map(|(key, value)| (&key[..], &value[..])));
        }
    }
    line
}

fn bindings_table(bindings: &[Binding]) -> Table {
    let mut table = Table::new(&["topic", "takes"]);
    for binding in bindings {
        let takes = match &binding.condition {
            Condition::Always => "all".to_owned(),
            Condition::Key(key) => format!("key \"{key}\""),
            Condition::Headers { all, headers } => {
                let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
                let headers: Vec<_> =
                    headers.iter().map(|(key, value)| format!("{}={}", text(key), text(value))).collect();
                format!("headers, {} of {}", if *all { "all" } else { "any" }, headers.join(" "))
            }
        };
        table.row([binding.target.to_string(), takes]);
    }
    table
}
