//! The segments that there are, and how many bytes of live messages each holds, now and as of a checkpoint.
//!
//! A message counts from when its batch is written to when the batch that ended it is *durable*: after a power cut the
//! state may go back to before the end, and then the body must still be there. A segment with nothing live that lies
//! wholly before the newest checkpoint holds nothing that anyone will read again, but for messages that ended as they were
//! delivered. Who is told of these reads them a moment later, so their segments stay for some seconds more.
//!
//! A checkpoint, which goes with a position, counts the ends before the position too, durable or not: what batches have
//! ended that are not durable yet is kept apart, so that both counts are known when the last batch before the position is
//! written.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use millpond_core::fact::GroupNumber;
use millpond_core::output::{Extent, Holdings};

use super::live::{ByGroup, LiveBytes};
use super::segment::SEGMENT_HEADER;
use crate::disk::DiskFile;

/// So many seconds, of which the first may be cut short, a segment stays from which messages were delivered at most once. A
/// connection has read them long before, unless its client takes nothing; and for that one nothing stays for ever.
const UNREAD: u32 = 5;

/// See the module.
#[derive(Default)]
pub struct Segments(RwLock<Inner>);

#[derive(Default)]
struct Inner {
    by_base: BTreeMap<u64, Segment>,
    /// The position behind the last batch that was written.
    written: u64,
    /// What batches have ended that are written and not durable yet.
    ended: Vec<(GroupNumber, Extent)>,
    /// Of that, what ended as it was delivered.
    delivered: Vec<Extent>,
    /// The segments from which messages were delivered that ended so, and for how many seconds more they stay.
    unread: BTreeMap<u64, u32>,
    /// The position of the checkpoint that is being made.
    checkpoint: Option<u64>,
    /// What was live there.
    noted: Option<LiveBytes>,
}

/// A segment.
#[derive(Clone)]
pub struct Segment {
    /// The position of its first batch.
    pub base: u64,
    /// The position behind its last batch, where the next segment began, be that one gone or not; of the last segment,
    /// past all positions.
    pub end: u64,
    /// Its file's name.
    pub name: String,
    /// Its file.
    pub file: Arc<dyn DiskFile>,
    /// Bytes of its file.
    pub bytes: u64,
    /// Bytes of messages in it that the groups still need.
    pub live: ByGroup,
}

impl Segment {
    /// The offset in the file at which a position lies.
    pub fn offset(&self, position: u64) -> u64 {
        position - self.base + SEGMENT_HEADER
    }

    /// Whether all of an extent may lie in it. What lies behind its end lay in another segment.
    pub fn holds(&self, extent: Extent) -> bool {
        (self.base..self.end).contains(&extent.position)
            && self.offset(extent.position).checked_add(extent.length.into()).is_some_and(|end| end <= self.bytes)
    }
}

impl Segments {
    /// Adds a segment behind all others. It takes the place of one that begins where it begins: a file that was cut until
    /// not even its first batch had room, and so holds nothing.
    pub fn add(&self, segment: Segment) {
        let segments = &mut self.write().by_base;
        if let Some(last) = segments.values_mut().next_back() {
            assert!(last.base <= segment.base, "segments come in order");
            last.end = last.end.min(segment.base);
        }
        segments.insert(segment.base, segment);
    }

    /// A batch was written into the last segment: it ends at this position, and has changed what the groups hold.
    pub fn written(&self, end: u64, holdings: &mut Holdings) {
        let mut inner = self.write();
        let last = inner.by_base.values_mut().next_back().expect("a batch is written into a segment");
        holdings.stored.drain(..).for_each(|(group, bytes)| last.live.add(group, bytes));
        for (group, extent) in holdings.shared.drain(..) {
            // Somebody else holds it still, so its segment is there.
            let found = inner.by_base.range_mut(..=extent.position).next_back();
            found.expect("what is shared was stored").1.live.add(group, extent.length.into());
        }
        inner.ended.append(&mut holdings.freed);
        inner.delivered.append(&mut holdings.delivered);
        inner.written = end;
        inner.note();
    }

