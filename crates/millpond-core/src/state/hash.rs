//! Hashing. Every hash that reaches a fact or a page is keyed by the directory, so that nobody who does not know the
//! key can make names or dedup ids collide. Tables in memory are keyed the same everywhere: nothing may depend on the
//! order in which a table is walked, and nothing does.

use core::hash::{BuildHasher, Hasher};

use millpond_types::{NamespaceName, TopicName};
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

/// The hash that finds a group's topic by its name.
pub(crate) fn name_hash(key: [u64; 2], group: u32, name: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key[0], key[1] ^ u64::from(group));
    hasher.write(name);
    hasher.finish()
}

/// The hash that a tenant is known by. Two tenants that share one share their turn: harmless, and one in 2⁶⁴.
pub(crate) fn tenant_hash(key: [u64; 2], tenant: &[u8]) -> u64 {
    name_hash(key, u32::MAX, tenant)
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
