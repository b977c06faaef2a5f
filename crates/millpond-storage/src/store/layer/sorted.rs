//! Records in the order of their keys, in blocks side by side.
//!
//! Topics leave memory, and are drained, in the order of their names, or in that of each tenant's: so a record mostly comes
//! right behind the one that was put last, or that was put last into its block, and two comparisons find that out. Any
//! other takes as many as its place has bits. The blocks are told apart by the *heads* of their first keys, which stand side
//! by side: a key itself is a cache miss or two.
//!
//! Invariant: no block is empty, its head is that of its first key, and keys ascend over all blocks.

use std::cmp::Ordering;

use super::record::Record;

/// Records of a full block. To make room in one moves a kilobyte or two.
const BLOCK_MAX: usize = 256;

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
    /// About where a record was put last.
    last: usize,
}

/// The first 24 bytes of a key, as numbers that stand in the same order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Head([u64; 3]);

/// A block, and a place in it: before a record, or behind the last.
#[derive(Clone, Copy, Default)]
struct Place {
    block: usize,
    at: usize,
}

impl Head {
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
        Block { head: Head::of(records[0].key()), records, last: 0 }
    }

    /// Where a key is, or where it would be put.
    fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let at = self.last + 1;
        if self.records.get(self.last).is_some_and(|before| before.key() < key) {
            match self.records.get(at).map_or(Ordering::Less, |next| key.cmp(next.key())) {
                Ordering::Less => return Err(at),
                Ordering::Equal => return Ok(at),
                Ordering::Greater => {}
            }
        }
        self.records.binary_search_by(|record| record.key().cmp(key))
    }

    fn insert(&mut self, at: usize, record: Record) {
        if at == 0 {
            self.head = Head::of(record.key());
        }
        self.records.insert(at, record);
        self.last = at;
    }
}

impl Sorted {
    /// Puts a record in place of that of the same key, which is returned.
    pub fn put(&mut self, record: Record) -> Option<Record> {
        match self.find(record.key()) {
            Ok(Place { block, at }) => {
                let block = &mut self.blocks[block];
                block.last = at;
                Some(std::mem::replace(&mut block.records[at], record))
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
        let next = self.blocks.get(self.last + 1);
        let is_last = self.blocks.get(self.last).is_some_and(begins_before) && !next.is_some_and(begins_before);
        let number = match is_last {
            true => self.last,
            false => self.blocks.partition_point(begins_before).saturating_sub(1),
        };
        let Some(block) = self.blocks.get(number) else { return Err(Place::default()) };
        block.find(key).map(|at| Place { block: number, at }).map_err(|at| Place { block: number, at })
    }

    /// Puts a record into a place where there is none of its key.
    fn insert(&mut self, Place { block: number, at }: Place, record: Record) {
        self.last = number;
        let Some(block) = self.blocks.get_mut(number) else {
            return self.blocks.push(Block::new(vec![record]));
        };
        if block.records.len() < BLOCK_MAX {
            return block.insert(at, record);
        }
        if at < BLOCK_MAX {
            let mut right = Block::new(block.records.split_off(BLOCK_MAX / 2));
            match at.checked_sub(BLOCK_MAX / 2).filter(|beyond| *beyond > 0) {
                Some(beyond) => {
                    right.insert(beyond, record);
                    self.last = number + 1;
                }
                None => block.insert(at, record),
            }
            return self.blocks.insert(number + 1, right);
        }
        // What comes in ascending order leaves full blocks behind.
        self.last = number + 1;
        match self.blocks.get_mut(number + 1).filter(|next| next.records.len() < BLOCK_MAX) {
            Some(next) => next.insert(0, record),
            None => self.blocks.insert(number + 1, Block::new(vec![record])),
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
