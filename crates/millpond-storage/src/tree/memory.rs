//! The model of a tree: a sorted map. Tests hold the other against it, and the simulation runs on it.
//!
//! Clones are the same tree. What was committed survives a crash, a commit in progress does not: it changes everything
//! at once, at its end.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use millpond_core::store::{KeyBytes, Range};

use super::expiry::Expiry;
use super::head::HEAD_KEY;
use super::{CommitHead, EntryChange, Scanned, Tree, TreeError, TreeStats};
use crate::sync::lock;

/// A tree in memory.
#[derive(Clone, Default)]
pub struct MemoryTree(Arc<Mutex<State>>);

/// What goes wrong at an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeFault {
    /// There is no space for a commit.
    Full,
    /// Reading or writing fails.
    Error,
    /// A commit takes place, and yet its error is told: so it may be with a failed sync.
    ErrorAfterCommit,
}

#[derive(Default)]
struct State {
    entries: BTreeMap<Bytes, Bytes>,
    operations: u64,
    plan: Option<(u64, TreeFault)>,
    poisoned: bool,
    stats: TreeStats,
}

impl MemoryTree {
    /// Operations so far: commits, lookups and scans.
    pub fn operations(&self) -> u64 {
        lock(&self.0).operations
    }

    /// Lets something go wrong at the operation that comes after `after` others from now.
    pub fn plan(&self, after: u64, fault: TreeFault) {
        let mut state = lock(&self.0);
        state.plan = Some((state.operations + after, fault));
    }

    /// All that it holds, its head as well.
    pub fn entries(&self) -> BTreeMap<Bytes, Bytes> {
        lock(&self.0).entries.clone()
    }

    /// Another tree that holds the same.
    pub fn copy(&self) -> MemoryTree {
        let entries = self.entries();
        MemoryTree(Arc::new(Mutex::new(State { entries, ..State::default() })))
    }

    /// The process ends and begins anew: what was committed is there, and what went wrong is forgotten.
    pub fn crash(&self) {
        let mut state = lock(&self.0);
        state.plan = None;
        state.poisoned = false;
        state.stats = TreeStats::default();
    }
}

impl State {
    fn operate(&mut self) -> Option<TreeFault> {
        let at = self.operations;
        self.operations += 1;
        self.plan.take_if(|(planned, _)| *planned == at).map(|(_, fault)| fault)
    }

    fn read(&mut self) -> Result<(), TreeError> {
        match self.operate() {
            Some(TreeFault::Error | TreeFault::ErrorAfterCommit) => Err(TreeError::Io(io::Error::other("planned"))),
            Some(TreeFault::Full) | None => Ok(()),
        }
    }

    fn range(&self, range: &Range) -> impl Iterator<Item = (&Bytes, &Bytes)> {
        let until = range.until.clone().max(range.from.clone());
        self.entries.range(Bytes::from(range.from.clone())..Bytes::from(until))
    }
}

impl Tree for MemoryTree {
    fn head(&self) -> Option<CommitHead> {
        let bytes = lock(&self.0).entries.get(&HEAD_KEY[..]).cloned()?;
        Some(CommitHead::decode(&bytes).expect("a head in memory is whole"))
    }

    fn get_many(&self, keys: &[KeyBytes]) -> Result<Vec<Option<Bytes>>, TreeError> {
        assert!(keys.is_sorted(), "keys are looked up in order");
        let mut state = lock(&self.0);
        state.read()?;
        state.stats.keys_read += keys.len() as u64;
        Ok(keys.iter().map(|key| state.entries.get(&key[..]).cloned()).collect())
    }

    fn scan(&self, range: &Range) -> Result<Scanned, TreeError> {
        let mut state = lock(&self.0);
        state.read()?;
        let limit = range.limit as usize;
        let found = state.range(range).take(limit + 1).map(|(key, value)| (key.clone(), value.clone()));
        let mut entries: Vec<_> = found.collect();
        let complete = entries.len() <= limit;
        entries.truncate(limit);
        state.stats.keys_scanned += entries.len() as u64;
        Ok(Scanned { entries, complete })
    }

    fn commit<'a>(
        &self,
        head: &CommitHead,
        changes: &mut dyn Iterator<Item = EntryChange<'a>>,
    ) -> Result<(), TreeError> {
        let mut state = lock(&self.0);
        if state.poisoned {
            return Err(TreeError::Poisoned);
        }
        let fault = state.operate();
        match fault {
            Some(TreeFault::Full) => return Err(TreeError::Full(io::ErrorKind::StorageFull.into())),
            Some(TreeFault::Error) => {
                state.poisoned = true;
                return Err(TreeError::Io(io::Error::other("planned")));
            }
            Some(TreeFault::ErrorAfterCommit) | None => {}
        }
        let mut before: &[u8] = &HEAD_KEY;
        for (key, value) in changes {
            assert!(key > before, "a commit's keys are in order, each once, behind the head");
            before = key;
            state.stats.keys_written += 1;
            match value {
                Some(value) => {
                    _ = state.entries.insert(Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
                }
                None => _ = state.entries.remove(key),
            }
        }
        state.entries.insert(Bytes::from_static(&HEAD_KEY), head.encode().into());
        state.stats.commits += 1;
        if fault.is_some() {
            state.poisoned = true;
            return Err(TreeError::Io(io::Error::other("planned")));
        }
        Ok(())
    }

    /// Drops what has expired.
    fn compact_step(&self) -> Result<bool, TreeError> {
        let Some(head) = self.head() else { return Ok(false) };
        let mut state = lock(&self.0);
        let namespaces = Expiry::namespaces_range(u32::MAX);
        let expiry = Expiry::new(head.wall, state.range(&namespaces).map(|(key, _)| &key[..]));
        let before = state.entries.len();
        state.entries.retain(|key, value| !expiry.is_gone(key, || value.clone()));
        Ok(state.entries.len() < before)
    }

    /// Waits for nothing in between anyway, and only remembers it.
    fn hurry(&self, is_waited_for: bool) {
        lock(&self.0).stats.is_hurried = is_waited_for;
    }

    fn sweep(&self) -> Result<bool, TreeError> {
        self.compact_step()
    }

    fn stop(&self) {}

    fn stats(&self) -> TreeStats {
        let state = lock(&self.0);
        let entries = state.entries.len().saturating_sub(1) as u64;
        let bytes = state.entries.iter().map(|(key, value)| (key.len() + value.len()) as u64).sum();
        TreeStats { entries, bytes, ..state.stats }
    }

    fn verify_next(&self, _behind: Option<u64>) -> Result<Option<u64>, TreeError> {
        Ok(None)
    }

    fn weigh(&self, range: &Range) -> Result<u64, TreeError> {
        Ok(lock(&self.0).range(range).count() as u64)
    }
}
