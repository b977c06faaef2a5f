//! Carried out: what a client was told is done, is so, and no policy is set in ignorance of another one. What was cancelled is gone,
//! and its dedup id may come again, as may one that was forgotten; of what waited when a purge was asked for, and was not
//! leased since, nothing is left when that is answered.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::{Command, Ticket, Which};
use millpond_core::fact::{Fact, NamespaceNumber};
use millpond_core::output::{Output, Reply};
use millpond_types::{MessageId, Priority, Sequence, WallTime};

use super::Kept;
use crate::model::{Model, TopicKey, sequences};
use crate::sights::Sights;
use crate::verdict::Violation;

/// What clients have asked for.
#[derive(Default)]
pub struct Asked {
    /// What is still to go before a purge is answered.
    purges: BTreeMap<Ticket, BTreeSet<(TopicKey, Priority, Sequence)>>,
    /// What is cancelled by the command that is being decided.
    cancelled: Option<MessageId>,
}

impl Asked {
    /// A command is about to be decided.
    pub fn asks(&mut self, ticket: Ticket, command: &Command, model: &Model, now: WallTime) {
        self.cancelled = match command {
            Command::Cancel { which: Which::Id(id), .. } => Some(*id),
            Command::Cancel { which: Which::Dedup(hash), .. } => model.remembered(*hash, now),
            _ => None,
        };
        let Command::Purge { namespace, filter, group } = command else { return };
        let Some(namespace) = model.namespace(namespace) else { return };
        // What a start has still to come to it is given again, if another group has it.
        let is_asked = |number: &u32| {
            let of = &model.groups[number];
            !of.is_starting && group.as_ref().is_none_or(|group| of.name == *group)
        };
        let topics = model
            .groups_of(namespace)
            .filter(is_asked)
            .flat_map(|group| model.topics_of(group).map(move |(number, topic)| ((group, number), topic)));
        let waiting = topics
            .filter(|(_, topic)| filter.admits(&topic.name))
            .flat_map(|(key, topic)| topic.waiting().map(move |((priority, sequence), _)| (key, *priority, *sequence)));
        self.purges.insert(ticket, waiting.collect());
    }

    /// Something has happened: what is leased stays with whoever has it.
    pub fn happened(&mut self, fact: &Fact) {
        let Fact::Leased { topic, group, priority, first, count, .. } = fact else { return };
        for left in self.purges.values_mut() {
            sequences(*first, *count).for_each(|at| _ = left.remove(&((*group, *topic), *priority, at)));
        }
    }

    /// Answers were made in a turn.
    pub fn made(&mut self, outputs: &[Output], model: &Model, sights: &mut Sights) -> Kept {
        for output in outputs {
            let Output::Reply { ticket, reply } = output else { continue };
            let Some(asked) = self.purges.remove(ticket) else { continue };
            if !matches!(reply, Reply::Count(_)) {
                continue;
            }
            sights.saw_many("what waited when it was purged", asked.len() as u64);
            let is_there = |(key, priority, sequence): &&(TopicKey, Priority, Sequence)| {
                let group = model.groups.get(&key.0).filter(|group| !group.is_ending);
                group
                    .and_then(|_| model.topics.get(key))
                    .is_some_and(|topic| topic.messages.contains_key(&(*priority, *sequence)))
            };
            if let Some(left) = asked.iter().find(is_there) {
                return Err(Violation::reasons(format!("a purge was answered, and {left:?} waits as it did before")));
            }
        }
        Ok(())
    }

    /// A command was decided.
    pub fn decided(&self, command: &Command, reply: &Reply, model: &Model, now: WallTime, sights: &mut Sights) -> Kept {
        match (command, reply) {
            (Command::Cancel { .. }, Reply::Done) => {
                let Some(id) = self.cancelled else {
                    return Err(Violation::dedup(format!("{command:?} is done, and nothing goes by that id")));
                };
                let waits = |group: &u32| model.message(*group, id).is_some_and(|message| !message.is_leased());
                let groups = model.groups.iter().filter(|(_, group)| !group.is_ending).map(|(number, _)| *number);
                if let Some(group) = groups.filter(waits).min() {
                    return Err(Violation::reasons(format!("{id} was cancelled, and waits in group {group}")));
                }
                sights.saw("cancelled and gone");
                is_remembered_of(id, model, now)
            }
            (Command::Forget { dedup_hash, .. }, Reply::Count(count)) => {
                sights.saw_many("forgotten as somebody asked", *count);
                forgotten(*dedup_hash, model, now)
            }
            _ => Ok(()),
        }
    }
}

/// The policy of a namespace is about to be set: where that is based on a version, on the one that is there.
pub fn set(model: &Model, number: NamespaceNumber, asked: Option<&Command>, sights: &mut Sights) -> Kept {
    let Some(Command::NamespaceSet { name, based_on: Some(based_on), .. }) = asked else { return Ok(()) };
    let version = model.namespaces.get(&number).map_or(0, |home| home.version);
    sights.saw("policies based on the one that was there");
    match *based_on == version {
        true => Ok(()),
        false => Err(Violation::reasons(format!("what is based on version {based_on} of {name} follows {version}"))),
    }
}

fn forgotten(hash: u128, model: &Model, now: WallTime) -> Kept {
    match model.remembered(hash, now) {
        None => Ok(()),
        Some(id) => Err(Violation::dedup(format!("a dedup id was forgotten, and is still that of {id}"))),
    }
}

fn is_remembered_of(id: MessageId, model: &Model, now: WallTime) -> Kept {
    match model.dedups.values().any(|(of, until)| *of == id && *until > now) {
        false => Ok(()),
        true => Err(Violation::dedup(format!("{id} was cancelled, and its dedup id is still remembered"))),
    }
}
