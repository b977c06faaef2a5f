//! An ordered map on the disk, changed only by whole commits. The checkpoints live in it.
//!
//! Invariants: a commit is atomic, and durable when it returns. Its [`CommitHead`] is part of it, so that whoever finds
//! the entries of a commit finds its head, and the other way round. A read sees whole commits, each key's newest.
//!
//! What the keys and values mean is told elsewhere, but for two things: every key begins with a byte above zero, and
//! the compaction drops what has expired (see `expiry`), so that nobody has to look for it.

mod compactor;
mod expiry;
mod files;
mod head;
mod lsm;
mod memory;
mod pace;
mod sweep;

use std::io;

use bytes::Bytes;
use millpond_core::store::{KeyBytes, Range};

pub use compactor::Compactor;
pub use expiry::dedup_until;
pub use head::CommitHead;
pub use lsm::{LsmTree, TreeOptions};
pub use memory::{MemoryTree, TreeFault};

/// An entry as a commit takes it: its key, and its value, or none where it is gone.
pub type EntryChange<'a> = (&'a [u8], Option<&'a [u8]>);

/// An ordered map on the disk. All methods may be called from any thread; commits come one at a time.
pub trait Tree: Send + Sync {
    /// The newest commit's head, if there was one.
    fn head(&self) -> Option<CommitHead>;

    /// The values of keys, which are sorted.
    fn get_many(&self, keys: &[KeyBytes]) -> Result<Vec<Option<Bytes>>, TreeError>;

    /// The first entries of a range, as many as it allows.
    fn scan(&self, range: &Range) -> Result<Scanned, TreeError>;

    /// Makes changes, sorted by key and each key once. On an error nothing has changed; after any other than
    /// [`TreeError::Full`] no commit is taken any more.
    fn commit<'a>(
        &self,
        head: &CommitHead,
        changes: &mut dyn Iterator<Item = EntryChange<'a>>,
    ) -> Result<(), TreeError>;

    /// Does a step of tidying up; whether there was one. Reads and commits go on meanwhile.
    fn compact_step(&self) -> Result<bool, TreeError>;

    /// Merges everything, so that what has expired is gone, if nothing was committed for some time. Whether it did.
    fn sweep(&self) -> Result<bool, TreeError>;

    /// Whether others wait for commits. While nobody does, a commit on a real disk leaves the processor to them in between.
    fn hurry(&self, is_waited_for: bool);

    /// Lets a step under way give up, and every later one. For the end of the process.
    fn stop(&self);

    /// What it holds and has done.
    fn stats(&self) -> TreeStats;

    /// Reads the table with the lowest number above one, the very lowest where that is none, and compares it with its
    /// checksum. Its number, or none where there is no more.
    fn verify_next(&self, behind: Option<u64>) -> Result<Option<u64>, TreeError>;

    /// Reads every byte and compares it with its checksum.
    fn verify(&self) -> Result<(), TreeError> {
        let mut behind = None;
        while let Some(table) = self.verify_next(behind)? {
            behind = Some(table);
        }
        Ok(())
    }

    /// What an error of a read or of a step of tidying up is, with the file by its name, where that can be found out: it may
    /// take reading all of them.
    fn named(&self, error: TreeError) -> TreeError {
        error
    }

    /// How many entries lie in a range, those that are gone or replaced and not yet dropped included: what a scan of it
    /// has to pass.
    fn weigh(&self, range: &Range) -> Result<u64, TreeError>;
}

/// What a scan has found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Scanned {
    /// Keys and values, in order.
    pub entries: Vec<(Bytes, Bytes)>,
    /// Whether there are no more in the range.
    pub complete: bool,
}

/// Figures of a tree.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TreeStats {
    /// Bytes on the disk.
    pub bytes: u64,
    /// Bytes of blocks in memory.
    pub cache_bytes: u64,
    /// Files.
    pub tables: u64,
    /// Runs that were committed and not yet merged with the rest.
    pub fresh_runs: u64,
    /// Entries, those replaced and not yet dropped included.
    pub entries: u64,
    /// Among them those that only say that an entry is gone.
    pub tombstones: u64,
    /// Keys looked up since the start.
    pub keys_read: u64,
    /// Entries scanned since the start.
    pub keys_scanned: u64,
    /// Changes committed since the start.
    pub keys_written: u64,
    /// Commits since the start.
    pub commits: u64,
    /// Whether others wait for commits.
    pub is_hurried: bool,
}

/// Why a tree could not do it.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// There is no space. Nothing has changed: it may be tried again.
    #[error("no space for the checkpoint")]
    Full(#[source] io::Error),
    /// Reading, writing or removing a file failed; as far as it is known, the error says which.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// It is to be looked at and not changed, and there is no place for the links that this takes.
    #[error("the checkpoint cannot be looked at: {0}; set TMPDIR to a directory that can be written to")]
    NoMirror(#[source] io::Error),
    /// What was read is not what was written.
    #[error("the checkpoint is damaged: {0}")]
    Damaged(String),
    /// A commit failed before; whether it took place is not known.
    #[error("a commit of a checkpoint has failed before")]
    Poisoned,
}

/// Every key sorts behind this.
const FIRST_KEY: [u8; 1] = [1];

#[cfg(test)]
mod tests;
