//! Records in the order of their keys, in blocks side by side.
//!
//! Topics leave memory, and are drained, in the order of their names mostly, so that a record comes right behind the one
//! that was put last: two comparisons find that out. Any other takes as many as its place has bits.
//!
//! Invariant: no block is empty, and keys ascend over all blocks.

use super::record::Record;

/// Records of a full block. To make room in one moves a kilobyte or two.
const BLOCK_MAX: usize = 256;

#[derive(Default)]
pub(super) struct Sorted {
    blocks: Vec<Vec<Record>>,
    len: usize,
    /// Where a record was put last.
    last: Place,
}

/// A block, and a place in it: before a record, or behind the last.
#[derive(Clone, Copy, Default)]
struct Place {
    block: usize,
    at: usize,
}

impl Sorted {
    /// Puts a record in place of that of the same key, which is returned.
    pub fn put(&mut self, record: Record) -> Option<Record> {
        let found = self.behind_last(record.key()).unwrap_or_else(|| self.find(record.key()));
        match found {
            Ok(place) => {
                self.last = place;
                Some(std::mem::replace(&mut self.blocks[place.block][place.at], record))
            }
            Err(place) => {
                self.last = self.room(place);
                self.blocks[self.last.block].insert(self.last.at, record);
                self.len += 1;
                None
            }
        }
    }

    pub fn get(&self, key: &[u8]) -> Option<&Record> {
        self.find(key).ok().map(|place| &self.blocks[place.block][place.at])
    }

    pub fn iter(&self) -> impl Iterator<Item = &Record> {
        self.blocks.iter().flatten()
    }

    /// The records from one key on and before another, which is not before it.
    pub fn range<'a>(&'a self, from: &[u8], until: &[u8]) -> impl Iterator<Item = &'a Record> + use<'a> {
        let (Ok(first) | Err(first), Ok(end) | Err(end)) = (self.find(from), self.find(until));
        self.blocks.iter().enumerate().take(end.block + 1).skip(first.block).flat_map(move |(block, records)| {
            let from = if block == first.block { first.at } else { 0 };
            let until = if block == end.block { end.at } else { records.len() };
            &records[from..until]
        })
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// The place of a key if that is right behind the last one; `None` if it is not.
    fn behind_last(&self, key: &[u8]) -> Option<Result<Place, Place>> {
        let Place { block, at } = self.last;
        let place = Place { block, at: at + 1 };
        let records = self.blocks.get(block)?;
        let next = records.get(place.at).or_else(|| self.blocks.get(block + 1).map(|next| &next[0]));
        let is_behind = records[at].key() < key && next.is_none_or(|next| key < next.key());
        is_behind.then_some(Err(place))
    }

    /// Where the record of a key is, or where it would be put.
    fn find(&self, key: &[u8]) -> Result<Place, Place> {
        let block = self.blocks.partition_point(|block| block[0].key() <= key).saturating_sub(1);
        let Some(records) = self.blocks.get(block) else { return Err(Place::default()) };
        let found = records.binary_search_by(|record| record.key().cmp(key));
        found.map(|at| Place { block, at }).map_err(|at| Place { block, at })
    }

    /// The same place where there is room for one more.
    fn room(&mut self, Place { block, at }: Place) -> Place {
        let Some(records) = self.blocks.get_mut(block).filter(|records| records.len() >= BLOCK_MAX) else {
            if self.blocks.is_empty() {
                self.blocks.push(Vec::new());
            }
            return Place { block, at };
        };
        if at < records.len() {
            let right = records.split_off(BLOCK_MAX / 2);
            self.blocks.insert(block + 1, right);
            let beyond = at.checked_sub(BLOCK_MAX / 2).filter(|beyond| *beyond > 0);
            return beyond.map_or(Place { block, at }, |at| Place { block: block + 1, at });
        }
        // What comes in ascending order leaves full blocks behind.
        if self.blocks.get(block + 1).is_none_or(|next| next.len() >= BLOCK_MAX) {
            self.blocks.insert(block + 1, Vec::new());
        }
        Place { block: block + 1, at: 0 }
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

    proptest! {
        #[test]
        fn holds_what_a_sorted_map_holds(keys in keys(), from in 0..3000u16, until in 0..3000u16) {
            let (mut sorted, mut model) = (Sorted::default(), BTreeMap::new());
            for (at, key) in keys.iter().enumerate() {
                let (key, value) = (key.to_be_bytes(), at.to_be_bytes());
                let before = sorted.put(Record::new(&key, Some(&value))).map(|record| record.value().map(<[u8]>::to_vec));
                prop_assert_eq!(before.flatten(), model.insert(key, value).map(Vec::from));
            }
            prop_assert_eq!(sorted.len(), model.len());
            prop_assert!(sorted.blocks.iter().all(|block| !block.is_empty() && block.len() <= BLOCK_MAX));
            prop_assert!(sorted.iter().map(Record::key).eq(model.keys().map(|key| &key[..])));
            let (from, until) = (from.to_be_bytes(), until.to_be_bytes());
            let (from, until) = (from.min(until), from.max(until));
            let range = model.range(from..until).map(|(key, _)| &key[..]);
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
