//! Records in the order of their keys, in blocks side by side.
//!
//! Topics leave memory, and are drained, in the order of their names, or in that of each tenant's: so a record mostly comes
//! into the block that the last one came into or one soon behind it, and there right behind the one that was put last. That is
//! found out by *heads*, the first bytes of keys, which stand with the blocks, side by side: a key itself is a cache miss or two.
//! Any other place takes as many comparisons as it has bits.
//!
//! Invariant: no block is empty, its heads are those of the keys they are said to be of, and keys ascend over all blocks.

use std::cmp::Ordering;

use super::record::Record;

/// Records of a full block. To make room in one moves a kilobyte or two.
const BLOCK_MAX: usize = 256;
/// Blocks behind the last one that are looked at one after the other: as many as stand in a few lines of memory.
const NEAR: usize = 8;

#[derive(Default)]
pub(super) struct Sorted {
    blocks: Vec<Block>,
    len: usize,
    /// The block into which a record was put last.
    last: usize,
}

struct Block {
    head: Head,
    records: Vec<Record>,
    /// Where a record was put last, and the heads of its key and of the next one.
    last: usize,
    beside: [Head; 2],
}

/// The first 24 bytes of a key, as numbers that stand in the same order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Head([u64; 3]);

/// A block, and a place in it: before a record, or behind the last.
#[derive(Clone, Copy, Default)]
struct Place {
    block: usize,
    at: usize,
}

impl Head {
    /// Before no other.
    const LAST: Head = Head([u64::MAX; 3]);

    fn of(key: &[u8]) -> Head {
        let mut bytes = [0; size_of::<Head>()];
        let length = key.len().min(bytes.len());
        bytes[..length].copy_from_slice(&key[..length]);
        let (parts, _) = bytes.as_chunks();
        Head(std::array::from_fn(|part| u64::from_be_bytes(parts[part])))
    }
}

impl Block {
    fn new(records: Vec<Record>) -> Block {
        let mut block = Block { head: Head::of(records[0].key()), records, last: 0, beside: [Head::LAST; 2] };
        block.stand_at(0);
        block
    }

    /// Where a key with a head is, or where it would be put.
    fn find(&self, key: &[u8], head: Head) -> Result<usize, usize> {
        if self.beside[0] < head && head < self.beside[1] {
            return Err(self.last + 1);
        }
        self.records.binary_search_by(|record| record.key().cmp(key))
    }

    fn insert(&mut self, at: usize, head: Head, record: Record) {
        if at == 0 {
            self.head = head;
        }
        self.records.insert(at, record);
        match at == self.last + 1 {
            true => (self.last, self.beside[0]) = (at, head),
            false => self.stand_at(at),
        }
    }

    /// Puts a record in place of the one of its key.
    fn replace(&mut self, at: usize, record: Record) -> Record {
        let old = std::mem::replace(&mut self.records[at], record);
        self.stand_at(at);
        old
    }

    /// What comes next will be put near that place.
    fn stand_at(&mut self, at: usize) {
        let head = |at: usize| self.records.get(at).map_or(Head::LAST, |record| Head::of(record.key()));
        (self.last, self.beside) = (at, [head(at), head(at + 1)]);
    }

    /// Moves all but the first half into a block of their own.
    fn split(&mut self) -> Block {
        let right = Block::new(self.records.split_off(BLOCK_MAX / 2));
        self.stand_at(0);
        right
    }
}

impl Sorted {
    /// Puts a record in place of that of the same key, which is returned.
    pub fn put(&mut self, record: Record) -> Option<Record> {
        match self.find(record.key()) {
            Ok(Place { block, at }) => {
                self.last = block;
                Some(self.blocks[block].replace(at, record))
            }
            Err(place) => {
                self.insert(place, record);
                self.len += 1;
                None
            }
        }
    }

