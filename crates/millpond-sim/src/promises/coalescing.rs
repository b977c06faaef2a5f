//! Coalescing: never two current leases of a topic, never two messages that wait; whoever was replaced or declined is told
//! of a message that waits, so that it is worked on later; and that one inherits the failures and, with ageing, how long its
//! place has waited.
//!
//! That whatever stands for a message was published later, and is worked on, is [`super::newest`]'s business, and of what a
//! group is given that starts [`super::starts`]'s.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::Now;
use millpond_core::command::{Command, Finish, FinishVerb};
use millpond_core::fact::{Fact, NamespaceNumber, Victims};
use millpond_types::{
    Coalesce, MessageId, Millis, OutcomeRun, Policy, Priority, PublishOutcome, Retry, RunTime, WallTime,
};

use super::Kept;
use crate::model::{Message, Model, State, TopicKey};
use crate::sights::Sights;
use crate::verdict::Violation;

/// How many messages waited in each topic at the end of the last turn: what was there before the policy came is worked off.
#[derive(Default)]
pub struct Waiting {
    before: BTreeMap<TopicKey, usize>,
    /// Whose policy has changed in this turn, in which some may have come before that.
    changed: BTreeSet<NamespaceNumber>,
}

impl Waiting {
    /// As it is.
    pub fn of(model: &Model) -> Waiting {
        let before = model.topics.iter().map(|(key, topic)| (*key, topic.waiting().count())).collect();
        Waiting { before, changed: BTreeSet::new() }
    }

    /// A namespace has another policy.
    pub fn changed(&mut self, namespace: NamespaceNumber) {
        self.changed.insert(namespace);
    }

    /// At the end of a turn one message waits, where no more did before. `touched` are the topics of this turn.
    pub fn dispatched(&mut self, touched: BTreeSet<TopicKey>, model: &Model, sights: &mut Sights) -> Kept {
        for key in touched {
            let Some(topic) = model.topics.get(&key) else {
                self.before.remove(&key);
                continue;
            };
            let waiting = topic.waiting().count();
            let group = &model.groups[&key.0];
            let is_worked_off = self.before.insert(key, waiting).is_some_and(|before| before > 1)
                || self.changed.contains(&group.namespace);
            if model.home(key.0).policy_of(&topic.name).coalesce == Coalesce::Off
                || group.is_ending
                || group.is_starting
            {
                continue;
            }
            sights.saw_many("one that waited behind one that ran", u64::from(waiting == 1 && topic.leases.len() == 1));
            if waiting > 1 && !is_worked_off {
                return Err(Violation::coalescing(format!("{waiting} messages of {} wait", topic.name)));
            }
        }
        self.changed.clear();
        Ok(())
    }
}

/// Of a topic that coalesces one message is leased at a time.
pub fn leased(model: &Model, fact: &Fact) -> Kept {
    let Fact::Leased { topic, group, count, .. } = fact else { unreachable!("called for this fact alone") };
    let found = &model.topics[&(*group, *topic)];
    let is_one_enough = model.home(*group).policy_of(&found.name).coalesce != Coalesce::Off;
    if is_one_enough && (*count > 1 || !found.leases.is_empty()) {
        let what = format!("{count} messages of {} are leased beside {:?}", found.name, found.leases);
        return Err(Violation::coalescing(what));
    }
    Ok(())
}

/// What is published takes the place of what waits, with the higher of the two priorities; `asked` is its own.
pub fn published(model: &Model, fact: &Fact, asked: Option<Priority>, sights: &mut Sights) -> Kept {
    let (Fact::Published { topic, priority, .. }, Some(asked)) = (fact, asked) else { return Ok(()) };
    let mut wanted = asked;
    let topics = model.topics.iter().filter(|((group, of), _)| of == topic && !model.groups[group].is_ending);
    for ((group, _), found) in topics {
        // Where more waited before the policy came, only the core tells which of them it is.
        let waiting: Vec<Priority> = found.waiting().map(|((priority, _), _)| *priority).collect();
        if model.home(*group).policy_of(&found.name).coalesce == Coalesce::KeepLatest && waiting.len() == 1 {
            wanted = wanted.max(waiting[0]);
        }
    }
    sights.saw_many("priorities inherited", u64::from(wanted > asked));
    match *priority < wanted {
        false => Ok(()),
        true => {
            Err(Violation::coalescing(format!("{topic:?} has a message at {priority:?}, and should at {wanted:?}")))
        }
    }
}

