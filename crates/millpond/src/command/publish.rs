//! `publish`: one message from the command line or stdin, or one for each line of stdin, to a topic or to an exchange.

mod hand_off;
mod told;

use std::collections::BTreeSet;
use std::io::{IsTerminal, Read};
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use millpond_client::{Batch, Client, Copies, Error, Level, Message};
use millpond_types::limits::PUBLISH_BYTES_MAX;
use millpond_types::{ExchangeName, Millis, Priority, Receipt, RoutingKey};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::address::Address;
use crate::cli::Globals;
use crate::command::exchange;
use crate::command::finish::receipt;
use crate::connection::with_client;
use crate::destination::{Destination, To};
use crate::failure::Failure;
use crate::quantity;

use self::hand_off::{Handed, hand_off};
use self::told::Told;

/// Publish a message, or one for each line of stdin
#[derive(Args)]
#[command(after_help = "Without BODY, or with -, the body is what stdin holds. \
    An empty message is published with an empty BODY, \"\".")]
pub struct Publish {
    /// The topic; with --exchange, the namespace
    #[arg(value_name = "NS/TOPIC|NS")]
    address: Address,
    /// The body; - for stdin
    #[arg(value_name = "BODY|-")]
    body: Option<String>,
    /// Publish to the topics that this exchange of the namespace leads to: to all of them or to none
    #[arg(long, value_name = "NAME", value_parser = exchange::exchange)]
    exchange: Option<ExchangeName>,
    /// What the exchange routes the message by [default: empty]
    #[arg(long, value_name = "KEY", value_parser = exchange::key, requires = "exchange")]
    key: Option<RoutingKey>,
    /// Publish each line of stdin as a message of its own, without its line end
    #[arg(long, conflicts_with = "dedup_id")]
    lines: bool,
    /// 0 to 9; 9 goes first [default: 4]
    #[arg(long, value_name = "N", value_parser = quantity::priority)]
    priority: Option<Priority>,
    /// How long the message stays invisible
    #[arg(long, value_name = "TIME", value_parser = quantity::millis)]
    delay: Option<Millis>,
    /// How long the message is worth delivering [default: as the namespace says]
    #[arg(long, value_name = "TIME|none", value_parser = quantity::ttl)]
    ttl: Option<Millis>,
    /// Of all messages with this id, one is stored within the namespace's dedup window
    #[arg(long, value_name = "ID", value_parser = quantity::dedup_id)]
    dedup_id: Option<String>,
    /// A header; may be given several times, each key once
    #[arg(long = "header", value_name = "K=V", value_parser = quantity::header)]
    headers: Vec<(String, String)>,
    /// When the command is done: when the message is synced to the disk, when it is written to the file, or at once
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "durable")]
    level: PublishLevel,
    /// Ack this lease as the message is published, to a topic or to an exchange: both or neither; may be given several times
    #[arg(long = "ack", value_name = "RECEIPT", value_parser = receipt, conflicts_with_all = ["lines", "level"])]
    acks: Vec<Receipt>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PublishLevel {
    Durable,
    Buffered,
    None,
}

/// Lines that are published together: enough to share a sync, few enough that the first is not kept waiting.
const LINES_MAX: usize = 1000;
/// Bytes of lines that are published together, for the same reasons and the limit of one publish.
const LINES_BYTES_MAX: usize = 1024 * 1024;

