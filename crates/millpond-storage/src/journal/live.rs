//! How many bytes of live messages each segment holds for each group, as of a journal position. Part of every checkpoint,
//! so that a start counts on from there and never has to look at all messages.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 8 | base | of a segment that holds live messages; in order |
//! | 8 | end | behind its last batch: the next segment may be gone, and then no name tells; all ones where the journal went on in it |
//! | 4 | group | that needs them; in order |
//! | 8 | bytes | of the blocks of these messages |
//!
//! as often as there are such segments and groups. A message is live for a group from the batch that stores it to the batch
//! that ends it there. All groups share its body, so a segment is needed while it holds anything for any of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use millpond_core::fact::GroupNumber;
use millpond_core::output::Extent;

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LiveBytes(BTreeMap<u64, Held>);

/// What a segment holds, and where it ends.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Held {
    end: u64,
    groups: ByGroup,
}

/// The end of a segment in which the journal may go on.
pub const OPEN: u64 = u64::MAX;

/// What a segment holds for each group. Few of them, and most directories have one; but there may be thousands, so clones
/// share them until one changes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ByGroup(Arc<Vec<(GroupNumber, u64)>>);

/// Bytes of an entry.
const ENTRY: usize = 28;

impl ByGroup {
    /// Whether nobody needs anything of it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What the group needs that needs the most: about what is alive, for most messages are in all groups or in none. Where
    /// groups need different messages, what they need is moved group by group, and then lies so.
    pub fn most(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }

    /// How many groups need something.
    pub fn groups(&self) -> usize {
        self.0.len()
    }

    /// What the groups need if none needs what another does: more than is alive, where they share messages.
    pub fn sum(&self) -> u64 {
        self.0.iter().map(|(_, bytes)| *bytes).sum()
    }

    /// A group needs more.
    pub fn add(&mut self, group: GroupNumber, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let groups = Arc::make_mut(&mut self.0);
        match groups.binary_search_by_key(&group, |(of, _)| *of) {
            Ok(at) => groups[at].1 += bytes,
            Err(at) => groups.insert(at, (group, bytes)),
        }
    }

    /// A group needs less; false where it did not need so much.
    #[must_use]
    pub fn take(&mut self, group: GroupNumber, bytes: u64) -> bool {
        let Ok(at) = self.0.binary_search_by_key(&group, |(of, _)| *of) else { return bytes == 0 };
        let Some(left) = self.0[at].1.checked_sub(bytes) else { return false };
        let groups = Arc::make_mut(&mut self.0);
        match left {
            0 => _ = groups.remove(at),
            _ => groups[at].1 = left,
        }
        true
    }
}

impl LiveBytes {
    /// What a segment holds.
    pub fn of(&self, base: u64) -> ByGroup {
        self.0.get(&base).map(|held| held.groups.clone()).unwrap_or_default()
    }

    /// The position behind the last batch of a segment that holds something; the highest there is while it is not over.
    pub fn end(&self, base: u64) -> Option<u64> {
        self.0.get(&base).map(|held| held.end)
    }

    /// The bases of the segments that hold something, in order.
    pub fn bases(&self) -> impl Iterator<Item = u64> {
        self.0.keys().copied()
    }

    /// Takes note of what a segment holds, and of where it ends.
    pub fn put(&mut self, base: u64, end: u64, groups: ByGroup) {
        if !groups.is_empty() {
            self.0.insert(base, Held { end, groups });
        }
    }

    /// The journal does not go on in a segment.
    pub fn ended(&mut self, base: u64, end: u64) {
        self.0.get_mut(&base).into_iter().for_each(|held| held.end = end);
    }

    /// Counts messages to a segment.
    pub fn stored(&mut self, base: u64, group: GroupNumber, bytes: u64) {
        if bytes > 0 {
            let held = self.0.entry(base).or_insert(Held { end: OPEN, groups: ByGroup::default() });
            held.groups.add(group, bytes);
        }
    }

