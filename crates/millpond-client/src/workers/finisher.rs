//! Carries out what handlers have decided, in batches: while one is being confirmed the next one fills.

use std::collections::BTreeMap;

use millpond_protocol::FinishVerb;
use millpond_types::{Millis, Receipt};
use tokio::sync::mpsc;

use super::{Decision, Report};
use crate::client::Client;
use crate::receipts::Receipts;

/// Decisions that one finish call takes at most: small enough that its confirmation is not waited for long.
const FINISH_MAX: usize = 1_000;

/// What the finisher is told of a message.
pub(super) enum Decided {
    As(Receipt, Decision),
    /// It is of a run that did not come to it. The broker may have given it to somebody else by now, which is no loss.
    NotBegun(Receipt),
}

/// Goes on until nobody is left to decide.
pub(super) async fn finish_decided(client: Client, mut decisions: mpsc::UnboundedReceiver<Decided>) -> Report {
    let mut report = Report::default();
    let mut batch = Vec::new();
    while decisions.recv_many(&mut batch, FINISH_MAX).await > 0 {
        let mut verbs: BTreeMap<Decision, Vec<Receipt>> = BTreeMap::new();
        let mut not_begun = Receipts::default();
        for decided in batch.drain(..) {
            match decided {
                Decided::As(receipt, decision) => verbs.entry(decision).or_default().push(receipt),
                Decided::NotBegun(receipt) => not_begun.push(receipt),
            }
        }
        if !not_begun.is_empty() {
            // The broker gives them back by itself: this is for the window. Nobody has worked on them, so nothing is lost.
            let _ = client.finish(FinishVerb::Release { delay: Millis(0) }, not_begun).await;
        }
        for (decision, mut receipts) in verbs {
            // Handlers end in any order; sorted, neighbours become runs.
            receipts.sort_unstable();
            let receipts: Receipts = receipts.into_iter().collect();
            let count = receipts.len() as u64;
            let Some(verb) = decision.verb() else {
                report.finished += count;
                continue;
            };
            match client.finish(verb, receipts).await {
                Ok(outcomes) => {
                    report.finished += outcomes.done() as u64;
                    report.lost += outcomes.lost() as u64;
                }
                Err(_) => report.unconfirmed += count,
            }
        }
    }
    report
}
