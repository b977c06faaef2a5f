//! A layer in memory: changes by their keys.
//!
//! What is only ever looked up by its key (dedup ids, producer sessions) is hashed, and sorted when it is written to the
//! disk. All else stands in order, and beside it the hashes of its keys: most keys that are looked for are in no layer, and
//! that is then known without a search, whose steps are a cache miss each.
//!
//! With all that, a topic with a name of 16 bytes and one waiting message takes about 80 bytes.

mod block;
mod record;
mod sorted;

use std::hash::BuildHasher;
use std::iter::Peekable;

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use millpond_core::store::Key;
use millpond_core::{NEIGHBOURS, beside};

use record::Point;
use sorted::Sorted;

/// Bytes that a place in the tables takes, which are two thirds full on average.
const POINT_SLOT: usize = size_of::<(u64, Point)>() * 3 / 2;
const KNOWN_SLOT: usize = size_of::<u64>() * 3 / 2;

/// Entries of each kind that room is made for ahead: about as many topics as a checkpoint is begun for. The room counts
/// where there are entries in it, and is 18 MiB at most.
const ROOM_MAX: usize = 400_000;

/// A change: a key, and its value, or none where it is gone.
pub(super) type Change<'a> = (&'a [u8], Option<&'a [u8]>);

/// Changes, each key's last.
#[derive(Default)]
pub(super) struct Layer {
    /// Those that are only looked up by their keys, with the keys' hashes.
    points: HashTable<(u64, Point)>,
    /// Bytes that these take beside their places.
    point_bytes: usize,
    /// All others.
    sorted: Sorted,
    /// The hashes of their keys.
    known: HashTable<u64>,
    hashes: RandomState,
}

impl Layer {
    /// An empty one with room for as much as another one holds, so that its tables do not grow, which takes milliseconds.
    pub fn as_roomy_as(other: &Layer) -> Layer {
        let (points, known) = (other.points.len().min(ROOM_MAX), other.known.len().min(ROOM_MAX));
        Layer { points: HashTable::with_capacity(points), known: HashTable::with_capacity(known), ..Layer::default() }
    }

    /// Puts an entry, or the news that it is gone, in place of what its key had.
    pub fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        let hash = self.hash(key);
        if Key::is_point(key) {
            return self.put_point(hash, Point::new((key, value)));
        }
        self.known.entry(hash, |other| *other == hash, |hash| *hash).or_insert(hash);
        self.sorted.put((key, value));
    }

    fn put_point(&mut self, hash: u64, point: Point) {
        self.point_bytes += point.bytes();
        match self.points.find_mut(hash, |(other, old)| *other == hash && old.record().key() == point.record().key()) {
            Some((_, old)) => self.point_bytes -= std::mem::replace(old, point).bytes(),
            None => _ = self.points.insert_unique(hash, (hash, point), |(hash, _)| *hash),
        }
    }

    /// What the layer says of a key, if it says anything.
    pub fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        let hash = self.hash(key);
        if Key::is_point(key) {
            let found = self.points.find(hash, |(other, point)| *other == hash && point.record().key() == key);
            return found.map(|(_, point)| point.record().change().1);
        }
        self.known.find(hash, |other| *other == hash)?;
        self.sorted.get(key).map(|(_, value)| value)
    }

    /// All it says, in no order.
    pub fn records(&self) -> impl Iterator<Item = Change<'_>> {
        self.points.iter().map(|(_, point)| point.record().change()).chain(self.sorted.iter())
    }

    /// All it says, in order.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        Merged { points: self.points_within(|_| true).peekable(), sorted: self.sorted.iter().peekable() }
    }

    /// What it says of the keys from one on and before another, in order.
    pub fn range(&self, from: &[u8], until: &[u8]) -> impl Iterator<Item = Change<'_>> {
        let until = until.max(from);
        let points = match Key::may_hold_points(from, until) {
            true => self.points_within(|key| from <= key && key < until),
            false => Vec::new().into_iter(),
        };
        Merged { points: points.peekable(), sorted: self.sorted.range(from, until).peekable() }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.points.len() + self.sorted.len()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let slots = self.points.len() * POINT_SLOT + self.known.len() * KNOWN_SLOT;
        self.point_bytes + self.sorted.bytes() + slots
    }

    /// Of keys in order, [`beside`] each other.
    fn hash(&self, key: &[u8]) -> u64 {
        let (last, front) = key.split_last().expect("a key begins with its kind");
        beside(self.hashes.hash_one((front, last / NEIGHBOURS)), *last)
    }

    fn points_within(&self, is_within: impl Fn(&[u8]) -> bool) -> std::vec::IntoIter<Change<'_>> {
        let points = self.points.iter().map(|(_, point)| point.record().change());
        let mut points: Vec<Change<'_>> = points.filter(|(key, _)| is_within(key)).collect();
        points.sort_unstable_by_key(|(key, _)| *key);
        points.into_iter()
    }
}

