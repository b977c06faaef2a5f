//! Runs: consecutive messages of one topic and priority whose blocks lie together. They are cut, never copied.

use millpond_types::{Sequence, WallTime};

use crate::output::Extent;
use crate::page::RunPage;

impl RunPage {
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

    /// Whether the TTL has passed.
    pub fn is_expired(&self, now: WallTime) -> bool {
        self.expires.is_some_and(|at| at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_types::block::Sizes;

    #[test]
    fn cutting_keeps_every_byte() {
        let sizes = Sizes::from_ends(&[10, 15, 30, 31]);
        let first = Sequence(7);
        let mut run =
            RunPage { first, count: 4, position: 100, sizes, index: 0, published: WallTime(0), expires: None };
        assert_eq!([0, 9, 10, 15, 30, 31].map(|bytes| run.fitting(bytes)), [0, 0, 1, 2, 3, 4]);
        let front = run.split_front(1);
        assert_eq!((front.extent(), front.first), (Extent { position: 100, length: 10 }, Sequence(7)));
        assert_eq!(
            (run.extent(), run.first, run.end()),
            (Extent { position: 110, length: 21 }, Sequence(8), Sequence(11))
        );
    }
}
