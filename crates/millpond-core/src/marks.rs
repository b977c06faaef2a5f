//! What few runs carry beside what all have. The dedup ids that it came with, so that a message which ends by its id, dies or
//! is redriven takes its dedup id along; and when it was redriven, if it was. It is kept per run and not per message: most runs
//! have none, and a run without costs nothing.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::size_of;

use millpond_types::WallTime;

/// The dedup ids of a run, in the order of its messages, and where it came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Marks {
    redriven: Option<WallTime>,
    until: WallTime,
    /// The messages that have one. Apart from the hashes, because together the two would be padded by half.
    indexes: Box<[u32]>,
    hashes: Box<[u128]>,
}

impl Marks {
    /// Bytes of each mark.
    pub(crate) const EACH_BYTES: usize = size_of::<u32>() + size_of::<u128>();

    /// The marks of a run, by index in it; `None` if there are none. They are remembered until `until`.
    pub fn new(until: WallTime, marks: impl IntoIterator<Item = (u32, u128)>) -> Option<Arc<Marks>> {
        let marks = Marks::of(None, until, marks);
        (!marks.indexes.is_empty()).then(|| Arc::new(marks))
    }

    /// Those of a message that was redriven, which is its group's alone, and has waited since that time.
    pub fn of_redriven(since: WallTime, until: WallTime, hash: Option<u128>) -> Arc<Marks> {
        Arc::new(Marks::of(Some(since), until, hash.map(|hash| (0, hash))))
    }

    fn of(redriven: Option<WallTime>, until: WallTime, marks: impl IntoIterator<Item = (u32, u128)>) -> Marks {
        let (indexes, hashes): (Vec<u32>, Vec<u128>) = marks.into_iter().unzip();
        assert!(indexes.is_sorted_by(|a, b| a < b), "a message has one dedup id");
        Marks { redriven, until, indexes: indexes.into(), hashes: hashes.into() }
    }

    /// Those of `count` messages from `index` on; `None` if there are none.
    pub fn cut(&self, index: u32, count: u32) -> Option<Arc<Marks>> {
        let within = self.within(index, count).map(|(at, hash)| (at - index, hash));
        let marks = Marks::of(self.redriven, self.until, within);
        (marks.redriven.is_some() || !marks.indexes.is_empty()).then(|| Arc::new(marks))
    }

    /// Since when the run waits, if it is a message that was redriven.
    pub fn redriven(&self) -> Option<WallTime> {
        self.redriven
    }

    /// Until when they are remembered.
    pub fn until(&self) -> WallTime {
        self.until
    }

    /// The hash of each dedup id of `count` messages from `index` on, with the message's index.
    pub fn within(&self, index: u32, count: u32) -> impl Iterator<Item = (u32, u128)> {
        let from = self.from(index);
        let marks = self.indexes[from..].iter().copied().zip(self.hashes[from..].iter().copied());
        marks.take_while(move |(other, _)| other - index < count)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.indexes.len()
    }

    /// How many of `count` messages from `index` on have one.
    pub(crate) fn count(&self, index: u32, count: u32) -> usize {
        self.from(index + count) - self.from(index)
    }

    /// The part of `count` messages from `index` on in the bytes of all, with so many that they take beside themselves.
    pub(crate) fn bytes(&self, index: u32, count: u32, beside: usize) -> usize {
        let (of, whole) = (self.count(index, count), size_of::<Marks>() + beside);
        // A message that was redriven may have none.
        of * Marks::EACH_BYTES + if self.indexes.is_empty() { whole } else { whole * of / self.indexes.len() }
    }

    fn from(&self, index: u32) -> usize {
        self.indexes.partition_point(|other| *other < index)
    }
}
