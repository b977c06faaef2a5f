//! The journal: one append-only log of all facts and message bodies, in segment files.
//!
//! A position is a byte offset over the life of the directory and names the same bytes for ever. The writer thread
//! builds batches ([`Appender`]), whoever drives the disk writes and syncs them, one behind the other ([`Committer`]),
//! and anyone reads ([`Reader`]). Space is made ready, and given back, by the [`crate::Housekeeper`]. What a batch means
//! is the core's business.

mod append;
pub(crate) mod batch;
mod bell;
mod commit;
pub(crate) mod live;
pub(crate) mod read;
pub(crate) mod scan;
pub(crate) mod segment;
pub(crate) mod segments;
pub(crate) mod shared;
pub(crate) mod spares;
mod tail;

pub use append::{Appender, Mark};
pub use batch::Batch;
pub use commit::{CommitError, Committer};
pub use read::{ReadError, Reader};
pub use shared::Failure;