    /// Counts messages for one more group; false where nothing is there.
    #[must_use]
    pub fn shared(&mut self, group: GroupNumber, extent: Extent) -> bool {
        let held = self.0.range_mut(..=extent.position).next_back().map(|(_, held)| held);
        let Some(held) = held.filter(|held| extent.position < held.end) else { return false };
        held.groups.add(group, extent.length.into());
        true
    }

    /// Counts messages off; false where they are not all there.
    #[must_use]
    pub fn freed(&mut self, group: GroupNumber, extent: Extent) -> bool {
        // Whatever has live messages has an entry, so the nearest entry before a message is its segment's.
        let Some((&base, held)) = self.0.range_mut(..=extent.position).next_back() else { return false };
        let was_there = extent.position < held.end && held.groups.take(group, extent.length.into());
        if held.groups.is_empty() {
            self.0.remove(&base);
        }
        was_there
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (base, Held { end, groups }) in &self.0 {
            for (group, of_group) in groups.0.iter() {
                bytes.extend_from_slice(&base.to_le_bytes());
                bytes.extend_from_slice(&end.to_le_bytes());
                bytes.extend_from_slice(&group.to_le_bytes());
                bytes.extend_from_slice(&of_group.to_le_bytes());
            }
        }
        bytes
    }

    /// Reads what [`LiveBytes::encode`] has written; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<LiveBytes> {
        let (entries, rest) = bytes.as_chunks::<ENTRY>();
        let (mut live, mut last) = (LiveBytes::default(), None);
        for entry in entries {
            let u64_at = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("8"));
            let (base, end, bytes) = (u64_at(0), u64_at(8), u64_at(20));
            let group = GroupNumber::from_le_bytes(entry[16..20].try_into().expect("4"));
            if bytes == 0 || end <= base || last.replace((base, group)).is_some_and(|last| last >= (base, group)) {
                return None;
            }
            let held = live.0.entry(base).or_insert(Held { end, groups: ByGroup::default() });
            if held.end != end {
                return None;
            }
            held.groups.add(group, bytes);
        }
        rest.is_empty().then_some(live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_counts_and_is_read_as_it_was_written() {
        let mut live = LiveBytes::default();
        live.stored(0, 0, 30);
        live.stored(100, 0, 50);
        live.stored(100, 3, 40);
        live.stored(200, 0, 0);
        assert!(live.shared(7, Extent { position: 110, length: 5 }) && !live.of(0).is_empty());
        assert!(
            live.freed(7, Extent { position: 110, length: 5 }) && !live.freed(7, Extent { position: 10, length: 5 })
        );
        assert_eq!((live.end(100), live.of(100).most()), (Some(OPEN), 50));
        let of_100 = live.of(100);
        live.put(100, 180, of_100);
        assert_eq!(live.end(100), Some(180));
        assert!(live.freed(0, Extent { position: 10, length: 30 }));
        assert!(live.freed(0, Extent { position: 150, length: 20 }));
        assert!(!live.freed(0, Extent { position: 150, length: 31 }), "more than there is");
        assert!(!live.freed(0, Extent { position: 99, length: 1 }), "nothing lies there");
        assert!(!live.freed(0, Extent { position: 180, length: 1 }), "it ends before that");
        assert_eq!((live.of(0).most(), live.of(100).most(), live.bases().collect::<Vec<_>>()), (0, 40, vec![100]));
        let bytes = live.encode();
        assert_eq!(LiveBytes::decode(&bytes), Some(live.clone()));
        assert_eq!(LiveBytes::decode(&bytes[..27]), None);
        assert_eq!(LiveBytes::decode(&[bytes.clone(), bytes].concat()), None, "each segment and group once");
        assert!(live.freed(0, Extent { position: 150, length: 30 }));
        assert!(!live.of(100).is_empty(), "another group needs it");
        assert!(live.freed(3, Extent { position: 150, length: 40 }));
        assert!(live.of(100).is_empty());
    }
}
