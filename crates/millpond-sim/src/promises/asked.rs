//! What clients asked for, and what facts have to say by that: the policy of a namespace, and the TTL and the dedup ids of a
//! message.

use millpond_core::command::{Command, DedupMark, PublishRun};
use millpond_core::dedup_hash;
use millpond_core::fact::Fact;
use millpond_types::block;
use millpond_types::{DedupWindow, Millis, WallTime};

use super::Promises;
use super::answers::Asking;
use crate::bodies;

impl Promises {
    pub(super) fn note_ttls(&mut self, command: &Command) {
        let runs: &[PublishRun] = match command {
            Command::Publish(publish) => &publish.runs,
            Command::Forward(forward) => &forward.publish.runs,
            Command::Route(route) => {
                let tags = bodies::tags_of(&route.message.block).into_iter().flatten().flatten();
                return self.ttls.extend(tags.map(|tag| (tag, route.message.ttl)));
            }
            _ => return,
        };
        for run in runs {
            let tags = bodies::tags_of(&run.block).into_iter().flatten().flatten();
            self.ttls.extend(tags.map(|tag| (tag, run.ttl)));
        }
    }

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
            (Fact::GroupCreated { name, start, .. }, Some(Asking { command, .. })) => {
                if let Command::GroupCreate { name: of, start: asked, .. } = command
                    && *of == *name
                {
                    *start = *asked;
                }
            }
            (Fact::Published { topic, published, expires, dedup, dedup_until, block, .. }, asking) => {
                let found = self.model.topics.iter().find(|((_, number), _)| number == topic);
                let Some(((group, _), of)) = found else { return fact };
                let home = self.model.home(*group);
                let policy = home.policy_of(&of.name);
                let tags = bodies::tags_of(block).unwrap_or_default();
                let first = tags.first().copied().flatten();
                let asked = first.and_then(|tag| self.ttls.get(&tag).copied()).unwrap_or_default();
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
