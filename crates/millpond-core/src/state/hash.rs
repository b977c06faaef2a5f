//! Hashing. Every hash that reaches a fact or a page is keyed by the directory, so that nobody who does not know the
//! key can make names or dedup ids collide. Tables in memory are keyed the same everywhere: nothing may depend on the
//! order in which a table is walked, and nothing does.

use core::hash::{BuildHasher, Hasher};

use millpond_types::{Filter, NamespaceName, TopicName};
use siphasher::sip::SipHasher13;
use siphasher::sip128::{Hasher128, SipHasher24};

/// The hash under which a dedup id is kept: SipHash-2-4 with 128 bits over namespace, topic and id.
pub fn dedup_hash(key: [u64; 2], namespace: &NamespaceName, topic: &TopicName, dedup_id: &[u8]) -> u128 {
    let mut hasher = SipHasher24::new_with_keys(key[0], key[1]);
    for part in [namespace.as_bytes(), topic.as_bytes()] {
        hasher.write_u16(part.len() as u16);
        hasher.write(part);
    }
    hasher.write(dedup_id);
    hasher.finish128().as_u128()
}

/// The hash that finds a group's topic by its name. Names in order are [`beside`] each other.
pub(crate) fn name_hash(key: [u64; 2], group: u32, name: &[u8]) -> u64 {
    let (last, front) = name.split_last().expect("a name is not empty");
    let mut hasher = SipHasher13::new_with_keys(key[0], key[1] ^ u64::from(group));
    hasher.write(front);
    hasher.write_u8(last / NEIGHBOURS);
    beside(hasher.finish(), *last)
}

/// The hash that a tenant is known by. Two tenants that share one share their turn: harmless, and one in 2⁶⁴.
fn tenant_hash(key: [u64; 2], tenant: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key[0], !key[1]);
    hasher.write(tenant);
    hasher.finish()
}

/// The hash that a header of a message is found by, among all of that message.
pub(crate) fn header_hash(hash_key: [u64; 2], key: &[u8], value: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(hash_key[0], hash_key[1]);
    hasher.write_u8(key.len() as u8);
    hasher.write(key);
    hasher.write(value);
    hasher.finish()
}

/// The hash of what a consumer asks for, in its order.
pub(crate) fn filter_hash(key: [u64; 2], filter: &Filter) -> u64 {
    let (kind, names) = match filter {
        Filter::All => (0, &[][..]),
        Filter::Topics(names) => (1, &names[..]),
        Filter::Prefixes(names) => (2, &names[..]),
    };
    let mut hasher = SipHasher13::new_with_keys(key[0], key[1]);
    hasher.write_u8(kind);
    for name in names {
        hasher.write_u16(name.as_bytes().len() as u16);
        hasher.write(name.as_bytes());
    }
    hasher.finish()
}

/// What a topic and its tenant are known by, made once: an end of a topic asks for them again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hashes {
    pub(crate) name: u64,
    pub(crate) tenant: u64,
}

impl Hashes {
    pub(crate) fn of(key: [u64; 2], group: u32, name: &TopicName) -> Hashes {
        Hashes { name: name_hash(key, group, name.as_bytes()), tenant: tenant_hash(key, name.tenant()) }
    }
}

/// As many keys that follow one another have their places side by side in a table.
pub const NEIGHBOURS: u8 = 16;

/// The hash of one of sixteen neighbours: `hash` is of what they have in common, and `which`, modulo [`NEIGHBOURS`], tells
/// one from another.
///
/// Topics are mostly named, published to and delivered in order. In a table that spreads them evenly each is a cache miss or
/// two; here the next one's place is in the line of memory that the last one has fetched. The top bits differ between
/// neighbours as well, for by these a table of hashbrown's tells apart what lies side by side.
pub fn beside(hash: u64, which: u8) -> u64 {
    let low = u64::from(which % NEIGHBOURS);
    (hash & !u64::from(NEIGHBOURS - 1) | low) ^ (low * 11) << 57
}

/// For tables keyed by what clients name, with the key of the directory.
#[derive(Clone, Copy)]
pub(crate) struct Keyed(pub(crate) [u64; 2]);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;
    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0[0], self.0[1])
    }
}

/// For tables keyed by numbers that the broker itself gave out, or that are hashes already.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct FixedState;

impl BuildHasher for FixedState {
    type Hasher = Mixer;
    fn build_hasher(&self) -> Mixer {
        Mixer(0)
    }
}

/// For tables keyed by one number that the broker gives out in order: those that follow one another are [`beside`] each other.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct InOrder;

impl BuildHasher for InOrder {
    type Hasher = Neighbour;
    fn build_hasher(&self) -> Neighbour {
        Neighbour(0)
    }
}

/// Of one number.
pub(crate) struct Neighbour(u64);

impl Hasher for Neighbour {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a number is hashed");
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
    fn finish(&self) -> u64 {
        beside(mix(self.0 / u64::from(NEIGHBOURS)), self.0 as u8)
    }
}

/// Folds numbers by multiplying and mixing; the finish is that of SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }
    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn write_u128(&mut self, n: u128) {
        self.write_u64(n as u64);
        self.write_u64((n >> 64) as u64);
    }
    fn finish(&self) -> u64 {
        mix(self.0)
    }
}

/// Spreads a number over 64 bits.
pub(crate) fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;

    /// Where a table of 2¹⁶ places looks first, and by what it tells apart what it finds there.
    fn place(hash: u64) -> (u64, u64) {
        (hash % (1 << 16), hash >> 57)
    }

    /// Of a hundred numbers in order: runs of places side by side, and whether all in a run are told apart.
    fn runs(hash: impl Fn(u8) -> u64) -> (usize, bool) {
        let places: Vec<_> = (0..100).map(|n| place(hash(n))).collect();
        let runs: Vec<_> = places.chunk_by(|a, b| b.0 == a.0 + 1).collect();
        (runs.len(), runs.iter().all(|run| run.iter().map(|(_, tag)| tag).collect::<BTreeSet<_>>().len() == run.len()))
    }

    #[test]
    fn what_comes_in_order_lies_side_by_side_and_is_told_apart() {
        assert_eq!(runs(|n| InOrder.hash_one(u64::from(n))), (7, true), "of sixteen each");
        let name = |n: u8| name_hash([1, 2], 3, format!("site/{n:04}").as_bytes());
        assert_eq!(runs(name), (10, true), "of ten digits each");
    }

    #[test]
    fn no_two_of_many_share_a_hash() {
        let names = (0..20_000).flat_map(|n| [format!("{n}"), format!("a/{n:06}"), format!("{n}/a")]);
        let hashes: BTreeSet<_> = names.map(|name| name_hash([1, 2], 0, name.as_bytes())).collect();
        assert_eq!(hashes.len(), 60_000);
        let numbers: BTreeSet<_> = (0..60_000u64).map(|n| InOrder.hash_one(n)).collect();
        assert_eq!(numbers.len(), 60_000);
    }
}