/// Who stands for others inherits their failures and their time, and waits or is worked on.
pub fn superseded(model: &Model, fact: &Fact, asked: Option<&Command>, now: Now, sights: &mut Sights) -> Kept {
    let Fact::Superseded { topic, group, which, priority, by, failures, until, since } = fact else {
        unreachable!("called for this fact alone")
    };
    let key = (*group, *topic);
    let found = &model.topics[&key];
    if model.home(*group).policy_of(&found.name).coalesce == Coalesce::Off {
        return Err(Violation::coalescing(format!("messages of {} are superseded, and each counts", found.name)));
    }
    let victims = model.victims(key, *which);
    let last = (*priority, *by);
    let is_redriven = victims.iter().any(|victim| found.messages[victim].is_redriven);
    sights.saw_many("redriven ones that gave way", u64::from(is_redriven));
    sights.saw_many("older ones that gave way to a redriven one", u64::from(found.messages[&last].is_redriven));
    let heir = &found.messages[&last];
    let theirs = victims.iter().map(|key| found.messages[key].failures).max().unwrap_or(0);
    let policy = model.home(*group).policy_of(&found.name);
    let ends = match which {
        Victims::Waiting { .. } => Some(Ends::Waited),
        // What is behind something else in a run is given back for that.
        Victims::Leased { .. } if victims.iter().any(|key| found.messages[key].is_of_run()) => None,
        Victims::Leased { .. } => Some(Ends::of(asked)),
    };
    let fails = matches!(ends, Some(Ends::Fails(_)));
    let least = (theirs + u32::from(fails)).max(heir.failures);
    let most = if ends.is_none() { least + 1 } else { least };
    // One that inherits nothing is left as it is.
    let has = if *failures == 0 && until.is_none() && since.is_none() { heir.failures } else { *failures };
    if !heir.is_leased() && !(least..=most).contains(&has) {
        let what = format!("{by:?} of {} has {has} failures from {theirs}, and had {}", found.name, heir.failures);
        return Err(Violation::coalescing(what));
    }
    sights.saw_many("failures inherited", u64::from(has > heir.failures));
    if let Some(ends) = ends.filter(|_| !heir.is_leased()) {
        let old = victims.iter().find_map(|key| match &found.messages[key] {
            Message { state: State::Retrying(until), .. } => Some((*until, *until)),
            // A longer delay had taken the place of the back-off, which begins anew.
            Message { state: State::Delayed(_), failures: 1.., .. } => back_off(&policy, theirs, now.run),
            _ => None,
        });
        let pause = match ends {
            Ends::Waited => old,
            Ends::Back(delay) | Ends::Fails(Some(delay)) => {
                Some(now.run + delay).filter(|_| delay > Millis::ZERO).map(|until| (until, until))
            }
            Ends::Fails(None) => back_off(&policy, theirs + 1, now.run),
        };
        pauses(*until, pause, heir, now).map_err(|what| {
            Violation::coalescing(format!("{by:?} of {} is in back-off until {until:?}: {what}", found.name))
        })?;
        sights.saw_many("back-off inherited", u64::from(until.is_some()));
    }
    let now = now.wall;
    let waited = |message: &Message, since: WallTime| match message.state {
        State::Delayed(due) => due.max(now).since(since),
        _ => now.since(since),
    };
    let longest = victims.iter().map(|key| &found.messages[key]).map(|message| waited(message, message.since)).max();
    let is_aged = model.home(*group).policy.ageing.is_some() && !heir.is_leased();
    let has = waited(heir, since.unwrap_or(heir.since));
    if longest.is_some_and(|longest| is_aged && has != longest.max(waited(heir, heir.since))) {
        let what = format!("{by:?} of {} has waited for {has:?}, and those that it stands for {longest:?}", found.name);
        return Err(Violation::coalescing(what));
    }
    sights.saw_many("waiting inherited", u64::from(since.is_some()));
    Ok(())
}

