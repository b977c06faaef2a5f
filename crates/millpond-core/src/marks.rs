//! The dedup ids that a run came with, so that a message which ends by its id, dies or is redriven takes its dedup id
//! along. They are kept per run and not per message: most runs have none, and a run without them costs nothing.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use millpond_types::WallTime;

/// The dedup ids of a published run, in the order of its messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marks {
    until: WallTime,
    /// The messages that have one. Apart from the hashes, because together the two would be padded by half.
    indexes: Box<[u32]>,
    hashes: Box<[u128]>,
}

impl Marks {
    /// The marks of a run, by index in it; `None` if there are none. They are remembered until `until`.
    pub fn new(until: WallTime, marks: impl IntoIterator<Item = (u32, u128)>) -> Option<Arc<Marks>> {
        let (indexes, hashes): (Vec<u32>, Vec<u128>) = marks.into_iter().unzip();
        assert!(indexes.is_sorted_by(|a, b| a < b), "a message has one dedup id");
        (!indexes.is_empty()).then(|| Arc::new(Marks { until, indexes: indexes.into(), hashes: hashes.into() }))
    }

    /// Until when they are remembered.
    pub fn until(&self) -> WallTime {
        self.until
    }

    /// The index of the last message that has one.
    pub fn last(&self) -> u32 {
        *self.indexes.last().expect("there is no empty list of marks")
    }

    /// The hash of each dedup id of `count` messages from `index` on, with the message's index.
    pub fn within(&self, index: u32, count: u32) -> impl Iterator<Item = (u32, u128)> {
        let from = self.indexes.partition_point(|other| *other < index);
        let marks = self.indexes[from..].iter().copied().zip(self.hashes[from..].iter().copied());
        marks.take_while(move |(other, _)| other - index < count)
    }
}
