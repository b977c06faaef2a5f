//! Producer sessions: a repeat is told the first outcomes, whatever has changed since, and stores nothing; a batch is decided
//! only as the next one of its instance; a lower instance is fenced.

use millpond_core::command::ProducerBatch;
use millpond_core::output::Reply;
use millpond_types::limits::PRODUCER_WINDOW;
use millpond_types::{Code, NamespaceName, OutcomeRun, PublishOutcome, TopicName};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// What a batch is, before it is decided.
pub struct Known {
    batch: ProducerBatch,
    is: Is,
}

enum Is {
    /// The next one, or the first of its instance.
    Next,
    /// One that was decided.
    Repeat(Vec<OutcomeRun<PublishOutcome>>),
    /// Of an instance that another one has taken over from.
    Fenced,
    /// Beyond the next one, or no longer kept.
    Apart,
}

impl Known {
    /// What is known of a batch.
    pub fn of(model: &Model, namespace: &NamespaceName, batch: ProducerBatch) -> Known {
        let number = model.namespace(namespace);
        let session = number.and_then(|number| model.producers.get(&(number, batch.id)));
        let ProducerBatch { instance, sequence, .. } = batch;
        let is = match session {
            Some(session) if session.instance > instance => Is::Fenced,
            Some(session) if session.instance == instance => {
                let last = session.batches.last_key_value().map_or(0, |(last, _)| *last);
                match session.batches.get(&sequence) {
                    Some(outcomes) if sequence + PRODUCER_WINDOW as u64 > last => Is::Repeat(outcomes.clone()),
                    None if sequence == last + 1 => Is::Next,
                    _ => Is::Apart,
                }
            }
            _ if sequence == 1 => Is::Next,
            _ => Is::Apart,
        };
        Known { batch, is }
    }

    /// Whether it has still to be decided.
    pub fn is_next(&self) -> bool {
        matches!(self.is, Is::Next)
    }

    /// Holds the answer against that; `stored` is what was stored by it.
    pub fn check(&self, reply: &Reply, stored: &[(u64, TopicName)], sights: &mut Sights) -> Kept {
        let refused = match reply {
            Reply::Refused { code, .. } => Some(*code),
            _ => None,
        };
        let is_kept = match (&self.is, reply) {
            // What else speaks against a publish: the namespace is not there, the disk is full.
            (Is::Next, _) => !matches!(refused, Some(Code::SequenceGap | Code::SessionUnknown | Code::ProducerFenced)),
            (Is::Repeat(before), Reply::Published { outcomes, .. }) => {
                sights.saw("batches told again");
                outcomes == before && stored.is_empty()
            }
            (Is::Repeat(_), _) => false,
            (Is::Fenced, _) => {
                sights.saw("batches fenced");
                refused == Some(Code::ProducerFenced) && stored.is_empty()
            }
            (Is::Apart, _) => {
                sights.saw("batches out of their order");
                refused.is_some() && stored.is_empty()
            }
        };
        if !is_kept {
            let Known { batch, .. } = self;
            let what = match self.is {
                Is::Next => "the next one",
                Is::Repeat(_) => "a repeat",
                Is::Fenced => "of an instance that is over",
                Is::Apart => "apart",
            };
            return Err(Violation::sessions(format!("{batch:?} is {what}, stores {stored:?}, and is told {reply:?}")));
        }
        Ok(())
    }
}
