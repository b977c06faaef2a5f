//! How long leases last: for as long as was asked for, when they are given and when they are extended.

use millpond_core::command::{Command, Finish, FinishVerb};
use millpond_core::fact::Fact;
use millpond_core::output::LeasedRun;
use millpond_types::{LeaseNumber, RunTime, SessionId};

use super::{Leases, is_named};
use crate::model::{Model, Terms};
use crate::promises::Kept;
use crate::promises::seats::Seat;
use crate::verdict::Violation;

impl Leases {
    /// What was leased lasts for as long as was asked for.
    pub(super) fn given(&self, seat: &Seat, run: &LeasedRun, model: &Model) -> Kept {
        let key = (run.receipt.group, run.receipt.topic);
        let Some(topic) = model.topics.get(&key).filter(|_| !seat.at_most_once) else { return Ok(()) };
        let duration = seat.lease.unwrap_or_else(|| model.home(key.0).policy_of(&topic.name).lease);
        for lease in (run.receipt.lease.0..).take(run.count as usize).map(LeaseNumber) {
            let Some(place) = topic.leases.get(&lease) else { continue };
            let Terms { holder, duration: lasts, deadline, .. } = topic.messages[place].terms;
            if (holder, lasts, deadline) != (seat.holder, duration, self.now + duration) {
                let what = format!(
                    "lease {} of {key:?} is {holder:?}'s for {lasts:?} until {deadline:?}, and was asked for by {:?} for \
                     {duration:?} at {:?}",
                    lease.0, seat.holder, self.now
                );
                return Err(Violation::leases(what));
            }
        }
        Ok(())
    }
}

/// A lease lasts for another time: for as long as was asked for, or what was left out of a heartbeat for as long as it was.
pub(super) fn extended(model: &Model, fact: &Fact, asked: Option<&Command>, now: RunTime) -> Kept {
    let Fact::Extended { topic, group, lease, count, holder, duration, deadline } = fact else {
        unreachable!("called for this fact alone")
    };
    let (key, found) = ((*group, *topic), &model.topics[&(*group, *topic)]);
    for lease in (lease.0..lease.0 + u64::from(*count)).map(LeaseNumber) {
        let before = found.messages[&found.leases[&lease]].terms;
        let wanted = match asked {
            Some(Command::Finish(Finish { verb: FinishVerb::Extend { lease: asked }, receipts, .. }))
                if is_named(receipts, key, lease) =>
            {
                Some((before.holder, asked.unwrap_or_else(|| model.home(*group).policy_of(&found.name).lease)))
            }
            Some(Command::Heartbeat { session, except }) => {
                let is_left_out = except.iter().any(|of| ((of.group, of.topic), of.lease) == (key, lease));
                Some((SessionId(0), before.duration)).filter(|_| is_left_out && before.holder == *session)
            }
            _ => None,
        };
        let latest = model.groups[group].office.map(|office| match office.outgoing {
            Some(until) => until,
            None => now + office.terms.handover,
        });
        let until = now + *duration;
        let until = latest.map_or(until, |latest| latest.min(until));
        if wanted != Some((*holder, *duration)) || *deadline != until {
            let what = format!(
                "lease {} of {key:?} lasts {duration:?} until {deadline:?} for {holder:?}, and should {wanted:?} until {until:?}",
                lease.0
            );
            return Err(Violation::leases(what));
        }
    }
    Ok(())
}
