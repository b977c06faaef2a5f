//! Forward: an ack and a publish as one decision. Either all receipts are current and all messages are let in, and then
//! their facts are one record of the journal, or nothing happens and the reply says what spoke against it. A publish to an
//! exchange is decided in the same way, whether or not it acks something ([`super::route`]).
//!
//! A trial finds that out first. A duplicate speaks against nothing: it was let in before.

use alloc::vec::Vec;

use millpond_types::{Code, FinishOutcome, LeaseNumber, OutcomeRun, PublishOutcome};

use crate::Core;
use crate::command::{FinishVerb, Forward, ProducerBatch, PublishRun, ReceiptRun};
use crate::decide::Refusal;
use crate::decide::dedup::LookedUp;
use crate::decide::finish::check_receipts;
use crate::decide::runs::Named;
use crate::decide::storing::{Runs, Storing, Trial, Way, shorten};
use crate::fact::{FactLog, NamespaceNumber};
use crate::output::Reply;
use crate::state::TopicSlot;

/// What became of receipts, in order.
type Finished = Vec<OutcomeRun<FinishOutcome>>;

impl Core {
    pub(super) fn forward(&mut self, forward: Forward, log: &mut dyn FactLog) -> Result<Reply, Refusal> {
        let Forward { receipts, publish } = forward;
        let namespace = self.namespace_of(&publish.namespace)?;
        check_acks(&receipts, publish.producer)?;
        self.check_size(namespace, &publish.runs)?;
        let looked_up = core::mem::take(&mut self.looked_up);
        let (finished, mut published) = self.all_or_nothing(namespace, &receipts, &publish.runs, looked_up, log);
        shorten(&mut published);
        Ok(Reply::Forwarded { finished, published, topics: Vec::new() })
    }

    /// Acks leases and stores messages, or finds what speaks against some of it and does nothing.
    pub(super) fn all_or_nothing(
        &mut self,
        namespace: NamespaceNumber,
        receipts: &[ReceiptRun],
        runs: &[PublishRun],
        mut looked_up: LookedUp,
        log: &mut dyn FactLog,
    ) -> (Finished, Runs) {
        let (mut finished, leases) = self.try_acks(receipts);
        self.expire_waiting(namespace, runs, &mut looked_up, log);
        let mut trial = Trial::default();
        if self.state.namespaces[namespace].policies.base.quotas.limit_publishes() {
            trial.pending = self.given_back(&leases, &runs.iter().map(|run| &run.topic).collect());
        }
        let tried = self.try_publish(namespace, runs, looked_up.clone(), trial);
        if finished.iter().any(is_not_to_end) || tried.iter().any(is_refused) {
            return (finished, tried);
        }
        finished.clear();
        for run in receipts {
            self.each_lease(run, &mut finished, |core, slot, of, lease| {
                core.finish_leases(&FinishVerb::Ack, slot, of, lease, log)
            });
        }
        (finished, self.publish_together(namespace, runs, looked_up, log))
    }

    /// What would be told of receipts of which none is acked, and the leases that are current.
    pub(super) fn try_acks(&mut self, receipts: &[ReceiptRun]) -> (Finished, Vec<(TopicSlot, LeaseNumber, u32)>) {
        let (mut finished, mut leases, mut named) = (Vec::new(), Vec::new(), Named::new());
        for run in receipts {
            self.each_lease(run, &mut finished, |core, slot, of, (lease, count)| {
                let is_next = core.is_next_after(slot, of, (lease, count), &mut named);
                leases.push((slot, lease, count));
                if is_next { FinishOutcome::Kept } else { FinishOutcome::OutOfOrder }
            });
        }
        (finished, leases)
    }

    /// What would be told of messages of which nothing is stored.
    fn try_publish(
        &mut self,
        namespace: NamespaceNumber,
        runs: &[PublishRun],
        looked_up: LookedUp,
        trial: Trial,
    ) -> Runs {
        let mut storing = Storing { namespace, looked_up, outcomes: Vec::new(), way: Way::Trial(trial) };
        runs.iter().for_each(|run| self.publish_run(run, &mut storing));
        storing.outcomes
    }

    /// Stores messages, none of which a trial has refused.
    fn publish_together(
        &mut self,
        namespace: NamespaceNumber,
        runs: &[PublishRun],
        looked_up: LookedUp,
        log: &mut dyn FactLog,
    ) -> Runs {
        let mut storing = Storing { namespace, looked_up, outcomes: Vec::new(), way: Way::Together(log) };
        runs.iter().for_each(|run| self.publish_run(run, &mut storing));
        assert!(!storing.outcomes.iter().any(|run| matches!(run.outcome, PublishOutcome::Refused { .. })));
        storing.outcomes
    }
}

/// Refuses receipts that no call acks together with a publish, whatever they name.
pub(super) fn check_acks(receipts: &[ReceiptRun], producer: Option<ProducerBatch>) -> Result<(), Refusal> {
    check_receipts(receipts)?;
    if producer.is_some() {
        let detail = "an ack with a publish is repeated by nobody: its receipts are current once; leave the producer session out";
        return Err((Code::ArgumentInvalid, detail.into()));
    }
    if is_any_named_twice(receipts) {
        return Err((Code::ArgumentInvalid, "a receipt is named twice, and a lease ends once".into()));
    }
    Ok(())
}

pub(super) fn is_not_to_end(run: &OutcomeRun<FinishOutcome>) -> bool {
    matches!(run.outcome, FinishOutcome::LeaseLost | FinishOutcome::OutOfOrder)
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
