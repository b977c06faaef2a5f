//! A checkpoint that is committed while the filter is made anew: the scan has passed by what it changes.

use std::sync::Mutex;

use millpond_core::store::KeyBytes;

use super::*;
use crate::tree::{EntryChange, Scanned, TreeStats};

/// A tree with scans that take long: while one of them does, somebody does something.
struct Slow {
    tree: MemoryTree,
    meanwhile: Mutex<Option<Meanwhile>>,
}

/// How many scans come before that one, and what is done.
type Meanwhile = (usize, Box<dyn FnOnce() + Send>);

impl Slow {
    fn take_long(&self) {
        let mut meanwhile = lock(&self.meanwhile);
        match meanwhile.take() {
            Some((0, what)) => {
                drop(meanwhile);
                what();
            }
            later => *meanwhile = later.map(|(scans, what)| (scans - 1, what)),
        }
    }
}

impl Tree for Slow {
    fn scan(&self, range: &Range) -> Result<Scanned, TreeError> {
        let found = self.tree.scan(range)?;
        self.take_long();
        Ok(found)
    }

    fn head(&self) -> Option<CommitHead> {
        self.tree.head()
    }

    fn get_many(&self, keys: &[KeyBytes]) -> Result<Vec<Option<Bytes>>, TreeError> {
        self.tree.get_many(keys)
    }

    fn commit<'a>(
        &self,
        head: &CommitHead,
        changes: &mut dyn Iterator<Item = EntryChange<'a>>,
    ) -> Result<(), TreeError> {
        self.tree.commit(head, changes)
    }

    fn compact_step(&self) -> Result<bool, TreeError> {
        self.tree.compact_step()
    }

    fn sweep(&self) -> Result<bool, TreeError> {
        self.tree.sweep()
    }

    fn hurry(&self, is_waited_for: bool) {
        self.tree.hurry(is_waited_for);
    }

    fn stop(&self) {
        self.tree.stop();
    }

    fn stats(&self) -> TreeStats {
        self.tree.stats()
    }

    fn verify_next(&self, behind: Option<u64>) -> Result<Option<u64>, TreeError> {
        self.tree.verify_next(behind)
    }

    fn weigh(&self, range: &Range) -> Result<u64, TreeError> {
        self.tree.weigh(range)
    }
}

/// In the scan of topics, of dedup ids and of producer sessions; without a filter before it, as behind a start, and with one.
#[test]
fn what_is_committed_while_the_filter_is_made_anew_is_in_it() {
    const HELD: u64 = 1000;
    let topics = || (HELD..HELD + 100).map(|number| topic_key(Shelf::Idle, number));
    for (scan, has_one) in [0, 1, 2].into_iter().flat_map(|scan| [(scan, false), (scan, true)]) {
        let memory = MemoryTree::default();
        filled(Arc::new(memory.clone()), HELD);
        let tree = Arc::new(Slow { tree: memory, meanwhile: Mutex::default() });
        let mut store = LayeredStore::new(tree.clone(), FilterBounds::within(usize::MAX));
        if has_one {
            assert!(store.tend_filter().unwrap());
        }
        let mut other = store.clone();
        let commit = move || {
            (HELD..HELD + 100).for_each(|number| other.put(&topic_key(Shelf::Idle, number), &topic(number, number)));
            let (key, page) = dedup(7);
            other.put(&key, &page);
            other.remove(&topic_key(Shelf::Idle, 7));
            other.freeze();
            other.seal();
            other.commit(other.sealed().unwrap(), &head(2)).unwrap();
        };
        *lock(&tree.meanwhile) = Some((scan, Box::new(commit)));
        store.make_filter(lock(&store.0.committing)).unwrap();
        assert!(lock(&tree.meanwhile).is_none(), "somebody has committed meanwhile");
        assert!(topics().all(|key| store.find(&key) == Found::OnDisk), "in scan {scan}, with one before: {has_one}");
        assert_eq!(store.find(&dedup(7).0), Found::OnDisk, "in scan {scan}, with one before: {has_one}");
        assert_eq!(store.find(&topic_key(Shelf::Idle, 8)), Found::OnDisk);
        let strangers = (0..HELD).filter(|number| store.find(&topic_key(Shelf::Busy, *number)) != Found::Absent);
        assert!(strangers.count() < 10, "it is in place");
        let counted = lock(&store.0.state).filter.as_ref().expect("it is in place").counted(WallTime(0));
        assert_eq!(counted, (1, 0), "what was removed meanwhile counts");
    }
}
