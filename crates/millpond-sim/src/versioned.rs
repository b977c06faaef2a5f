//! A map that can go back: a crash takes back all facts from some journal position on, and the ledger with them.

use std::collections::{BTreeMap, VecDeque};

/// A map, and what stood in it before each change that may still be taken back.
pub struct Versioned<K, V> {
    now: BTreeMap<K, V>,
    /// Journal position of the change, key, value before; in order.
    before: VecDeque<(u64, K, Option<V>)>,
}

impl<K, V> Default for Versioned<K, V> {
    fn default() -> Self {
        Versioned { now: BTreeMap::new(), before: VecDeque::new() }
    }
}

impl<K: Ord + Clone, V: Clone> Versioned<K, V> {
    /// What stands there now.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.now.get(key)
    }

    /// All that stands there, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.now.iter()
    }

    /// What stands there under the highest key.
    pub fn last(&self) -> Option<(&K, &V)> {
        self.now.last_key_value()
    }

    /// Changes what stands there, because of the fact at a position.
    pub fn set(&mut self, position: u64, key: K, value: Option<V>) {
        let before = match value {
            Some(value) => self.now.insert(key.clone(), value),
            None => self.now.remove(&key),
        };
        self.before.push_back((position, key, before));
    }

    /// Takes back all changes of facts at or behind a position.
    pub fn go_back(&mut self, position: u64) {
        while let Some((_, key, before)) = self.before.pop_back_if(|(at, ..)| *at >= position) {
            match before {
                Some(value) => self.now.insert(key, value),
                None => self.now.remove(&key),
            };
        }
    }

    /// Changes of facts before this position will not be taken back any more.
    pub fn settle(&mut self, position: u64) {
        while self.before.pop_front_if(|(at, ..)| *at < position).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_behind_a_position_are_taken_back() {
        let mut map = Versioned::default();
        map.set(10, "a", Some(1));
        map.set(20, "a", Some(2));
        map.set(20, "b", Some(3));
        map.set(30, "a", None);
        map.settle(15);
        map.go_back(30);
        assert_eq!((map.get(&"a"), map.get(&"b")), (Some(&2), Some(&3)));
        map.go_back(0);
        assert_eq!((map.get(&"a"), map.get(&"b")), (Some(&1), None), "what is settled stays");
    }
}