impl Publish {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let Destination { to, .. } = Destination::new(&self.address, self.exchange.as_ref(), self.key.as_ref())?;
        self.check_headers()?;
        if self.lines {
            return self.run_lines(globals, &to);
        }
        let body = match self.body.as_deref() {
            None | Some("-") => read_body()?,
            Some(body) => Bytes::copy_from_slice(body.as_bytes()),
        };
        with_client(globals, async |client| {
            if !self.acks.is_empty() {
                let handed = self.handed(&to, body)?;
                return hand_off(client, globals.output, (&self.address.namespace, &handed), &self.acks).await;
            }
            let mut told = Told::new(globals.output, false);
            match self.publish_and_tell(client, &to, vec![body], &mut told).await {
                Ok(()) => told.finish(),
                Err(error) => Err(told.broken_off(error.into())),
            }
        })
    }

    /// What is published as others are acked.
    fn handed(&self, to: &To, body: Bytes) -> Result<Handed, Error> {
        Ok(match to {
            To::Topic(topic) => {
                let message = self.with_options(Message::new(topic.clone(), body));
                Handed::Topic(Batch::try_from(vec![message])?)
            }
            To::Exchange(exchange, key) => {
                Handed::Exchange(self.with_options(Message::routed(exchange.clone(), key.clone(), body)))
            }
        })
    }

    /// A key that is given twice is a slip: whoever reads the headers as a map would find one of its values.
    fn check_headers(&self) -> Result<(), Failure> {
        let mut seen = BTreeSet::new();
        match self.headers.iter().find(|(key, _)| !seen.insert(key)) {
            Some((key, _)) => Err(Failure::usage(format!("--header gives {key} more than one value: say one of them"))),
            None => Ok(()),
        }
    }

    fn run_lines(&self, globals: &Globals, to: &To) -> Result<(), Failure> {
        match self.body.as_deref() {
            Some("-") => {}
            None if !std::io::stdin().is_terminal() => {}
            None => return Err(Failure::usage(NO_STDIN)),
            Some(_) => {
                return Err(Failure::usage("--lines takes its messages from stdin, and a BODY was given: drop one"));
            }
        }
        with_client(globals, async |client| {
            let mut told = Told::new(globals.output, true);
            let mut input = BufReader::with_capacity(LINES_BYTES_MAX, tokio::io::stdin());
            loop {
                match next_lines(&mut input, told.settled()).await {
                    Ok((lines, is_end)) => {
                        if let Err(error) = self.publish_and_tell(client, to, lines, &mut told).await {
                            return Err(told.broken_off(error.into()));
                        }
                        if is_end {
                            return told.finish();
                        }
                    }
                    Err(failure) => return Err(told.broken_off(failure)),
                }
            }
        })
    }

    /// Publishes messages, if there are any, and tells what becomes of each, also where something goes wrong.
    async fn publish_and_tell(
        &self,
        client: &Client,
        to: &To,
        bodies: Vec<Bytes>,
        told: &mut Told,
    ) -> Result<(), Error> {
        if bodies.is_empty() {
            return Ok(());
        }
        let end = told.settled() + bodies.len() as u64;
        let error = match self.publish(client, to, bodies, told).await {
            Ok(()) => return Ok(()),
            Err(Error::Partial { outcomes, source }) => {
                told.add(outcomes.runs().to_vec());
                *source
            }
            Err(error) => error,
        };
        match &error {
            // A part of them may have been sent.
            _ if self.level == PublishLevel::None => told.unknown(end),
            Error::Refused { code, detail } => told.refused(end - told.settled(), *code, detail),
            // An exchange is given one line at a time: those behind were not sent.
            Error::Unconfirmed { .. } | Error::Timeout { .. } | Error::Protocol { .. } => match to {
                To::Topic(_) => told.unknown(end),
                To::Exchange(..) => told.unknown(told.settled() + 1),
            },
            // Nothing of it was sent.
            _ => {}
        }
        Err(error)
    }

    /// A message with all that the command says of it.
    fn with_options<To>(&self, message: Message<To>) -> Message<To> {
        let mut message = message.priority(self.priority.unwrap_or_default());
        if let Some(delay) = self.delay {
            message = message.delay(Duration::from_millis(delay.0));
        }
        if let Some(ttl) = self.ttl {
            message = message.ttl(Duration::from_millis(ttl.0));
        }
        if let Some(dedup_id) = &self.dedup_id {
            message = message.dedup_id(dedup_id.clone());
        }
        self.headers.iter().fold(message, |message, (key, value)| message.header(key.clone(), value.clone()))
    }

    /// Publishes messages: to a topic together, to an exchange one after the other.
    async fn publish(&self, client: &Client, to: &To, bodies: Vec<Bytes>, told: &mut Told) -> Result<(), Error> {
        let level = match self.level {
            PublishLevel::Durable => Level::Durable,
            PublishLevel::Buffered => Level::Buffered,
            PublishLevel::None => Level::None,
        };
        let namespace = &self.address.namespace;
        match to {
            To::Topic(topic) => {
                let message = |body| self.with_options(Message::new(topic.clone(), body));
                let messages: Vec<Message> = bodies.into_iter().map(message).collect();
                let batch = Batch::try_from(messages)?;
                let outcomes = client.publish_batch(namespace, level, &batch).await?;
                if level == Level::None {
                    told.unconfirmed(batch.len());
                }
                told.add(outcomes.runs().to_vec());
            }
            To::Exchange(exchange, key) => {
                for body in bodies {
                    let message = self.with_options(Message::routed(exchange.clone(), key.clone(), body));
                    let Copies { topics, outcomes } = client.route(namespace, level, &message).await?;
                    if level == Level::None {
                        told.unconfirmed(1);
                        continue;
                    }
                    if outcomes.is_empty() {
                        told.nowhere();
                    }
                    told.add_copies(topics, &outcomes);
                }
            }
        }
        Ok(())
    }
}

