//! Quotas: nobody is refused for one who would not have been beyond it, in some group, with what that held when it was his turn.
//! That nothing is stored beyond one is held by [`super::room`].

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::{Command, Publish};
use millpond_core::fact::{Fact, GroupNumber, NamespaceNumber};
use millpond_core::output::Reply;
use millpond_types::{Code, PublishOutcome, Quotas, TopicName, Usage};

use super::Kept;
use crate::bodies::sizes_of;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// What quotas are of, and what is seen of those who are refused for each.
const REFUSED: [&str; 3] =
    ["refused by a quota of messages", "refused by a quota of bytes", "refused by a quota of topics"];

/// What the groups of a namespace hold while a call is decided.
pub struct Uses {
    namespace: NamespaceNumber,
    quotas: Quotas,
    /// After so many messages of the call were stored.
    after: BTreeMap<usize, BTreeMap<GroupNumber, Held>>,
}

/// What a group holds, and which topics it has.
struct Held(Usage, BTreeSet<TopicName>);

impl Uses {
    /// Of a call that is about to be decided, if it is one that quotas may refuse.
    pub fn of(model: &Model, command: &Command) -> Option<Uses> {
        let namespace = model.namespace(&published(command)?.namespace)?;
        let quotas = model.namespaces[&namespace].policy.quotas;
        let mut uses = Uses { namespace, quotas, after: BTreeMap::new() };
        uses.note(model, 0);
        quotas.limit_publishes().then_some(uses)
    }

    /// Something has happened in the call, of which so many messages were stored. A topic that comes into being does so for the
    /// next one.
    pub fn happened(&mut self, model: &Model, fact: &Fact, stored: usize) {
        if !matches!(fact, Fact::TopicCreated { .. }) {
            self.note(model, stored);
        }
    }

    fn note(&mut self, model: &Model, stored: usize) {
        let names = |group| model.topics_of(group).map(|(_, topic)| topic.name.clone()).collect();
        let held = |group| (group, Held(model.usage(group), names(group)));
        self.after.insert(stored, model.groups_of(self.namespace).map(held).collect());
    }

    /// The call was answered. Of a publish each message is for itself; of other calls all are together.
    pub fn told(&self, command: &Command, reply: &Reply, sights: &mut Sights) -> Kept {
        let Some(outcomes) = outcomes(reply) else { return Ok(()) };
        let messages: Vec<_> = match (command, reply) {
            (Command::Route(route), Reply::Published { topics, .. } | Reply::Forwarded { topics, .. }) => {
                let bytes = sizes_of(&route.message.block).sum();
                topics.iter().map(|topic| (topic, bytes)).collect()
            }
            _ => {
                let runs = published(command).into_iter().flat_map(|publish| &publish.runs);
                runs.flat_map(|run| sizes_of(&run.block).map(move |bytes| (&run.topic, bytes))).collect()
            }
        };
        let is_alone = matches!(command, Command::Publish(_));
        let mut stored = 0;
        for (at, outcome) in outcomes.into_iter().enumerate() {
            match outcome {
                PublishOutcome::Queued { .. } | PublishOutcome::Coalesced { replaced: Some(_), .. } => stored += 1,
                PublishOutcome::Refused { code: Code::QuotaExceeded, detail } => {
                    let needed = if is_alone { &messages[at..=at] } else { &messages[..] };
                    if !self.is_over(needed, stored, sights) {
                        let what = format!("{needed:?} has room by {:?}, and is refused: {detail}", self.quotas);
                        return Err(Violation::refusals(what));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether some group would have held more than it may with these.
    fn is_over(&self, needed: &[(&TopicName, u64)], stored: usize, sights: &mut Sights) -> bool {
        let (_, groups) = self.after.range(..=stored).next_back().expect("what was held before it is known");
        let over = groups.values().flat_map(|Held(usage, names)| {
            let new: BTreeSet<_> = needed.iter().map(|(name, _)| *name).filter(|name| !names.contains(*name)).collect();
            let bytes = needed.iter().map(|(_, bytes)| bytes).sum();
            let each = [
                (usage.messages, needed.len() as u64, self.quotas.messages),
                (usage.bytes, bytes, self.quotas.bytes),
                (usage.topics, new.len() as u64, self.quotas.topics),
            ];
            let is_over = |(used, needs, most): (u64, u64, Option<u64>)| {
                needs > 0 && most.is_some_and(|most| used + needs > most)
            };
            each.map(is_over).into_iter().zip(REFUSED).filter(|(is_over, _)| *is_over).map(|(_, refused)| refused)
        });
        let over: BTreeSet<_> = over.collect();
        over.iter().for_each(|refused| sights.saw(refused));
        !over.is_empty()
    }
}

/// What a call publishes, and where.
fn published(command: &Command) -> Option<&Publish> {
    match command {
        Command::Publish(publish) => Some(publish),
        Command::Route(route) => Some(&route.publish),
        Command::Forward(forward) => Some(&forward.publish),
        _ => None,
    }
}

/// What became of each message, in order.
fn outcomes(reply: &Reply) -> Option<Vec<&PublishOutcome>> {
    let (Reply::Published { outcomes: runs, .. } | Reply::Forwarded { published: runs, .. }) = reply else {
        return None;
    };
    Some(runs.iter().flat_map(|run| (0..run.count).map(|_| &run.outcome)).collect())
}
