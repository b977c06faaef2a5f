//! TTL: counted from the publish, as the client or the policy said. Nothing ends for it before its time, nothing is leased
//! after it, and what becomes of it is what `on_expiry` says.

use millpond_core::Now;
use millpond_core::fact::{DeadReason, Fact};
use millpond_types::{EndReason, OnExpiry, WallTime};

use super::Kept;
use crate::model::{Key, Model, TopicKey};
use crate::sights::Sights;
use crate::verdict::Violation;

/// What is leased has time left.
pub fn leased(model: &Model, fact: &Fact, now: Now) -> Kept {
    let Fact::Leased { topic, group, priority, first, count, .. } = fact else {
        unreachable!("called for this fact alone")
    };
    let messages = &model.topics[&(*group, *topic)].messages;
    let mut run = (first.0..first.0 + u64::from(*count)).map(|at| (*priority, millpond_types::Sequence(at)));
    match run.find(|key| messages[key].expires.is_some_and(|at| at <= now.wall)) {
        None => Ok(()),
        Some(key) => Err(Violation::expiry(format!("{key:?} is leased, and its TTL has passed: {:?}", messages[&key]))),
    }
}

/// Messages end.
pub fn ended(model: &Model, fact: &Fact, now: WallTime, sights: &mut Sights) -> Kept {
    let Fact::Ended { topic, group, priority, first, count, reason: EndReason::Expired } = fact else { return Ok(()) };
    let run = (first.0..first.0 + u64::from(*count)).map(|at| (*priority, millpond_types::Sequence(at)));
    sights.saw_many("ended for their TTL", u64::from(*count));
    over(model, (*group, *topic), run, OnExpiry::Drop, now)
}

/// Messages become dead letters.
pub fn died(model: &Model, fact: &Fact, now: WallTime, sights: &mut Sights) -> Kept {
    let Fact::Died { topic, group, which, reason: DeadReason::Expired, .. } = fact else { return Ok(()) };
    let key = (*group, *topic);
    let run = model.victims(key, *which);
    sights.saw_many("dead for their TTL", run.len() as u64);
    over(model, key, run.into_iter(), OnExpiry::Dead, now)
}

fn over(model: &Model, of: TopicKey, mut run: impl Iterator<Item = Key>, how: OnExpiry, now: WallTime) -> Kept {
    let topic = &model.topics[&of];
    let asked = model.home(of.0).policy_of(&topic.name).on_expiry;
    if asked != how {
        return Err(Violation::expiry(format!(
            "messages of {} go by {how:?}, and the policy says {asked:?}",
            topic.name
        )));
    }
    match run.find(|key| topic.messages[key].expires.is_none_or(|at| at > now)) {
        None => Ok(()),
        Some(key) => {
            let message = &topic.messages[&key];
            Err(Violation::expiry(format!("{key:?} of {} is over at {now:?}: {message:?}", topic.name)))
        }
    }
}
