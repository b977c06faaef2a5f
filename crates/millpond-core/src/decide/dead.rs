//! Dead letters: listed, put back to work, thrown away.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use millpond_types::limits::PAGE_MAX;
use millpond_types::{
    Code, DeadView, GroupName, MessageId, MessageState, MessageView, NamespaceName, Sequence, TopicName,
};

use crate::Core;
use crate::command::{DeadWhich, Listing};
use crate::decide::Refusal;
use crate::fact::{Fact, FactLog, GroupNumber, Letter, NamespaceNumber};
use crate::output::{Found, Reply};
use crate::state::namespace::Dead;

impl Core {
    pub(super) fn dead_list(&mut self, listing: Listing, group: &GroupName) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(&listing.namespace)?;
        let group = self.group_of(group)?;
        let after = match listing.after.is_empty() {
            true => None,
            false => Some(place_in_list(&listing.after).ok_or_else(bad_place)?),
        };
        let limit = (listing.limit as usize).clamp(1, PAGE_MAX);
        let letters = self.state.namespaces[namespace].dead_after(group, after);
        let mut letters = letters.filter(|(topic, ..)| topic.as_bytes().starts_with(&listing.prefix)).peekable();
        let mut rows = Vec::new();
        let mut next = Vec::new();
        while let Some((topic, id, dead)) = letters.next() {
            rows.push(view(topic, id, dead));
            if rows.len() == limit {
                if letters.peek().is_some() {
                    next = format!("{id}/{topic}").into_bytes();
                }
                break;
            }
        }
        Ok(Reply::Dead { rows, next })
    }

    pub(super) fn dead_redrive(
        &mut self,
        namespace: &NamespaceName,
        group: &GroupName,
        which: &DeadWhich,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(namespace)?;
        let group = self.group_of(group)?;
        let ids = self.dead_ids(namespace, group, which)?;
        let count = ids.len() as u64;
        for id in ids {
            let dead = &self.state.namespaces[namespace].dead[&(group, id)];
            let (published, mark) = (dead.run.published, dead.run.dedup().next());
            let letter = dead.letter(namespace, group, id);
            let slot = self.topic_or_new(namespace, &letter.topic, log);
            let topic = &self.state.topics[slot];
            let sequence = Sequence(topic.next(id.priority).0.max(self.state.numbers.raised));
            let topic = topic.number;
            let dedup = mark.and_then(|(_, hash)| self.state.remembered_of(namespace, hash, id));
            self.commit(Fact::Redriven { letter, topic, sequence, published, dedup }, log);
        }
        Ok(Reply::Count(count))
    }

    pub(super) fn dead_purge(
        &mut self,
        namespace: &NamespaceName,
        group: &GroupName,
        which: &DeadWhich,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(namespace)?;
        let group = self.group_of(group)?;
        let ids = self.dead_ids(namespace, group, which)?;
        let count = ids.len() as u64;
        for id in ids {
            let letter = self.state.namespaces[namespace].dead[&(group, id)].letter(namespace, group, id);
            self.commit(Fact::DeadPurged { letter }, log);
        }
        Ok(Reply::Count(count))
    }

    pub(super) fn dead_ids(
        &self,
        namespace: NamespaceNumber,
        group: GroupNumber,
        which: &DeadWhich,
    ) -> Result<Vec<MessageId>, Refusal> {
        let home = &self.state.namespaces[namespace];
        match which {
            DeadWhich::Filter(filter) => Ok(home.dead_of(group, |topic| filter.admits(topic))),
            DeadWhich::One(topic, id) => match home.dead.get(&(group, *id)).filter(|dead| dead.topic == *topic) {
                Some(_) => Ok(Vec::from([*id])),
                None => Err((Code::MessageUnknown, format!("there is no dead letter {id} of topic {topic}"))),
            },
        }
    }
}

impl Dead {
    /// As facts name it.
    fn letter(&self, namespace: NamespaceNumber, group: GroupNumber, id: MessageId) -> Letter {
        Letter { namespace, group, topic: self.topic.clone(), id, extent: self.run.extent() }
    }
}

fn view(topic: &TopicName, id: MessageId, dead: &Dead) -> Found<DeadView> {
    let message = MessageView {
        id,
        state: MessageState::Dead,
        published: dead.run.published,
        expires: dead.run.expiry(),
        deliveries: dead.deliveries,
        failures: dead.failures,
        block: Bytes::new(),
    };
    let row = DeadView {
        topic: topic.clone(),
        message,
        reason: String::from(dead.reason.name()),
        detail: String::from_utf8_lossy(&dead.detail).into_owned(),
        died: dead.died,
    };
    Found { row, extent: dead.run.extent() }
}

/// The token of a page: the last row's id and topic.
fn place_in_list(token: &[u8]) -> Option<(TopicName, MessageId)> {
    let (id, topic) = core::str::from_utf8(token).ok()?.split_once('/')?;
    Some((TopicName::try_from(topic).ok()?, id.parse().ok()?))
}

fn bad_place() -> Refusal {
    (Code::ArgumentInvalid, "`after` takes what the page before gave as `next`".into())
}
