//! A layer in memory: changes in the order of their keys, each in one piece of memory.
//!
//! A record is its key's length (2 bytes, the top bit set where the entry is gone), the key and the value. With its slot in
//! the set, a topic with a name of 16 bytes and one waiting message takes about 90 bytes.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Included};

/// Set in a record's length where the entry is gone.
const GONE: u16 = 1 << 15;
/// Bytes of the length.
const PREFIX: usize = 2;
/// Bytes that a record's slot in the set takes: nodes are two thirds full on average.
const SLOT: usize = size_of::<Record>() * 3 / 2;

/// Changes, sorted.
#[derive(Default)]
pub(super) struct Layer {
    records: BTreeSet<Record>,
    bytes: usize,
}

impl Layer {
    /// Puts an entry, or the news that it is gone, in place of what its key had.
    pub fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        let record = Record::new(key, value);
        self.bytes += record.bytes();
        if let Some(old) = self.records.replace(record) {
            self.bytes -= old.bytes();
        }
    }

    /// What the layer says of a key, if it says anything.
    pub fn get(&self, key: &[u8]) -> Option<Option<&[u8]>> {
        self.records.get(key).map(Record::value)
    }

    /// All it says.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.records.iter().map(|record| (record.key(), record.value()))
    }

    /// What it says of the keys from one on and before another.
    pub fn range(&self, from: &[u8], until: &[u8]) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let until = until.max(from);
        let records = self.records.range::<[u8], _>((Included(from), Excluded(until)));
        records.map(|record| (record.key(), record.value()))
    }

    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

struct Record(Box<[u8]>);

impl Record {
    fn new(key: &[u8], value: Option<&[u8]>) -> Record {
        let length = u16::try_from(key.len()).ok().filter(|length| *length < GONE).expect("keys are short");
        let prefix = if value.is_some() { length } else { length | GONE };
        Record([&prefix.to_le_bytes()[..], key, value.unwrap_or_default()].concat().into_boxed_slice())
    }

    fn prefix(&self) -> u16 {
        u16::from_le_bytes([self.0[0], self.0[1]])
    }

    fn key(&self) -> &[u8] {
        &self.0[PREFIX..PREFIX + usize::from(self.prefix() & !GONE)]
    }

    fn value(&self) -> Option<&[u8]> {
        let value = &self.0[PREFIX + usize::from(self.prefix() & !GONE)..];
        (self.prefix() & GONE == 0).then_some(value)
    }

    /// Memory comes in multiples of 16 bytes, 8 of which are the allocator's.
    fn bytes(&self) -> usize {
        SLOT + (self.0.len() + 8).next_multiple_of(16).max(32)
    }
}

impl Borrow<[u8]> for Record {
    fn borrow(&self) -> &[u8] {
        self.key()
    }
}

impl Ord for Record {
    fn cmp(&self, other: &Record) -> Ordering {
        self.key().cmp(other.key())
    }
}

impl PartialOrd for Record {
    fn partial_cmp(&self, other: &Record) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Record) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Record {}

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
        assert_eq!(layer.bytes(), 3 * (SLOT + 32), "what was replaced counts no more");
        assert_eq!(layer.len(), 3);
    }

    #[test]
    fn a_topic_takes_less_than_a_hundred_bytes() {
        let mut layer = Layer::default();
        layer.put(&[1; 22], Some(&[2; 28]));
        assert!(layer.bytes() <= 100, "{}", layer.bytes());
    }
}
