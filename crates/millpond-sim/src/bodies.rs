//! What is published. A message's tag decides its every byte, so that whoever has the tag knows the body, and a body
//! tells its tag.

use bytes::Bytes;
use millpond_types::block::{self, BadBlock, MESSAGE_MIN, PREFIX, Sizes};

/// One message to be published.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Draft {
    /// Never used for another message.
    pub tag: u64,
    /// Bytes of the body, at least eight.
    pub size: usize,
    /// Empty for none.
    pub dedup_id: Vec<u8>,
}

/// Bytes of a tag: the beginning of each body.
pub const TAG: usize = 8;

/// The bytes behind a tag go round: each is the one before and 1, modulo this prime, which fits no sector and no length.
const ROUND: usize = 251;

/// Two rounds, so that a round from any byte on is a slice: bodies are made and compared by far the most in a life.
const ROUNDS: [u8; 2 * ROUND] = {
    let (mut rounds, mut at) = ([0; 2 * ROUND], 0);
    while at < rounds.len() {
        rounds[at] = (at % ROUND) as u8;
        at += 1;
    }
    rounds
};

/// The body of a tag.
pub fn body(tag: u64, size: usize) -> Vec<u8> {
    assert!(size >= TAG, "a body begins with its tag");
    let mut body = Vec::with_capacity(size);
    body.extend_from_slice(&tag.to_le_bytes());
    while body.len() < size {
        let left = size - body.len();
        body.extend_from_slice(&round(tag)[..left.min(ROUND)]);
    }
    body
}

/// The tag of a body that is whole; `None` where a byte is not what its tag says.
pub fn tag_of(found: &[u8]) -> Option<u64> {
    let (tag, behind) = found.split_first_chunk()?;
    let tag = u64::from_le_bytes(*tag);
    behind.chunks(ROUND).all(|bytes| *bytes == round(tag)[..bytes.len()]).then_some(tag)
}

/// What comes behind a tag, again and again.
fn round(tag: u64) -> &'static [u8] {
    let from = tag.wrapping_mul(31).wrapping_add(TAG as u64) % ROUND as u64;
    &ROUNDS[from as usize..][..ROUND]
}

/// The messages as a block with checksums, as a session hands it on.
pub fn block_of(drafts: &[Draft]) -> (Bytes, Sizes) {
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    for draft in drafts {
        let from = bytes.len();
        let header: &[(&[u8], &[u8])] = if draft.tag % 3 == 0 { &[(b"kind", b"third")] } else { &[] };
        let pushed = block::push(&mut bytes, &draft.dedup_id, header, &body(draft.tag, draft.size));
        pushed.expect("drafts are within the limits");
        let checksum = crc32c::crc32c(&bytes[from + PREFIX..]);
        bytes[from..from + 4].copy_from_slice(&checksum.to_le_bytes());
        assert!(bytes.len() >= from + MESSAGE_MIN + TAG, "a message holds its tag");
        ends.push(bytes.len() as u32);
    }
    (bytes.into(), Sizes::from_ends(&ends))
}

/// The bytes that each message of a block takes; nothing of one that is not whole.
pub fn sizes_of(block: &[u8]) -> impl Iterator<Item = u64> {
    block::messages(block).map_while(|message| Some(message.ok()?.length as u64))
}

/// The tags of a block, each of a body that is whole; `None` for one that is not.
pub fn tags_of(block: &[u8]) -> Result<Vec<Option<u64>>, BadBlock> {
    block::messages(block).map(|message| message.map(|parts| tag_of(parts.body))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_tells_its_tag_and_a_changed_one_does_not() {
        let drafts = [3, 4].map(|tag| Draft { tag, size: 20, dedup_id: b"d".to_vec() });
        let (block, _) = block_of(&drafts);
        assert_eq!(tags_of(&block).unwrap(), [Some(3), Some(4)]);
        let mut changed = block.to_vec();
        *changed.last_mut().unwrap() ^= 1;
        assert_eq!(tags_of(&changed).unwrap(), [Some(3), None]);
    }

    #[test]
    fn every_byte_of_a_long_body_is_its_tags() {
        let long = body(77, 3 * ROUND);
        assert_eq!((tag_of(&long), body(77, 600)), (Some(77), long[..600].to_vec()));
        for at in 0..long.len() {
            let mut changed = long.clone();
            changed[at] ^= 0x40;
            assert_eq!(tag_of(&changed), None, "byte {at} is another");
        }
    }
}
