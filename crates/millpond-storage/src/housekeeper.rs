//! What is done in the background: space is made ready, checkpoints are written, dead segments are taken back, old bytes
//! are read again, and the directory is looked at, whether it is still there.
//!
//! The server runs it in a thread; the simulation and the tests call [`Housekeeper::step`] where they choose, so that
//! a run is the same each time. Nothing here is on the way of a message, and nothing waits for it but a full disk.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::disk::{Preallocate, TREE, is_full};
use crate::journal::segments::Segment;
use crate::journal::shared::{Failure, Hold, Shared};
use crate::journal::spares::{RESERVE, SPARES};
use crate::scrub::{Damage, Scrub, Scrubbed};
use crate::store::LayeredStore;
use crate::sync::lock;
use crate::tree::{Compactor, TreeError};

/// How long the housekeeper waits before it looks for space again on a full disk, and at the directory: what is confirmed
/// after it was removed is lost. A second, as [`Housekeeper::second_passed`] says.
const AGAIN: Duration = Duration::from_secs(1);

/// So many seconds, of which the first is cut short, a checkpoint waits for which there was no space.
const AGAIN_FULL: u32 = 2;

/// How long after a start the first pass of the scrub begins: a start has enough to read.
const SCRUB_FIRST: Duration = Duration::from_secs(10 * 60);
/// How long after a pass of the scrub the next begins. Disks rot in months.
const SCRUB_AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// What somebody has to see to, though the directory stays in service.
#[derive(Debug)]
pub enum Trouble {
    /// Old bytes are damaged.
    Damage(Damage),
    /// The tree cannot be merged, and it grows, and reads of it take longer, until that is mended; or the scrub cannot read it.
    Tree(TreeError),
    /// The tree is damaged where only merges and the scrub have come so far, and cannot be made anew: a read of that place
    /// ends the broker, and the next start is refused.
    Checkpoint(Failure),
}

/// See the module.
pub struct Housekeeper {
    shared: Arc<Shared>,
    store: LayeredStore,
    compactor: Option<Compactor>,
    scrub: Scrub,
    /// For how many seconds more no checkpoint is tried, for there was no space for one, not even the reserve's.
    pause: u32,
    _hold: Hold,
}

impl Housekeeper {
    pub(crate) fn new(shared: Arc<Shared>, hold: Hold, store: LayeredStore) -> Housekeeper {
        Housekeeper { shared, store, compactor: None, scrub: Scrub::default(), pause: 0, _hold: hold }
    }

    /// Works until the [`crate::Committer`] is dropped, and tells of trouble. Returns early where a write or a sync failed:
    /// then the committer fails as well.
    pub fn run(mut self, mut tell: impl FnMut(Trouble)) -> Result<(), Failure> {
        let compactor = self.store.keep().map_err(|error| self.shared.poison(TREE, "starting a thread for", &error))?;
        self.compactor = Some(compactor);
        let mut scrub_at = Instant::now() + SCRUB_FIRST;
        let mut look_at = Instant::now();
        while !self.shared.bell.is_closing() {
            if Instant::now() >= look_at {
                let there = self.shared.disk.is_still_there();
                there.map_err(|error| self.shared.poison("", "keeping", &error))?;
                self.second_passed();
                look_at = Instant::now() + AGAIN;
            }
            if self.step()? {
                continue;
            }
            self.shared.bell.wait(AGAIN);
            if let Some(error) = self.compactor.as_ref().and_then(Compactor::take_failure) {
                tell(self.trouble_of(error)?);
            }
            let now = Instant::now();
            if now >= scrub_at {
                // A piece a wait, so that it takes little of what the disk can do.
                scrub_at = now + AGAIN;
                match self.scrub() {
                    Scrubbed::Piece => {}
                    Scrubbed::Damaged(damage) => tell(Trouble::Damage(damage)),
                    Scrubbed::Checkpoint(error) => tell(self.trouble_of(error)?),
                    Scrubbed::Pass => scrub_at = now + SCRUB_AGAIN,
                }
            }
        }
        Ok(())
    }

    /// Reads a piece of old bytes and compares it with its checksums.
    pub fn scrub(&mut self) -> Scrubbed {
        self.scrub.step(&self.shared, self.store.tree().as_ref())
    }

    /// What it is that a merge or the scrub has met in the tree; a failure where the broker stops for it.
    pub(crate) fn trouble_of(&self, error: TreeError) -> Result<Trouble, Failure> {
        let tree = self.store.tree();
        let TreeError::Damaged(what) = error else { return Ok(Trouble::Tree(tree.named(error))) };
        let failure = self.shared.damaged(tree.as_ref(), what);
        self.shared.check()?;
        Ok(Trouble::Checkpoint(failure))
    }

    /// A step of keeping the tree in order, which [`Housekeeper::run`] lets a thread of its own take; false if there was none to take.
    pub fn tend(&self) -> Result<bool, TreeError> {
        self.store.tend()
    }

    /// To be called once a second, as [`Housekeeper::run`] does.
    pub fn second_passed(&mut self) {
        self.pause = self.pause.saturating_sub(1);
        self.shared.segments.second_passed();
    }

    /// Does one thing; false if there was none to do, or no space to do it with.
    pub fn step(&mut self) -> Result<bool, Failure> {
        self.shared.check()?;
        self.store.let_go();
        Ok(self.write_checkpoint()? || self.take_back()? || self.make_ready()?)
    }

