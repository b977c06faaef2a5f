//! The byte form of a run of messages, the same on the wire and in the journal.
//!
//! A publish carries blocks, the journal stores them as they came, a delivery carries slices of them: a body is copied
//! once, from the session's buffer into the journal's. This is block version 1; the wire and the journal each carry a
//! version of their own that fixes it.
//!
//! A block is messages one after the other, all numbers little-endian:
//!
//! | bytes | field | |
//! |---|---|---|
//! | 4 | `crc` | CRC-32C of the rest of the message; 0 in a publish whose client computes none, and then filled in by the broker |
//! | 4 | `size` | bytes of the message that follow this field |
//! | 1 | `flags` | bit 0: has a dedup id; bit 1: has headers; the others are 0 |
//! | 1 + n | dedup id | its length (1..=255) and its bytes; only with flag 0 |
//! | 2 + n | headers | their length together and the headers: each 1 byte of key length, key, 2 bytes of value length, value; only with flag 1 |
//! | rest | body | |
//!
//! A checksum that happens to be 0 is stored as 0 and never verified, one in 2³² of all messages.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use crate::limits::{DEDUP_ID_MAX, HEADERS_MAX};

/// Bytes before `flags`: the checksum and the size.
pub const PREFIX: usize = 8;
/// The smallest message: a prefix, flags and an empty body.
pub const MESSAGE_MIN: usize = PREFIX + 1;
/// Flag 0: the message has a dedup id.
pub const HAS_DEDUP_ID: u8 = 1;
/// Flag 1: the message has headers.
pub const HAS_HEADERS: u8 = 2;

/// One message, taken apart in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parts<'a> {
    /// The checksum as it stands, 0 for none.
    pub checksum: u32,
    /// The dedup id, empty if there is none.
    pub dedup_id: &'a [u8],
    /// The headers in their byte form, empty if there are none; [`headers`] walks them.
    pub headers: &'a [u8],
    /// The body.
    pub body: &'a [u8],
    /// All that the checksum covers.
    pub checked: &'a [u8],
    /// Bytes of the whole message, prefix included.
    pub length: usize,
}

/// Where a block breaks the form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadBlock {
    /// Offset of the message in the block.
    pub offset: usize,
    /// What is wrong, as the end of a sentence.
    pub what: &'static str,
}

impl fmt::Display for BadBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the message at offset {} of its block {}", self.offset, self.what)
    }
}

impl core::error::Error for BadBlock {}

/// Takes the message at the front of `block` apart.
pub fn first(block: &[u8]) -> Result<Parts<'_>, BadBlock> {
    let bad = |what| BadBlock { offset: 0, what };
    let (prefix, rest) = block.split_first_chunk::<PREFIX>().ok_or(bad("is cut off in its first eight bytes"))?;
    let checksum = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]);
    let size = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]) as usize;
    let checked = rest.get(..size).ok_or(bad("is longer than its block"))?;
    let (&flags, mut body) = checked.split_first().ok_or(bad("has no flags"))?;
    if flags & !(HAS_DEDUP_ID | HAS_HEADERS) != 0 {
        return Err(bad("has flags that this version does not know"));
    }
    let (mut dedup_id, mut header_bytes) = (&[][..], &[][..]);
    if flags & HAS_DEDUP_ID != 0 {
        let (&length, rest) = body.split_first().ok_or(bad("is cut off in its dedup id"))?;
        if length == 0 {
            return Err(bad("has an empty dedup id"));
        }
        (dedup_id, body) = rest.split_at_checked(length as usize).ok_or(bad("is cut off in its dedup id"))?;
    }
    if flags & HAS_HEADERS != 0 {
        let (length, rest) = body.split_first_chunk::<2>().ok_or(bad("is cut off in its headers"))?;
        let length = u16::from_le_bytes(*length) as usize;
        (header_bytes, body) = rest.split_at_checked(length).ok_or(bad("is cut off in its headers"))?;
        if length > HEADERS_MAX {
            return Err(bad("has headers of more than 16 KiB together: put what is large into its body"));
        }
        if length == 0 || headers(header_bytes).any(|h| h.is_none()) {
            return Err(bad("has headers that do not fill their length"));
        }
    }
    Ok(Parts { checksum, dedup_id, headers: header_bytes, body, checked, length: PREFIX + size })
}

