//! The store of entries: whatever the core has put is found, and only that, while a checkpoint is committed, the filter of the keys
//! on the disk is made anew, and somebody reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use millpond_core::page::{DedupPage, Page};
use millpond_core::store::{Answer, Found, Key, Shelf, Store, Want};
use millpond_storage::tree::{CommitHead, MemoryTree};
use millpond_types::{MessageId, Priority, Sequence, TopicNumber, WallTime};

use crate::store::{FilterBounds, LayeredStore};
use crate::sync::thread::{self, JoinHandle};

/// So few that the filter is made anew for every key that is gone.
const BOUNDS: FilterBounds = FilterBounds { bytes: 0, least: 1 };
/// Keys that a checkpoint adds.
const EACH: u128 = 2;
/// Checkpoints.
const ROUNDS: u64 = 3;

/// The core of the store, and what it has put and not removed.
struct Core {
    store: LayeredStore,
    there: BTreeSet<u128>,
}

/// Checkpoints come one after the other, and during each the filter is made anew.
pub fn what_was_put_is_found_while_the_filter_is_made_anew() {
    let tree = Arc::new(MemoryTree::default());
    Core::of(LayeredStore::new(tree.clone(), BOUNDS)).goes_on(0).join().expect("it does not panic");
    // As behind a start: nothing is known of the keys on the disk.
    let mut core = Core::of(LayeredStore::new(tree, BOUNDS));
    core.there.extend(keys(0));
    for round in 1..=ROUNDS {
        let store = core.store.clone();
        let keeper = thread::spawn(move || while store.tend_filter().expect("a tree in order") {});
        let committer = core.goes_on(round);
        core.finds_what_is_there();
        committer.join().expect("it does not panic");
        core.finds_what_is_there();
        keeper.join().expect("it does not panic");
        core.finds_what_is_there();
    }
    assert!(core.store.filter_stats().made_anew > 0, "it was made anew for what is gone");
}

/// Reads begin before a checkpoint is on the disk, or behind that, and are answered as of when they are asked for.
pub fn an_answer_is_what_is_there_when_it_is_given() {
    let mut core = Core::of(LayeredStore::new(Arc::new(MemoryTree::default()), BOUNDS));
    for round in 0..ROUNDS {
        let (store, wants) =
            (core.store.clone(), (0..=round).flat_map(keys).map(|key| Want::Entry(entry(key).0.bytes())));
        let wants: Vec<Want> = wants.collect();
        let reader = thread::spawn(move || store.read(wants).expect("a tree in order"));
        let committer = core.goes_on(round);
        let fetched = reader.join().expect("it does not panic");
        for answer in core.store.resolve(fetched) {
            let Answer::Entry(key, page) = answer else { panic!("an entry was asked for") };
            let is_there = core.there.iter().any(|of| entry(*of).0.bytes() == key);
            assert_eq!(page.is_some(), is_there, "{key:?} in round {round}");
        }
        committer.join().expect("it does not panic");
    }
}

impl Core {
    fn of(store: LayeredStore) -> Core {
        Core { store, there: BTreeSet::new() }
    }

    /// Puts some keys, removes one of those of before, and seals a checkpoint, which a thread commits.
    fn goes_on(&mut self, round: u64) -> JoinHandle<()> {
        for key in keys(round) {
            let (key, page) = entry(key);
            self.store.put(&key, &page);
        }
        self.there.extend(keys(round));
        if let Some(gone) = round.checked_sub(1).and_then(|before| keys(before).next()) {
            self.store.remove(&entry(gone).0);
            self.there.remove(&gone);
        }
        self.store.freeze();
        self.store.seal();
        let (store, head) = (self.store.clone(), CommitHead { position: round, ..CommitHead::default() });
        thread::spawn(move || {
            let sealed = store.sealed().expect("it was sealed just before");
            store.commit(sealed, &head).expect("a tree in order");
        })
    }

    fn finds_what_is_there(&mut self) {
        for key in &self.there {
            let found = self.store.find(&entry(*key).0);
            assert_ne!(found, Found::Absent, "{key} was put");
        }
    }
}

fn keys(round: u64) -> impl Iterator<Item = u128> {
    let first = u128::from(round) * EACH;
    first..first + EACH
}

/// A dedup id.
fn entry(hash: u128) -> (Key, Page) {
    let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(1) };
    let page = Page::Dedup(DedupPage { namespace: 0, hash, id, until: WallTime::NEVER });
    (Key::of(&page, Shelf::Idle), page)
}
