//! A fact names only what is there: messages in the place that it takes them from, leases that are current.

use millpond_core::fact::{Fact, Victims};
use millpond_types::{LeaseNumber, Priority, Sequence};

use super::Kept;
use crate::model::{Model, State, TopicKey};
use crate::verdict::Violation;

/// Holds a fact against the model.
pub fn check(model: &Model, fact: &Fact) -> Kept {
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
        Fact::Ripened { priority, first, count, .. } => ripe(model, key, (*priority, *first), *count),
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

fn ripe(model: &Model, key: TopicKey, (priority, first): (Priority, Sequence), count: u32) -> Kept {
    let messages = &model.topics[&key].messages;
    let mut run = (first.0..first.0 + u64::from(count)).map(|at| messages.get(&(priority, Sequence(at))));
    let rests = |state| matches!(state, State::Delayed(_) | State::Retrying(_));
    match run.find(|message| !message.is_some_and(|message| rests(message.state))) {
        None => Ok(()),
        Some(found) => Err(Violation::back(format!("of {key:?} ripens {found:?}"))),
    }
}