/// Walks a whole block. The walk ends after the first error.
pub fn messages(block: &[u8]) -> impl Iterator<Item = Result<Parts<'_>, BadBlock>> {
    let mut at = 0;
    core::iter::from_fn(move || {
        if at >= block.len() {
            return None;
        }
        let found = first(&block[at..]).map_err(|bad| BadBlock { offset: at, ..bad });
        at = found.as_ref().map_or(block.len(), |parts| at + parts.length);
        Some(found)
    })
}

/// Walks headers in their byte form as (key, value); `None` where they break the form, and then ends.
pub fn headers(bytes: &[u8]) -> impl Iterator<Item = Option<(&[u8], &[u8])>> {
    let mut rest = bytes;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let found = next_header(rest);
        rest = found.map_or(&[], |(_, _, rest)| rest);
        Some(found.map(|(key, value, _)| (key, value)))
    })
}

fn next_header(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (&key_length, rest) = bytes.split_first()?;
    let (key, rest) = rest.split_at_checked(key_length as usize)?;
    let (value_length, rest) = rest.split_first_chunk::<2>()?;
    let (value, rest) = rest.split_at_checked(u16::from_le_bytes(*value_length) as usize)?;
    Some((key, value, rest))
}

/// Why a message cannot be put into a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooLarge(pub &'static str);

impl fmt::Display for TooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for TooLarge {}

/// Appends a message with checksum 0 to a block.
pub fn push(block: &mut Vec<u8>, dedup_id: &[u8], headers: &[(&[u8], &[u8])], body: &[u8]) -> Result<(), TooLarge> {
    let header_bytes: usize = headers.iter().map(|(key, value)| 3 + key.len() + value.len()).sum();
    if dedup_id.len() > DEDUP_ID_MAX {
        return Err(TooLarge("a dedup id has at most 255 bytes"));
    }
    if header_bytes > HEADERS_MAX || headers.iter().any(|(key, _)| key.len() > 255) {
        return Err(TooLarge("headers have at most 16 KiB together, and a key at most 255 bytes"));
    }
    let dedup_bytes = if dedup_id.is_empty() { 0 } else { 1 + dedup_id.len() };
    let size = 1 + dedup_bytes + if headers.is_empty() { 0 } else { 2 + header_bytes } + body.len();
    let size = u32::try_from(size).map_err(|_| TooLarge("a body has less than 4 GiB"))?;
    block.reserve(PREFIX + size as usize);
    block.extend_from_slice(&[0; 4]);
    block.extend_from_slice(&size.to_le_bytes());
    let flag = |set, flag| if set { flag } else { 0 };
    block.push(flag(!dedup_id.is_empty(), HAS_DEDUP_ID) | flag(!headers.is_empty(), HAS_HEADERS));
    if !dedup_id.is_empty() {
        block.push(dedup_id.len() as u8);
        block.extend_from_slice(dedup_id);
    }
    if !headers.is_empty() {
        block.extend_from_slice(&(header_bytes as u16).to_le_bytes());
        for (key, value) in headers {
            block.push(key.len() as u8);
            block.extend_from_slice(key);
            block.extend_from_slice(&(value.len() as u16).to_le_bytes());
            block.extend_from_slice(value);
        }
    }
    block.extend_from_slice(body);
    Ok(())
}

/// Where the messages of a block lie, so that any sub-run of it can be cut without walking it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sizes {
    /// All messages take this many bytes.
    Uniform(u32),
    /// Message `i` of the block the sizes were made for ends at `ends[i]`.
    Ends(Arc<[u32]>),
}

