//! What is shown of dead letters: each as it died, none that is gone, and on the last page of a listing all that there are.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use millpond_core::command::{Command, Listing, Ticket, TopicRef};
use millpond_core::fact::GroupNumber;
use millpond_core::output::{Found, Output, Reply};
use millpond_types::{Code, DeadView, MessageId, MessageView};

use super::Kept;
use super::seats::group_of;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// What was asked and has no answer yet: a listing goes on for turns.
#[derive(Default)]
pub struct Shown(BTreeMap<Ticket, Asked>);

struct Asked {
    group: GroupNumber,
    which: Which,
    /// The last fact before.
    at: u64,
}

enum Which {
    /// Those of topics with a prefix, from a place on.
    Listed {
        prefix: Bytes,
        after: Bytes,
    },
    One(MessageId),
}

impl Shown {
    /// A command was decided.
    pub fn decided(&mut self, ticket: Ticket, command: &Command, reply: Option<&Reply>, model: &Model) {
        let (namespace, group, which) = match command {
            Command::DeadList { listing: Listing { namespace, prefix, after, .. }, group } => {
                (namespace, group, Which::Listed { prefix: prefix.clone(), after: after.clone() })
            }
            Command::DeadLook { topic: TopicRef { namespace, .. }, group, id } => (namespace, group, Which::One(*id)),
            _ => return,
        };
        if let (None, Some(group)) = (reply, group_of(model, namespace, group)) {
            self.0.insert(ticket, Asked { group, which, at: model.followed });
        }
    }

    /// Answers were made.
    pub fn dispatched(&mut self, outputs: &[Output], model: &Model, sights: &mut Sights) -> Kept {
        for output in outputs {
            let Output::Reply { ticket, reply } = output else { continue };
            let Some(asked) = self.0.remove(ticket) else { continue };
            match (reply, &asked.which) {
                (Reply::Dead { rows, next }, which) => {
                    rows.iter().try_for_each(|row| asked.is_right(row, model))?;
                    let shown: BTreeSet<MessageId> = rows.iter().map(|found| found.row.message.id).collect();
                    if let (Which::Listed { prefix, after }, true) = (which, next.is_empty()) {
                        let is_first = after.is_empty();
                        sights.saw_many("dead letters listed to the last", u64::from(is_first && !rows.is_empty()));
                        asked.lacks(|id| is_first && !shown.contains(&id), prefix, model)?;
                    }
                    let is_one = matches!(which, Which::One(_));
                    sights.saw_many("dead letters shown", rows.len() as u64);
                    sights.saw_many("dead letters looked at", u64::from(is_one));
                }
                (Reply::Refused { code: Code::MessageUnknown, .. }, Which::One(one)) => {
                    asked.lacks(|id| id == *one, &[], model)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Asked {
    fn is_right(&self, Found { row, .. }: &Found<DeadView>, model: &Model) -> Kept {
        match model.letters.since((self.group, row.message.id), self.at) {
            Some(letter) if letter.is_shown_as(row) => Ok(()),
            letter => Err(Violation::told(format!("{row:?} is shown, and in group {} it is {letter:?}", self.group))),
        }
    }

    /// None of those that were there all the time is missing.
    fn lacks(&self, is_missing: impl Fn(MessageId) -> bool, prefix: &[u8], model: &Model) -> Kept {
        // With its group a listing ends where it has come to.
        if model.groups.get(&self.group).is_none_or(|group| group.is_ending) {
            return Ok(());
        }
        let mut current = model.letters.current().filter(|((group, _), _)| *group == self.group);
        match current.find(|((_, id), letter)| is_missing(*id) && letter.is_listed(self.at, prefix)) {
            None => Ok(()),
            Some(((group, _), letter)) => {
                Err(Violation::told(format!("of group {group} is not shown {letter:?}, which was there all the time")))
            }
        }
    }
}

/// A client on a connection is shown what has been a letter.
pub fn heard(row: &DeadView, model: &Model, sights: &mut Sights) -> Kept {
    let MessageView { id, bytes, block, .. } = &row.message;
    let is_whole = block.is_empty() || block.len() == *bytes as usize;
    sights.saw("dead letters in frames");
    match is_whole && model.letters.ever(*id).any(|letter| letter.is_shown_as(row)) {
        true => Ok(()),
        false => {
            let letters: Vec<_> = model.letters.ever(*id).collect();
            Err(Violation::told(format!("a client is shown {row:?}, and of that are {letters:?}")))
        }
    }
}