    pub fn get(&self, key: &[u8]) -> Option<&Record> {
        self.find(key).ok().map(|place| &self.blocks[place.block].records[place.at])
    }

    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.blocks.iter().flat_map(|block| &block.records)
    }

    /// The records from one key on and before another, which is not before it.
    pub fn range<'a>(&'a self, from: &[u8], until: &[u8]) -> impl Iterator<Item = &'a Record> + use<'a> {
        let (Ok(first) | Err(first), Ok(end) | Err(end)) = (self.find(from), self.find(until));
        self.blocks.iter().enumerate().take(end.block + 1).skip(first.block).flat_map(move |(number, block)| {
            let from = if number == first.block { first.at } else { 0 };
            let until = if number == end.block { end.at } else { block.records.len() };
            &block.records[from..until]
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Where the record of a key is, or where it would be put.
    fn find(&self, key: &[u8]) -> Result<Place, Place> {
        let head = Head::of(key);
        let begins_before = |block: &Block| match block.head.cmp(&head) {
            Ordering::Less => true,
            Ordering::Equal => block.records[0].key() <= key,
            Ordering::Greater => false,
        };
        // A key before the block of the last one is looked for among all, and so is one far behind it among the rest.
        let near = &self.blocks[self.last.min(self.blocks.len())..];
        let begin = near.iter().take(NEAR).take_while(|block| begins_before(block)).count();
        let number = match begin {
            0 => self.blocks.partition_point(begins_before).saturating_sub(1),
            NEAR => self.last + NEAR - 1 + near[NEAR..].partition_point(begins_before),
            _ => self.last + begin - 1,
        };
        let Some(block) = self.blocks.get(number) else { return Err(Place::default()) };
        block.find(key, head).map(|at| Place { block: number, at }).map_err(|at| Place { block: number, at })
    }

    /// Puts a record into a place where there is none of its key.
    fn insert(&mut self, Place { block: number, at }: Place, record: Record) {
        self.last = number;
        let head = Head::of(record.key());
        let Some(block) = self.blocks.get_mut(number) else {
            return self.blocks.push(Block::new(vec![record]));
        };
        if block.records.len() < BLOCK_MAX {
            return block.insert(at, head, record);
        }
        if at < BLOCK_MAX {
            let mut right = block.split();
            match at.checked_sub(BLOCK_MAX / 2).filter(|beyond| *beyond > 0) {
                Some(beyond) => {
                    right.insert(beyond, head, record);
                    self.last = number + 1;
                }
                None => block.insert(at, head, record),
            }
            return self.blocks.insert(number + 1, right);
        }
        // What comes in ascending order leaves full blocks behind.
        self.last = number + 1;
        match self.blocks.get_mut(number + 1).filter(|next| next.records.len() < BLOCK_MAX) {
            Some(next) => next.insert(0, head, record),
            None => {
                // More will come behind it, and memory that grows is copied.
                let mut records = Vec::with_capacity(BLOCK_MAX);
                records.push(record);
                self.blocks.insert(number + 1, Block::new(records));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// What one of the strategies below draws: keys, one after another.
    fn keys() -> impl Strategy<Value = Vec<u16>> {
        let rising = (0..2000u16, 1..600u16).prop_map(|(from, count)| (from..from + count).collect());
        let falling = (0..2000u16, 1..600u16).prop_map(|(from, count)| (from..from + count).rev().collect());
        let any = proptest::collection::vec(0..3000u16, 1..300);
        let part = prop_oneof![rising, falling, any];
        proptest::collection::vec(part, 1..8).prop_map(|parts: Vec<Vec<u16>>| parts.concat())
    }

    /// In the order of the numbers. What begins with so many bytes has one head, and what ends in zeros has that of another.
    fn key(common: usize, number: u16) -> Vec<u8> {
        [&vec![7; common][..], &number.to_be_bytes(), &[0, 0][..usize::from(number % 3)]].concat()
    }

    proptest! {
        #[test]
        fn holds_what_a_sorted_map_holds(keys in keys(), common in 0..30usize, from in 0..3000u16, until in 0..3000u16) {
            let (mut sorted, mut model) = (Sorted::default(), BTreeMap::new());
            for (at, number) in keys.iter().enumerate() {
                let (key, value) = (key(common, *number), at.to_be_bytes());
                let before = sorted.put(Record::new(&key, Some(&value))).map(|record| record.value().map(<[u8]>::to_vec));
                prop_assert_eq!(before.flatten(), model.insert(key, value).map(Vec::from));
            }
            prop_assert_eq!(sorted.len(), model.len());
            prop_assert!(sorted.blocks.iter().all(|block| (1..=BLOCK_MAX).contains(&block.records.len())));
            prop_assert!(sorted.blocks.iter().all(|block| block.head == Head::of(block.records[0].key())));
            for block in &sorted.blocks {
                let head = |at: usize| block.records.get(at).map_or(Head::LAST, |record| Head::of(record.key()));
                prop_assert_eq!(block.beside, [head(block.last), head(block.last + 1)]);
            }
            prop_assert!(sorted.iter().map(Record::key).eq(model.keys().map(|key| &key[..])));
            let (from, until) = (key(common, from.min(until)), key(common, from.max(until)));
            let range = model.range(from.clone()..until.clone()).map(|(key, _)| &key[..]);
            prop_assert!(sorted.range(&from, &until).map(Record::key).eq(range));
            prop_assert_eq!(sorted.get(&from).and_then(Record::value), model.get(&from).map(|value| &value[..]));
        }
    }

    #[test]
    fn what_comes_in_order_fills_blocks() {
        let mut sorted = Sorted::default();
        (0..10_000u16).for_each(|key| _ = sorted.put(Record::new(&key.to_be_bytes(), None)));
        assert_eq!(sorted.blocks.len(), 10_000usize.div_ceil(BLOCK_MAX));
        // Between full blocks, in the order that is the least kind to them.
        let mut between = Sorted::default();
        (0..512u32).for_each(|key| _ = between.put(Record::new(&(key / 256 * 100_000 + key).to_be_bytes(), None)));
        (1000..20_000u32).rev().for_each(|key| _ = between.put(Record::new(&key.to_be_bytes(), None)));
        assert!(between.blocks.len() < 19_512 / 64, "{}", between.blocks.len());
    }
}
