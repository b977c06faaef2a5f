//! Forward: an ack and a publish as one decision. Either all receipts are current and all messages are let in, and then
//! their facts are one record of the journal, or nothing happens and the reply says what spoke against it.
//!
//! A trial finds that out first. A duplicate speaks against nothing: it was let in before.

use alloc::vec::Vec;

use millpond_types::{Code, FinishOutcome, OutcomeRun, PublishOutcome};

use crate::Core;
use crate::command::{FinishVerb, Forward, ReceiptRun};
use crate::decide::Refusal;
use crate::decide::finish::check_receipts;
use crate::decide::publish::{Storing, check_size};
use crate::fact::FactLog;
use crate::output::Reply;

impl Core {
    pub(super) fn forward(&mut self, forward: Forward, log: &mut dyn FactLog) -> Result<Reply, Refusal> {
        let Forward { receipts, publish } = forward;
        let namespace = self.namespace_of(&publish.namespace)?;
        check_receipts(&receipts)?;
        check_size(&publish.runs)?;
        if publish.producer.is_some() {
            let detail = "an ack with a publish is repeated by nobody: its receipts are current once; leave the producer session out";
            return Err((Code::ArgumentInvalid, detail.into()));
        }
        if is_any_named_twice(&receipts) {
            return Err((Code::ArgumentInvalid, "a receipt is named twice, and a lease ends once".into()));
        }
        let looked_up = core::mem::take(&mut self.looked_up);
        let mut finished = Vec::new();
        for run in &receipts {
            self.each_lease(run, &mut finished, |_, _, _, _| FinishOutcome::Kept);
        }
        let mut trial =
            Storing { namespace, looked_up: looked_up.clone(), outcomes: Vec::new(), let_in: Vec::new(), log: None };
        publish.runs.iter().for_each(|run| self.publish_run(run, &mut trial));
        if finished.iter().any(is_lost) || trial.outcomes.iter().any(is_refused) {
            return Ok(Reply::Forwarded { finished, published: trial.outcomes });
        }
        finished.clear();
        for run in &receipts {
            self.each_lease(run, &mut finished, |core, slot, lease, count| {
                core.finish_leases(&FinishVerb::Ack, slot, lease, count, log)
            });
        }
        let mut storing = Storing { namespace, looked_up, outcomes: Vec::new(), let_in: Vec::new(), log: Some(log) };
        publish.runs.iter().for_each(|run| self.publish_run(run, &mut storing));
        assert!(!storing.outcomes.iter().any(|run| matches!(run.outcome, PublishOutcome::Refused { .. })));
        Ok(Reply::Forwarded { finished, published: storing.outcomes })
    }
}

fn is_lost(run: &OutcomeRun<FinishOutcome>) -> bool {
    run.outcome == FinishOutcome::LeaseLost
}

fn is_refused(run: &OutcomeRun<PublishOutcome>) -> bool {
    matches!(run.outcome, PublishOutcome::Refused { code, .. } if code != Code::RefusedTogether)
}

fn is_any_named_twice(receipts: &[ReceiptRun]) -> bool {
    let mut runs: Vec<_> =
        receipts.iter().map(|run| (run.first.topic, run.first.group, run.first.lease, run.end())).collect();
    runs.sort_unstable();
    runs.windows(2).any(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1) && pair[1].2 < pair[0].3)
}
