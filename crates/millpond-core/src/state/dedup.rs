//! Dedup ids: entries of the store, put when a message is stored and looked up when one comes. They live apart from
//! topics, and outlive them.
//!
//! One that has passed its time counts as absent. Nothing here removes it: the disk drops it when it compacts,
//! and compacts for it where nothing else comes.

use millpond_types::{MessageId, WallTime};

use crate::fact::{NamespaceNumber, Remembered};
use crate::page::{DedupPage, Page};
use crate::state::State;
use crate::store::{Key, Want};

/// Remembered for ever.
pub(crate) const FOREVER: WallTime = WallTime::NEVER;

impl State {
    /// A dedup id is that of this message from here on.
    pub(crate) fn remember(&mut self, page: DedupPage) {
        self.set_entry(&Key::Dedup { namespace: page.namespace, hash: page.hash }, Some(&Page::Dedup(page)));
    }

    pub(crate) fn forget(&mut self, namespace: NamespaceNumber, hash: u128) {
        self.set_entry(&Key::Dedup { namespace, hash }, None);
    }

    /// What is remembered of a dedup id; an error tells that it has to be fetched.
    pub(crate) fn look_up_dedup(&mut self, namespace: NamespaceNumber, hash: u128) -> Result<Option<DedupPage>, Want> {
        let page = self.entry(&Key::Dedup { namespace, hash })?.map(|page| match *page {
            Page::Dedup(page) => page,
            other => panic!("under the key of a dedup id stands {other:?}"),
        });
        Ok(page.filter(|page| page.until > self.now.wall))
    }

    /// What is remembered of a dedup id that was looked up for this command before.
    pub(crate) fn remembered(&mut self, namespace: NamespaceNumber, hash: u128) -> Option<DedupPage> {
        self.look_up_dedup(namespace, hash).expect("what a command needs is fetched before it is decided")
    }

    /// What is remembered of a dedup id, if it is that of this message.
    pub(crate) fn remembered_of(
        &mut self,
        namespace: NamespaceNumber,
        hash: u128,
        id: MessageId,
    ) -> Option<Remembered> {
        let page = self.remembered(namespace, hash).filter(|page| page.id == id)?;
        Some(Remembered { hash, until: page.until })
    }
}