/// Two kinds of changes in one order.
struct Merged<'a, S: Iterator<Item = Change<'a>>> {
    points: Peekable<std::vec::IntoIter<Change<'a>>>,
    sorted: Peekable<S>,
}

impl<'a, S: Iterator<Item = Change<'a>>> Iterator for Merged<'a, S> {
    type Item = Change<'a>;

    fn next(&mut self) -> Option<Change<'a>> {
        let Merged { points, sorted } = self;
        let point = points.next_if(|(point, _)| sorted.peek().is_none_or(|(other, _)| point < other));
        point.or_else(|| sorted.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_says_the_last_of_each_key() {
        let mut layer = Layer::default();
        layer.put(b"b", Some(b"1"));
        layer.put(b"a", None);
        layer.put(b"b", Some(b""));
        layer.put(b"ab", Some(&[7; 1000]));
        assert_eq!(layer.get(b"b"), Some(Some(&b""[..])));
        assert_eq!((layer.get(b"a"), layer.get(b"c")), (Some(None), None));
        let keys: Vec<_> = layer.range(b"a", b"b").map(|(key, _)| key).collect();
        assert_eq!(keys, [&b"a"[..], b"ab"]);
        assert_eq!(layer.range(b"b", b"a").count(), 0);
        layer.put(b"ab", None);
        assert!(layer.bytes() < 1000, "what was replaced counts no more");
        assert_eq!(layer.len(), 3);
    }

    #[test]
    fn what_is_hashed_stands_in_order_among_the_rest() {
        let mut layer = Layer::default();
        let keys: [&[u8]; 6] = [&[3, 9], &[6, 1], &[6, 2], &[6, 200], &[7, 0], &[8, 1]];
        for key in [4, 1, 5, 3, 0, 2].map(|at: usize| keys[at]) {
            layer.put(key, Some(b"old"));
            layer.put(key, if key[0] == 7 { None } else { Some(b"new") });
        }
        assert_eq!(layer.len(), keys.len());
        assert_eq!(layer.iter().map(|(key, _)| key).collect::<Vec<_>>(), keys);
        assert_eq!(layer.range(keys[2], keys[4]).map(|(key, _)| key).collect::<Vec<_>>(), keys[2..4]);
        assert_eq!(layer.range(&[8], &[9]).count(), 1);
        assert_eq!((layer.get(keys[1]), layer.get(keys[4])), (Some(Some(&b"new"[..])), Some(None)));
        assert_eq!((layer.get(&[6, 3]), layer.get(&[3, 8])), (None, None));
        let mut unordered: Vec<_> = layer.records().map(|(key, _)| key).collect();
        unordered.sort_unstable();
        assert_eq!(unordered, keys);
    }

    #[test]
    fn a_topic_takes_about_eighty_bytes() {
        let topics = 100_000u32;
        let mut layer = Layer::default();
        for topic in 0..topics {
            let key = [&[1; 18][..], &topic.to_be_bytes()].concat();
            layer.put(&key, Some(&[2; 28]));
        }
        let of_each = layer.bytes() / topics as usize;
        assert!((70..=85).contains(&of_each), "{of_each}");
    }
}
