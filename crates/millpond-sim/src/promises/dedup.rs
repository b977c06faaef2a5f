//! Dedup ids: within its window a repeat is called a duplicate of the first and not stored, and behind it it is new.

use millpond_core::command::Publish;
use millpond_core::dedup_hash;
use millpond_core::fact::Fact;
use millpond_types::block;
use millpond_types::{MessageId, OutcomeRun, PublishOutcome, Sequence, WallTime};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Nothing is stored whose dedup id is remembered.
pub fn published(model: &Model, fact: &Fact) -> Kept {
    let Fact::Published { topic, priority, first, published, dedup, .. } = fact else {
        unreachable!("called for this fact alone")
    };
    for mark in dedup {
        let sequence = Sequence(first.0 + u64::from(mark.index));
        let id = MessageId { topic: *topic, priority: *priority, sequence };
        if let Some(before) = model.remembered(mark.hash, *published) {
            return Err(Violation::dedup(format!("{id} is stored, and its dedup id is that of {before}")));
        }
    }
    Ok(())
}

/// A dedup id goes with what is redriven where no group has still to finish the message itself, if it is remembered.
pub fn redriven(model: &Model, fact: &Fact, now: WallTime) -> Kept {
    let Fact::Redriven { letter, dedup, .. } = fact else { unreachable!("called for this fact alone") };
    let held = model.groups_of(letter.namespace).find(|group| model.message(*group, letter.id).is_some());
    let is_remembered = || model.dedups.values().any(|(id, until)| *id == letter.id && *until > now);
    match (held, dedup) {
        (Some(group), Some(_)) => {
            let what = format!("group {group} has {}, and its dedup id goes with what another one redrives", letter.id);
            Err(Violation::dedup(what))
        }
        (None, None) if is_remembered() => {
            Err(Violation::dedup(format!("{} is redriven, and its dedup id stays behind", letter.id)))
        }
        _ => Ok(()),
    }
}

/// Who is told of a duplicate is told of the message whose dedup id is remembered. The publish was just decided.
pub fn told(
    publish: &Publish,
    outcomes: &[OutcomeRun<PublishOutcome>],
    model: &Model,
    (hash_key, now): ([u64; 2], WallTime),
    sights: &mut Sights,
) -> Kept {
    let ids = publish.runs.iter().flat_map(|run| {
        let parts = block::messages(&run.block).map(|parts| parts.map_or(&[][..], |parts| parts.dedup_id));
        parts.map(|id| (&run.topic, id))
    });
    let outcomes = outcomes.iter().flat_map(|run| (0..run.count).map(|_| &run.outcome));
    for ((topic, own), outcome) in ids.zip(outcomes) {
        let PublishOutcome::Duplicate { id, .. } = outcome else { continue };
        let known = model.remembered(dedup_hash(hash_key, &publish.namespace, topic, own), now);
        if own.is_empty() || known != Some(*id) {
            return Err(Violation::dedup(format!("a message of {topic} repeats {id}, and its dedup id is {known:?}")));
        }
        sights.saw("repeats known by their dedup ids");
    }
    Ok(())
}
