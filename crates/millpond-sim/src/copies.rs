//! What those who publish to several groups and read for them were told, held against what is: what was confirmed is there after
//! every crash, in each topic that its exchange led to; an ack that was confirmed stays; and what a reader is given is what was
//! sent.
//!
//! [`crate::lost`] and [`crate::back`] do the same for the `default` groups, by the ledger. This is by the model.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::fact::GroupNumber;
use millpond_core::output::{LeasedRun, Reply};
use millpond_types::{FinishOutcome, MessageId, OutcomeRun, PublishOutcome, Receipt, Sequence};

use crate::model::Model;
use crate::sights::Sights;
use crate::subscribers::Of;
use crate::verdict::Violation;

/// See the module.
#[derive(Default)]
pub struct Copies {
    /// Messages that were confirmed, all at level `durable`, each with its tag.
    confirmed: BTreeMap<MessageId, u64>,
    /// Whose ack was confirmed.
    acked: BTreeSet<(GroupNumber, MessageId)>,
}

impl Copies {
    /// A subscriber is told this.
    pub fn told(&mut self, of: &Of, reply: &Reply, model: &Model, sights: &mut Sights) -> Result<(), Violation> {
        match (of, reply) {
            (Of::Publish { tags, is_routed, .. }, Reply::Published { outcomes, .. }) => {
                self.published((tags, *is_routed), outcomes, model, sights)
            }
            (Of::Ack(leases), Reply::Finished(outcomes)) => self.acked(leases, outcomes, model, sights),
            _ => Ok(()),
        }
    }

    /// A reader is handed these messages.
    pub fn given(&self, run: &LeasedRun, sights: &mut Sights) -> Result<(), Violation> {
        sights.saw_many("copies given", u64::from(run.count));
        let ids = (0..u64::from(run.count)).map(|at| MessageId { sequence: Sequence(run.first.0 + at), ..run.id() });
        match ids.map(|id| (run.receipt.group, id)).find(|of| self.acked.contains(of)) {
            None => Ok(()),
            Some((group, id)) => {
                Err(Violation::back(format!("{id} is delivered in group {group}, which has acked it")))
            }
        }
    }

    /// The broker is back, and the model has gone back with the journal.
    pub fn after_restart(&self, model: &Model) -> Result<(), Violation> {
        self.confirmed.iter().try_for_each(|(id, tag)| is_stored(*id, *tag, model))?;
        self.acked.iter().try_for_each(|of| is_over(*of, model))
    }

    fn published(
        &mut self,
        (tags, is_routed): (&[u64], bool),
        outcomes: &[OutcomeRun<PublishOutcome>],
        model: &Model,
        sights: &mut Sights,
    ) -> Result<(), Violation> {
        let outcomes = outcomes.iter().flat_map(|run| (0..u64::from(run.count)).map(|index| (index, &run.outcome)));
        let outcomes: Vec<_> = outcomes.collect();
        if !is_routed && outcomes.len() != tags.len() {
            let told = outcomes.len();
            return Err(Violation::lost(format!("{} messages were sent, and {told} outcomes told", tags.len())));
        }
        // Of what is routed, each copy is the one message.
        for ((index, outcome), tag) in outcomes.into_iter().zip(tags.iter().cycle()) {
            match outcome {
                PublishOutcome::Queued { id } | PublishOutcome::Coalesced { id, replaced: Some(_) } => {
                    let id = MessageId { sequence: Sequence(id.sequence.0 + index), ..*id };
                    is_stored(id, *tag, model)?;
                    self.confirmed.insert(id, *tag);
                    sights.saw(if is_routed { "copies confirmed" } else { "messages to several groups confirmed" });
                }
                _ if !is_routed && model.tags.values().any(|of| of == tag) => {
                    return Err(Violation::back(format!("of tag {tag} is told {outcome:?}, and it is stored")));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn acked(
        &mut self,
        leases: &[(Receipt, MessageId)],
        outcomes: &[OutcomeRun<FinishOutcome>],
        model: &Model,
        sights: &mut Sights,
    ) -> Result<(), Violation> {
        let outcomes = outcomes.iter().flat_map(|run| (0..run.count).map(|_| &run.outcome));
        for ((receipt, id), _) in leases.iter().zip(outcomes).filter(|(_, is)| **is == FinishOutcome::Done) {
            sights.saw("acks of readers confirmed");
            is_over((receipt.group, *id), model)?;
            self.acked.insert((receipt.group, *id));
        }
        Ok(())
    }
}

fn is_stored(id: MessageId, tag: u64, model: &Model) -> Result<(), Violation> {
    match model.tags.get(&id) {
        Some(stored) if *stored == tag => Ok(()),
        stored => Err(Violation::lost(format!("{id} was confirmed for tag {tag}, and stored is {stored:?}"))),
    }
}

fn is_over((group, id): (GroupNumber, MessageId), model: &Model) -> Result<(), Violation> {
    match model.message(group, id) {
        None => Ok(()),
        Some(message) => Err(Violation::back(format!("{id} was acked in group {group}, and there is {message:?}"))),
    }
}
