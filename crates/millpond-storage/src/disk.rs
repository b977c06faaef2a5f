//! All that the storage asks of a file system: one flat directory of files, and a tree in a directory of its own.
//!
//! Everything goes through these two traits, so that the crash tests and the simulation can put [`crate::twin`] where
//! [`RealDisk`] stands. The traits promise no more than POSIX does: what is not synced may be lost in any part and any
//! order, and a name that was made, renamed or removed may come back until the directory is synced.

mod real;

use std::io;
use std::sync::Arc;

use crate::tree::{Tree, TreeError, TreeOptions};
pub use real::RealDisk;
pub(crate) use real::open_file;

/// The name of the tree's directory.
pub const TREE: &str = "tree";

/// A directory.
pub trait Disk: Send + Sync {
    /// Makes a file, or empties the one that is there.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file that is there.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// The names of all files, in order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Removes a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Gives a file another name, at once for everyone; a file of that name is replaced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Returns when all names are durable as they are now.
    fn sync_dir(&self) -> io::Result<()>;
    /// Takes the directory for this process until what is returned is dropped.
    fn lock(&self) -> Result<DirectoryLock, LockError>;
    /// Whether the directory that was locked is still the one that its path leads to. Where it is not, everything may be
    /// written and synced as before, and nobody will find any of it; and another process may lock the path.
    fn is_still_there(&self) -> io::Result<()>;
    /// The tree that the directory has beside its files, made where there is none. It takes care of its own durability.
    fn tree(&self, options: TreeOptions) -> Result<Arc<dyn Tree>, TreeError>;
    /// Puts the tree where nothing finds it but a person, so that another one may be made.
    fn set_tree_aside(&self) -> io::Result<()>;
    /// The place of a file (or of the directory, for an empty name) as messages show it.
    fn place(&self, name: &str) -> String;
}

/// A file. Methods take `&self`: reads go on beside the one writer.
pub trait DiskFile: Send + Sync {
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Fills `buffer` from `offset`; `UnexpectedEof` where the file is shorter.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
    /// Returns when all that was written, and the length, are durable.
    fn sync(&self) -> io::Result<()>;
    /// Makes the file at least `length` long, so that writes up to there need no more space.
    fn preallocate(&self, length: u64, how: Preallocate) -> io::Result<()>;
    /// Cuts the file, or makes it longer with zeros.
    fn set_len(&self, length: u64) -> io::Result<()>;
    /// Its length.
    fn length(&self) -> io::Result<u64>;
}

/// How space is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preallocate {
    /// The space is written with zeros and synced, slice by slice, so that no other sync waits long. A later sync into
    /// it has no extents to convert and takes about half the time (0.10 ms against 0.18 ms where it was measured).
    Filled,
    /// The space is only set aside: quick, for when segments are filled faster than it pays to write them twice.
    Reserved,
}

/// Held for as long as the directory is ours.
pub type DirectoryLock = Box<dyn Send + Sync>;

/// Why a directory could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("in use by another process")]
    InUse,
    /// The directory could not be locked.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Whether an error says that space has run out.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