/// The lines that are there, at least one unless stdin has ended. There were so many before.
async fn next_lines(input: &mut BufReader<tokio::io::Stdin>, before: u64) -> Result<(Vec<Bytes>, bool), Failure> {
    let (mut lines, mut bytes) = (Vec::new(), 0);
    loop {
        let mut line = Vec::new();
        let read = (&mut *input).take(TOO_LARGE).read_until(b'\n', &mut line).await;
        if read.map_err(|why| Failure::usage(format!("stdin cannot be read: {why}")))? == 0 {
            return Ok((lines, true));
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        } else if line.len() as u64 == TOO_LARGE {
            return Err(too_large(&format!("line {}", before + lines.len() as u64 + 1)));
        }
        bytes += line.len();
        lines.push(line.into());
        // What is not there yet is not waited for: a slow source has its lines published as they come.
        if lines.len() >= LINES_MAX || bytes >= LINES_BYTES_MAX || !input.buffer().contains(&b'\n') {
            return Ok((lines, false));
        }
    }
}

/// One byte more than any broker takes, whatever its settings: with so many read, nothing is published, for a body that
/// is not read to its end must not be taken for a whole one.
const TOO_LARGE: u64 = PUBLISH_BYTES_MAX as u64 + 1;

fn too_large(what: &str) -> Failure {
    Failure::usage(format!(
        "{what} on stdin has more than {PUBLISH_BYTES_MAX} bytes, the most that a publish holds: keep large bodies \
         elsewhere and publish where they are"
    ))
}

const NO_STDIN: &str = "there is no body: stdin is a terminal. Give it as BODY, or pipe it in";

fn read_body() -> Result<Bytes, Failure> {
    let mut input = std::io::stdin();
    if input.is_terminal() {
        return Err(Failure::usage(NO_STDIN));
    }
    let mut body = Vec::new();
    let read = input.by_ref().take(TOO_LARGE).read_to_end(&mut body);
    read.map_err(|why| Failure::usage(format!("there is no body: stdin cannot be read: {why}")))?;
    if body.len() as u64 == TOO_LARGE {
        return Err(too_large("the body"));
    }
    if body.is_empty() {
        return Err(Failure::usage(
            "there is no body: stdin is empty. Give it as BODY, or pipe it in; an empty message is published with \"\"",
        ));
    }
    Ok(body.into())
}
