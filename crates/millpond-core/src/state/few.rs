//! A sorted map of which there are very many, and nearly all hold one entry or none.
//!
//! The one entry stands in place. A second one makes it a [`BTreeMap`], which it stays until nothing is left in it: so a
//! map that grows and shrinks does not go back and forth.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, btree_map};
use core::ops::{Index, RangeBounds};

#[derive(Clone, Debug)]
pub(crate) enum Few<K, V> {
    None,
    One(K, V),
    /// Never empty. In memory of its own, so that it makes none of the others larger.
    #[expect(clippy::box_collection, reason = "most are not of this kind")]
    Many(Box<BTreeMap<K, V>>),
}

impl<K: Ord + Copy, V> Few<K, V> {
    pub(crate) fn new() -> Few<K, V> {
        Few::None
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Few::None => 0,
            Few::One(..) => 1,
            Few::Many(map) => map.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Few::None)
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        match self {
            Few::One(own, value) if own == key => Some(value),
            Few::Many(map) => map.get(key),
            _ => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        match self {
            Few::One(own, value) if own == key => Some(value),
            Few::Many(map) => map.get_mut(key),
            _ => None,
        }
    }

    /// Puts an entry in; hands out the value that the key had.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self {
            Few::Many(map) => return map.insert(key, value),
            Few::One(own, before) if *own == key => return Some(core::mem::replace(before, value)),
            _ => {}
        }
        *self = match core::mem::replace(self, Few::None) {
            Few::One(own, before) => Few::Many(Box::new(BTreeMap::from([(own, before), (key, value)]))),
            _ => Few::One(key, value),
        };
        None
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        match self {
            Few::Many(map) => {
                let value = map.remove(key);
                if map.is_empty() {
                    *self = Few::None;
                }
                value
            }
            Few::One(own, _) if own == key => match core::mem::replace(self, Few::None) {
                Few::One(_, value) => Some(value),
                _ => unreachable!("there was one"),
            },
            _ => None,
        }
    }

    /// All entries, in the order of their keys.
    pub(crate) fn iter(&self) -> Entries<'_, K, V> {
        self.range(..)
    }

    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }

    /// The entries of a range of keys, in their order.
    pub(crate) fn range(&self, range: impl RangeBounds<K>) -> Entries<'_, K, V> {
        match self {
            Few::One(key, value) if range.contains(key) => Entries::One(Some((key, value))),
            Few::Many(map) => Entries::Many(map.range(range)),
            _ => Entries::One(None),
        }
    }
}

impl<K: Ord + Copy, V> Index<&K> for Few<K, V> {
    type Output = V;
    fn index(&self, key: &K) -> &V {
        self.get(key).expect("what is looked for is there")
    }
}

/// Entries in order.
pub(crate) enum Entries<'a, K, V> {
    One(Option<(&'a K, &'a V)>),
    Many(btree_map::Range<'a, K, V>),
}

impl<'a, K, V> Iterator for Entries<'a, K, V> {
    type Item = (&'a K, &'a V);
    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Entries::One(one) => one.take(),
            Entries::Many(range) => range.next(),
        }
    }
}

impl<K, V> DoubleEndedIterator for Entries<'_, K, V> {
    fn next_back(&mut self) -> Option<Self::Item> {
        match self {
            Entries::One(one) => one.take(),
            Entries::Many(range) => range.next_back(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_sorted_map(steps in proptest::collection::vec((0u8..3, 0u8..4, any::<u16>()), 1..60)) {
            let (mut few, mut model) = (Few::new(), BTreeMap::new());
            for (kind, key, value) in steps {
                match kind {
                    0 => prop_assert_eq!(few.insert(key, value), model.insert(key, value)),
                    1 => prop_assert_eq!(few.remove(&key), model.remove(&key)),
                    _ => {
                        let (of_few, of_model) = (few.get_mut(&key), model.get_mut(&key));
                        prop_assert_eq!(&of_few, &of_model);
                        of_few.into_iter().chain(of_model).for_each(|before| *before = value);
                    }
                }
                prop_assert_eq!((few.len(), few.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(few.get(&key), model.get(&key));
                prop_assert!(few.iter().eq(model.iter()) && few.values().rev().eq(model.values().rev()));
                prop_assert!(few.range(key..).eq(model.range(key..)));
                let before: Vec<_> = few.range(..=key).rev().collect();
                prop_assert!(before.into_iter().eq(model.range(..=key).rev()));
            }
        }
    }
}
