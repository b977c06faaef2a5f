//! Room: nothing is stored in a topic in which as much waits as may, and nothing in a namespace whose quota is used up. Where
//! the oldest give way to what comes, as many have given way as have to before anything else happens. Left out is what
//! makes room by taking a place or by being forwarded.

use millpond_core::command::Command;
use millpond_core::fact::{Fact, GroupNumber};
use millpond_types::{Coalesce, EndReason, Overflow};

use super::Kept;
use crate::model::{Model, Topic, TopicKey};
use crate::sights::Sights;
use crate::verdict::Violation;

/// Topics that something has come to whose oldest have to give way.
#[derive(Default)]
pub struct Overflowing(Vec<TopicKey>);

impl Overflowing {
    /// Messages have been stored.
    pub fn published(&mut self, model: &Model, fact: &Fact) {
        let Fact::Published { topic, except, .. } = fact else { return };
        let gives_way = |group, found: &Topic| {
            takes(model, group, except) && model.home(group).policy_of(&found.name).overflow == Overflow::DropOldest
        };
        let of = model.topics.iter().filter(|((_, number), _)| number == topic);
        self.0.extend(of.filter(|((group, _), found)| gives_way(*group, found)).map(|(key, _)| *key));
    }

    /// Something is about to happen.
    pub fn happens(&mut self, model: &Model, fact: &Fact, sights: &mut Sights) -> Kept {
        match fact {
            Fact::Ended { reason: EndReason::Dropped, .. } => Ok(()),
            _ => self.end(model, sights),
        }
    }

    /// What had to give way has.
    pub fn end(&mut self, model: &Model, sights: &mut Sights) -> Kept {
        for key in std::mem::take(&mut self.0) {
            let Some(found) = model.topics.get(&key) else { continue };
            let (waiting, most) = (found.waiting().count(), model.home(key.0).policy_of(&found.name).max_waiting);
            let Some(most) = most.map(|most| most as usize) else { continue };
            sights.saw_many("as many as may wait where the oldest give way", u64::from(waiting == most));
            if waiting > most {
                let what =
                    format!("{waiting} messages of {} wait where the oldest give way, and {most} may", found.name);
                return Err(Violation::room(what));
            }
        }
        Ok(())
    }
}

/// Messages are about to be stored.
pub fn published(model: &Model, fact: &Fact, asked: Option<&Command>, sights: &mut Sights) -> Kept {
    let Fact::Published { topic, except, count, .. } = fact else { unreachable!("called for this fact alone") };
    let count = *count as usize;
    let topics = model.topics.iter().filter(|((_, number), _)| number == topic);
    for ((group, _), found) in topics.filter(|((group, _), _)| takes(model, *group, except)) {
        let policy = model.home(*group).policy_of(&found.name);
        if policy.coalesce != Coalesce::Off || policy.overflow == Overflow::DropOldest {
            continue;
        }
        if let Some(most) = policy.max_waiting {
            let waiting = found.waiting().count() + count;
            sights.saw_many("as many as may wait", u64::from(waiting == most as usize));
            if waiting > most as usize {
                return Err(Violation::room(format!("{waiting} messages of {} wait, and {most} may", found.name)));
            }
        }
        let Some(most) = model.home(*group).policy.quotas.messages else { continue };
        if !matches!(asked, Some(Command::Publish(_) | Command::Route(_))) {
            continue;
        }
        let held: usize = model.topics_of(*group).map(|(_, topic)| topic.messages.len()).sum();
        let held = held + model.letters.current().filter(|((of, _), _)| of == group).count() + count;
        sights.saw_many("as many as a quota lets", u64::from(held as u64 == most));
        if held as u64 > most {
            return Err(Violation::room(format!("group {group} holds {held} messages, and {most} may be")));
        }
    }
    Ok(())
}

/// A topic is about to come into being for what is published.
pub fn created(model: &Model, fact: &Fact, asked: Option<&Command>, sights: &mut Sights) -> Kept {
    let (Fact::TopicCreated { group, name, .. }, Some(Command::Publish(_) | Command::Route(_))) = (fact, asked) else {
        return Ok(());
    };
    let Some(most) = model.home(*group).policy.quotas.topics else { return Ok(()) };
    let held = model.topics_of(*group).count() as u64 + 1;
    sights.saw_many("as many topics as a quota lets", u64::from(held == most));
    if held > most {
        return Err(Violation::room(format!("with {name} group {group} has {held} topics, and {most} may be")));
    }
    Ok(())
}

/// Whether a group has what is stored.
fn takes(model: &Model, group: GroupNumber, except: &[GroupNumber]) -> bool {
    !except.contains(&group) && !model.groups[&group].is_ending
}
