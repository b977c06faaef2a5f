//! A sorted map of which there are very many, and nearly all hold few entries: these stand in one piece of memory that is as long
//! as they are.

use std::collections::BTreeMap;
use std::ops::Range;

/// Entries that stand in one piece. With more of them, to put one in its place takes longer than to find it in a tree.
const FEW: usize = 16;

/// See the module.
pub enum Sorted<K, V> {
    Few(Vec<(K, V)>),
    /// In memory of its own, so that it makes none of the others larger.
    #[expect(clippy::box_collection, reason = "most are not of this kind")]
    Many(Box<BTreeMap<K, V>>),
}

impl<K, V> Default for Sorted<K, V> {
    fn default() -> Self {
        Sorted::Few(Vec::new())
    }
}

impl<K: Ord + Copy, V> Sorted<K, V> {
    pub fn is_empty(&self) -> bool {
        match self {
            Sorted::Few(few) => few.is_empty(),
            Sorted::Many(map) => map.is_empty(),
        }
    }

    /// Puts an entry in, in place of what the key had.
    pub fn insert(&mut self, key: K, value: V) {
        let few = match self {
            Sorted::Few(few) => few,
            Sorted::Many(map) => {
                map.insert(key, value);
                return;
            }
        };
        match few.binary_search_by_key(&key, |(own, _)| *own) {
            Ok(at) => few[at].1 = value,
            Err(at) if few.len() < FEW => {
                few.reserve_exact(1);
                few.insert(at, (key, value));
            }
            Err(_) => {
                let all = std::mem::take(few).into_iter().chain([(key, value)]);
                *self = Sorted::Many(Box::new(all.collect()));
            }
        }
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let removed = match self {
            Sorted::Few(few) => few.binary_search_by_key(key, |(own, _)| *own).ok().map(|at| few.remove(at).1),
            Sorted::Many(map) => map.remove(key),
        };
        if self.is_empty() {
            *self = Sorted::default();
        }
        removed
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        match self {
            Sorted::Few(few) => few.retain(|(_, value)| keep(value)),
            Sorted::Many(map) => map.retain(|_, value| keep(value)),
        }
        if self.is_empty() {
            *self = Sorted::default();
        }
    }

    pub fn clear(&mut self) {
        *self = Sorted::default();
    }

    /// The entries from one key on and before another, in order.
    pub fn range(&self, range: Range<K>) -> impl DoubleEndedIterator<Item = (K, &V)> {
        let (few, many) = match self {
            Sorted::Few(few) => {
                let at = |key: K| few.partition_point(|(own, _)| *own < key);
                (&few[at(range.start)..at(range.end)], None)
            }
            Sorted::Many(map) => (&[][..], Some(map.range(range))),
        };
        let many = many.into_iter().flatten().map(|(key, value)| (*key, value));
        few.iter().map(|(key, value)| (*key, value)).chain(many)
    }

    /// All entries, in order.
    pub fn into_entries(self) -> impl Iterator<Item = (K, V)> {
        let (few, many) = match self {
            Sorted::Few(few) => (few, None),
            Sorted::Many(map) => (Vec::new(), Some(*map)),
        };
        few.into_iter().chain(many.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::twin::Seed;

    #[test]
    fn however_many_there_are_it_is_a_sorted_map() {
        let mut seed = Seed::new(1);
        let (mut sorted, mut model) = (Sorted::default(), BTreeMap::new());
        for step in 0..3000 {
            // It grows, shrinks until nothing is left, and grows again.
            let key = seed.below(30);
            if seed.below(100) < if step / 500 % 2 == 0 { 70 } else { 20 } {
                sorted.insert(key, step);
                model.insert(key, step);
            } else {
                assert_eq!(sorted.remove(&key), model.remove(&key));
            }
            if seed.below(100) == 0 {
                sorted.retain(|value| value % 3 > 0);
                model.retain(|_, value| *value % 3 > 0);
            }
            let (from, until) = (seed.below(15), 15 + seed.below(15));
            let expected: Vec<_> = model.range(from..until).map(|(key, value)| (*key, value)).collect();
            assert_eq!(sorted.range(from..until).collect::<Vec<_>>(), expected);
            assert_eq!(sorted.range(from..until).next_back(), expected.last().copied());
            assert_eq!(sorted.is_empty(), model.is_empty());
        }
        assert_eq!(sorted.into_entries().collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
    }
}
