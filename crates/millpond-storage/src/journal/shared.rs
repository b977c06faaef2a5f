//! What the parts of an open directory share.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::bell::Bell;
use super::segments::Segments;
use super::spares::{SPARES, Spares};
use super::tail::Tail;
use crate::checkpoint::Job;
use crate::damaged::{self, NOTE};
use crate::disk::{DirectoryLock, Disk, TREE, is_full};
use crate::open::{OpenOptions, WITHOUT_CHECKPOINT, reaches_back};
use crate::sync::lock;
use crate::tree::{Tree, TreeError};

/// Why a broker stops. After a write or a sync that failed nothing may be written any more: what the failed call left on the
/// disk is not known, and a second sync would report as durable what the first one lost.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Failure {
    /// A write or a sync failed, or a read of what has to be read.
    #[error("{what} {place} failed: {reason}; restart the broker once the disk is in order")]
    Io {
        /// The file.
        place: String,
        /// What was being done.
        what: &'static str,
        /// The system's word.
        reason: String,
    },
    /// The checkpoint is not what was written. The journal is not concerned.
    #[error("the checkpoint in {place} is damaged: {what}. {}", whats_next(*.reaches_back))]
    CheckpointDamaged {
        /// The tree's directory.
        place: String,
        /// What is wrong, and with which file.
        what: String,
        /// Whether the journal is there from its beginning, so that the next start can make the checkpoint anew.
        reaches_back: bool,
    },
}

fn whats_next(reaches_back: bool) -> String {
    match reaches_back {
        true => "Restart the broker: the journal is there from its beginning, and the checkpoint is made anew from it. That \
                 takes time and loses nothing"
            .to_owned(),
        false => format!("The journal is not there from its beginning, so the next start is refused. {WITHOUT_CHECKPOINT}"),
    }
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
    /// Why nothing may be written any more; the first reason stays.
    failure: OnceLock<Failure>,
    /// Damage in the tree that was met.
    damage: Mutex<Option<Failure>>,
    /// The journal is what the checkpoint will be made anew from: no segment is taken back any more.
    pub keeps_all: AtomicBool,
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
            failure: OnceLock::new(),
            damage: Mutex::new(None),
            keeps_all: AtomicBool::new(false),
            bell: Bell::default(),
        }
    }

    /// Notes a failure; the first one stays. From here on nothing is written.
    pub fn poison(&self, name: &str, what: &'static str, error: &io::Error) -> Failure {
        self.stop(Failure::Io { place: self.disk.place(name), what, reason: error.to_string() })
    }

    /// As [`Shared::poison`], for an error of the tree.
    pub fn poison_by(&self, tree: &dyn Tree, what: &'static str, error: TreeError) -> Failure {
        match error {
            TreeError::Damaged(damage) => self.stop(self.damaged(tree, damage)),
            error => self.poison(TREE, what, &io::Error::other(error)),
        }
    }

    /// The tree is damaged: that is noted for the next start. While the journal is there from its beginning the broker stops,
    /// so that this start still finds it so.
    pub fn damaged(&self, tree: &dyn Tree, what: String) -> Failure {
        let mut damage = lock(&self.damage);
        if let Some(known) = &*damage {
            return known.clone();
        }
        let reaches_back = reaches_back(&self.segments.all());
        self.keeps_all.store(reaches_back, Ordering::Release);
        // Looking for the file takes a while, in which the process may be killed.
        let noted = self.note(&what);
        let named = match tree.named(TreeError::Damaged(what)) {
            TreeError::Damaged(named) => named,
            other => unreachable!("a name makes no other error of it: {other}"),
        };
        let noted = noted.and_then(|()| self.note(&named));
        let what = match noted {
            Ok(()) => named,
            Err(error) => format!("{named} (writing {} for the next start failed: {error})", self.disk.place(NOTE)),
        };
        let failure = Failure::CheckpointDamaged { place: self.disk.place(TREE), what, reaches_back };
        *damage = Some(failure.clone());
        if reaches_back {
            self.stop(failure.clone());
        }
        failure
    }

    fn note(&self, what: &str) -> io::Result<()> {
        match damaged::leave(self.disk.as_ref(), what) {
            Err(error) if is_full(&error) => {
                // What is known of the damage is worth more than the reserve.
                self.spares.disk_full.store(true, Ordering::Release);
                let Some(spare) = self.spares.take() else { return Err(error) };
                self.disk.remove(&spare)?;
                damaged::leave(self.disk.as_ref(), what)
            }
            done => done,
        }
    }

    /// From here on nothing is written.
    fn stop(&self, failure: Failure) -> Failure {
        let failure = self.failure.get_or_init(|| failure).clone();
        self.bell.ring();
        failure
    }

    /// The failure, if there was one.
    pub fn check(&self) -> Result<(), Failure> {
        self.failure.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// Whether the last segment is durable to its half or further.
    pub fn is_half_full(&self) -> bool {
        let durable = self.durable.load(Ordering::Acquire);
        self.segments.find(durable).is_some_and(|segment| segment.offset(durable) >= segment.bytes / 2)
    }
}
