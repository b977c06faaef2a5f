//! Refusals have their reason: a topic that is said to be full is so in every group whose start has come to it, and a message
//! that is said to be unknown is in none.

use millpond_core::command::{Command, Publish, TopicRef, Which};
use millpond_core::fact::GroupNumber;
use millpond_core::output::Reply;
use millpond_types::{Code, MessageId, Priority, PublishOutcome, Sequence, TopicName};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// A command was answered.
pub fn told(command: &Command, reply: &Reply, model: &Model, sights: &mut Sights) -> Kept {
    match (command, reply) {
        (Command::Publish(publish), Reply::Published { outcomes, .. }) => {
            let mut outcomes = outcomes.iter().flat_map(|run| (0..run.count).map(|_| &run.outcome));
            for run in &publish.runs {
                let is_full =
                    |outcome: &PublishOutcome| matches!(outcome, PublishOutcome::Refused { code: Code::TopicFull, .. });
                let refused = outcomes.by_ref().take(run.count as usize).filter(|outcome| is_full(outcome)).count();
                sights.saw_many("refused by a full topic", refused as u64);
                if refused > 0 {
                    full(publish, &run.topic, model)?;
                }
            }
            Ok(())
        }
        (
            Command::Cancel { topic, which: Which::Id(id) } | Command::Reschedule { topic, which: Which::Id(id), .. },
            Reply::Refused { code: Code::MessageUnknown, .. },
        ) => {
            sights.saw("unknown by their ids");
            unknown(topic, *id, model)
        }
        _ => Ok(()),
    }
}

fn full(Publish { namespace, .. }: &Publish, name: &TopicName, model: &Model) -> Kept {
    let Some(namespace) = model.namespace(namespace) else { return Ok(()) };
    // What a start has still to come to is never full.
    let is_limited = |group: &GroupNumber| {
        let of = &model.groups[group];
        !of.is_ending && !of.is_before(name, (Priority::LOWEST, Sequence(u64::MAX)))
    };
    for group in model.groups_of(namespace).filter(is_limited) {
        let waiting = model.topics_of(group).find(|(_, topic)| topic.name == *name);
        let waiting = waiting.map_or(0, |(_, topic)| topic.waiting().count());
        let most = model.home(group).policy_of(name).max_waiting;
        if most.is_none_or(|most| waiting < most as usize) {
            let what = format!("{name} is said to be full, and in group {group} {waiting} wait, of {most:?}");
            return Err(Violation::refusals(what));
        }
    }
    Ok(())
}

fn unknown(TopicRef { namespace, name }: &TopicRef, id: MessageId, model: &Model) -> Kept {
    let Some(namespace) = model.namespace(namespace) else { return Ok(()) };
    for group in model.groups_of(namespace).filter(|group| !model.groups[group].is_ending) {
        let found = model.topics.get(&(group, id.topic)).filter(|topic| topic.name == *name);
        if found.is_some_and(|topic| topic.messages.contains_key(&(id.priority, id.sequence))) {
            return Err(Violation::refusals(format!("{id} is said to be unknown, and group {group} has it")));
        }
    }
    Ok(())
}