/// How a message comes to give way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// It waited.
    Waited,
    /// It was leased, and is given back, to be ready after a delay.
    Back(Millis),
    /// It was leased, and has failed, to be ready after a delay, or as the policy says.
    Fails(Option<Millis>),
}

impl Ends {
    /// What was leased, by a command or because its lease has run out.
    fn of(asked: Option<&Command>) -> Ends {
        match asked {
            None => Ends::Fails(None),
            Some(Command::Finish(Finish { verb: FinishVerb::Fail { delay, .. }, .. })) => Ends::Fails(*delay),
            Some(Command::Finish(Finish { verb: FinishVerb::Release { delay }, .. })) => Ends::Back(*delay),
            Some(_) => Ends::Back(Millis::ZERO),
        }
    }
}

/// Between which times the pause ends of what has failed so often: it doubles, and varies by a quarter.
fn back_off(policy: &Policy, failures: u32, now: RunTime) -> Option<(RunTime, RunTime)> {
    let Retry::Backoff { first, longest } = policy.retry else { return None };
    let pause = first.0.saturating_mul(1 << (failures - 1).min(32)).min(longest.0);
    let (least, most) = (pause - pause / 4, pause + pause / 4 + 1);
    Some((now + Millis(least), now + Millis(most)))
}

/// Whether a message is in back-off for as long as those that it stands for, unless a delay of its own is longer.
fn pauses(until: Option<RunTime>, pause: Option<(RunTime, RunTime)>, heir: &Message, now: Now) -> Result<(), String> {
    let delay = match heir.state {
        State::Delayed(due) => due.since(now.wall),
        _ => Millis::ZERO,
    };
    let is_right = match (pause, until) {
        (None, None) => true,
        (None, Some(_)) => false,
        (Some((least, _)), None) => least.since(now.run) < delay,
        (Some((least, most)), Some(until)) => (least..=most).contains(&until) && until.since(now.run) >= delay,
    };
    if is_right { Ok(()) } else { Err(format!("it should be {pause:?}, with a delay of {delay:?}")) }
}

/// What a publish is told of the message that stands for its own.
pub fn told(outcomes: &[OutcomeRun<PublishOutcome>], model: &Model, sights: &mut Sights) -> Kept {
    let waits = |id: MessageId| {
        let mut held = model.groups.keys().filter_map(|group| model.message(*group, id));
        held.any(|message| !message.is_leased())
    };
    for run in outcomes {
        let PublishOutcome::Coalesced { id, replaced } = run.outcome else { continue };
        sights.saw("told who stands for a message");
        // A message of the same publish may have taken its place since.
        let is_last = outcomes.iter().all(|other| match other.outcome {
            PublishOutcome::Coalesced { replaced: Some(old), .. } => old != id,
            _ => true,
        });
        if is_last && !waits(id) {
            return Err(Violation::coalescing(format!("{id} stands for another message, and does not wait")));
        }
        // Where more waited before the policy came, it may be among what is worked off. A group that is being deleted takes
        // nothing in, and ends all that it has.
        let waits_alone = |id: MessageId| {
            let alone = model.topics.iter().filter(|((group, of), topic)| {
                *of == id.topic && topic.waiting().count() == 1 && !model.groups[group].is_ending
            });
            alone
                .map(|((group, _), _)| *group)
                .any(|group| model.message(group, id).is_some_and(|old| !old.is_leased()))
        };
        if let Some(old) = replaced.filter(|old| waits_alone(*old)) {
            return Err(Violation::coalescing(format!("{old} was replaced by {id}, and waits")));
        }
    }
    Ok(())
}
