//! `ack`, `release`, `fail`, `reject` and `extend`: what can be done with a lease.

use std::time::Duration;

use clap::Args;
use millpond_client::{Client, Error, Outcomes, Receipts};
use millpond_types::limits::REASON_MAX;
use millpond_types::{Counted, FinishOutcome, NamespaceName, Receipt};
use serde_json::json;

use crate::cli::{Globals, Output};
use crate::connection::with_client;
use crate::failure::Failure;
use crate::quantity;
use crate::say;

/// Finish messages: they are done
#[derive(Args)]
pub struct Ack {
    #[command(flatten)]
    leases: Leases,
}

/// Give messages back without fault
#[derive(Args)]
pub struct Release {
    #[command(flatten)]
    leases: Leases,
    /// How long until they are ready again [default: at once]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    delay: Option<Duration>,
}

/// Give messages back as failed; past the namespace's max-failures they become dead letters
#[derive(Args)]
pub struct Fail {
    #[command(flatten)]
    leases: Leases,
    /// How long until they are ready again [default: as the namespace says]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    delay: Option<Duration>,
    /// What went wrong; kept with the dead letter
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = reason)]
    reason: String,
}

/// Make messages dead letters at once
#[derive(Args)]
pub struct Reject {
    #[command(flatten)]
    leases: Leases,
    /// What is wrong with them; kept with the dead letters
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = reason)]
    reason: String,
}

/// Let leases run anew from now
#[derive(Args)]
pub struct Extend {
    #[command(flatten)]
    leases: Leases,
    /// How long they last from now [default: as the namespace says]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    lease: Option<Duration>,
}

/// Which leases.
#[derive(Args)]
struct Leases {
    /// The namespace that they are of
    #[arg(value_name = "NS", value_parser = namespace)]
    namespace: NamespaceName,
    /// Receipts as receive and work give them
    #[arg(value_name = "RECEIPT", required = true, value_parser = receipt)]
    receipts: Vec<Receipt>,
}

fn namespace(text: &str) -> Result<NamespaceName, String> {
    NamespaceName::try_from(text).map_err(|bad| format!("it is no name of a namespace: {bad}"))
}

/// Reads a receipt.
pub fn receipt(text: &str) -> Result<Receipt, String> {
    let expected = "expected a receipt, three decimal numbers with dots between: `receive` prints it with each message, and \
                    MILLPOND_RECEIPT has it for the commands of `work`; what `publish` prints is an id";
    text.parse().map_err(|_| expected.into())
}

fn reason(text: &str) -> Result<String, String> {
    if text.len() > REASON_MAX {
        return Err(format!("a reason has at most {REASON_MAX} bytes, and this one has {}", text.len()));
    }
    Ok(text.to_owned())
}

impl Ack {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        self.leases.run(globals, "acked", async |client, receipts| client.ack(receipts).await)
    }
}

impl Release {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let delay = self.delay.unwrap_or_default();
        self.leases.run(globals, "released", async |client, receipts| client.release(receipts, delay).await)
    }
}

impl Fail {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let (delay, reason) = (self.delay, self.reason);
        self.leases.run(globals, "failed", async |client, receipts| match delay {
            Some(delay) => client.fail_for(receipts, delay, reason).await,
            None => client.fail(receipts, reason).await,
        })
    }
}

impl Reject {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let reason = self.reason;
        self.leases.run(globals, "rejected", async |client, receipts| client.reject(receipts, reason).await)
    }
}

impl Extend {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        let lease = self.lease;
        self.leases.run(globals, "extended", async |client, receipts| client.extend(receipts, lease).await)
    }
}

impl Leases {
    /// Does `verb` with all of them and tells each one's outcome; a lost lease makes the command fail.
    fn run(
        self,
        globals: &Globals,
        done: &'static str,
        verb: impl AsyncFnOnce(&Client, Receipts) -> Result<Outcomes<FinishOutcome>, Error>,
    ) -> Result<(), Failure> {
        let mut receipts = Receipts::default();
        self.receipts.iter().for_each(|receipt| receipts.push(*receipt));
        let receipts = receipts.within(self.namespace);
        let outcomes = with_client(globals, async |client| Ok(verb(client, receipts).await?))?;
        tell(globals.output, &self.receipts, &outcomes, done)
    }
}

/// Tells what became of each lease; one that is lost is a failure, and so is one that cannot be finished now.
pub fn tell(
    output: Output,
    receipts: &[Receipt],
    outcomes: &Outcomes<FinishOutcome>,
    done: &'static str,
) -> Result<(), Failure> {
    for (receipt, outcome) in receipts.iter().zip(outcomes.iter()) {
        let outcome = match outcome {
            FinishOutcome::Done => done,
            FinishOutcome::Dead => "dead",
            FinishOutcome::LeaseLost => "lease_lost",
            FinishOutcome::Kept => "kept",
            FinishOutcome::Deposed => "deposed",
            FinishOutcome::OutOfOrder => "out_of_order",
        };
        match output {
            Output::Table => say::line(format!("{outcome} {receipt}")),
            Output::Json => say::line(json!({ "outcome": outcome, "receipt": receipt.to_string() })),
        }
    }
    let leases = |count: usize| Counted(count as u64, "lease");
    let with = |wanted| outcomes.iter().filter(|outcome| *outcome == wanted).count();
    let (deposed, early) = (with(FinishOutcome::Deposed), with(FinishOutcome::OutOfOrder));
    match outcomes.lost() {
        0 if early > 0 => Err(Failure::refused(format!(
            "{} of a run behind others that are not finished: finish those first",
            leases(early)
        ))),
        0 if deposed > 0 => Err(Failure::refused(format!(
            "{} of a leader that was replaced, ending with the hand-over: finish before that",
            leases(deposed)
        ))),
        0 => Ok(()),
        lost => Err(Failure::refused(format!(
            "{lost} of {} lost: finished already, expired or taken over. Receive the messages again",
            leases(receipts.len())
        ))),
    }
}
