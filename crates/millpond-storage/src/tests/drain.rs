//! What a drain visits in the tree: entries that are gone stay as tombstones until they are merged away, and a range that is
//! consumed from the front must not be read across them again and again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun, Ticket};
use millpond_core::fact::{Fact, FactLog};
use millpond_core::output::{Output, Reply};
use millpond_core::store::{KeyBytes, Range};
use millpond_core::{Core, Now};
use millpond_types::{RunTime, WallTime};

use super::calls;
use crate::store::{FilterBounds, LayeredStore};
use crate::tree::{CommitHead, EntryChange, LsmTree, Scanned, Tree, TreeError, TreeOptions, TreeStats};

const ENTRIES: u32 = 10_000_000;
/// Tenants whose topics go on side by side.
const TENANTS: u32 = 100;
/// Messages of a frame and of a receive.
const BATCH: u32 = 1000;
/// Entries that change between two checkpoints, as a broker's do.
const CHECKPOINT_ENTRIES: usize = 400_000;
/// Bytes of memory for topics: a fraction of what all of them would take.
const ROOM: usize = 16 * 1024 * 1024;
const FILTER_BYTES: usize = 32 * 1024 * 1024;

/// A tree that counts what its reads pass, tombstones included, and what its commits change.
pub(super) struct Counting {
    tree: LsmTree,
    visited: AtomicU64,
    put: AtomicU64,
    removed: AtomicU64,
}

impl Counting {
    pub(super) fn open(directory: &Path) -> Arc<Counting> {
        let tree = LsmTree::open(directory, TreeOptions::default()).unwrap();
        Arc::new(Counting { tree, visited: AtomicU64::new(0), put: AtomicU64::new(0), removed: AtomicU64::new(0) })
    }

    /// Entries that were put, and removed, since the last time.
    pub(super) fn take_changes(&self) -> (u64, u64) {
        (self.put.swap(0, Ordering::Relaxed), self.removed.swap(0, Ordering::Relaxed))
    }
}

impl Tree for Counting {
    fn head(&self) -> Option<CommitHead> {
        self.tree.head()
    }

    fn get_many(&self, keys: &[KeyBytes]) -> Result<Vec<Option<Bytes>>, TreeError> {
        self.visited.fetch_add(keys.len() as u64, Ordering::Relaxed);
        self.tree.get_many(keys)
    }

    fn scan(&self, range: &Range) -> Result<Scanned, TreeError> {
        let found = self.tree.scan(range)?;
        let passed = match found.entries.last() {
            Some((last, _)) if !found.complete => Range { until: [&last[..], &[0]].concat(), ..range.clone() },
            _ => range.clone(),
        };
        self.visited.fetch_add(self.tree.weigh(&passed)?, Ordering::Relaxed);
        Ok(found)
    }

    fn commit<'a>(
        &self,
        head: &CommitHead,
        changes: &mut dyn Iterator<Item = EntryChange<'a>>,
    ) -> Result<(), TreeError> {
        let mut changes = changes.inspect(|(_, value)| {
            let count = if value.is_some() { &self.put } else { &self.removed };
            count.fetch_add(1, Ordering::Relaxed);
        });
        self.tree.commit(head, &mut changes)
    }

    fn compact_step(&self) -> Result<bool, TreeError> {
        self.tree.compact_step()
    }

    fn hurry(&self, is_waited_for: bool) {
        self.tree.hurry(is_waited_for);
    }

    fn sweep(&self) -> Result<bool, TreeError> {
        self.tree.sweep()
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

/// A journal of which only the positions matter.
#[derive(Default)]
struct Positions(u64);

impl FactLog for Positions {
    fn append(&mut self, fact: &Fact) -> u64 {
        let position = self.0;
        self.0 += 64 + fact.block().map_or(0, |block| block.len() as u64);
        position
    }

    fn position(&self) -> u64 {
        self.0
    }
}

/// A core over a tree on a real disk, without the journal.
pub(super) struct Bare {
    pub(super) core: Core,
    log: Positions,
    store: LayeredStore,
}

impl Bare {
    pub(super) fn over(tree: Arc<dyn Tree>) -> Bare {
        let (store, mut log) = (LayeredStore::new(tree, FilterBounds::within(FILTER_BYTES)), Positions::default());
        let mut core = Core::create([1, 2], Box::new(store.clone()), &mut log);
        core.set_room(ROOM);
        core.start(Now { run: RunTime(1), wall: WallTime(1) }, false, &mut log);
        Bare { core, log, store }
    }

    /// A turn with one command, and the checkpoint that is due behind it.
    pub(super) fn turn(&mut self, command: Command) -> Vec<Output> {
        let Bare { core, log, store } = self;
        let before = core.now();
        core.set_time(Now { run: RunTime(before.run.0 + 1), wall: WallTime(before.wall.0 + 1) });
        core.submit(Ticket(1), command, log);
        core.advance(log);
        core.dispatch(log);
        while store.supply(core, log).unwrap() {
            core.dispatch(log);
        }
        while core.make_room() {}
        let outputs = core.outputs().drain(..).collect();
        if store.young().changes >= CHECKPOINT_ENTRIES {
            self.checkpoint();
        }
        outputs
    }

    /// Finishes so many messages, or what there is; how many.
    pub(super) fn receive_and_ack(&mut self, most: u32) -> u32 {
        let Some(Output::Reply { reply: Reply::Received(runs), .. }) = self.turn(calls::receive(most)).pop() else {
            panic!("a receive is answered with what is there")
        };
        let receipts = runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
        self.turn(Command::Finish(Finish { verb: FinishVerb::Ack, receipts, confirm: true, namespace: None }));
        runs.iter().map(|run| run.count).sum()
    }

    /// Writes all that has changed since the last one.
    pub(super) fn checkpoint(&mut self) {
        let Bare { core, log, store } = self;
        core.freeze();
        while !core.capture(CHECKPOINT_ENTRIES) {}
        let head = CommitHead { position: log.0, ..CommitHead::default() };
        store.commit(store.sealed().unwrap(), &head).unwrap();
    }
}

#[test]
fn a_drain_of_ten_million_entries_visits_at_most_two_keys_for_each() {
    let directory = tempfile::tempdir().unwrap();
    let tree = Counting::open(directory.path());
    let mut bare = Bare::over(tree.clone());
    let compactor = bare.store.keep().unwrap();
    for first in (0..ENTRIES).step_by(BATCH as usize) {
        let names = (first..first + BATCH).map(|entry| format!("tenant{:02}/{entry:07}", entry % TENANTS));
        bare.turn(calls::publish(names.map(|name| calls::run(&name, &[], [&b"body"[..]])).collect()));
        compactor.wake();
    }
    tree.visited.store(0, Ordering::Relaxed);
    let mut delivered = 0;
    while delivered < ENTRIES {
        delivered += bare.receive_and_ack(BATCH);
        compactor.wake();
    }
    let visited = tree.visited.load(Ordering::Relaxed) as f64 / f64::from(ENTRIES);
    assert!(visited <= 2.0, "{visited} keys visited for each entry");
}
