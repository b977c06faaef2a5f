//! Reasons: nothing ends but for what is recorded of it. What was cancelled or purged, somebody has asked for, or its group is
//! being deleted; what was dropped, a limit and something that came; and what is acked without a command that is being decided,
//! a forward that had to wait. A dead letter stays one until somebody asks. No body is damaged, for no disk of a life hurts
//! what was synced.
//!
//! What ends for its age is [`super::expiry`]'s and [`super::retention`]'s business, and what ends with its lease that of
//! [`super::leases`].

use std::collections::BTreeMap;

use millpond_core::command::{Command, DeadWhich, Forward, ReceiptRun, Route, Ticket, TopicRef, Which};
use millpond_core::fact::{DeadReason, Fact, GroupNumber, Letter, Victims};
use millpond_core::output::Output;
use millpond_types::{EndReason, GroupName, LeaseNumber, MessageId, NamespaceName, Overflow, Priority, Sequence};

use super::Kept;
use super::leases::is_named;
use crate::model::{Model, TopicKey};
use crate::sights::Sights;
use crate::verdict::Violation;

/// What was asked for and is not answered.
#[derive(Default)]
pub struct Reasons {
    open: BTreeMap<Ticket, Command>,
}

impl Reasons {
    /// A command is about to be decided.
    pub fn asks(&mut self, ticket: Ticket, command: &Command) {
        let ends = matches!(
            command,
            Command::Cancel { .. }
                | Command::Reschedule { .. }
                | Command::Purge { .. }
                | Command::DeadPurge { .. }
                | Command::DeadRedrive { .. }
                | Command::Publish(_)
                | Command::Route(_)
                | Command::Forward(_)
        );
        if ends {
            self.open.insert(ticket, command.clone());
        }
    }

    /// These were answered in a turn.
    pub fn made(&mut self, outputs: &[Output]) {
        for output in outputs {
            if let Output::Reply { ticket, .. } = output {
                self.open.remove(ticket);
            }
        }
    }

    /// Something has happened, by a command that is being decided or another one.
    pub fn happened(&self, model: &Model, fact: &Fact, is_asked: bool, sights: &mut Sights) -> Kept {
        let is_right = match fact {
            Fact::Ended { topic, group, priority, first, count, reason } => {
                let key = (*group, *topic);
                match reason {
                    EndReason::Cancelled => {
                        sights.saw("cancelled as somebody asked");
                        *count == 1 && self.is_named(model, key, (*priority, *first), false)
                    }
                    EndReason::Purged if model.groups[group].is_ending => true,
                    EndReason::Purged => {
                        sights.saw("purged as somebody asked");
                        self.is_purged(model, key)
                    }
                    EndReason::Dropped => {
                        sights.saw("dropped for want of room");
                        self.is_dropped(model, key)
                    }
                    _ => true,
                }
            }
            Fact::Rescheduled { topic, group, priority, sequence, .. } => {
                self.is_named(model, (*group, *topic), (*priority, *sequence), true)
            }
            Fact::Acked { topic, group, lease, count } if !is_asked => {
                sights.saw("acked by a forward that had waited");
                let mut leases = (lease.0..lease.0 + u64::from(*count)).map(LeaseNumber);
                leases.all(|lease| self.is_forwarded((*group, *topic), lease))
            }
            Fact::Died { which: Victims::Waiting { .. }, reason, .. } => *reason == DeadReason::Expired,
            Fact::Died { reason, .. } => *reason != DeadReason::Damaged,
            Fact::DeadPurged { letter } if model.groups[&letter.group].is_ending => true,
            Fact::DeadPurged { letter } | Fact::Redriven { letter, .. } => {
                self.is_wanted(model, letter, matches!(fact, Fact::Redriven { .. }))
            }
            _ => true,
        };
        match is_right {
            true => Ok(()),
            false => Err(Violation::reasons(format!("nobody has asked for {fact:?}, and nothing leads to it"))),
        }
    }

    /// Whether somebody cancels or reschedules a message.
    fn is_named(&self, model: &Model, key: TopicKey, (priority, sequence): (Priority, Sequence), later: bool) -> bool {
        let id = MessageId { topic: key.1, priority, sequence };
        self.open.values().any(|command| {
            let (TopicRef { namespace, name }, which) = match command {
                Command::Cancel { topic, which } if !later => (topic, which),
                Command::Reschedule { topic, which, .. } if later => (topic, which),
                _ => return false,
            };
            let is_it = match which {
                Which::Id(of) => *of == id,
                Which::Dedup(hash) => model.dedups.get(hash).is_some_and(|(of, _)| *of == id),
            };
            is_it && model.home(key.0).name == *namespace && model.topics[&key].name == *name
        })
    }

    fn is_purged(&self, model: &Model, key: TopicKey) -> bool {
        self.open.values().any(|command| {
            let Command::Purge { namespace, filter, group } = command else { return false };
            let is_there = group.as_ref().is_none_or(|group| is_of(model, key.0, namespace, group));
            is_there && model.home(key.0).name == *namespace && filter.admits(&model.topics[&key].name)
        })
    }

    /// Whether a limit is there, and something comes to the namespace.
    fn is_dropped(&self, model: &Model, key: TopicKey) -> bool {
        let home = model.home(key.0);
        let policy = home.policy_of(&model.topics[&key].name);
        let comes = self.open.values().any(|command| match command {
            Command::Publish(publish) => publish.namespace == home.name,
            Command::Route(route) => route.publish.namespace == home.name,
            Command::Forward(forward) => forward.publish.namespace == home.name,
            _ => false,
        });
        comes && policy.max_waiting.is_some() && policy.overflow == Overflow::DropOldest
    }

    fn is_forwarded(&self, key: TopicKey, lease: LeaseNumber) -> bool {
        let mut open = self.open.values();
        open.any(|command| receipts_of(command).is_some_and(|receipts| is_named(receipts, key, lease)))
    }

    /// Whether somebody wants a dead letter to be purged or redriven.
    fn is_wanted(&self, model: &Model, letter: &Letter, is_redriven: bool) -> bool {
        self.open.values().any(|command| {
            let (namespace, group, which) = match command {
                Command::DeadPurge { namespace, group, which } if !is_redriven => (namespace, group, which),
                Command::DeadRedrive { namespace, group, which } if is_redriven => (namespace, group, which),
                _ => return false,
            };
            let is_it = match which {
                DeadWhich::One(topic, id) => (topic, id) == (&letter.topic, &letter.id),
                DeadWhich::Filter(filter) | DeadWhich::First(filter, _) => filter.admits(&letter.topic),
            };
            is_it && is_of(model, letter.group, namespace, group)
        })
    }
}

fn is_of(model: &Model, group: GroupNumber, namespace: &NamespaceName, name: &GroupName) -> bool {
    model.home(group).name == *namespace && model.groups[&group].name == *name
}

/// What a forward acks.
fn receipts_of(command: &Command) -> Option<&[ReceiptRun]> {
    match command {
        Command::Forward(Forward { receipts, .. }) | Command::Route(Route { receipts: Some(receipts), .. }) => {
            Some(receipts)
        }
        _ => None,
    }
}
