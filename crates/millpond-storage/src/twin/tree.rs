//! The tree of a twin: the model of a tree, whose commits are operations of the disk like all others.
//!
//! A commit is there whole or not at all. When the power fails at one, it is by chance whether it took place.

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use millpond_core::store::{KeyBytes, Range};

use super::State;
use crate::disk::is_full;
use crate::sync::lock;
use crate::tree::{CommitHead, EntryChange, MemoryTree, Scanned, Tree, TreeError, TreeStats};

/// See the module. No good any more after a crash or a kill, as any open file.
pub(super) struct TwinTree {
    disk: Arc<Mutex<State>>,
    tree: MemoryTree,
    power: u64,
}

impl TwinTree {
    pub fn new(disk: Arc<Mutex<State>>, state: &State) -> TwinTree {
        TwinTree { disk, tree: state.tree.clone(), power: state.power }
    }

    fn reach(&self) -> Result<MutexGuard<'_, State>, TreeError> {
        let state = lock(&self.disk);
        state.reached_with(self.power).map_err(TreeError::Io)?;
        Ok(state)
    }
}

impl Tree for TwinTree {
    fn head(&self) -> Option<CommitHead> {
        self.tree.head()
    }

    fn get_many(&self, keys: &[KeyBytes]) -> Result<Vec<Option<Bytes>>, TreeError> {
        let mut reached = self.reach()?;
        reached.count_read().map_err(TreeError::Io)?;
        self.tree.get_many(keys)
    }

    fn scan(&self, range: &Range) -> Result<Scanned, TreeError> {
        let mut reached = self.reach()?;
        reached.count_read().map_err(TreeError::Io)?;
        self.tree.scan(range)
    }

    fn commit<'a>(
        &self,
        head: &CommitHead,
        changes: &mut dyn Iterator<Item = EntryChange<'a>>,
    ) -> Result<(), TreeError> {
        let mut disk = self.reach()?;
        let changes: Vec<_> = changes.collect();
        let bytes = changes.iter().map(|(key, value)| key.len() + value.map_or(0, <[u8]>::len)).sum::<usize>();
        let cut = disk.count().map_err(TreeError::Io)?;
        disk.room_for(bytes as u64).map_err(|error| match is_full(&error) {
            true => TreeError::Full(error),
            false => TreeError::Io(error),
        })?;
        let takes_place = cut.is_none() || disk.operations.is_multiple_of(2);
        if takes_place {
            self.tree.commit(head, &mut changes.into_iter())?;
        }
        cut.map_or(Ok(()), |cut| Err(TreeError::Io(cut)))
    }

    fn compact_step(&self) -> Result<bool, TreeError> {
        let _reached = self.reach()?;
        self.tree.compact_step()
    }

    fn hurry(&self, is_waited_for: bool) {
        self.tree.hurry(is_waited_for);
    }

    fn sweep(&self) -> Result<bool, TreeError> {
        let _reached = self.reach()?;
        self.tree.sweep()
    }

    fn stop(&self) {
        self.tree.stop();
    }

    fn stats(&self) -> TreeStats {
        self.tree.stats()
    }

    fn verify_next(&self, behind: Option<u64>) -> Result<Option<u64>, TreeError> {
        let _reached = self.reach()?;
        self.tree.verify_next(behind)
    }

    fn weigh(&self, range: &Range) -> Result<u64, TreeError> {
        let _reached = self.reach()?;
        self.tree.weigh(range)
    }
}
