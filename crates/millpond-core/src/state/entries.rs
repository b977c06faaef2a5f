//! Entries that are looked up one by one: in the store's memory, or among those that were fetched from the disk for
//! parked commands.
//!
//! Invariant: what was fetched is what the store holds, so whoever writes an entry drops what was fetched of it.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;

use millpond_types::{MessageId, WallTime};

use crate::page::{DedupPage, Page};
use crate::state::State;
use crate::store::{Found, Key, KeyBytes, Want};

/// Entries that were fetched. Each is kept until the command is decided that it was fetched for.
pub(crate) type Fetched = BTreeMap<KeyBytes, Kept>;

/// What was fetched of a key. Of dedup ids there may be tens of thousands for one command, so they take little.
#[derive(Debug)]
pub(crate) enum Kept {
    /// The news that there is none.
    Absent,
    /// A dedup id, without what its key says.
    Dedup { id: MessageId, until: WallTime },
    /// Any other entry.
    Other(Box<Page>),
}

impl Kept {
    pub(crate) fn new(page: Option<Page>) -> Kept {
        match page {
            None => Kept::Absent,
            Some(Page::Dedup(DedupPage { id, until, .. })) => Kept::Dedup { id, until },
            Some(page) => Kept::Other(Box::new(page)),
        }
    }

    /// The entry, as it was fetched.
    fn page(&self, key: &Key) -> Option<Box<Page>> {
        match (self, key) {
            (Kept::Absent, _) => None,
            (Kept::Other(page), _) => Some(page.clone()),
            (&Kept::Dedup { id, until }, &Key::Dedup { namespace, hash }) => {
                Some(Box::new(Page::Dedup(DedupPage { namespace, hash, id, until })))
            }
            (Kept::Dedup { .. }, other) => panic!("a dedup id was kept under {other:?}"),
        }
    }
}

impl State {
    /// The entry of a key; an error tells that it has to be fetched.
    pub(crate) fn entry(&mut self, key: &Key) -> Result<Option<Box<Page>>, Want> {
        match self.store.find(key) {
            Found::Absent => Ok(None),
            Found::Here(page) => Ok(Some(page)),
            Found::OnDisk => {
                let bytes = key.bytes();
                match self.fetched.get(&bytes) {
                    Some(kept) => Ok(kept.page(key)),
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
    use crate::store::MemoryStore;
    use millpond_types::{Priority, Sequence, TopicNumber};

    #[test]
    fn what_was_fetched_is_not_used_when_the_entry_has_changed_since() {
        let mut state = State::new([0, 0], Box::new(MemoryStore::default()));
        let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(1) };
        let page = Page::Dedup(DedupPage { namespace: 0, hash: 1, id, until: WallTime::NEVER });
        let key = Key::Dedup { namespace: 0, hash: 1 };
        for change in [Some(&page), None] {
            state.fetched.insert(key.bytes(), Kept::new(Some(page.clone())));
            state.set_entry(&key, change);
            assert!(state.fetched.is_empty(), "the change may be on disk by the time somebody asks");
        }
    }

    #[test]
    fn what_is_kept_of_an_entry_is_all_of_it_and_of_a_dedup_id_little() {
        let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(1) };
        let key = Key::Dedup { namespace: 7, hash: 8 };
        let dedup = Page::Dedup(DedupPage { namespace: 7, hash: 8, id, until: WallTime(9) });
        for page in [None, Some(dedup)] {
            assert_eq!(Kept::new(page.clone()).page(&key).map(|page| *page), page);
        }
        assert!(size_of::<Kept>() <= 40, "{}", size_of::<Kept>());
    }
}
