//! What a client is told of a message beside its body: how often it was delivered and failed, and of a dead letter what was said of
//! it.

use millpond_core::command::{Command, Finish, FinishVerb};
use millpond_core::fact::{DeadReason, Fact};
use millpond_core::output::LeasedRun;
use millpond_types::LeaseNumber;

use super::Kept;
use super::seats::Seat;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// What is given in a turn comes with its own times and counts.
pub fn given(given: &[(Seat, &LeasedRun)], model: &Model, sights: &mut Sights) -> Kept {
    for (_, run) in given {
        let Some(topic) = model.topics.get(&(run.receipt.group, run.receipt.topic)) else { continue };
        for lease in (run.receipt.lease.0..).take(run.count as usize).map(LeaseNumber) {
            // What is delivered at most once is over.
            let Some(message) = topic.leases.get(&lease).map(|key| &topic.messages[key]) else { continue };
            let (is, told) = (
                (message.published, message.deliveries, message.failures),
                (run.published, run.deliveries, run.failures),
            );
            if is != told {
                return Err(Violation::told(format!("{lease:?} of {} is told as {told:?}, and is {is:?}", topic.name)));
            }
            sights.saw_many("told how often they were delivered before", u64::from(message.deliveries > 1));
            sights.saw_many("told how often they failed", u64::from(message.failures > 0));
        }
    }
    Ok(())
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
