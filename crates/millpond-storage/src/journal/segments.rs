//! The segments that there are, and how many bytes of live messages each holds.
//!
//! A message counts from when its batch is written to when the batch that ended it is *durable*: after a power cut the
//! state may go back to before the end, and then the body must still be there. A segment with nothing live that lies
//! wholly before the newest checkpoint holds nothing that anyone will read again.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use millpond_core::output::Extent;

use super::segment::SEGMENT_HEADER;
use crate::disk::DiskFile;

/// See the module.
#[derive(Default)]
pub struct Segments(RwLock<BTreeMap<u64, Segment>>);

/// A segment.
#[derive(Clone)]
pub struct Segment {
    /// The position of its first batch.
    pub base: u64,
    /// Its file's name.
    pub name: String,
    /// Its file.
    pub file: Arc<dyn DiskFile>,
    /// Bytes of its file.
    pub bytes: u64,
    /// Bytes of messages in it that are still needed.
    pub live: u64,
}

impl Segment {
    /// The offset in the file at which a position lies.
    pub fn offset(&self, position: u64) -> u64 {
        position - self.base + SEGMENT_HEADER
    }

    /// Whether all of an extent may lie in it.
    pub fn holds(&self, extent: Extent) -> bool {
        extent.position >= self.base
            && self.offset(extent.position).checked_add(extent.length.into()).is_some_and(|end| end <= self.bytes)
    }
}

impl Segments {
    /// Adds a segment behind all others.
    pub fn add(&self, segment: Segment) {
        let mut segments = self.write();
        assert!(segments.keys().next_back().is_none_or(|last| *last < segment.base), "segments come in order");
        segments.insert(segment.base, segment);
    }

    /// Counts the messages of a batch that was written into the last segment.
    pub fn stored(&self, bytes: u64) {
        let mut segments = self.write();
        segments.values_mut().next_back().expect("a batch is written into a segment").live += bytes;
    }

    /// Counts messages found live at start; false if one is in no segment.
    pub fn count_live(&self, extent: Extent) -> bool {
        let mut segments = self.write();
        let found = segments.range_mut(..=extent.position).next_back().filter(|(_, segment)| segment.holds(extent));
        found.map(|(_, segment)| segment.live += u64::from(extent.length)).is_some()
    }

    /// Counts messages off. True if that left a segment other than the last without any.
    pub fn freed(&self, extents: &[Extent]) -> bool {
        let mut segments = self.write();
        let last = segments.keys().next_back().copied();
        let mut emptied = false;
        for extent in extents {
            let (base, segment) = segments.range_mut(..=extent.position).next_back().expect("what is freed was stored");
            let left = segment.live.checked_sub(extent.length.into());
            segment.live = left.expect("a message is freed once, from the segment that holds it");
            emptied |= segment.live == 0 && Some(*base) != last;
        }
        emptied
    }

    /// Takes out the segments that lie wholly before a position and hold nothing live. The last always stays.
    pub fn take_dead(&self, before: u64) -> Vec<Segment> {
        let mut segments = self.write();
        let dead = dead(&segments).filter(|(_, end)| *end <= before).map(|(base, _)| base).collect::<Vec<_>>();
        dead.into_iter().filter_map(|base| segments.remove(&base)).collect()
    }

    /// Whether a checkpoint at the end of the journal would let a segment go.
    pub fn any_dead(&self) -> bool {
        dead(&self.read()).next().is_some()
    }

    /// The segment that a position would lie in.
    pub fn find(&self, position: u64) -> Option<Segment> {
        self.read().range(..=position).next_back().map(|(_, segment)| segment.clone())
    }

    /// All segments, in order.
    pub fn all(&self) -> Vec<Segment> {
        self.read().values().cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<u64, Segment>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<u64, Segment>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Base and (at the latest) end of each segment but the last that holds nothing live.
fn dead(segments: &BTreeMap<u64, Segment>) -> impl Iterator<Item = (u64, u64)> {
    let ends = segments.keys().skip(1);
    segments.values().zip(ends).filter(|(segment, _)| segment.live == 0).map(|(segment, end)| (segment.base, *end))
}
