//! Carries out what handlers have decided, in batches: while one is being confirmed the next one fills.
//!
//! Where more of a run comes behind a message, what was decided of it is sent at once, and then the next one is begun. So on
//! a connection each is finished before the next one can be, by a forward too, and none waits for a confirmation.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_protocol::FinishVerb;
use millpond_types::limits::RECEIPTS_MAX;
use millpond_types::{FinishOutcome, Millis, Receipt};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::runs::Of;
use super::{Decision, Report};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::finish::Finishing;
use crate::receipts::Receipts;

/// Decisions that one finish call takes at most: small enough that its confirmation is not waited for long.
const FINISH_MAX: usize = 1_000;
const _: () = assert!(FINISH_MAX <= RECEIPTS_MAX, "a batch is one call");
/// Calls under way above which runs wait for one of them: by then there are enough decisions for each to be of many.
const UNDER_WAY_MAX: usize = 64;

/// What the finisher is told of a message.
pub(super) enum Decided {
    /// What was decided, and the run that goes on when that is sent.
    As(Receipt, Decision, Option<Of>),
    /// It is of a run that did not come to it. The broker may have given it to somebody else by now, which is no loss.
    NotBegun(Receipt),
}

/// What the finisher tells of a run: whether what was decided of one of its messages is sent.
pub(super) struct Sent {
    pub(super) of: Of,
    pub(super) is_sent: bool,
}

/// Goes on until nobody is left to decide.
pub(super) async fn finish_decided(
    client: Client,
    mut decisions: mpsc::UnboundedReceiver<Decided>,
    sent: mpsc::UnboundedSender<Sent>,
) -> Report {
    let mut finisher = Finisher { client, sent, under_way: JoinSet::new(), report: Report::default() };
    let (mut batch, mut more_may_come) = (Vec::new(), true);
    loop {
        let room = FINISH_MAX - batch.len();
        tokio::select! {
            biased;
            Some(confirmed) = finisher.under_way.join_next() => finisher.report.add(confirmed.unwrap_or_default()),
            count = decisions.recv_many(&mut batch, room), if more_may_come && room > 0 => more_may_come = count > 0,
            else => return finisher.report,
        }
        let under_way = finisher.under_way.len();
        let is_waited_for = batch.iter().any(|decided| matches!(decided, Decided::As(_, _, Some(_))));
        if under_way == 0 || is_waited_for && under_way < UNDER_WAY_MAX {
            finisher.send(std::mem::take(&mut batch)).await;
        }
    }
}

struct Finisher {
    client: Client,
    sent: mpsc::UnboundedSender<Sent>,
    /// Calls that are not confirmed.
    under_way: JoinSet<Report>,
    report: Report,
}

impl Finisher {
    async fn send(&mut self, batch: Vec<Decided>) {
        let mut verbs: BTreeMap<Decision, (Vec<Receipt>, Vec<Of>)> = BTreeMap::new();
        let mut not_begun = Receipts::default();
        for decided in batch {
            match decided {
                Decided::As(receipt, decision, of) => {
                    let (receipts, runs) = verbs.entry(decision).or_default();
                    receipts.push(receipt);
                    runs.extend(of);
                }
                Decided::NotBegun(receipt) => not_begun.push(receipt),
            }
        }
        if !not_begun.is_empty()
            && let Ok(finishing) = self.start(FinishVerb::Release { delay: Millis(0) }, &not_begun).await
        {
            // The broker gives them back by itself: this is for the window. Nobody has worked on them, so nothing is lost.
            self.under_way.spawn(async {
                let _ = finishing.outcomes().await;
                Report::default()
            });
        }
        for (decision, (receipts, runs)) in verbs {
            let is_sent = self.carry_out(decision, receipts).await;
            // A pool that ends begins nothing more.
            runs.into_iter().for_each(|of| _ = self.sent.send(Sent { of, is_sent }));
        }
    }

    /// Sends a decision; false if there is no connection for it.
    async fn carry_out(&mut self, decision: Decision, mut receipts: Vec<Receipt>) -> bool {
        let count = receipts.len() as u64;
        let Some(verb) = decision.verb() else {
            self.report.finished += count;
            return true;
        };
        // Handlers end in any order; sorted, neighbours become runs.
        receipts.sort_unstable();
        let receipts: Receipts = receipts.into_iter().collect();
        match self.start(verb, &receipts).await {
            Ok(finishing) => {
                self.under_way.spawn(confirmed(finishing, self.client.clone(), receipts));
                true
            }
            Err(_) => {
                self.report.unconfirmed += count;
                false
            }
        }
    }

    async fn start(&self, verb: FinishVerb, receipts: &Receipts) -> Result<Finishing> {
        self.client.start_finish(&verb, None, receipts.runs().to_vec()).await
    }
}

/// What became of a decision. Leases that it was refused for are held still, and nobody will work on them: they are given back.
async fn confirmed(finishing: Finishing, client: Client, receipts: Receipts) -> Report {
    let count = receipts.len() as u64;
    let (done, lost, left) = match finishing.outcomes().await {
        Ok(outcomes) => {
            let left = outcomes.of(receipts.runs(), &FinishOutcome::OutOfOrder);
            (outcomes.done() as u64, outcomes.lost() as u64, left)
        }
        Err(Error::Refused { .. }) => (0, 0, receipts),
        Err(_) => return Report { unconfirmed: count, ..Report::default() },
    };
    let unconfirmed = left.len() as u64;
    // At the worst they run out with the session.
    let _ = client.release(left, Duration::ZERO).await;
    Report { finished: done, lost, unconfirmed }
}