    /// Writes the checkpoint that was begun, once it is complete and the journal is durable up to it. Where there is no space for
    /// it, the reserve is set aside again, and it is tried again a second later: a try writes as much as there is space for.
    fn write_checkpoint(&mut self) -> Result<bool, Failure> {
        if self.pause > 0 {
            return Ok(false);
        }
        let shared = self.shared.clone();
        let durable = shared.durable.load(Ordering::Acquire);
        let Some(sealed) = self.store.sealed() else { return Ok(false) };
        let mut waiting = lock(&shared.job);
        let Some(job) = waiting.as_mut().filter(|job| job.position <= durable) else { return Ok(false) };
        job.live = job.live.take().or_else(|| shared.segments.noted());
        let (position, head) = (job.position, job.head(shared.directory));
        drop(waiting);
        let result = match self.store.commit(sealed, &head) {
            // The reserve is for this too: without a checkpoint no segment comes back.
            Err(TreeError::Full(_)) if self.give_up_spare()? => {
                let sealed = self.store.sealed().expect("a checkpoint is there until it is committed");
                self.store.commit(sealed, &head)
            }
            other => other,
        };
        match result {
            Ok(()) => {
                *lock(&shared.job) = None;
                shared.checkpoint.store(position, Ordering::Release);
                shared.checkpointing.store(false, Ordering::Release);
                self.compactor.iter().for_each(Compactor::wake);
                Ok(true)
            }
            // It stays where it is.
            Err(TreeError::Full(_)) => {
                self.pause = AGAIN_FULL;
                shared.spares.disk_full.store(true, Ordering::Release);
                Ok(false)
            }
            Err(error) => Err(shared.poison_by(self.store.tree().as_ref(), "writing a checkpoint to", error)),
        }
    }

    fn give_up_spare(&self) -> Result<bool, Failure> {
        self.shared.spares.disk_full.store(true, Ordering::Release);
        let Some(name) = self.shared.spares.take() else { return Ok(false) };
        let removed = self.shared.disk.remove(&name).and_then(|()| self.shared.disk.sync_dir());
        removed.map_err(|error| self.shared.poison(&name, "removing", &error))?;
        Ok(true)
    }

    /// Drops segments that nobody will read again, or makes spares of them.
    fn take_back(&mut self) -> Result<bool, Failure> {
        if self.shared.keeps_all.load(Ordering::Acquire) {
            return Ok(false);
        }
        let before = self.shared.checkpoint.load(Ordering::Acquire);
        let dead = self.shared.segments.take_dead(before);
        for segment in &dead {
            let result = self.take_back_one(segment);
            result.map_err(|error| self.shared.poison(&segment.name, "taking back", &error))?;
        }
        Ok(!dead.is_empty())
    }

    fn take_back_one(&self, segment: &Segment) -> io::Result<()> {
        let shared = &self.shared;
        if shared.spares.count() >= shared.spares_kept || segment.bytes != shared.segment_bytes {
            shared.disk.remove(&segment.name)?;
            return shared.disk.sync_dir();
        }
        let name = shared.spares.name();
        shared.disk.rename(&segment.name, &name)?;
        // The old name must not come back once the file has another segment's header.
        shared.disk.sync_dir()?;
        shared.spares.add(name);
        if shared.spares.count() >= SPARES {
            self.found_space();
        }
        Ok(())
    }

    /// All spares are there: the disk is full no longer, if it was, and what waits for space is tried again.
    fn found_space(&self) {
        if self.shared.spares.disk_full.swap(false, Ordering::AcqRel) {
            self.compactor.iter().for_each(Compactor::found_space);
        }
    }

    /// Sees to it that there is a reserve before anything is decided, or that it is known that there is none. A message that was
    /// taken in by then, and for which the disk turned out to have no room, could not be refused any more.
    pub(crate) fn keep_reserve(&mut self) -> Result<(), Failure> {
        if self.shared.spares.count() < RESERVE {
            self.make_ready()?;
        }
        Ok(())
    }

    /// Takes space for one more spare: for the reserve at once, for the next segment when this one is half full, so that
    /// a broker that does little takes little.
    fn make_ready(&mut self) -> Result<bool, Failure> {
        let shared = &self.shared;
        let (count, full) = (shared.spares.count(), shared.spares.disk_full.load(Ordering::Acquire));
        if count >= SPARES {
            self.found_space();
            return Ok(false);
        }
        if count >= RESERVE && !full && !shared.is_half_full() {
            return Ok(false);
        }
        // The reserve is for bad times, in which nobody asks how fast a sync is.
        let hurried = count < RESERVE || shared.spares.hurried.load(Ordering::Acquire);
        let how = if hurried { Preallocate::Reserved } else { Preallocate::Filled };
        let name = shared.spares.name();
        match self.prepare(&name, how) {
            Ok(()) => {
                shared.spares.add(name);
                Ok(true)
            }
            Err(error) if is_full(&error) => {
                shared.spares.disk_full.store(true, Ordering::Release);
                match shared.disk.remove(&name) {
                    // There was no room for its name.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                    removed => removed.map(|()| false).map_err(|error| shared.poison(&name, "removing", &error)),
                }
            }
            Err(error) => Err(shared.poison(&name, "preallocating", &error)),
        }
    }

    fn prepare(&self, name: &str, how: Preallocate) -> io::Result<()> {
        let file = self.shared.disk.create(name)?;
        file.preallocate(self.shared.segment_bytes, how)?;
        self.shared.disk.sync_dir()
    }
}
