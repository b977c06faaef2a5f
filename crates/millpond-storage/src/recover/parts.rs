//! Checkpoints that a start makes on its way through a long journal, so that it takes no more memory than a broker that runs.
//!
//! A checkpoint may begin where one began when the facts were first applied: behind that place they say anew where topics are.
//! It is like any other, and stays: where the start is cut short, the next one goes on from it. So before it is committed, the
//! journal has to be known durable up to it. Where the disk is full, the reserve is for it; where that is not enough, the start
//! is refused, for whatever is behind would be in memory.

use std::io;

use millpond_core::page::NumbersPage;

use super::ends::write_again;
use super::{Replay, Replica, Source};
use crate::checkpoint::Job;
use crate::disk::{Disk, TREE};
use crate::journal::segments::Segment;
use crate::journal::spares::Spares;
use crate::open::OpenError;
use crate::tree::{CommitHead, TreeError};

/// When a checkpoint is made on the way.
pub(super) struct Parts {
    /// Bytes of changed entries.
    young_bytes: usize,
    /// Whether the next one that was begun is left out: it was on its way when the broker ended, and there is no further one. What is
    /// behind it fits into memory, as it did before, and the start need not wait for the disk.
    is_spared: bool,
}

impl Parts {
    pub fn new(young_bytes: usize, behind_checkpoint: bool) -> Parts {
        Parts { young_bytes, is_spared: behind_checkpoint }
    }
}

impl<R: Replica> Replay<'_, R> {
    /// An epoch begins with the batch at this position.
    pub(super) fn pass_epoch(&mut self, segment: &Segment, position: u64) -> Result<(), OpenError> {
        let Some(state) = &mut self.state else { return Ok(()) };
        state.pass_epoch(self.report.now);
        let Some(Parts { young_bytes, is_spared }) = &mut self.parts else { return Ok(()) };
        if std::mem::take(is_spared) || self.source.store.young().bytes < *young_bytes {
            return Ok(());
        }
        let NumbersPage { epoch, wall, .. } = state.freeze();
        while state.capture(usize::MAX) == Some(false) {}
        let Source { disk, directory, .. } = self.source;
        disk.sync_dir().map_err(|error| OpenError::Io { place: disk.place(""), what: "syncing", error })?;
        write_again(disk, segment, self.durable, position)?;
        let job = Job { position, start: self.report.start, epoch, wall, live: Some(self.live.clone()) };
        self.source.commit(&job.head(directory))?;
        (self.durable, self.report.checkpoint) = (position, position);
        Ok(())
    }
}

impl Source<'_> {
    fn commit(&self, head: &CommitHead) -> Result<(), OpenError> {
        let place = || self.disk.place(TREE);
        loop {
            let sealed = self.store.sealed().expect("a checkpoint is there until it is committed");
            match self.store.commit(sealed, head) {
                Err(TreeError::Full(_)) if give_up_spare(self.disk)? => {}
                Err(TreeError::Full(_)) => return Err(OpenError::Full(place())),
                done => return done.map_err(|error| OpenError::Tree { place: place(), error }),
            }
        }
    }
}

/// Removes space that was taken ahead; whether there was any.
fn give_up_spare(disk: &dyn Disk) -> Result<bool, OpenError> {
    let give_up = || -> io::Result<bool> {
        let Some(name) = disk.list()?.into_iter().find(|name| Spares::is_spare(name)) else { return Ok(false) };
        disk.remove(&name)?;
        disk.sync_dir()?;
        Ok(true)
    };
    give_up().map_err(|error| OpenError::Io { place: disk.place(""), what: "removing a spare segment of", error })
}
