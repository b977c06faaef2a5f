//! At most once: what is delivered so has ended by the record of its delivery, and nobody is ever given it again.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::fact::{Fact, GroupNumber};
use millpond_core::output::{LeasedRun, Output, Reply};
use millpond_types::{LeaseNumber, MessageId, Sequence, TopicNumber};

use super::Kept;
use super::seats::Seat;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// See the module.
#[derive(Default)]
pub struct Once {
    /// Leases of messages that were given away so, not told yet.
    given: BTreeMap<(GroupNumber, TopicNumber, LeaseNumber), MessageId>,
    /// Those that somebody was told.
    told: BTreeSet<(GroupNumber, MessageId)>,
}

impl Once {
    /// Nothing is leased that was delivered at most once.
    pub fn leased(&self, fact: &Fact) -> Kept {
        let Fact::Leased { topic, group, priority, first, count, .. } = fact else {
            unreachable!("called for this fact alone")
        };
        for at in first.0..first.0 + u64::from(*count) {
            let id = MessageId { topic: *topic, priority: *priority, sequence: Sequence(at) };
            if self.told.contains(&(*group, id)) {
                return Err(Violation::once(format!(
                    "{id} was delivered at most once in group {group}, and comes again"
                )));
            }
        }
        Ok(())
    }

    /// What was given to those who take it at most once has ended.
    pub fn dispatched(&mut self, given: &[(Seat, &LeasedRun)], model: &Model, sights: &mut Sights) -> Kept {
        for (seat, run) in given.iter().filter(|(seat, _)| seat.at_most_once) {
            for (at, id) in ids(run) {
                if let Some(message) = model.message(seat.group, id) {
                    return Err(Violation::once(format!("{id} is delivered at most once, and is {message:?}")));
                }
                self.given.insert(at, id);
                sights.saw("given at most once");
            }
        }
        Ok(())
    }

    /// Somebody is told.
    pub fn told(&mut self, output: &Output) {
        let (Output::Delivery { leases, .. } | Output::Reply { reply: Reply::Received(leases), .. }) = output else {
            return;
        };
        for (at, id) in leases.iter().flat_map(ids) {
            if self.given.remove(&at) == Some(id) {
                self.told.insert((at.0, id));
            }
        }
    }

    /// The journal has gone back: whatever was told stays so.
    pub fn go_back(&mut self, model: &Model) -> Kept {
        self.given.clear();
        match self.told.iter().find(|(group, id)| model.message(*group, *id).is_some()) {
            None => Ok(()),
            Some((group, id)) => {
                Err(Violation::once(format!("{id} was delivered at most once in group {group}, and is there")))
            }
        }
    }
}

/// The leases of a run, and their messages.
fn ids(run: &LeasedRun) -> impl Iterator<Item = ((GroupNumber, TopicNumber, LeaseNumber), MessageId)> {
    let (receipt, id) = (run.receipt, run.id());
    (0..u64::from(run.count)).map(move |at| {
        let lease = LeaseNumber(receipt.lease.0 + at);
        ((receipt.group, receipt.topic, lease), MessageId { sequence: Sequence(id.sequence.0 + at), ..id })
    })
}
