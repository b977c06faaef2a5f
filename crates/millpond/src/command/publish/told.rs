//! What became of each message that was published, as it is told: on stdout what was stored, on stderr what was not. As JSON
//! stdout has both, so that a program need not read what is meant for people.

use millpond_client::Outcomes;
use millpond_types::{Code, MessageId, OutcomeRun, PublishOutcome, Sequence, TopicName};
use serde_json::{Value, json};

use crate::cli::Output;
use crate::failure::{Exit, Failure};
use crate::{json, say};

/// Refusals that are named on stderr; those behind them are counted.
const REFUSALS_NAMED: u32 = 10;

/// Outcomes as they come, told as few rows: messages with consecutive ids are one. Of lines it is told which they are of;
/// each has one outcome, and then is settled: confirmed, refused, or sent without a word on what became of it.
pub(super) struct Told {
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
    /// Where it went, if an exchange says that.
    topic: Option<TopicName>,
}

impl Told {
    pub(super) fn new(output: Output, is_lines: bool) -> Told {
        let (confirmed, refused, unconfirmed, unknown) = (0, 0, 0, 0);
        let (open, named, why) = (None, 0, String::new());
        Told { output, is_lines, open, confirmed, refused, unconfirmed, unknown, named, why }
    }

    /// Lines of which there is nothing more to say.
    pub(super) fn settled(&self) -> u64 {
        self.confirmed + self.refused + self.unconfirmed + self.unknown
    }

    /// Outcomes, one for each line.
    pub(super) fn add(&mut self, runs: Vec<OutcomeRun<PublishOutcome>>) {
        for run in runs {
            let (line, count) = (self.settled() + 1, u64::from(run.count));
            if let PublishOutcome::Refused { code, detail } = &run.outcome {
                self.refused(count, *code, detail);
            } else {
                self.row(line, run, None);
                self.confirmed += count;
            }
        }
    }

    /// So many messages were refused for one reason.
    pub(super) fn refused(&mut self, count: u64, code: Code, detail: &str) {
        self.flush();
        let line = self.settled() + 1;
        let why = format!("{}: {detail}", code.name());
        if self.output == Output::Json {
            let row = json!({ "outcome": "refused", "code": code.name(), "detail": detail, "count": count });
            say::line(self.object(row, line));
        }
        if self.is_lines {
            self.name(line, count, &why);
        }
        if self.refused == 0 {
            self.why = why;
        }
        self.refused += count;
    }

    /// The copies of one message, each with its topic: all of them, or the reason why there is none.
    pub(super) fn add_copies(&mut self, topics: Vec<TopicName>, outcomes: &Outcomes<PublishOutcome>) {
        let mut refused: Vec<_> =
            outcomes.runs().iter().filter(|run| matches!(run.outcome, PublishOutcome::Refused { .. })).collect();
        // What speaks against the others comes first, if it is one of them.
        refused.sort_by_key(|run| matches!(run.outcome, PublishOutcome::Refused { code: Code::RefusedTogether, .. }));
        if let Some(run) = refused.first() {
            return self.add(vec![OutcomeRun { count: 1, outcome: run.outcome.clone() }]);
        }
        let line = self.settled() + 1;
        for (topic, outcome) in topics.into_iter().zip(outcomes.iter()) {
            self.row(line, OutcomeRun { count: 1, outcome }, Some(topic));
        }
        self.confirmed += 1;
    }

    /// No binding takes a message, and the exchange lets such messages go.
    pub(super) fn nowhere(&mut self) {
        self.flush();
        let line = self.settled() + 1;
        say::line(match self.output {
            Output::Json => self.object(json!({ "outcome": "unroutable" }), line),
            Output::Table => "went nowhere: no binding takes it".to_owned(),
        });
    }

    /// So many lines were sent at a level that confirms nothing.
    pub(super) fn unconfirmed(&mut self, count: usize) {
        self.unconfirmed += count as u64;
    }

    /// Of the lines up to this one nobody can say whether they were stored.
    pub(super) fn unknown(&mut self, end: u64) {
        self.unknown += end - self.settled();
    }

    fn row(&mut self, line: u64, run: OutcomeRun<PublishOutcome>, topic: Option<TopicName>) {
        match (&mut self.open, &run.outcome) {
            (Some(open), PublishOutcome::Queued { id }) if follows(&open.run, id) => open.run.count += run.count,
            _ => {
                self.flush();
                self.open = Some(Open { line, run, topic });
            }
        }
    }

    fn flush(&mut self) {
        let Some(Open { line, run, topic }) = self.open.take() else { return };
        match self.output {
            Output::Json => {
                let mut row = row(&run);
                if let Some(topic) = topic {
                    row["topic"] = topic.as_str().into();
                }
                say::line(self.object(row, line));
            }
            Output::Table => match topic {
                Some(topic) => say::line(format!("{topic}: {}", text(&run))),
                None => say::line(text(&run)),
            },
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
    fn name(&mut self, line: u64, count: u64, why: &str) {
        if self.named < REFUSALS_NAMED {
            self.named += 1;
            say::note(match count {
                1 => format!("line {line} was refused ({why})"),
                _ => format!("lines {line} to {} were refused ({why})", line + count - 1),
            });
        }
    }

    pub(super) fn finish(mut self) -> Result<(), Failure> {
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
    pub(super) fn broken_off(mut self, failure: Failure) -> Failure {
        // What was told to be queued is queued, whatever becomes of the lines behind it.
        self.flush();
        let settled = self.settled();
        if settled == 0 || !self.is_lines {
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

/// Outcomes in a row, as people are told.
fn text(run: &OutcomeRun<PublishOutcome>) -> String {
    match (&run.outcome, run.count) {
        (PublishOutcome::Queued { id }, 1) => format!("queued {id}"),
        (PublishOutcome::Queued { id }, count) => format!("queued {id} and the {} after it", count - 1),
        (PublishOutcome::Duplicate { id, state }, _) => {
            format!("duplicate of {id}, which is {}", json::state_name(*state))
        }
        (PublishOutcome::Coalesced { id, replaced: Some(old) }, _) => format!("queued {id} in place of {old}"),
        (PublishOutcome::Coalesced { id, replaced: None }, 1) => format!("declined: {id} waits"),
        (PublishOutcome::Coalesced { id, replaced: None }, count) => format!("declined {count}: {id} waits"),
        (PublishOutcome::Refused { .. }, _) => unreachable!("what is refused is told at once"),
    }
}

/// The same as an object.
fn row(run: &OutcomeRun<PublishOutcome>) -> Value {
    let count = run.count;
    match &run.outcome {
        PublishOutcome::Queued { id } => json!({ "outcome": "queued", "id": id.to_string(), "count": count }),
        PublishOutcome::Duplicate { id, state } => {
            json!({ "outcome": "duplicate", "id": id.to_string(), "state": json::state_name(*state) })
        }
        PublishOutcome::Coalesced { id, replaced } => {
            let what = if replaced.is_some() { "replaced" } else { "declined" };
            let replaced = replaced.map(|old| old.to_string());
            json!({ "outcome": what, "id": id.to_string(), "replaced": replaced, "count": count })
        }
        PublishOutcome::Refused { .. } => unreachable!("what is refused is told at once"),
    }
}

/// Whether a message's id comes right behind a run of queued ones.
fn follows(run: &OutcomeRun<PublishOutcome>, id: &MessageId) -> bool {
    let PublishOutcome::Queued { id: first } = &run.outcome else { return false };
    *id == MessageId { sequence: Sequence(first.sequence.0 + u64::from(run.count)), ..*first }
}
