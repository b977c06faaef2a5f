//! Room: nothing is stored in a topic in which as much waits as may, and nothing in a namespace whose quota is used up, of
//! messages, of bytes or of topics. Where the oldest give way to what comes, as many have given way as have to before anything
//! else happens, and a quota counts them still. Left out is what makes room by taking a place or by being forwarded.

use millpond_core::command::{Command, Route};
use millpond_core::fact::{Fact, GroupNumber};
use millpond_types::{Coalesce, EndReason, Overflow, Priority, Quotas, Sequence};

use super::Kept;
use crate::model::{Key, Model, Topic, TopicKey, sequences};
use crate::sights::Sights;
use crate::verdict::Violation;

/// Bytes that are left of a quota where it is nearly used up.
const NEAR: u64 = 100;

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
        // What a start has still to come to has no limit.
        let of = model.topics.iter().filter(|((_, number), found)| number == topic && !found.is_held);
        self.0.extend(of.filter(|((group, _), found)| gives_way(*group, found)).map(|(key, _)| *key));
    }

    /// Something is about to happen.
    pub fn happens(&mut self, model: &Model, fact: &Fact, sights: &mut Sights) -> Kept {
        match fact {
            Fact::Ended { topic, group, priority, first, count, reason: EndReason::Dropped } => {
                gives_way(model, (*group, *topic), (*priority, *first, *count), sights)
            }
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

/// What gives way is what would be delivered first at the lowest priority with anything ready; where nothing is ready, what came
/// first at the lowest priority that has anything but leases.
fn gives_way(
    model: &Model,
    key: TopicKey,
    (priority, first, count): (Priority, Sequence, u32),
    sights: &mut Sights,
) -> Kept {
    let topic = &model.topics[&key];
    let ready = topic.ready(&model.home(key.0).policy_of(&topic.name));
    let at_rest = || topic.waiting().map(|(key, _)| *key).collect();
    let waiting: Vec<Key> = if ready.is_empty() { at_rest() } else { ready.iter().map(|(key, _)| *key).collect() };
    let lowest = waiting.iter().map(|(priority, _)| *priority).min();
    let next = waiting.iter().filter(|(of, _)| Some(*of) == lowest).take(count as usize).copied();
    let next: Vec<Key> = next.collect();
    sights.saw_many("dropped in the order of its topic", u64::from(count));
    match sequences(first, count).map(|at| (priority, at)).eq(next.iter().copied()) {
        true => Ok(()),
        false => {
            Err(Violation::room(format!("{count} from {first:?} of {} give way, and next are {next:?}", topic.name)))
        }
    }
}

/// Messages are about to be stored.
pub fn published(model: &Model, fact: &Fact, asked: Option<&Command>, sights: &mut Sights) -> Kept {
    let Fact::Published { topic, except, count, block, .. } = fact else { unreachable!("called for this fact alone") };
    let (count, bytes) = (*count as usize, block.len() as u64);
    let topics = model.topics.iter().filter(|((_, number), _)| number == topic);
    for ((group, _), found) in topics.filter(|((group, _), _)| takes(model, *group, except)) {
        let policy = model.home(*group).policy_of(&found.name);
        if policy.coalesce != Coalesce::Off {
            continue;
        }
        let is_limited = policy.overflow == Overflow::Reject && !found.is_held;
        if let Some(most) = policy.max_waiting.filter(|_| is_limited) {
            let waiting = found.waiting().count() + count;
            sights.saw_many("as many as may wait", u64::from(waiting == most as usize));
            if waiting > most as usize {
                return Err(Violation::room(format!("{waiting} messages of {} wait, and {most} may", found.name)));
            }
        }
        if asked.is_some_and(is_publish) {
            within(model, *group, (count as u64, bytes), sights)?;
        }
    }
    Ok(())
}

/// Whether it publishes and acks nothing.
fn is_publish(command: &Command) -> bool {
    matches!(command, Command::Publish(_) | Command::Route(Route { receipts: None, .. }))
}

/// Whether a group may hold so many messages, and bytes, more.
fn within(model: &Model, group: GroupNumber, (count, more): (u64, u64), sights: &mut Sights) -> Kept {
    let Quotas { messages, bytes, .. } = model.home(group).policy.quotas;
    if messages.or(bytes).is_none() {
        return Ok(());
    }
    let held = model.usage(group);
    let (messages_held, bytes_held) = (held.messages + count, held.bytes + more);
    sights.saw_many("as many as a quota lets", u64::from(messages == Some(messages_held)));
    let is_near = |most: u64| bytes_held + NEAR >= most;
    sights.saw_many("nearly as many bytes as a quota lets", u64::from(bytes.is_some_and(is_near)));
    let over = |held: u64, most: Option<u64>| most.is_some_and(|most| held > most);
    if over(messages_held, messages) || over(bytes_held, bytes) {
        let what = format!(
            "group {group} holds {messages_held} messages of {bytes_held} bytes, and {messages:?} and {bytes:?} may be"
        );
        return Err(Violation::room(what));
    }
    Ok(())
}

/// A topic is about to come into being for what is published.
pub fn created(model: &Model, fact: &Fact, asked: Option<&Command>, sights: &mut Sights) -> Kept {
    let Fact::TopicCreated { group, name, .. } = fact else { return Ok(()) };
    if !asked.is_some_and(is_publish) {
        return Ok(());
    }
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
