//! A publish's blocks as the broker takes them in: one pass over the bytes in the session's own buffer checks the form,
//! fills in the checksums that the client left to the broker, verifies those it gave, and notes where the messages lie
//! and which of them carry a dedup id. Behind this pass a block is valid and nobody walks it again.
//!
//! This is the hot path: nothing is allocated per message. A block of equal sizes (the common one) allocates nothing.

use bytes::{Bytes, BytesMut};
use millpond_types::Code;
use millpond_types::block::{self, PREFIX, Sizes};
use millpond_types::limits::{PUBLISH_BYTES_MAX, PUBLISH_MESSAGES_MAX};

use crate::encode::Sink;
use crate::wire::{Bad, Reader, Wire, put_sized};

/// A valid block whose checksums are filled in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The messages ([`millpond_types::block`]): a slice of the frame's buffer.
    pub bytes: Bytes,
    /// How many, at least one.
    pub count: u32,
    /// Where each lies.
    pub sizes: Sizes,
    /// Those that carry a dedup id, in order.
    pub dedup: Vec<DedupId>,
    /// Those whose bodies are over the limit, in order. The others of the block may be stored all the same.
    pub too_large: Vec<TooLarge>,
}

/// Where a message's dedup id lies in its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DedupId {
    /// The message's index in the block.
    pub index: u32,
    /// Offset of the id's first byte in the block.
    pub offset: u32,
    /// Bytes of the id, at least one.
    pub length: u8,
}

/// A body of a block that is larger than the broker takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge {
    /// The message's index in the block.
    pub index: u32,
    /// Bytes of its body.
    pub bytes: u32,
    /// The most that the broker takes.
    pub limit: u32,
}

impl Block {
    /// The bytes of one of this block's dedup ids.
    pub fn dedup_bytes(&self, id: DedupId) -> &[u8] {
        &self.bytes[id.offset as usize..id.offset as usize + id.length as usize]
    }
}

impl Wire for Block {
    fn put(&self, out: &mut impl Sink) {
        put_sized(&self.bytes, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let length = u32::take(from)? as usize;
        if length > PUBLISH_BYTES_MAX - from.block_bytes {
            return Err(Bad::limit(format!("a publish holds at most {PUBLISH_BYTES_MAX} bytes: send it in parts")));
        }
        from.block_bytes += length;
        let bytes = from.part(length)?;
        let room = PUBLISH_MESSAGES_MAX - from.messages;
        let block = prepare(bytes, from.limits.body_max, room, from.ends)?;
        from.messages += block.count as usize;
        Ok(block)
    }
}

/// Offset of a dedup id behind its message's beginning: the flags and the id's length stand between.
const DEDUP_OFFSET: usize = PREFIX + 2;

fn prepare(mut bytes: BytesMut, body_max: u32, room: usize, ends: &mut Vec<u32>) -> Result<Block, Bad> {
    // Offsets fit 32 bits.
    assert!(bytes.len() <= PUBLISH_BYTES_MAX && PUBLISH_BYTES_MAX <= u32::MAX as usize);
    let (mut at, mut count, mut uniform, mut dedup, mut too_large) = (0, 0, 0, Vec::new(), Vec::new());
    ends.clear();
    while at < bytes.len() {
        let refused = |code, what: String| Bad::new(code, format!("message {count} of the block {what}"));
        let parts = block::first(&bytes[at..]).map_err(|bad| refused(Code::Malformed, bad.what.into()))?;
        if parts.body.len() > body_max as usize {
            too_large.push(TooLarge { index: count as u32, bytes: parts.body.len() as u32, limit: body_max });
        }
        let computed = crc32c::crc32c(parts.checked);
        if parts.checksum != 0 && parts.checksum != computed {
            return Err(refused(Code::Malformed, "does not match its checksum".into()));
        }
        if count == room {
            return Err(Bad::limit(format!(
                "a publish holds at most {PUBLISH_MESSAGES_MAX} messages: send it in parts"
            )));
        }
        let (length, id_length) = (parts.length, parts.dedup_id.len());
        if id_length > 0 {
            let offset = (at + DEDUP_OFFSET) as u32;
            dedup.push(DedupId { index: count as u32, offset, length: id_length as u8 });
        }
        bytes[at..at + 4].copy_from_slice(&computed.to_le_bytes());
        if count == 0 {
            uniform = length;
        } else if length != uniform && ends.is_empty() {
            ends.extend((1..=count).map(|messages| (messages * uniform) as u32));
        }
        at += length;
        count += 1;
        if !ends.is_empty() {
            ends.push(at as u32);
        }
    }
    if count == 0 {
        return Err(Bad::new(Code::ArgumentInvalid, "a block holds at least one message"));
    }
    let sizes = if ends.is_empty() { Sizes::Uniform(uniform as u32) } else { Sizes::Ends(ends.as_slice().into()) };
    Ok(Block { bytes: bytes.freeze(), count: count as u32, sizes, dedup, too_large })
}

#[cfg(test)]
mod tests;
