//! Entries that are looked up one by one: in the store's memory, or among those that were fetched from the disk for
//! parked commands.
//!
//! Invariant: what was fetched is what the store holds, so whoever writes an entry drops what was fetched of it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use crate::page::Page;
use crate::state::State;
use crate::store::{Found, Key, KeyBytes, Want};

/// Entries that were fetched, or the news that there is none. Each is kept until the command is decided that it was
/// fetched for.
pub(crate) type Fetched = BTreeMap<KeyBytes, Option<Box<Page>>>;

impl State {
    /// The entry of a key; an error tells that it has to be fetched.
    pub(crate) fn entry(&mut self, key: &Key) -> Result<Option<Box<Page>>, Want> {
        match self.store.find(key) {
            Found::Absent => Ok(None),
            Found::Here(page) => Ok(Some(page)),
            Found::OnDisk => {
                let bytes = key.bytes();
                match self.fetched.get(&bytes) {
                    Some(page) => Ok(page.clone()),
                    None => Err(Want::Entry(bytes)),
                }
            }
        }
    }

    /// Puts an entry, or removes it.
    pub(crate) fn set_entry(&mut self, key: &Key, page: Option<&Page>) {
        self.drop_fetched(key);
        match page {
            Some(page) => self.store.put(key, page),
            None => self.store.remove(key),
        }
    }

    /// An entry is another one now.
    pub(crate) fn drop_fetched(&mut self, key: &Key) {
        if !self.fetched.is_empty() {
            self.fetched.remove(&key.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::DedupPage;
    use crate::store::MemoryStore;
    use millpond_types::{MessageId, Priority, Sequence, TopicNumber, WallTime};

    #[test]
    fn what_was_fetched_is_not_used_when_the_entry_has_changed_since() {
        let mut state = State::new([0, 0], Box::new(MemoryStore::default()));
        let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(1) };
        let page = Page::Dedup(DedupPage { namespace: 0, hash: 1, id, until: WallTime::NEVER });
        let key = Key::Dedup { namespace: 0, hash: 1 };
        for change in [Some(&page), None] {
            state.fetched.insert(key.bytes(), Some(Box::new(page.clone())));
            state.set_entry(&key, change);
            assert!(state.fetched.is_empty(), "the change may be on disk by the time somebody asks");
        }
    }
}