    /// The position behind the last batch that was written.
    pub fn end(&self) -> u64 {
        self.read().written
    }

    /// What was written is durable. True if that left a segment other than the last without messages.
    pub fn durable(&self) -> bool {
        let mut inner = self.write();
        let last = inner.by_base.keys().next_back().copied();
        for extent in std::mem::take(&mut inner.delivered) {
            let base = inner.base(extent.position).expect("what is delivered was stored");
            inner.unread.insert(base, UNREAD);
        }
        let mut emptied = false;
        for (group, extent) in std::mem::take(&mut inner.ended) {
            let found = inner.by_base.range_mut(..=extent.position).next_back();
            let (base, segment) = found.expect("what is freed was stored");
            let was_there = segment.live.take(group, extent.length.into());
            assert!(was_there, "a message is freed once, from the segment that holds it");
            emptied |= segment.live.is_empty() && Some(*base) != last;
        }
        emptied
    }

    /// Notes what is live behind the last batch before a position, as soon as that is written. To be called before a
    /// batch behind it can be.
    pub fn note_at(&self, position: u64) {
        let mut inner = self.write();
        assert!(inner.written <= position, "what was live there is not known any more");
        inner.checkpoint = Some(position);
        inner.note();
    }

    /// What was noted.
    pub fn noted(&self) -> Option<LiveBytes> {
        self.write().noted.take()
    }

    /// Takes out the segments that lie wholly before a position and hold nothing live. The last always stays.
    pub fn take_dead(&self, before: u64) -> Vec<Segment> {
        let mut inner = self.write();
        let is_dead = |(base, end): &(u64, u64)| *end <= before && !inner.unread.contains_key(base);
        let dead = inner.empty().filter(is_dead).map(|(base, _)| base).collect::<Vec<_>>();
        dead.into_iter().filter_map(|base| inner.by_base.remove(&base)).collect()
    }

    /// A second has passed: less time is left to read what was delivered.
    pub fn second_passed(&self) {
        self.write().unread.retain(|_, left| {
            *left -= 1;
            *left > 0
        });
    }

    /// Whether a checkpoint at the end of the journal would let a segment go that another one at this position does not, at once or as
    /// soon as it has stayed for its time.
    pub fn any_dead(&self, checkpoint: u64) -> bool {
        self.read().empty().any(|(_, end)| end > checkpoint)
    }

    /// Where the segment begins that a position would lie in.
    pub fn base(&self, position: u64) -> Option<u64> {
        self.read().base(position)
    }

    /// The segment that a position would lie in.
    pub fn find(&self, position: u64) -> Option<Segment> {
        self.read().by_base.range(..=position).next_back().map(|(_, segment)| segment.clone())
    }

    /// All segments, in order.
    pub fn all(&self) -> Vec<Segment> {
        self.read().by_base.values().cloned().collect()
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn base(&self, position: u64) -> Option<u64> {
        self.by_base.range(..=position).next_back().map(|(base, _)| *base)
    }

    /// Base and (at the latest) end of each segment but the last that holds nothing live.
    fn empty(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends = self.by_base.keys().skip(1);
        let empty = self.by_base.values().zip(ends).filter(|(segment, _)| segment.live.is_empty());
        empty.map(|(segment, end)| (segment.base, *end))
    }

    fn note(&mut self) {
        if self.checkpoint.take_if(|position| *position == self.written).is_none() {
            return;
        }
        let mut live = LiveBytes::default();
        self.by_base.values().for_each(|segment| live.put(segment.base, segment.end, segment.live.clone()));
        for (group, extent) in &self.ended {
            assert!(live.freed(*group, *extent), "a message is freed once, from the segment that holds it");
        }
        self.noted = Some(live);
    }
}
