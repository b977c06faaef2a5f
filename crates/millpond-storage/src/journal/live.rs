//! How many bytes of live messages each segment holds, as of a journal position. Part of every checkpoint, so that a start
//! counts on from there and never has to look at all messages.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 8 | base | of a segment that holds live messages; in order |
//! | 8 | bytes | of the blocks of these messages |
//!
//! as often as there are such segments. A message is live from the batch that stores it to the batch that ends it.

use std::collections::BTreeMap;

use millpond_core::output::Extent;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LiveBytes(BTreeMap<u64, u64>);

/// Bytes of an entry.
const ENTRY: usize = 16;

impl LiveBytes {
    /// What a segment holds.
    pub fn of(&self, base: u64) -> u64 {
        self.0.get(&base).copied().unwrap_or(0)
    }

    /// The bases of the segments that hold something, in order.
    pub fn bases(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// Counts messages to a segment.
    pub fn stored(&mut self, base: u64, bytes: u64) {
        if bytes > 0 {
            *self.0.entry(base).or_default() += bytes;
        }
    }

    /// Counts messages off; false where they are not all there.
    #[must_use]
    pub fn freed(&mut self, extent: Extent) -> bool {
        let length = u64::from(extent.length);
        // Whatever has live messages has an entry, so the nearest entry before a message is its segment's.
        let found = self.0.range_mut(..=extent.position).next_back().filter(|(_, live)| **live >= length);
        let Some((&base, live)) = found else { return false };
        *live -= length;
        if *live == 0 {
            self.0.remove(&base);
        }
        true
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(base, live)| [base.to_le_bytes(), live.to_le_bytes()]).flatten().collect()
    }

    /// Reads what [`LiveBytes::encode`] has written; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<LiveBytes> {
        let (entries, rest) = bytes.as_chunks::<ENTRY>();
        let mut live = BTreeMap::new();
        for entry in entries {
            let [base, bytes] = [&entry[..8], &entry[8..]].map(|half| u64::from_le_bytes(half.try_into().expect("8")));
            let in_order = live.last_key_value().is_none_or(|(last, _)| *last < base);
            if bytes == 0 || !in_order {
                return None;
            }
            live.insert(base, bytes);
        }
        rest.is_empty().then_some(LiveBytes(live))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_counts_and_is_read_as_it_was_written() {
        let mut live = LiveBytes::default();
        live.stored(0, 30);
        live.stored(100, 50);
        live.stored(200, 0);
        assert!(live.freed(Extent { position: 10, length: 30 }));
        assert!(live.freed(Extent { position: 150, length: 20 }));
        assert!(!live.freed(Extent { position: 150, length: 31 }), "more than there is");
        assert!(!live.freed(Extent { position: 99, length: 1 }), "nothing lies there");
        assert_eq!((live.of(0), live.of(100), live.bases().collect::<Vec<_>>()), (0, 30, vec![100]));
        let bytes = live.encode();
        assert_eq!(LiveBytes::decode(&bytes), Some(live));
        assert_eq!(LiveBytes::decode(&bytes[..15]), None);
        assert_eq!(LiveBytes::decode(&[bytes.clone(), bytes].concat()), None, "each segment once");
    }
}
