//! The byte form of facts and pages, as the journal and the checkpoints keep them.
//!
//! Written by hand so that the core's types can change without changing what is on disk, and the other way round. The
//! form carries no version of its own: a batch's and a checkpoint's header do ([`VERSION`]).
//!
//! | notation | bytes |
//! |---|---|
//! | *number* | LEB128: seven bits a byte, the lowest first, the top bit set on all but the last; at most ten bytes |
//! | *until* | a number, one more than the time and wrapping, so that "for ever" takes one byte |
//! | *difference* | a number: one value minus another, wrapping, with the sign in the lowest bit |
//! | *option* | 0, or 1 and the value |
//! | *string* | a number, and that many bytes |
//! | *hash*, *key* | 16 bytes, little-endian |
//!
//! Decoding never panics and takes no more memory than the bytes it is given account for: what has been damaged past
//! its checksum, or was written by something else, is refused with its offset. Names and details are copied out, so that
//! nothing decoded keeps a journal buffer alive but a block, which is the point of one.

mod context;
mod dead;
mod entry;
mod exchange;
mod fact;
mod messages;
mod office;
mod page;
mod piece;
mod policy;
mod run;
mod spans;
mod start;
mod value;

use bytes::Bytes;

pub use context::Context;
pub use entry::{decode_entry, dedup_until, encode_entry, producer_until};
pub use fact::{decode_fact, encode_fact};
pub use page::{decode_page, encode_page};

/// The version of this form. A header that names another is refused.
pub const VERSION: u8 = 1;

/// Why bytes are no fact or no page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the record at byte {offset} {what}")]
pub struct BadRecord {
    /// Where decoding stopped, from the start of the bytes that were given.
    pub offset: usize,
    /// What is wrong, as the end of a sentence.
    pub what: &'static str,
}

static NOTHING: Bytes = Bytes::new();

impl Default for Source<'_> {
    fn default() -> Self {
        Source::new(&NOTHING)
    }
}

/// Reads values off the front of a buffer: pages, or the facts of a batch.
pub struct Source<'a> {
    bytes: &'a Bytes,
    at: usize,
    context: Context,
}

impl<'a> Source<'a> {
    /// Reads from the first byte.
    pub fn new(bytes: &'a Bytes) -> Source<'a> {
        Source { bytes, at: 0, context: Context::default() }
    }

    /// How many bytes have been read.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    fn bad(&self, what: &'static str) -> BadRecord {
        BadRecord { offset: self.at, what }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], BadRecord> {
        let found = self.bytes[self.at..].get(..length).ok_or(self.bad("is cut off"))?;
        self.at += length;
        Ok(found)
    }

    fn byte(&mut self) -> Result<u8, BadRecord> {
        Ok(self.take(1)?[0])
    }

    /// Whether the next byte is this one.
    fn next_is(&self, byte: u8) -> bool {
        self.bytes.get(self.at) == Some(&byte)
    }

    fn flag(&mut self) -> Result<bool, BadRecord> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(self.bad("has a flag that is neither 0 nor 1")),
        }
    }

    fn number(&mut self) -> Result<u64, BadRecord> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.bad("has a number of more than 64 bits"))
    }

    fn number32(&mut self) -> Result<u32, BadRecord> {
        u32::try_from(self.number()?).map_err(|_| self.bad("has a number of more than 32 bits"))
    }

    fn wide(&mut self) -> Result<u128, BadRecord> {
        Ok(u128::from_le_bytes(self.take(16)?.try_into().expect("16 bytes were taken")))
    }

    fn string(&mut self) -> Result<&'a [u8], BadRecord> {
        let length = self.number()?;
        self.take(usize::try_from(length).map_err(|_| self.bad("is cut off"))?)
    }

    /// A string that stays in its buffer.
    fn shared(&mut self) -> Result<Bytes, BadRecord> {
        let found = self.string()?;
        Ok(self.bytes.slice_ref(found))
    }

    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, BadRecord>) -> Result<Option<T>, BadRecord> {
        if self.flag()? { read(self).map(Some) } else { Ok(None) }
    }

    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, BadRecord>) -> Result<Vec<T>, BadRecord> {
        let count = self.number()?;
        // Every element takes a byte at least: a count past what is left is a lie, and reserves nothing.
        let count = usize::try_from(count).ok().filter(|count| *count <= self.left());
        let count = count.ok_or(self.bad("has a list that is longer than its bytes"))?;
        // Elements may be larger in memory than on disk; the list grows as they really turn up.
        let mut list = Vec::with_capacity(count.min(64));
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }
}

/// Appends values to a buffer.
pub(crate) struct Sink<'a> {
    out: &'a mut Vec<u8>,
    context: Context,
}

impl<'a> Sink<'a> {
    fn new(out: &'a mut Vec<u8>) -> Sink<'a> {
        Sink { out, context: Context::default() }
    }

    fn byte(&mut self, byte: u8) {
        self.out.push(byte);
    }

    fn flag(&mut self, flag: bool) {
        self.byte(u8::from(flag));
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    fn number32(&mut self, value: u32) {
        self.number(u64::from(value));
    }

    fn wide(&mut self, value: u128) {
        self.out.extend_from_slice(&value.to_le_bytes());
    }

    fn string(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn list<T>(&mut self, list: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.number(list.len() as u64);
        for element in list {
            write(self, element);
        }
    }
}

#[cfg(test)]
mod tests;
