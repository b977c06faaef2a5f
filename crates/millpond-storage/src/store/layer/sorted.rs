//! Changes in the order of their keys, in blocks side by side.
//!
//! Topics leave memory, and are drained, in the order of their names, or in that of each tenant's: so a change mostly comes
//! into the block that the last one came into or one soon behind it, and there right behind the one that was put last. That is
//! found out by *heads*, the first bytes of keys, which stand with the blocks: a key itself is looked at where these are the same.
//! Any other place takes as many comparisons as it has bits.
//!
//! Invariant: no block is empty, and keys ascend over all blocks.

use std::cmp::Ordering;

use super::Change;
use super::block::{Block, Head};

/// Blocks from the last one on that are looked at one after the other, before all others are: the changes of a turn are of tenants
/// one after the other, and of each tenant there are few blocks.
const NEAR: usize = 8;

#[derive(Default)]
pub(super) struct Sorted {
    blocks: Vec<Block>,
    len: usize,
    /// Bytes of memory that the blocks take.
    bytes: usize,
    /// The block into which a change was put last.
    last: usize,
}

/// A block, and a place in it: before a change, or behind the last.
#[derive(Clone, Copy, Default)]
struct Place {
    block: usize,
    at: usize,
}

impl Sorted {
    /// Puts a change in place of that of the same key. Whether there was none.
    pub fn put(&mut self, change: Change<'_>) -> bool {
        let head = Head::of(change.0);
        match self.find(change.0, head) {
            Ok(Place { block: number, at }) => {
                self.last = number;
                let block = &mut self.blocks[number];
                self.bytes -= block.weight();
                let is_large = block.replace(at, change);
                self.bytes += block.weight();
                if is_large {
                    self.split(number);
                }
                false
            }
            Err(place) => {
                self.insert(place, head, change);
                self.len += 1;
                true
            }
        }
    }

    pub fn get(&self, key: &[u8]) -> Option<Change<'_>> {
        let Place { block, at } = self.find(key, Head::of(key)).ok()?;
        Some(self.blocks[block].record(at).change())
    }

    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.blocks.iter().flat_map(|block| block.records(0, block.len())).map(|record| record.change())
    }

    /// The changes from one key on and before another, which is not before it.
    pub fn range<'a>(&'a self, from: &[u8], until: &[u8]) -> impl Iterator<Item = Change<'a>> + use<'a> {
        let place = |key: &[u8]| match self.find(key, Head::of(key)) {
            Ok(place) | Err(place) => place,
        };
        let (first, end) = (place(from), place(until));
        let blocks = self.blocks.iter().enumerate().take(end.block + 1).skip(first.block);
        let records = blocks.flat_map(move |(number, block)| {
            let from = if number == first.block { first.at } else { 0 };
            let until = if number == end.block { end.at } else { block.len() };
            block.records(from, until)
        });
        records.map(|record| record.change())
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Where the change of a key with a head is, or where it would be put.
    fn find(&self, key: &[u8], head: Head) -> Result<Place, Place> {
        let begins_before = |block: &Block| match block.head.cmp(&head) {
            Ordering::Less => true,
            Ordering::Equal => block.first_key() <= key,
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

    /// Puts a change into a place where there is none of its key.
    fn insert(&mut self, Place { block: number, at }: Place, head: Head, change: Change<'_>) {
        self.last = number;
        let Some(block) = self.blocks.get_mut(number) else { return self.push(number, Block::new(change)) };
        if !block.is_full(change) {
            return self.insert_into(Place { block: number, at }, head, change);
        }
        if at < block.len() {
            let half = self.split(number);
            let place = match at.checked_sub(half).filter(|beyond| *beyond > 0) {
                Some(beyond) => Place { block: number + 1, at: beyond },
                None => Place { block: number, at },
            };
            // Where few changes are very large, a half may be full again.
            return self.insert(place, head, change);
        }
        // What comes in ascending order leaves full blocks behind.
        self.last = number + 1;
        match self.blocks.get(number + 1).is_some_and(|after| !after.is_full(change)) {
            true => self.insert_into(Place { block: number + 1, at: 0 }, head, change),
            false => self.push(number + 1, self.blocks[number].next(change)),
        }
    }

    fn insert_into(&mut self, Place { block: number, at }: Place, head: Head, change: Change<'_>) {
        let block = &mut self.blocks[number];
        self.bytes -= block.weight();
        block.insert(at, head, change);
        self.bytes += block.weight();
    }

    /// Makes two blocks of one; how many changes the first of them has.
    fn split(&mut self, number: usize) -> usize {
        let block = &mut self.blocks[number];
        self.bytes -= block.weight();
        let (right, half) = (block.split(), block.len());
        self.bytes += block.weight();
        self.push(number + 1, right);
        half
    }

    fn push(&mut self, number: usize, block: Block) {
        self.bytes += block.weight();
        self.blocks.insert(number, block);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::block::BLOCK_MAX;
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
                // Some are long, so that a few fill a block, and others are gone.
                let (key, length) = (key(common, *number), if at % 7 == 0 { at % 5 * 8000 } else { at % 11 });
                let value = (at % 13 > 0).then(|| vec![at as u8; length]);
                prop_assert_eq!(sorted.put((&key, value.as_deref())), model.insert(key, value).is_none());
            }
            prop_assert_eq!(sorted.len(), model.len());
            sorted.blocks.iter().for_each(Block::check);
            prop_assert_eq!(sorted.bytes(), sorted.blocks.iter().map(Block::weight).sum::<usize>());
            let all = model.iter().map(|(key, value)| (&key[..], value.as_deref()));
            prop_assert!(sorted.iter().eq(all));
            let (from, until) = (key(common, from.min(until)), key(common, from.max(until)));
            let range = model.range(from.clone()..until.clone()).map(|(key, value)| (&key[..], value.as_deref()));
            prop_assert!(sorted.range(&from, &until).eq(range));
            prop_assert_eq!(sorted.get(&from).map(|(_, value)| value), model.get(&from).map(Option::as_deref));
        }
    }

    #[test]
    fn what_comes_in_order_fills_blocks() {
        let mut sorted = Sorted::default();
        (0..10_000u16).for_each(|key| _ = sorted.put((&key.to_be_bytes(), None)));
        assert_eq!(sorted.blocks.len(), 10_000usize.div_ceil(BLOCK_MAX));
        // Between full blocks, in the order that is the least kind to them.
        let mut between = Sorted::default();
        (0..512u32).for_each(|key| _ = between.put((&(key / 256 * 100_000 + key).to_be_bytes(), None)));
        (1000..20_000u32).rev().for_each(|key| _ = between.put((&key.to_be_bytes(), None)));
        assert!(between.blocks.len() < 19_512 / 64, "{}", between.blocks.len());
    }
}
