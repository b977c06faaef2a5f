//! What a client is told of a message beside its body: which it is, when it was published, how often it was delivered and failed,
//! and of a dead letter what was said of it.

use millpond_core::command::{Command, Finish, FinishVerb};
use millpond_core::fact::{DeadReason, Fact};
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_protocol as frame;
use millpond_types::{LeaseNumber, MessageId, Receipt, Sequence};

use super::Kept;
use crate::model::{Given, Model};
use crate::sights::Sights;
use crate::verdict::Violation;

/// What is told of messages that were leased together.
struct Run {
    /// The first.
    first: Given,
    /// Its receipt.
    receipt: Receipt,
    /// How many they are.
    count: u32,
}

/// What is given in a turn, or told again, comes with its own times and counts.
pub fn given(outputs: &[Output], model: &Model, sights: &mut Sights) -> Kept {
    for output in outputs {
        if let Output::Delivery { leases, .. } | Output::Reply { reply: Reply::Received(leases), .. } = output {
            leases.iter().map(Run::from).try_for_each(|run| run.check(model, sights))?;
        }
    }
    Ok(())
}

/// So it comes to a client on a connection, maybe much later.
pub fn heard(leases: &[frame::LeasedRun], model: &Model, sights: &mut Sights) -> Kept {
    for run in leases.iter().map(Run::from) {
        run.check(model, sights)?;
        let is_again = run.first.deliveries > 1;
        sights.saw_many("told in frames how often they were delivered before", u64::from(is_again));
        sights.saw_many("told in frames how often they failed", u64::from(run.first.failures > 0));
    }
    Ok(())
}

impl Run {
    fn check(&self, model: &Model, sights: &mut Sights) -> Kept {
        for index in 0..u64::from(self.count) {
            let receipt = Receipt { lease: LeaseNumber(self.receipt.lease.0 + index), ..self.receipt };
            let id = MessageId { sequence: Sequence(self.first.id.sequence.0 + index), ..self.first.id };
            let (told, is) = (Given { id, ..self.first.clone() }, model.given.get(&receipt));
            if is != Some(&told) {
                return Err(Violation::told(format!("{receipt} is told as {told:?}, and is {is:?}")));
            }
            sights.saw_many("told how often they were delivered before", u64::from(told.deliveries > 1));
            sights.saw_many("told how often they failed", u64::from(told.failures > 0));
        }
        Ok(())
    }
}

impl From<&LeasedRun> for Run {
    fn from(run: &LeasedRun) -> Run {
        let LeasedRun { topic, published, deliveries, failures, .. } = run.clone();
        let first = Given { id: run.id(), topic, published, deliveries, failures, run: run.run };
        Run { first, receipt: run.receipt, count: run.count }
    }
}

impl From<&frame::LeasedRun> for Run {
    fn from(run: &frame::LeasedRun) -> Run {
        let frame::LeasedRun { topic, published, deliveries, failures, .. } = run.clone();
        let id = MessageId { topic: run.receipt.topic, priority: run.priority, sequence: run.first };
        let first = Given { id, topic, published, deliveries, failures, run: run.run };
        Run { first, receipt: run.receipt, count: run.count }
    }
}

/// A dead letter says what its client said of it.
pub fn died(fact: &Fact, asked: Option<&Command>, sights: &mut Sights) -> Kept {
    let Fact::Died { reason, detail, .. } = fact else { unreachable!("called for this fact alone") };
    let Some(Command::Finish(Finish { verb, .. })) = asked else { return Ok(()) };
    let said = match (verb, reason) {
        (FinishVerb::Fail { reason, .. }, DeadReason::Failed) => reason,
        (FinishVerb::Reject { reason }, DeadReason::Rejected) => reason,
        _ => return Ok(()),
    };
    if said != detail {
        return Err(Violation::told(format!("a client says {said:?}, and the dead letter {detail:?}")));
    }
    sights.saw_many("dead letters with a reason", u64::from(!said.is_empty()));
    Ok(())
}
