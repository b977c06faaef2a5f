//! The byte form of a dead letter, which is a page of its own and stands in the fact that moves one: its key and the rest.

use millpond_core::page::DeadPage;
use millpond_core::store::Key;

use super::run::Before;
use super::{BadRecord, Sink, Source};

impl Sink<'_> {
    pub(super) fn dead_page(&mut self, dead: &DeadPage) {
        self.key_of_dead(dead);
        self.rest_of_dead(dead);
    }

    pub(super) fn key_of_dead(&mut self, dead: &DeadPage) {
        self.number32(dead.namespace);
        self.number32(dead.group);
        self.string(dead.topic.as_bytes());
        self.message_id(dead.id);
    }

    pub(super) fn rest_of_dead(&mut self, dead: &DeadPage) {
        let DeadPage { namespace: _, group: _, topic: _, id, run, deliveries, failures, reason, detail, died } = dead;
        self.run(run, &mut Before::first(id.sequence.0));
        self.number32(*deliveries);
        self.number32(*failures);
        self.dead_reason(*reason);
        self.string(detail);
        self.number(died.0);
    }
}

impl Source<'_> {
    pub(super) fn dead_page(&mut self) -> Result<DeadPage, BadRecord> {
        let key = self.key_of_dead()?;
        self.rest_of_dead(&key)
    }

    pub(super) fn key_of_dead(&mut self) -> Result<Key, BadRecord> {
        Ok(Key::Dead {
            namespace: self.number32()?,
            group: self.number32()?,
            topic: self.topic_name()?,
            id: self.message_id()?,
        })
    }

    pub(super) fn rest_of_dead(&mut self, key: &Key) -> Result<DeadPage, BadRecord> {
        let Key::Dead { namespace, group, topic, id } = key else { unreachable!("called for dead letters only") };
        Ok(DeadPage {
            namespace: *namespace,
            group: *group,
            topic: topic.clone(),
            id: *id,
            run: self.run(&mut Before::first(id.sequence.0))?,
            deliveries: self.number32()?,
            failures: self.number32()?,
            reason: self.dead_reason()?,
            detail: self.copied()?,
            died: self.wall()?,
        })
    }
}
