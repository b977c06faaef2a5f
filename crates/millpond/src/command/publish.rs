//! `publish`: one message from the command line or stdin, or one for each line of stdin, to a topic or to an exchange.

use std::io::{IsTerminal, Read};
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, ValueEnum};
use millpond_client::{Batch, Client, Error, Level, Message};
use millpond_types::limits::PUBLISH_BYTES_MAX;
use millpond_types::{
    Code, ExchangeName, MessageId, Millis, OutcomeRun, Priority, PublishOutcome, RoutingKey, Sequence, TopicName,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::address::{Address, Place};
use crate::cli::{Globals, Output};
use crate::command::exchange;
use crate::connection::with_client;
use crate::failure::{Exit, Failure};
use crate::{json, quantity, say};

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
    /// A header; may be given several times
    #[arg(long = "header", value_name = "K=V", value_parser = quantity::header)]
    headers: Vec<(String, String)>,
    /// When the command is done: when the message is synced to the disk, when it is written to the file, or at once
    #[arg(long, value_enum, value_name = "LEVEL", default_value = "durable")]
    level: PublishLevel,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PublishLevel {
    Durable,
    Buffered,
    None,
}

/// Where messages go.
enum To {
    Topic(TopicName),
    Exchange(ExchangeName, RoutingKey),
}

/// Lines that are published together: enough to share a sync, few enough that the first is not kept waiting.
const LINES_MAX: usize = 1000;
/// Bytes of lines that are published together, for the same reasons and the limit of one publish.
const LINES_BYTES_MAX: usize = 1024 * 1024;

impl Publish {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let to = self.to()?;
        if self.lines {
            return self.run_lines(globals, &to);
        }
        let body = match self.body.as_deref() {
            None | Some("-") => read_body()?,
            Some(body) => Bytes::copy_from_slice(body.as_bytes()),
        };
        with_client(globals, async |client| {
            let mut told = Told::new(globals.output, false);
            self.publish(client, &to, vec![body], &mut told).await?;
            told.finish()
        })
    }

    fn to(&self) -> Result<To, Failure> {
        if let (Some(delay), Some(ttl)) = (self.delay, self.ttl)
            && delay >= ttl
        {
            return Err(Failure::usage(
                "a TTL counts from the publish: with a --delay that is not shorter than its --ttl, a message is never delivered",
            ));
        }
        let namespace = &self.address.namespace;
        match (&self.address.place, &self.exchange) {
            (Place::Topic(topic), None) => Ok(To::Topic(topic.clone())),
            (Place::All, Some(exchange)) => Ok(To::Exchange(exchange.clone(), self.key.clone().unwrap_or_default())),
            (Place::All, None) => Err(Failure::usage(format!(
                "a topic is needed here: write {namespace}/TOPIC, or name an exchange with --exchange"
            ))),
            (Place::Prefix(_), None) => Err(Failure::usage(
                "one topic is needed here, and a * at the end means many; a star in a name is written \\*",
            )),
            (_, Some(_)) => {
                Err(Failure::usage(format!("an exchange knows the topics by itself: write {namespace} alone")))
            }
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
                        if let Err(error) = self.publish_lines(client, to, lines, &mut told).await {
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

    /// Publishes lines that are there, and notes what becomes of each, also where something goes wrong.
    async fn publish_lines(&self, client: &Client, to: &To, lines: Vec<Bytes>, told: &mut Told) -> Result<(), Error> {
        if lines.is_empty() {
            return Ok(());
        }
        let end = told.settled() + lines.len() as u64;
        let error = match self.publish(client, to, lines, told).await {
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
            Error::Refused { code, detail } => {
                let count = (end - told.settled()) as u32;
                told.add(vec![OutcomeRun {
                    count,
                    outcome: PublishOutcome::Refused { code: *code, detail: detail.clone() },
                }]);
            }
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
                    let outcomes = client.route(namespace, level, &message).await?;
                    if level == Level::None {
                        told.unconfirmed(1);
                        continue;
                    }
                    if outcomes.is_empty() {
                        told.nowhere();
                    }
                    told.add_routed(outcomes.runs().to_vec());
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

/// Refusals that are named on stderr; those behind them are counted.
const REFUSALS_NAMED: u32 = 10;

/// Outcomes as they come, told as few rows: messages with consecutive ids are one. Of lines it is told which they are of;
/// each has one outcome, and then is settled: confirmed, refused, or sent without a word on what became of it.
struct Told {
    output: Output,
    /// Whether the messages are lines, and not one alone.
    is_lines: bool,
    open: Option<Open>,
    confirmed: u64,
    refused: u64,
    /// Sent at a level that confirms nothing.
    unconfirmed: u64,
    /// Sent, and nobody can say whether they were stored.
    unknown: u64,
    named: u32,
    /// The first refusal.
    why: String,
}

/// A row that may grow.
struct Open {
    /// The number of its first line.
    line: u64,
    run: OutcomeRun<PublishOutcome>,
}

impl Told {
    fn new(output: Output, is_lines: bool) -> Told {
        let (confirmed, refused, unconfirmed, unknown) = (0, 0, 0, 0);
        let (open, named, why) = (None, 0, String::new());
        Told { output, is_lines, open, confirmed, refused, unconfirmed, unknown, named, why }
    }

    /// Lines of which there is nothing more to say.
    fn settled(&self) -> u64 {
        self.confirmed + self.refused + self.unconfirmed + self.unknown
    }

    /// Outcomes, one for each line.
    fn add(&mut self, runs: Vec<OutcomeRun<PublishOutcome>>) {
        for run in runs {
            let (line, count) = (self.settled() + 1, u64::from(run.count));
            if let PublishOutcome::Refused { code, detail } = &run.outcome {
                self.flush();
                self.refuse(line, count, *code, detail);
                self.refused += count;
            } else {
                self.row(line, run);
                self.confirmed += count;
            }
        }
    }

    /// The copies of one message: all of them, or the reason why there is none.
    fn add_routed(&mut self, runs: Vec<OutcomeRun<PublishOutcome>>) {
        let spoke_against = |run: &&OutcomeRun<PublishOutcome>| matches!(&run.outcome, PublishOutcome::Refused { code, .. } if *code != Code::RefusedTogether);
        if let Some(run) = runs.iter().find(spoke_against) {
            return self.add(vec![OutcomeRun { count: 1, outcome: run.outcome.clone() }]);
        }
        let line = self.settled() + 1;
        runs.into_iter().for_each(|run| self.row(line, run));
        self.confirmed += 1;
    }

    /// No binding takes a message, and the exchange lets such messages go.
    fn nowhere(&mut self) {
        self.flush();
        let line = self.settled() + 1;
        say::line(match self.output {
            Output::Json => self.object(json!({ "outcome": "unroutable" }), line),
            Output::Table => "went nowhere: no binding takes it".to_owned(),
        });
    }

    /// So many lines were sent at a level that confirms nothing.
    fn unconfirmed(&mut self, count: usize) {
        self.unconfirmed += count as u64;
    }

    /// Of the lines up to this one nobody can say whether they were stored.
    fn unknown(&mut self, end: u64) {
        self.unknown += end - self.settled();
    }

    fn row(&mut self, line: u64, run: OutcomeRun<PublishOutcome>) {
        match (&mut self.open, &run.outcome) {
            (Some(open), PublishOutcome::Queued { id }) if follows(&open.run, id) => open.run.count += run.count,
            _ => {
                self.flush();
                self.open = Some(Open { line, run });
            }
        }
    }

    fn flush(&mut self) {
        let Some(Open { line, run: OutcomeRun { count, outcome } }) = self.open.take() else { return };
        let text = match &outcome {
            PublishOutcome::Queued { id } if self.output == Output::Json => {
                self.object(json!({ "outcome": "queued", "id": id.to_string(), "count": count }), line)
            }
            PublishOutcome::Queued { id } if count == 1 => format!("queued {id}"),
            PublishOutcome::Queued { id } => format!("queued {id} and the {} after it", count - 1),
            PublishOutcome::Duplicate { id, state } => {
                let state = json::state_name(*state);
                match self.output {
                    Output::Json => {
                        self.object(json!({ "outcome": "duplicate", "id": id.to_string(), "state": state }), line)
                    }
                    Output::Table => format!("duplicate of {id}, which is {state}"),
                }
            }
            PublishOutcome::Coalesced { id, replaced } => self.coalesced(*id, *replaced, count, line),
            PublishOutcome::Refused { .. } => unreachable!("what is refused is told at once"),
        };
        say::line(text);
    }

    fn coalesced(&self, id: MessageId, replaced: Option<MessageId>, count: u32, line: u64) -> String {
        let what = if replaced.is_some() { "replaced" } else { "declined" };
        match (self.output, replaced) {
            (Output::Json, _) => {
                let replaced = replaced.map(|old| old.to_string());
                self.object(
                    json!({ "outcome": what, "id": id.to_string(), "replaced": replaced, "count": count }),
                    line,
                )
            }
            (Output::Table, Some(old)) => format!("queued {id} in place of {old}"),
            (Output::Table, None) if count == 1 => format!("declined: {id} waits"),
            (Output::Table, None) => format!("declined {count}: {id} waits"),
        }
    }

    /// A row as an object, with the number of its first line.
    fn object(&self, mut row: Value, line: u64) -> String {
        if self.is_lines {
            row["line"] = line.into();
        }
        row.to_string()
    }

    /// Names lines that were refused, while that is not too many.
    fn refuse(&mut self, line: u64, count: u64, code: Code, detail: &str) {
        let why = format!("{}: {detail}", code.name());
        if self.refused == 0 {
            self.why.clone_from(&why);
        }
        if !self.is_lines {
            return;
        }
        if self.output == Output::Json {
            let row = json!({ "outcome": "refused", "code": code.name(), "detail": detail, "count": count });
            say::line(self.object(row, line));
        }
        if self.named < REFUSALS_NAMED {
            self.named += 1;
            say::note(match count {
                1 => format!("line {line} was refused ({why})"),
                _ => format!("lines {line} to {} were refused ({why})", line + count - 1),
            });
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.flush();
        match (self.is_lines, self.refused) {
            (_, 0) => Ok(()),
            (false, _) => Err(Failure::refused(format!("the message was refused by the broker ({})", self.why))),
            (true, refused) => Err(Failure::refused(format!(
                "{refused} of {} lines were refused by the broker, the first because of {}",
                self.settled(),
                self.why
            ))),
        }
    }

    /// The failure that ended the command, with what became of the lines before.
    fn broken_off(mut self, failure: Failure) -> Failure {
        // What was told to be queued is queued, whatever becomes of the lines behind it.
        self.flush();
        let settled = self.settled();
        if settled == 0 {
            return failure;
        }
        let Failure { exit, text } = failure;
        let were = |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let confirmed = were(self.confirmed, "is confirmed", "are confirmed");
        let mut lines = format!("{confirmed} and {}", were(self.refused, "was refused", "were refused"));
        if self.unconfirmed > 0 {
            lines += &format!(", {} without being confirmed", were(self.unconfirmed, "was sent", "were sent"));
        }
        match self.unknown {
            0 => {}
            1 => lines += &format!(", and line {settled} may be published or not"),
            unknown => lines += &format!(", and lines {} to {settled} may be published or not", settled - unknown + 1),
        }
        // Wrong usage means that nothing was sent.
        let exit = if exit == Exit::Usage { Exit::Refused } else { exit };
        let text = format!("{text}. Of the lines before, {lines}; nothing from line {} on was sent", settled + 1);
        Failure { exit, text }
    }
}

/// Whether a message's id comes right behind a run of queued ones.
fn follows(run: &OutcomeRun<PublishOutcome>, id: &MessageId) -> bool {
    let PublishOutcome::Queued { id: first } = &run.outcome else { return false };
    *id == MessageId { sequence: Sequence(first.sequence.0 + u64::from(run.count)), ..*first }
}
