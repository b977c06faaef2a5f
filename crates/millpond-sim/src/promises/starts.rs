//! Groups: each sees every message that is published while it is there, once; and of what was published before, what its
//! start says, as far as others held it when it was made: nothing else, nothing twice, and nothing behind what came later.

use millpond_core::fact::{CopiedRun, Fact, GroupNumber, Victims};
use millpond_core::page::Reached;
use millpond_types::{Coalesce, MessageId, Sequence, TopicNumber, WallTime};

use super::Kept;
use crate::model::{Group, Message, Model, Topic, TopicKey};
use crate::sights::Sights;
use crate::verdict::Violation;

/// A group is given what others hold.
pub fn copied(model: &Model, fact: &Fact, now: WallTime, sights: &mut Sights) -> Kept {
    let Fact::Copied { topic, group, messages, rest } = fact else { unreachable!("called for this fact alone") };
    let is_saved = Reached::is_of_saved(messages, *rest);
    let (found, of) = (&model.topics[&(*group, *topic)], &model.groups[group]);
    if found.was_leased {
        return Err(Violation::starts(format!("group {group} is given of {} behind what came later", found.name)));
    }
    for copied in messages {
        for at in 0..u64::from(copied.run.count) {
            let sequence = Sequence(copied.run.first.0 + at);
            let id = MessageId { topic: *topic, priority: copied.priority, sequence };
            let is_held = others(model, *group, of).any(|other| model.message(other, id).is_some());
            if !is_held || !of.due.contains(&id) || !of.start.admits(copied.run.published) {
                let what =
                    format!("group {group} is given {id} by {:?}, and may not have it: held {is_held}", of.start);
                return Err(Violation::starts(what));
            }
            sights.saw(if is_saved { "saved for a group that starts" } else { "given to a group that starts" });
            if !is_saved {
                last_of_all(model, (*group, *topic), of, copied, now)?;
            }
        }
    }
    Ok(())
}

/// Where one message stands for all, it is the one that was published last: unless the policy came while the group started,
/// when it may have been given a part of the topic already.
fn last_of_all(model: &Model, key: TopicKey, of: &Group, copied: &CopiedRun, now: WallTime) -> Kept {
    let name = &model.topics[&key].name;
    if model.home(key.0).policy_of(name).coalesce == Coalesce::Off || of.is_mixed {
        return Ok(());
    }
    let topics = others(model, key.0, of).filter_map(|other| model.topics.get(&(other, key.1)));
    let is_later = |message: &Message| {
        let is_due = !message.is_redriven && message.expires.is_none_or(|at| at > now);
        is_due && message.published > copied.run.published
    };
    match topics.flat_map(|topic| &topic.messages).find(|(_, message)| is_later(message)) {
        Some((later, _)) => {
            let what = format!("group {} is given {:?} of {name}, and {later:?} came later", key.0, copied.run.first);
            Err(Violation::starts(what))
        }
        None => Ok(()),
    }
}

/// What a group finishes, every other one has that was made before that and may have it, and whose start has still to come to it.
pub fn finished(model: &Model, fact: &Fact, now: WallTime) -> Kept {
    let (topic, group, lease, count) = match *fact {
        Fact::Acked { topic, group, lease, count }
        | Fact::Delivered { topic, group, lease, count }
        | Fact::Died { topic, group, which: Victims::Leased { lease, count }, .. } => (topic, group, lease, count),
        _ => return Ok(()),
    };
    let (found, namespace) = (&model.topics[&(group, topic)], model.groups[&group].namespace);
    let counts = model.home(group).policy_of(&found.name).coalesce == Coalesce::Off;
    let starting = model.groups.iter().filter(|(_, of)| of.namespace == namespace && of.is_starting && counts);
    for (number, of) in starting {
        for key in model.victims((group, topic), Victims::Leased { lease, count }) {
            let id = MessageId { topic, priority: key.0, sequence: key.1 };
            let is_due = of.due.contains(&id) && !of.excused.contains(&id) && of.is_before(&found.name, key);
            if is_due && found.messages[&key].expires.is_none_or(|at| at > now) {
                return Err(Violation::starts(format!(
                    "{id} of {} ends in group {group}, and not saved for {number}",
                    found.name
                )));
            }
        }
    }
    Ok(())
}

/// A group has all that it starts with: nothing of what it may have, and another one holds, is missing.
pub fn started(model: &Model, group: GroupNumber, now: WallTime, sights: &mut Sights) -> Kept {
    sights.saw("groups started with what others hold");
    let (of, home) = (&model.groups[&group], model.home(group));
    for id in of.due.difference(&of.excused) {
        let mut holders = others(model, group, of).filter_map(|other| {
            let topic = model.topics.get(&(other, id.topic))?;
            Some((topic, topic.messages.get(&(id.priority, id.sequence))?))
        });
        let is_missing = |(topic, message): (&Topic, &Message)| {
            let counts = home.policy_of(&topic.name).coalesce == Coalesce::Off;
            counts && message.expires.is_none_or(|at| at > now)
        };
        if holders.any(is_missing) {
            return Err(Violation::starts(format!("group {group} starts {:?}, and was not given {id}", of.start)));
        }
    }
    Ok(())
}

fn others<'a>(model: &'a Model, group: GroupNumber, of: &Group) -> impl Iterator<Item = GroupNumber> + use<'a> {
    model.groups_of(of.namespace).filter(move |other| *other != group)
}

/// What is published goes to every group, but for those that one message is enough for, or that have no room.
pub fn published(model: &Model, topic: TopicNumber, except: &[GroupNumber]) -> Kept {
    let mut held = model.topics.iter().filter(|((_, number), _)| *number == topic);
    let Some(((group, _), found)) = held.next() else {
        return Err(Violation::starts(format!("something is published to topic {topic:?}, which no group has")));
    };
    let policy = model.home(*group).policy_of(&found.name);
    let namespace = model.groups[group].namespace;
    for group in model.groups_of(namespace) {
        let own = model.topics.get(&(group, topic));
        let waiting = own.map_or(0, |own| own.waiting().count());
        let may_pass = match policy.coalesce {
            Coalesce::KeepFirst => waiting > 0,
            _ => policy.max_waiting.is_some_and(|most| waiting >= most as usize),
        };
        if own.is_none() || except.contains(&group) && !may_pass {
            let what =
                format!("group {group} has not what is published to {}, though {waiting} wait there", found.name);
            return Err(Violation::starts(what));
        }
    }
    Ok(())
}
