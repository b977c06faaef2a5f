//! Whoever publishes what is known by its dedup id is told where the first one is: the state that it had while the call was
//! decided, in the group that is furthest from its end. Of a call that had to wait for what is on the disk, the turn is known
//! in which it was decided, and not when.

use std::collections::BTreeSet;

use millpond_core::Now;
use millpond_core::command::{Command, Ticket};
use millpond_core::fact::Fact;
use millpond_core::output::{Output, Reply};
use millpond_types::{MessageId, MessageState, OutcomeRun, PublishOutcome, TopicNumber};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Where messages were that are known by their dedup ids.
#[derive(Default)]
pub struct Whereabouts {
    /// Before each fact of the turn that may have changed it.
    were: Vec<(MessageId, MessageState)>,
    /// How many of these were there when the call came that is being decided.
    before: usize,
    /// Calls that wait, but for batches of a session, which may be told what others were told before.
    waiting: BTreeSet<Ticket>,
}

impl Whereabouts {
    /// A turn begins.
    pub fn begin(&mut self) {
        self.were.clear();
        self.before = 0;
    }

    /// A command is about to be decided.
    pub fn asks(&mut self) {
        self.before = self.were.len();
    }

    /// It has to wait.
    pub fn waits(&mut self, ticket: Ticket, command: &Command) {
        let is_alone = match command {
            Command::Publish(publish) => publish.producer.is_none(),
            Command::Route(route) => route.publish.producer.is_none(),
            _ => true,
        };
        if is_alone {
            self.waiting.insert(ticket);
        }
    }

    /// Something is about to happen, by a clock that says `now`.
    pub fn happens(&mut self, model: &Model, fact: &Fact, now: Now) {
        let topic = topic_of(fact);
        // What only a group that ends had left is where the other ones have it.
        if topic.is_none() && !matches!(fact, Fact::GroupEnding { .. }) {
            return;
        }
        let is_meant = |id: &MessageId| topic.is_none_or(|topic| id.topic == topic);
        let known: BTreeSet<MessageId> = model.dedups.values().map(|(id, _)| *id).filter(is_meant).collect();
        self.were.extend(known.into_iter().flat_map(|id| model.states_of(id, now).map(move |state| (id, state))));
    }

    /// The call that was asked last was decided.
    pub fn decided(&self, reply: &Reply, model: &Model, now: Now, sights: &mut Sights) -> Kept {
        self.told(reply, self.before, model, now, sights)
    }

    /// Outputs were made in a turn.
    pub fn made(&mut self, outputs: &[Output], model: &Model, now: Now, sights: &mut Sights) -> Kept {
        for output in outputs {
            if let Output::Reply { ticket, reply } = output
                && self.waiting.remove(ticket)
            {
                let before = sights.of(REPEATED_LATE.0);
                self.told(reply, 0, model, now, sights)?;
                sights.saw_many(REPEATED_LATE.1, sights.of(REPEATED_LATE.0) - before);
            }
        }
        Ok(())
    }

    fn told(&self, reply: &Reply, since: usize, model: &Model, now: Now, sights: &mut Sights) -> Kept {
        for OutcomeRun { outcome, .. } in outcomes(reply) {
            let PublishOutcome::Duplicate { id, state } = outcome else { continue };
            let were = self.were[since..].iter().filter(|(of, _)| of == id).map(|(_, state)| *state);
            let may: Vec<MessageState> = model.states_of(*id, now).chain(were).collect();
            if !may.contains(state) {
                return Err(Violation::dedup(format!("{id} is told to be {state:?}, and is {may:?}")));
            }
            sights.saw(REPEATED_LATE.0);
            sights.saw(match state {
                MessageState::Waiting => "repeats of what waits",
                MessageState::Delayed { .. } => "repeats of what is delayed",
                MessageState::Retrying { .. } => "repeats of what is in retry",
                MessageState::Leased => "repeats of what is leased",
                MessageState::Dead => "repeats of dead letters",
                MessageState::Ended => "repeats of what has ended",
            });
        }
        Ok(())
    }
}

/// All repeats whose state is compared, and those of them that were told behind a wait.
const REPEATED_LATE: (&str, &str) = ("states of repeats compared", "states of repeats compared behind a wait");

fn outcomes(reply: &Reply) -> &[OutcomeRun<PublishOutcome>] {
    match reply {
        Reply::Published { outcomes, .. } | Reply::Forwarded { published: outcomes, .. } => outcomes,
        _ => &[],
    }
}

/// The topic whose messages a fact may put elsewhere.
fn topic_of(fact: &Fact) -> Option<TopicNumber> {
    match fact {
        Fact::DeadPurged { letter } | Fact::Redriven { letter, .. } => Some(letter.id.topic),
        _ => fact.topic().map(|(topic, _)| topic),
    }
}