impl Sizes {
    /// The sizes of a block from the offsets at which its messages end.
    pub fn from_ends(ends: &[u32]) -> Sizes {
        let first = ends.first().copied().unwrap_or(0);
        let uniform = ends.iter().enumerate().all(|(i, end)| u64::from(*end) == (i as u64 + 1) * u64::from(first));
        if uniform { Sizes::Uniform(first) } else { Sizes::Ends(ends.into()) }
    }

    /// Bytes that they take beside themselves.
    pub fn held_bytes(&self) -> usize {
        match self {
            Sizes::Uniform(_) => 0,
            Sizes::Ends(ends) => size_of_val(&ends[..]),
        }
    }

    /// The offset in the block at which message `index` begins; for `index` = count, where the block ends.
    pub fn offset(&self, index: u32) -> u32 {
        match self {
            Sizes::Uniform(size) => size * index,
            Sizes::Ends(ends) => index.checked_sub(1).map_or(0, |before| ends[before as usize]),
        }
    }

    /// The sizes of `count` messages from `index` on, as if they were a block of their own.
    pub fn cut(&self, index: u32, count: u32) -> Sizes {
        match self {
            Sizes::Ends(ends) if index > 0 || ends.len() > count as usize => {
                let from = self.offset(index);
                let within = &ends[index as usize..(index + count) as usize];
                Sizes::from_ends(&within.iter().map(|end| end - from).collect::<Vec<_>>())
            }
            whole => whole.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_as_it_was_written() {
        let mut block = Vec::new();
        push(&mut block, b"", &[], b"plain").unwrap();
        push(&mut block, b"id", &[(b"k", b"v"), (b"", b"")], b"").unwrap();
        let found: Vec<_> = messages(&block).map(|m| m.unwrap()).collect();
        assert_eq!((found[0].body, found[0].dedup_id, found[0].headers), (&b"plain"[..], &b""[..], &b""[..]));
        assert_eq!((found[1].body, found[1].dedup_id), (&b""[..], &b"id"[..]));
        let pairs: Vec<_> = headers(found[1].headers).map(Option::unwrap).collect();
        assert_eq!(pairs, [(&b"k"[..], &b"v"[..]), (b"", b"")]);
    }

    #[test]
    fn a_cut_block_is_refused_at_every_length() {
        let mut block = Vec::new();
        push(&mut block, b"id", &[(b"key", b"value")], b"body").unwrap();
        for length in 1..block.len() {
            assert!(messages(&block[..length]).any(|m| m.is_err()), "cut to {length}");
        }
    }

    /// Who writes blocks by himself may write longer ones than [`push`] does.
    #[test]
    fn a_block_whose_headers_are_too_long_is_refused_with_the_reason() {
        let with_headers = |bytes: usize| {
            let mut block = Vec::from([0; 4]);
            block.extend((1 + 2 + bytes as u32).to_le_bytes());
            block.push(HAS_HEADERS);
            block.extend((bytes as u16).to_le_bytes());
            // A key of one byte, and all the rest is its value.
            block.extend([1, b'k']);
            block.extend((bytes as u16 - 4).to_le_bytes());
            block.resize(block.len() + bytes - 4, b'v');
            block
        };
        assert_eq!(first(&with_headers(HEADERS_MAX)).unwrap().headers.len(), HEADERS_MAX);
        let what = first(&with_headers(HEADERS_MAX + 1)).unwrap_err().what;
        assert!(what.contains("more than 16 KiB together"), "{what}");
    }

    #[test]
    fn sizes_cut_runs() {
        assert_eq!(Sizes::from_ends(&[10, 20, 30]), Sizes::Uniform(10));
        let sizes = Sizes::from_ends(&[10, 15, 30]);
        assert_eq!([0, 1, 2, 3].map(|i| sizes.offset(i)), [0, 10, 15, 30]);
        assert_eq!(sizes.cut(1, 2), Sizes::from_ends(&[5, 20]));
        assert_eq!(sizes.cut(1, 1), Sizes::Uniform(5), "what is left may be uniform");
        assert_eq!(sizes.cut(0, 3), sizes);
    }
}
