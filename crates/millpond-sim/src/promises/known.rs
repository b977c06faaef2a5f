//! A fact names only what is there: messages in the place that it takes them from, leases that are current; and nothing is
//! ready before its time.

use millpond_core::Now;
use millpond_core::fact::{Fact, Victims};
use millpond_types::{LeaseNumber, Priority, Sequence};

use super::Kept;
use crate::model::{Model, State, TopicKey, sequences};
use crate::sights::Sights;
use crate::verdict::Violation;

/// Holds a fact against the model.
pub fn check(model: &Model, fact: &Fact, now: Now, sights: &mut Sights) -> Kept {
    let Some((number, Some(group))) = fact.topic() else { return Ok(()) };
    let key = (group, number);
    let Some(topic) = model.topics.get(&key) else {
        return Err(Violation::back(format!("a fact names topic {number:?} of group {group}, which is not there")));
    };
    match fact {
        Fact::TopicVanished { .. } if !topic.messages.is_empty() => {
            let what = format!("topic {} of group {group} vanishes with {} messages", topic.name, topic.messages.len());
            Err(Violation::lost(what))
        }
        Fact::Acked { lease, count, .. }
        | Fact::Delivered { lease, count, .. }
        | Fact::Extended { lease, count, .. }
        | Fact::Returned { lease, count, .. } => leases(model, key, *lease, *count),
        Fact::Died { which, .. } => victims(model, key, *which),
        Fact::Ended { priority, first, count, .. } => {
            victims(model, key, Victims::Waiting { priority: *priority, first: *first, count: *count })
        }
        Fact::Superseded { which, priority, by, failures, until, since, .. } => {
            victims(model, key, *which)?;
            // One that is being worked on inherits nothing.
            let heir = model.topics[&key].messages.get(&(*priority, *by));
            if *failures == 0 && until.is_none() && since.is_none() && heir.is_some() {
                return Ok(());
            }
            victims(model, key, Victims::Waiting { priority: *priority, first: *by, count: 1 })
        }
        Fact::Leased { priority, first, count, .. } => {
            victims(model, key, Victims::Waiting { priority: *priority, first: *first, count: *count })
        }
        Fact::Rescheduled { priority, sequence, .. } => {
            victims(model, key, Victims::Waiting { priority: *priority, first: *sequence, count: 1 })
        }
        Fact::Ripened { priority, first, count, .. } => ripe(model, key, (*priority, *first, *count), now, sights),
        _ => Ok(()),
    }
}

fn leases(model: &Model, key: TopicKey, lease: LeaseNumber, count: u32) -> Kept {
    victims(model, key, Victims::Leased { lease, count })
}

fn victims(model: &Model, key: TopicKey, which: Victims) -> Kept {
    let (Victims::Leased { count, .. } | Victims::Waiting { count, .. }) = which;
    match model.victims(key, which).len() {
        all if all == count as usize => Ok(()),
        found => Err(Violation::back(format!("a fact names {which:?} of {key:?}, and of these {found} are there"))),
    }
}

/// What rests is over with that when its time has come.
fn ripe(
    model: &Model,
    key: TopicKey,
    (priority, first, count): (Priority, Sequence, u32),
    now: Now,
    sights: &mut Sights,
) -> Kept {
    let messages = &model.topics[&key].messages;
    for found in sequences(first, count).map(|at| messages.get(&(priority, at))) {
        let is_early = match found.map(|message| message.state) {
            Some(State::Delayed(due)) => due > now.wall,
            Some(State::Retrying(due)) => {
                sights.saw("pauses over");
                due > now.run
            }
            _ => return Err(Violation::back(format!("of {key:?} ripens {found:?}"))),
        };
        if is_early {
            return Err(Violation::early(format!("at {now:?} of {key:?} ripens {found:?}")));
        }
    }
    Ok(())
}
