//! Dead letters: entries of the store, counted by their namespaces. Nothing of them is in memory.
//!
//! Facts tell all that is needed to put and to remove them, so neither a turn nor a replay reads one for that.

use alloc::boxed::Box;

use crate::command::DeadMove;
use crate::fact::Letter;
use crate::page::{DeadPage, Page};
use crate::state::State;
use crate::store::{Key, Want};

impl State {
    /// A message has died.
    pub(crate) fn put_dead(&mut self, page: DeadPage) {
        self.groups[page.group].counts.dead += 1;
        let key = page.key();
        self.set_entry(&key, Some(&Page::Dead(page)));
    }

    /// The dead letter of a key; an error tells that it has to be fetched.
    pub(crate) fn dead_letter(&mut self, key: &Key) -> Result<Option<Box<DeadPage>>, Want> {
        Ok(self.entry(key)?.map(|page| match *page {
            Page::Dead(page) => Box::new(page),
            other => panic!("under the key of a dead letter stands {other:?}"),
        }))
    }

    /// What has become of a letter since it was read, for what waits to be decided with it may have changed it in between.
    pub(crate) fn letter_by_now(&mut self, read: DeadPage) -> Option<DeadPage> {
        match self.dead_letter(&read.key()) {
            Ok(found) => found.map(|page| *page),
            // What is on the disk alone is as it was read.
            Err(_) => Some(read),
        }
    }

    /// A dead letter has ended.
    pub(crate) fn remove_dead(&mut self, letter: &Letter) {
        let Letter { namespace, group, ref topic, id, .. } = *letter;
        self.groups[group].counts.dead -= 1;
        self.set_entry(&Key::Dead { namespace, group, topic: topic.clone(), id }, None);
    }
}

impl DeadPage {
    pub(crate) fn key(&self) -> Key {
        Key::Dead { namespace: self.namespace, group: self.group, topic: self.topic.clone(), id: self.id }
    }

    /// As facts name it.
    pub(crate) fn letter(&self) -> Letter {
        let (namespace, group, id) = (self.namespace, self.group, self.id);
        Letter { namespace, group, topic: self.topic.clone(), id, extent: self.run.extent() }
    }
}

impl DeadMove {
    /// The letter's key.
    pub(crate) fn key(&self) -> Key {
        Key::Dead { namespace: self.namespace, group: self.group, topic: self.topic.clone(), id: self.id }
    }
}
