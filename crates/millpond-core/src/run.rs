//! Runs: consecutive messages of one topic and priority whose blocks lie together. They are cut, never copied.
//!
//! What a run takes of memory beside itself, its sizes and marks, it shares with all that were cut from the same one. Each
//! counts as much of it as is of its messages.

use alloc::sync::Arc;
use core::mem::size_of;

use millpond_types::block::Sizes;
use millpond_types::{Sequence, WallTime};

use crate::output::Extent;
use crate::page::{Marks, RunPage};

/// Bytes that are a unit: what a run takes whose messages are all of one size and have no dedup id.
const UNIT_BYTES: usize = size_of::<RunPage>();
/// Bytes of the two counters that stand before what is shared.
const SHARED_BYTES: usize = 2 * size_of::<usize>();

impl RunPage {
    /// Bytes that a run of one message takes beside itself at most: with a dedup id.
    pub(crate) const MARKED_BYTES: usize = Marks::EACH_BYTES + size_of::<Marks>() + SHARED_BYTES;

    /// How much of a level's bounds it takes: never more than it has messages, so that a run of one is one.
    pub fn units(&self) -> u32 {
        let marked = self.marks.as_ref().map_or(0, |marks| marks.count(self.index, self.count));
        1 + ((self.bytes_of_sizes() + marked * Marks::EACH_BYTES) / UNIT_BYTES) as u32
    }

    /// About how many bytes it takes beside itself, of what it shares with others only its part.
    pub(crate) fn bytes(&self) -> usize {
        let of_marks = |marks: &Arc<Marks>| marks.bytes(self.index, self.count, SHARED_BYTES);
        self.bytes_of_sizes() + self.marks.as_ref().map_or(0, of_marks)
    }

    fn bytes_of_sizes(&self) -> usize {
        match &self.sizes {
            Sizes::Uniform(_) => 0,
            Sizes::Ends(_) => self.count as usize * size_of::<u32>(),
        }
    }

    /// The sequence behind the last message.
    pub fn end(&self) -> Sequence {
        Sequence(self.first.0 + u64::from(self.count))
    }

    /// Whether the message is one of the run.
    pub fn contains(&self, sequence: Sequence) -> bool {
        self.first <= sequence && sequence < self.end()
    }

    /// Where the blocks of all messages lie.
    pub fn extent(&self) -> Extent {
        let from = self.sizes.offset(self.index);
        let to = self.sizes.offset(self.index + self.count);
        Extent { position: self.position + u64::from(from), length: to - from }
    }

    /// How many messages from the front have at most so many bytes together.
    pub fn fitting(&self, bytes: u64) -> u32 {
        let from = u64::from(self.sizes.offset(self.index));
        let fits = |count: u32| u64::from(self.sizes.offset(self.index + count)) - from <= bytes;
        if fits(self.count) {
            return self.count;
        }
        let (mut low, mut high) = (0, self.count);
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }

    /// Cuts the first `count` messages off.
    pub fn split_front(&mut self, count: u32) -> RunPage {
        assert!(count <= self.count, "a run is cut within itself");
        let front = RunPage { count, ..self.clone() };
        self.first = front.end();
        self.count -= count;
        self.index += count;
        front
    }

    /// The run with what is of its messages alone, as pages have it.
    pub fn compact(&self) -> RunPage {
        RunPage {
            position: self.extent().position,
            sizes: self.sizes.cut(self.index, self.count),
            marks: self.marks.as_ref().and_then(|marks| marks.cut(self.index, self.count)),
            index: 0,
            ..*self
        }
    }

    /// Lets go of what it shares, where most of that is of other messages, which may be finished. So a run that is cut again and
    /// again is copied a bounded number of times for each message.
    pub(crate) fn slim(&mut self) {
        if !self.is_slim() {
            *self = self.compact();
        }
    }

    /// Whether it keeps little of what is of other messages.
    pub(crate) fn is_slim(&self) -> bool {
        let of_sizes = if let Sizes::Ends(ends) = &self.sizes { ends.len() } else { 0 };
        let of_marks = self.marks.as_ref().map_or(0, |marks| marks.len());
        of_sizes.max(of_marks) <= 2 * self.count as usize
    }

    /// The same messages at another place.
    pub fn moved_to(&self, position: u64, sizes: Sizes) -> RunPage {
        let moved = RunPage { position, sizes, ..self.compact() };
        assert_eq!(moved.extent().length, self.extent().length, "a message that moves stays as it is");
        moved
    }

    /// When the TTL passes, if there is one.
    pub fn expiry(&self) -> Option<WallTime> {
        Some(self.expires).filter(|at| *at != WallTime::NEVER)
    }

    /// Whether the TTL has passed.
    pub fn is_expired(&self, now: WallTime) -> bool {
        self.expiry().is_some_and(|at| at <= now)
    }

    /// Whether it is a message that was redriven, and so its group's alone.
    pub fn is_redriven(&self) -> bool {
        self.redriven().is_some()
    }

    /// Since when they wait if nobody has looked at them: as a dead letter, one that was redriven did not.
    pub fn since(&self) -> WallTime {
        self.redriven().unwrap_or(self.published)
    }

    fn redriven(&self) -> Option<WallTime> {
        self.marks.as_ref().and_then(|marks| marks.redriven())
    }

    /// The hash of each message's dedup id, of those that have one.
    pub fn dedup(&self) -> impl Iterator<Item = (Sequence, u128)> {
        let at = |index: u32| Sequence(self.first.0 + u64::from(index - self.index));
        let within = self.marks.iter().flat_map(|marks| marks.within(self.index, self.count));
        within.map(move |(index, hash)| (at(index), hash))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Marks;
    use alloc::vec::Vec;
    use millpond_types::block::Sizes;

    #[test]
    fn cutting_keeps_every_byte() {
        let sizes = Sizes::from_ends(&[10, 15, 30, 31]);
        let (first, published, expires) = (Sequence(7), WallTime(0), WallTime::NEVER);
        let marks = Marks::new(WallTime(9), [(0, 1 << 70), (2, 1 << 71)]);
        let mut run = RunPage { first, count: 4, position: 100, sizes, index: 0, marks, published, expires };
        assert_eq!([0, 9, 10, 15, 30, 31].map(|bytes| run.fitting(bytes)), [0, 0, 1, 2, 3, 4]);
        let front = run.split_front(1);
        assert_eq!((front.extent(), front.first), (Extent { position: 100, length: 10 }, Sequence(7)));
        assert_eq!(
            (run.extent(), run.first, run.end()),
            (Extent { position: 110, length: 21 }, Sequence(8), Sequence(11))
        );
        assert_eq!(front.dedup().collect::<Vec<_>>(), [(Sequence(7), 1 << 70)]);
        let compact = run.compact();
        assert_eq!((compact.index, compact.extent(), compact.end()), (0, run.extent(), run.end()));
        assert_eq!((0..4).map(|bytes| compact.fitting(bytes * 10)).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(compact.dedup().collect::<Vec<_>>(), [(Sequence(9), 1 << 71)]);
        assert_eq!(run.split_front(1).compact().marks, None, "none of the other messages");
        let marks = Marks::of_redriven(WallTime(8), WallTime::NEVER, None);
        let redriven = RunPage { marks: Some(marks), count: 1, ..compact.clone() };
        assert!(redriven.compact().is_redriven() && !compact.is_redriven(), "wherever it goes");
        assert_eq!((redriven.compact().since(), compact.since()), (WallTime(8), WallTime(0)));
        assert_eq!(size_of::<RunPage>(), 64, "millions of them are in memory");
    }
}
