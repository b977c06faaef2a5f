//! What clients asked for, and what facts have to say by that: the policy of a namespace, and the TTL and the dedup ids of a
//! message.

use std::collections::BTreeMap;

use millpond_core::command::{Command, DedupMark, PublishRun, Route};
use millpond_core::dedup_hash;
use millpond_core::fact::Fact;
use millpond_types::block;
use millpond_types::{DedupWindow, Millis, Priority, WallTime};

use super::Promises;
use super::answers::Asking;
use crate::bodies;

/// What each message was sent with, by its tag.
#[derive(Default)]
pub(super) struct Wanted(BTreeMap<u64, Terms>);

#[derive(Clone, Copy)]
struct Terms {
    delay: Millis,
    ttl: Option<Millis>,
    priority: Priority,
}

impl Terms {
    fn of(run: &PublishRun) -> Terms {
        Terms { delay: run.delay, ttl: run.ttl, priority: run.priority }
    }
}

impl Wanted {
    /// A command is about to be decided.
    pub(super) fn note(&mut self, command: &Command) {
        let runs: &[PublishRun] = match command {
            Command::Publish(publish) => &publish.runs,
            Command::Forward(forward) => &forward.publish.runs,
            Command::Route(Route { message, .. }) => {
                let (delay, ttl, priority) = (message.delay, message.ttl, message.priority);
                return self.insert(&message.block, Terms { delay, ttl, priority });
            }
            _ => return,
        };
        runs.iter().for_each(|run| self.insert(&run.block, Terms::of(run)));
    }

    /// The priority that what is stored was sent with.
    pub(super) fn priority_of(&self, fact: &Fact) -> Option<Priority> {
        self.of(fact.block()?).map(|terms| terms.priority)
    }

    /// The delay that what is stored was sent with.
    pub(super) fn delay_of(&self, fact: &Fact) -> Option<Millis> {
        self.of(fact.block()?).map(|terms| terms.delay)
    }

    fn of(&self, block: &[u8]) -> Option<Terms> {
        let first = bodies::tags_of(block).ok()?.first().copied()?;
        self.0.get(&first?).copied()
    }

    fn insert(&mut self, block: &[u8], wanted: Terms) {
        let tags = bodies::tags_of(block).into_iter().flatten().flatten();
        self.0.extend(tags.map(|tag| (tag, wanted)));
    }
}

impl Promises {
    /// A fact as it has to be by what was asked for.
    pub(super) fn as_asked(&mut self, fact: &Fact) -> Fact {
        let mut fact = fact.clone();
        match (&mut fact, self.asking.as_mut()) {
            (Fact::NamespaceSet { name, policy, rules, .. }, Some(Asking { command, .. })) => {
                if let Command::NamespaceSet { name: of, policy: asked, rules: also, .. } = command
                    && *of == *name
                {
                    (*policy, *rules) = (asked.clone(), also.clone());
                }
            }
            (Fact::GroupCreated { name, start, kind, .. }, Some(Asking { command, .. })) => {
                if let Command::GroupCreate { name: of, start: asked, kind: wanted, .. } = command
                    && *of == *name
                {
                    (*start, *kind) = (*asked, *wanted);
                }
            }
            (Fact::Paused { topics, until, .. }, Some(Asking { command, .. })) => match command {
                Command::Pause { topics: asked, lasts, .. } => {
                    *topics = asked.clone();
                    *until = Some(lasts.map_or(WallTime::NEVER, |lasts| self.told + lasts));
                }
                Command::Resume { topics: asked, .. } => (*topics, *until) = (asked.clone(), None),
                _ => {}
            },
            (Fact::Published { topic, published, expires, dedup, dedup_until, block, .. }, asking) => {
                let found = self.model.topics.iter().find(|((_, number), _)| number == topic);
                let Some(((group, _), of)) = found else { return fact };
                let home = self.model.home(*group);
                let policy = home.policy_of(&of.name);
                let tags = bodies::tags_of(block).unwrap_or_default();
                let asked = self.wanted.of(block).and_then(|terms| terms.ttl);
                let ttl = asked.or(policy.ttl).filter(|ttl| *ttl > Millis::ZERO);
                *expires = ttl.map(|ttl| *published + ttl);
                let ids = block::messages(block).map(|parts| parts.map_or(&[][..], |parts| parts.dedup_id));
                let ids = (0..).zip(ids).filter(|(_, id)| !id.is_empty());
                let hash = |id| dedup_hash(self.hash_key, &home.name, &of.name, id);
                *dedup = ids.map(|(index, id)| DedupMark { index, hash: hash(id) }).collect();
                *dedup_until = match policy.dedup_window {
                    DedupWindow::Off => WallTime(0),
                    DedupWindow::For(window) => *published + window,
                    DedupWindow::Forever => WallTime::NEVER,
                };
                if let Some(asking) = asking {
                    let stored = tags.iter().flatten().map(|tag| (*tag, of.name.clone()));
                    asking.stored.extend(stored);
                }
            }
            _ => {}
        }
        fact
    }
}
