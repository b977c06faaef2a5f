//! The journal, the checkpoints and the recovery of Millpond.
//!
//! [`open`] locks a directory, brings the state back and hands out the parts that work on it:
//!
//! ```text
//! writer ──► Appender ──► Batch ──► Committer ──► segments on a Disk ◄── Reader ◄── sessions
//!               │                                     ▲
//!               └── checkpoint ──► Housekeeper ───────┘ space, checkpoints, dead segments
//! ```
//!
//! A [`Mover`] beside them finds old messages that pin much space for little.
//!
//! What is on the disk is described in `docs/storage-format.md`, byte by byte in the module that writes it. All access
//! goes through [`disk::Disk`], whose [`twin`] remembers what was synced. What facts mean is the core's business.

pub mod checkpoint;
pub mod codec;
mod damaged;
pub mod disk;
mod finding;
mod format;
mod housekeeper;
mod inspect;
mod journal;
mod mover;
mod open;
mod recover;
mod salvage;
mod scrub;
pub mod store;
mod sync;
pub mod tree;
pub mod twin;

pub use disk::{Disk, RealDisk};
pub use finding::{Finding, Findings};
pub use housekeeper::{Housekeeper, Trouble};
pub use inspect::{Verdict, inspect, inspect_disk};
pub use journal::{Appender, Batch, CommitError, Committer, Failure, Mark, ReadError, Reader};
pub use mover::{Mover, Moves, SLACK, Space};
pub use open::{
    BATCH_BYTES, CHECKPOINT_AFTER, Identity, OpenError, OpenOptions, Opened, SEGMENT_BYTES, TAIL_BYTES, open,
};
pub use recover::{Cut, Recovery, Replica, Torn};
pub use salvage::{SalvageError, salvage, salvage_disk};
pub use scrub::{Damage, Scrubbed};

#[cfg(test)]
mod tests;
