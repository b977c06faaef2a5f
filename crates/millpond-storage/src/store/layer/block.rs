//! Some changes in the order of their keys, in one piece of memory.
//!
//! Invariants: a block is not empty, its heads are those of the keys they are said to be of, and its keys ascend.

use std::cmp::Ordering;

use super::Change;
use super::record::Record;

/// Changes in a block. To make room in one moves a kilobyte or two.
pub(super) const BLOCK_MAX: usize = 256;
/// Bytes of a block's changes, unless it is only one.
const BYTES_MAX: usize = 64 * 1024;

pub(super) struct Block {
    /// Of the first key.
    pub head: Head,
    /// Where each change lies, in the order of the keys.
    extents: Vec<Extent>,
    /// In the order in which they came.
    bytes: Vec<u8>,
    /// How many of these are of changes that others have taken the place of.
    waste: usize,
    /// Where one was put last, and the heads of its key and of the next one.
    last: usize,
    beside: [Head; 2],
}

#[derive(Clone, Copy)]
struct Extent {
    from: u32,
    until: u32,
}

/// The first 24 bytes of a key, as numbers that stand in the same order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Head([u64; 3]);

impl Head {
    /// Before no other.
    const LAST: Head = Head([u64::MAX; 3]);

    pub fn of(key: &[u8]) -> Head {
        let mut bytes = [0; size_of::<Head>()];
        let length = key.len().min(bytes.len());
        bytes[..length].copy_from_slice(&key[..length]);
        let (parts, _) = bytes.as_chunks();
        Head(std::array::from_fn(|part| u64::from_be_bytes(parts[part])))
    }
}

impl Block {
    /// A block of one change.
    pub fn new(change: Change<'_>) -> Block {
        Block::with_room(change, 1, Record::length_of(change))
    }

    /// A block of one change, with room for as many as in this one: more will come behind it, and memory that grows is copied.
    pub fn next(&self, change: Change<'_>) -> Block {
        Block::with_room(change, self.extents.len(), self.bytes.len() - self.waste)
    }

    fn with_room(change: Change<'_>, changes: usize, bytes: usize) -> Block {
        let (extents, bytes) = (Vec::with_capacity(changes), Vec::with_capacity(bytes));
        let head = Head::of(change.0);
        let mut block = Block { head, extents, bytes, waste: 0, last: 0, beside: [head, Head::LAST] };
        let extent = block.append(change);
        block.extents.push(extent);
        block
    }

    pub fn len(&self) -> usize {
        self.extents.len()
    }

    /// Bytes of memory.
    pub fn weight(&self) -> usize {
        size_of::<Block>() + self.bytes.capacity() + self.extents.capacity() * size_of::<Extent>()
    }

    /// Whether a change finds no room.
    pub fn is_full(&self, change: Change<'_>) -> bool {
        let bytes = self.bytes.len() - self.waste + Record::length_of(change);
        self.len() == BLOCK_MAX || self.len() > 1 && bytes > BYTES_MAX
    }

    pub fn first_key(&self) -> &[u8] {
        self.record(0).key()
    }

    pub fn record(&self, at: usize) -> Record<'_> {
        self.record_of(self.extents[at])
    }

    /// Those from one place on and before another.
    pub fn records(&self, from: usize, until: usize) -> impl Iterator<Item = Record<'_>> {
        self.extents[from..until].iter().map(|extent| self.record_of(*extent))
    }

    /// Where a key with a head is, or where it would be put. It is looked for first behind the one that was put last.
    pub fn find(&self, key: &[u8], head: Head) -> Result<usize, usize> {
        let next = self.last + 1;
        let compared = |beside: Head, at: usize| {
            let by_key =
                || self.extents.get(at).map_or(Ordering::Greater, |extent| self.record_of(*extent).key().cmp(key));
            beside.cmp(&head).then_with(by_key)
        };
        if compared(self.beside[0], self.last) == Ordering::Less {
            match compared(self.beside[1], next) {
                Ordering::Greater => return Err(next),
                Ordering::Equal => return Ok(next),
                Ordering::Less => {}
            }
        }
        self.extents.binary_search_by(|extent| self.record_of(*extent).key().cmp(key))
    }

    /// Puts a change where none of its key is.
    pub fn insert(&mut self, at: usize, head: Head, change: Change<'_>) {
        if at == 0 {
            self.head = head;
        }
        let extent = self.append(change);
        self.extents.insert(at, extent);
        match at == self.last + 1 {
            true => (self.last, self.beside[0]) = (at, head),
            false => self.stand_at(at),
        }
    }

    /// Puts a change in place of the one of its key. Whether they have become too large to stay together.
    pub fn replace(&mut self, at: usize, change: Change<'_>) -> bool {
        let Extent { from, until } = self.extents[at];
        self.waste += (until - from) as usize;
        self.extents[at] = self.append(change);
        if self.waste > self.bytes.len() / 2 {
            self.keep(0, self.len());
        }
        self.stand_at(at);
        self.len() > 1 && self.bytes.len() - self.waste > BYTES_MAX
    }

    /// Moves the second half, or the only one, into a block of its own.
    pub fn split(&mut self) -> Block {
        let half = self.len() / 2;
        let mut right = Block::new(self.record(half).change());
        for record in self.records(half + 1, self.len()) {
            let extent = right.append(record.change());
            right.extents.push(extent);
        }
        right.stand_at(0);
        self.keep(0, half);
        self.stand_at(0);
        right
    }

    /// Lets all go but the changes between two places, and what is wasted.
    fn keep(&mut self, from: usize, until: usize) {
        let length: usize = self.records(from, until).map(|record| record.0.len()).sum();
        let mut bytes = Vec::with_capacity(length);
        let extents = self.extents[from..until].iter().map(|extent| {
            let begin = bytes.len();
            bytes.extend_from_slice(self.record_of(*extent).0);
            extent_of(begin, bytes.len())
        });
        self.extents = extents.collect();
        (self.bytes, self.waste) = (bytes, 0);
    }

    fn append(&mut self, change: Change<'_>) -> Extent {
        let from = self.bytes.len();
        Record::append(change, &mut self.bytes);
        extent_of(from, self.bytes.len())
    }

    /// What comes next will be put near that place.
    fn stand_at(&mut self, at: usize) {
        (self.last, self.beside) = (at, self.heads_at(at));
    }

    fn heads_at(&self, at: usize) -> [Head; 2] {
        [at, at + 1].map(|at| if at < self.len() { Head::of(self.record(at).key()) } else { Head::LAST })
    }

    fn record_of(&self, Extent { from, until }: Extent) -> Record<'_> {
        Record(&self.bytes[from as usize..until as usize])
    }

    /// Checks the invariants.
    #[cfg(test)]
    pub fn check(&self) {
        assert!((1..=BLOCK_MAX).contains(&self.len()));
        assert_eq!(self.head, Head::of(self.first_key()));
        assert_eq!(self.beside, self.heads_at(self.last));
        let used: usize = self.records(0, self.len()).map(|record| record.0.len()).sum();
        assert_eq!(used + self.waste, self.bytes.len());
        assert!(self.waste <= used, "half of it is of use");
    }
}

fn extent_of(from: usize, until: usize) -> Extent {
    let number = |at: usize| u32::try_from(at).expect("entries are far smaller than that");
    Extent { from: number(from), until: number(until) }
}
