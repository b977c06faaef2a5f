//! What the parts of an open directory share.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::bell::Bell;
use super::segments::Segments;
use super::spares::{SPARES, Spares};
use super::tail::Tail;
use crate::checkpoint::Job;
use crate::disk::{DirectoryLock, Disk};
use crate::open::OpenOptions;
use crate::sync::lock;

/// A write or a sync failed. Nothing may be written any more: what the failed call left on the disk is not known, and
/// a second sync would report as durable what the first one lost. Restart the broker once the disk is in order.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{what} {place} failed: {reason}; restart the broker once the disk is in order")]
pub struct Failure {
    /// The file.
    pub place: String,
    /// What was being done.
    pub what: &'static str,
    /// The system's word.
    pub reason: String,
}

/// See the module.
pub struct Shared {
    pub disk: Arc<dyn Disk>,
    pub directory: u128,
    pub start: u32,
    pub segment_bytes: u64,
    /// Spares that are kept at most: as many as the journal between two checkpoints needs, because writing over old
    /// bytes is two to three times as fast as writing where nothing was.
    pub spares_kept: usize,
    pub segments: Segments,
    pub spares: Spares,
    pub tail: Tail,
    /// Everything before this position is durable.
    pub durable: AtomicU64,
    /// The position of the newest checkpoint.
    pub checkpoint: AtomicU64,
    /// The checkpoint to be written next.
    pub job: Mutex<Option<Job>>,
    /// Whether one is asked for or being written.
    pub checkpointing: AtomicBool,
    failure: Mutex<Option<Failure>>,
    failed: AtomicBool,
    /// The housekeeper's.
    pub bell: Bell,
}

/// The directory is ours as long as one of these is there. Readers hold none.
pub type Hold = Arc<DirectoryLock>;

impl Shared {
    pub fn new(disk: Arc<dyn Disk>, directory: u128, start: u32, options: &OpenOptions) -> Shared {
        let between_checkpoints = options.checkpoint_after / options.segment_bytes;
        Shared {
            disk,
            directory,
            start,
            segment_bytes: options.segment_bytes,
            spares_kept: SPARES + usize::try_from(between_checkpoints).unwrap_or(0),
            segments: Segments::default(),
            spares: Spares::default(),
            tail: Tail::new(options.tail_bytes, 2 * options.batch_bytes as usize),
            durable: AtomicU64::new(0),
            checkpoint: AtomicU64::new(0),
            job: Mutex::new(None),
            checkpointing: AtomicBool::new(false),
            failure: Mutex::new(None),
            failed: AtomicBool::new(false),
            bell: Bell::default(),
        }
    }

    /// Notes a failure; the first one stays. From here on nothing is written.
    pub fn poison(&self, name: &str, what: &'static str, error: &io::Error) -> Failure {
        let mut failure = lock(&self.failure);
        let new = || Failure { place: self.disk.place(name), what, reason: error.to_string() };
        let failure = failure.get_or_insert_with(new).clone();
        self.failed.store(true, Ordering::Release);
        self.bell.ring();
        failure
    }

    /// The failure, if there was one.
    pub fn check(&self) -> Result<(), Failure> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(lock(&self.failure).clone().expect("a failure is noted before its flag is set"))
    }

    /// Whether the last segment is durable to its half or further.
    pub fn is_half_full(&self) -> bool {
        let durable = self.durable.load(Ordering::Acquire);
        self.segments.find(durable).is_some_and(|segment| segment.offset(durable) >= segment.bytes / 2)
    }
}
