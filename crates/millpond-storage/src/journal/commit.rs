//! The disk's end of the journal: batches become durable.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millpond_types::{Millis, RunTime};

use super::batch::Batch;
use super::live::{ByGroup, OPEN};
use super::segment::{SEGMENT_HEADER, SegmentHeader, segment_name, write_end};
use super::segments::Segment;
use super::shared::{Failure, Hold, Shared};
use crate::disk::{DiskFile, Preallocate, is_full};

/// A segment that was filled faster than this is not worth writing twice: syncs are of large batches then, and the
/// conversion of extents is a small part of them.
const HURRIED: Millis = Millis(2000);

/// Writes batches and syncs them, in the order in which they were sealed. May move between threads.
pub struct Committer {
    shared: Arc<Shared>,
    segment: Segment,
    /// The position behind the last batch that was written.
    written: u64,
    durable: u64,
    /// The run time of the segment's first batch.
    begun: Option<RunTime>,
    _hold: Hold,
}

/// Why a batch was not committed.
#[derive(thiserror::Error)]
pub enum CommitError {
    /// There is no space left, not even the reserve's. Nothing was written, and here is the batch: it can be written
    /// again as soon as there is space, and nothing else can be before.
    #[error("the disk is full, the reserve included: make room, the broker goes on by itself")]
    DiskFull(Box<Batch>),
    /// A write or a sync failed. The broker must stop.
    #[error(transparent)]
    Failed(#[from] Failure),
}

impl std::fmt::Debug for CommitError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Committer {
    /// Goes on behind `position` in the last of the segments, everything before being durable.
    pub(crate) fn new(shared: Arc<Shared>, hold: Hold, segment: Segment, position: u64) -> Committer {
        shared.durable.store(position, Ordering::Release);
        Committer { shared, segment, written: position, durable: position, begun: None, _hold: hold }
    }

    /// The directory, as messages show it.
    pub(crate) fn place(&self) -> String {
        self.shared.disk.place("")
    }

    /// Writes a batch. When this returns, its messages can be read, and it survives a kill of the process.
    pub fn write(&mut self, mut batch: Batch) -> Result<(), CommitError> {
        self.shared.check()?;
        assert_eq!(batch.position(), self.written, "batches are written in the order in which they were sealed");
        let has_room = self.segment.end == OPEN && self.segment.offset(batch.end()) <= self.segment.bytes;
        if !has_room && !self.roll(&batch)? {
            return Err(CommitError::DiskFull(Box::new(batch)));
        }
        self.begun.get_or_insert(batch.header.run);
        let offset = self.segment.offset(batch.position());
        let result = self.segment.file.write_at(offset, batch.finish(self.durable, self.shared.directory));
        result.map_err(|error| self.shared.poison(&self.segment.name, "writing to", &error))?;
        self.written = batch.end();
        self.shared.segments.written(batch.end(), &mut batch.holdings);
        self.shared.tail.insert(batch.position(), batch.into_bytes());
        Ok(())
    }

    /// Makes everything that was written durable, and returns the position behind it.
    pub fn sync(&mut self) -> Result<u64, Failure> {
        self.shared.check()?;
        if self.durable == self.written {
            return Ok(self.durable);
        }
        let result = self.segment.file.sync();
        result.map_err(|error| self.shared.poison(&self.segment.name, "syncing", &error))?;
        let half = self.segment.bytes / 2;
        let half_full = self.segment.offset(self.durable) < half && self.segment.offset(self.written) >= half;
        self.durable = self.written;
        self.shared.durable.store(self.durable, Ordering::Release);
        let emptied = self.shared.segments.durable();
        if emptied || half_full || self.shared.checkpointing.load(Ordering::Acquire) {
            self.shared.bell.ring();
        }
        Ok(self.durable)
    }

    /// Goes on in a new segment; false if there is no space for one.
    fn roll(&mut self, batch: &Batch) -> Result<bool, Failure> {
        // A segment's base vouches for everything before it.
        self.sync()?;
        if let Some(begun) = self.begun {
            self.shared.spares.hurried.store(batch.header.run.since(begun) < HURRIED, Ordering::Release);
        }
        let Some((spare, file)) = self.space(SEGMENT_HEADER + batch.bytes())? else { return Ok(false) };
        let name = segment_name(self.written);
        let shared = &self.shared;
        let bytes = begin_segment(shared, file.as_ref(), self.written, &spare, &name)
            .map_err(|error| shared.poison(&name, "beginning the segment", &error))?;
        write_end(self.segment.file.as_ref(), shared.directory, self.segment.base, self.written)
            .map_err(|error| shared.poison(&self.segment.name, "ending the segment", &error))?;
        self.segment = Segment { base: self.written, end: OPEN, name, file, bytes, live: ByGroup::default() };
        self.begun = None;
        shared.segments.add(self.segment.clone());
        shared.bell.ring();
        Ok(true)
    }

    /// A file for the next segment: a spare, or new space where the housekeeper has not kept up; the reserve where there
    /// is none.
    fn space(&mut self, needed: u64) -> Result<Option<Space>, Failure> {
        let shared = &self.shared;
        let fits = needed <= shared.segment_bytes;
        let ready = || if fits { shared.spares.take() } else { None };
        let open = |name: String| {
            let file = shared.disk.open(&name).map_err(|error| shared.poison(&name, "opening", &error))?;
            Ok(Some((name, file)))
        };
        if let Some(spare) = ready() {
            return open(spare);
        }
        let name = shared.spares.name();
        match new_space(shared, &name, needed.max(shared.segment_bytes)) {
            Ok(file) => Ok(Some((name, file))),
            Err(error) if is_full(&error) => {
                shared.spares.disk_full.store(true, Ordering::Release);
                // What was half taken is given back. That it cannot be removed is no reason to stop: the next start will.
                let _ = shared.disk.remove(&name);
                shared.bell.ring();
                ready().map_or(Ok(None), open)
            }
            Err(error) => Err(shared.poison(&name, "preallocating", &error)),
        }
    }
}

impl Drop for Committer {
    /// The housekeeper ends with the committer.
    fn drop(&mut self) {
        self.shared.bell.close();
    }
}

/// A file that may become a segment, and its name.
type Space = (String, Arc<dyn DiskFile>);

/// Takes space for a segment, quickly.
fn new_space(shared: &Shared, name: &str, bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
    let file = shared.disk.create(name)?;
    file.preallocate(bytes, Preallocate::Reserved)?;
    Ok(file)
}

/// Turns a spare into a segment, and says how long it is. The header is durable before the name is, and the name before a
/// batch is written.
fn begin_segment(shared: &Shared, file: &dyn DiskFile, base: u64, spare: &str, name: &str) -> io::Result<u64> {
    let length = file.length()?;
    SegmentHeader { start: shared.start, base, directory: shared.directory, length: Some(length) }.write(file)?;
    file.sync()?;
    shared.disk.rename(spare, name)?;
    shared.disk.sync_dir()?;
    Ok(length)
}
