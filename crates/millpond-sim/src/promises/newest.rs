//! The newest of a topic that coalesces: whatever was published last, stored or declined, is followed by a run that has begun
//! later, or whoever stands for it has died, expired, or was cancelled, purged or retained out. Whoever takes a place was
//! published later than those that had it.

use millpond_core::fact::{Fact, Victims};
use millpond_types::{Coalesce, EndReason, WallTime};

use super::Kept;
use crate::model::{Key, Model, TopicKey};
use crate::sights::Sights;
use crate::verdict::Violation;

/// Something has happened.
pub fn happened(model: &Model, fact: &Fact, now: WallTime, sights: &mut Sights) -> Kept {
    match fact {
        Fact::Declined { topic, group, .. } => declined(model, (*group, *topic), now, sights),
        Fact::Superseded { topic, group, which, priority, by, .. } => {
            superseded(model, (*group, *topic), *which, (*priority, *by), sights)
        }
        Fact::Acked { topic, group, lease, count } | Fact::Delivered { topic, group, lease, count } => {
            worked_on(model, (*group, *topic), Victims::Leased { lease: *lease, count: *count }, sights)
        }
        Fact::Died { topic, group, which, .. } => {
            let stands = model.stands_among((*group, *topic), *which);
            sights.saw_many("newest ones that died", u64::from(stands.is_some()));
            Ok(())
        }
        Fact::Ended { topic, group, priority, first, count, reason } => {
            let which = Victims::Waiting { priority: *priority, first: *first, count: *count };
            ended(model, (*group, *topic), which, *reason, sights)
        }
        Fact::TopicVanished { topic, group } => match model.topics[&(*group, *topic)].newest {
            None => Ok(()),
            Some(newest) => Err(Violation::newest(format!("{topic:?} vanishes, and {newest:?} was not worked on"))),
        },
        _ => Ok(()),
    }
}

/// A message is declined only where another one waits that has time left, or where as many wait as may.
fn declined(model: &Model, key: TopicKey, now: WallTime, sights: &mut Sights) -> Kept {
    let found = &model.topics[&key];
    sights.saw("messages declined");
    let does_any_wait = || found.waiting().any(|(_, message)| message.expires.is_none_or(|at| at > now));
    let policy = model.home(key.0).policy_of(&found.name);
    let is_right = match policy.coalesce {
        Coalesce::KeepFirst => does_any_wait(),
        Coalesce::KeepLatest => false,
        Coalesce::Off => policy.max_waiting.is_some_and(|most| found.waiting().count() >= most as usize),
    };
    match is_right {
        true => Ok(()),
        false => Err(Violation::newest(format!("a message of {} is declined, and none stands for it", found.name))),
    }
}

/// Whoever stands for others was published later, and their newest is one that it may stand for: it waits, or its run has
/// begun later.
fn superseded(model: &Model, key: TopicKey, which: Victims, by: Key, sights: &mut Sights) -> Kept {
    let found = &model.topics[&key];
    if let Some(later) = model.victims(key, which).into_iter().find(|victim| is_later(model, key, *victim, by)) {
        let what = format!("{later:?} of {} gives way to {by:?}, which was published before it", found.name);
        return Err(Violation::newest(what));
    }
    let Some(newest) = model.stands_among(key, which) else { return Ok(()) };
    sights.saw("newest ones for which another one stands");
    let heir = &found.messages[&by];
    match heir.is_leased() && heir.leased_at < newest.at {
        false => Ok(()),
        true => {
            let what = format!("{by:?} of {} stands for {newest:?}, and was leased at {}", found.name, heir.leased_at);
            Err(Violation::newest(what))
        }
    }
}

/// Whether a message was published later than another one, as far as the broker has to know. Of one millisecond it does not
/// where one of them was redriven, for the one that comes back last counts as the later one then; nor at two priorities where
/// one is given back, for both may have waited before one was enough.
fn is_later(model: &Model, key: TopicKey, one: Key, other: Key) -> bool {
    let messages = &model.topics[&key].messages;
    let (of, than) = (&messages[&one], &messages[&other]);
    let is_untold = of.is_redriven || than.is_redriven || of.is_leased() && one.0 != other.0;
    match is_untold {
        true => of.published > than.published,
        false => model.order_of(key, one) > model.order_of(key, other),
    }
}

/// What ends as it was worked on was not given away before all was published that it stands for.
fn worked_on(model: &Model, key: TopicKey, which: Victims, sights: &mut Sights) -> Kept {
    let Some(newest) = model.stands_among(key, which) else { return Ok(()) };
    let (found, begun) = (&model.topics[&key], model.topics[&key].messages[&newest.stands].leased_at);
    if begun < newest.at {
        let what = format!("{newest:?} of {} ends by a run that had begun at {begun}", found.name);
        return Err(Violation::newest(what));
    }
    sights.saw("newest ones that were worked on later");
    Ok(())
}

/// What waits does not end because others came.
fn ended(model: &Model, key: TopicKey, which: Victims, reason: EndReason, sights: &mut Sights) -> Kept {
    let Some(newest) = model.stands_among(key, which) else { return Ok(()) };
    sights.saw("newest ones that ended otherwise");
    let name = &model.topics[&key].name;
    let is_one_enough = model.home(key.0).policy_of(name).coalesce != Coalesce::Off;
    match reason {
        EndReason::Expired | EndReason::Cancelled | EndReason::Purged | EndReason::RetainedOut => Ok(()),
        EndReason::Dropped if !is_one_enough => Ok(()),
        _ => Err(Violation::newest(format!("{newest:?} of {name} ends by {reason:?}"))),
    }
}
