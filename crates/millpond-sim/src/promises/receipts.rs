//! A verb with the receipt of a lease that is not current is refused, always; one with a lease that is current is not.

use std::collections::BTreeSet;

use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun};
use millpond_core::output::Reply;
use millpond_types::{FinishOutcome, LeaseNumber, Receipt};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// The receipts of a command, and whether their leases are current.
pub struct Receipts(Vec<(Receipt, bool)>);

impl Receipts {
    /// Those of a command that is about to be decided. With a group all of its leases are over.
    pub fn of(model: &Model, runs: &[ReceiptRun]) -> Receipts {
        let all = runs.iter().flat_map(|run| {
            let numbers = (run.first.lease.0..).take(run.count as usize);
            numbers.map(|lease| Receipt { lease: LeaseNumber(lease), ..run.first })
        });
        let is_current = |receipt: &Receipt| {
            let topic = model.topics.get(&(receipt.group, receipt.topic));
            topic.is_some_and(|topic| {
                topic.leases.contains_key(&receipt.lease) && !model.groups[&receipt.group].is_ending
            })
        };
        Receipts(all.map(|receipt| (receipt, is_current(&receipt))).collect())
    }

    /// Holds the answer against that.
    pub fn check(&self, command: &Command, reply: &Reply, sights: &mut Sights) -> Kept {
        let (Reply::Finished(outcomes) | Reply::Forwarded { finished: outcomes, .. }) = reply else { return Ok(()) };
        let outcomes = outcomes.iter().flat_map(|run| (0..run.count).map(|_| &run.outcome));
        let extends = matches!(command, Command::Finish(Finish { verb: FinishVerb::Extend { .. }, .. }));
        // Whoever names a lease twice has it once.
        let mut gone = BTreeSet::new();
        for ((receipt, is_current), outcome) in self.0.iter().zip(outcomes) {
            let is_current = *is_current && !gone.contains(receipt);
            if is_current == (*outcome == FinishOutcome::LeaseLost) {
                let what = format!("{receipt} has the outcome {outcome:?}, and its lease is current: {is_current}");
                return Err(Violation::leases(what));
            }
            if !extends && matches!(outcome, FinishOutcome::Done | FinishOutcome::Dead) {
                gone.insert(*receipt);
            }
            sights.saw(if is_current { "receipts that were taken" } else { "receipts that were refused" });
        }
        Ok(())
    }
}
