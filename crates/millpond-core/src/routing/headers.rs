//! The headers of a message, put in order once for all bindings that ask for some of them: by their hashes, which nobody can
//! make collide who does not know the directory's key.

use alloc::vec::Vec;

use bytes::Bytes;
use millpond_types::block;

use crate::state::hash::header_hash;

/// See the module.
#[derive(Default)]
pub(super) struct Headers<'a> {
    hash_key: [u64; 2],
    /// The hash of each, in order.
    hashes: Vec<u64>,
    /// Each in the same order.
    headers: Vec<(&'a [u8], &'a [u8])>,
    count: usize,
}

/// Steps that it takes to hash a header.
const HASH: usize = 16;

impl<'a> Headers<'a> {
    /// Those of the message of a block.
    pub(super) fn of(block: &'a [u8], hash_key: [u64; 2]) -> Headers<'a> {
        let headers = block::first(block).map_or(&[][..], |parts| parts.headers);
        let headers = block::headers(headers).flatten();
        let mut all: Vec<_> = headers.map(|(key, value)| (header_hash(hash_key, key, value), (key, value))).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        let (hashes, headers) = all.into_iter().unzip();
        Headers { hash_key, hashes, headers, count }
    }

    /// How many the message has.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Steps that it takes to find one.
    pub(super) fn depth(&self) -> usize {
        HASH + (usize::BITS - self.count.leading_zeros()) as usize
    }

    /// Whether all of these are among them, or any; counts those that are looked up.
    pub(super) fn have(&self, all: bool, these: &[(Bytes, Bytes)], looked_up: &mut usize) -> bool {
        let mut has = these.iter().map(|(key, value)| {
            *looked_up += 1;
            self.has(key, value)
        });
        if all { has.all(|has| has) } else { has.any(|has| has) }
    }

    fn has(&self, key: &[u8], value: &[u8]) -> bool {
        let hash = header_hash(self.hash_key, key, value);
        let from = self.hashes.partition_point(|other| *other < hash);
        let alike = self.hashes[from..].iter().zip(&self.headers[from..]).take_while(|(other, _)| **other == hash);
        alike.map(|(_, found)| found).any(|found| *found == (key, value))
    }
}

#[cfg(test)]
mod tests {
    use core::slice::from_ref;

    use super::*;

    #[test]
    fn a_message_has_headers_if_all_or_any_of_a_binding_are_among_its() {
        let pair =
            |key: &str, value: &str| (Bytes::copy_from_slice(key.as_bytes()), Bytes::copy_from_slice(value.as_bytes()));
        let mut block = Vec::new();
        // In no order, and one key twice.
        block::push(&mut block, b"", &[(b"z", b"1"), (b"a", b"2"), (b"z", b""), (b"", b"3")], b"").unwrap();
        let headers = Headers::of(&block, [1, 2]);
        let (here, there) = ([pair("z", "1"), pair("z", ""), pair("", "3"), pair("a", "2")], pair("a", "1"));
        let has = |all, these: &[(Bytes, Bytes)]| headers.have(all, these, &mut 0);
        for one in &here {
            assert!(has(true, from_ref(one)) && has(false, &[there.clone(), one.clone()]), "{one:?}");
            assert!(!has(true, &[one.clone(), there.clone()]) && !has(false, from_ref(&there)));
        }
        assert!(has(true, &here) && has(true, &[]) && !has(false, &[]));
    }
}
