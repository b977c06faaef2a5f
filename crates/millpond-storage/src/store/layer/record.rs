//! The form of a change: its key's length (2 bytes, the top bit set where the entry is gone), the key and the value.

use super::Change;

/// Set in the length where the entry is gone.
const GONE: u16 = 1 << 15;
/// Bytes of the length.
const PREFIX: usize = 2;

/// A change in the memory of others.
#[derive(Clone, Copy)]
pub(super) struct Record<'a>(pub &'a [u8]);

impl<'a> Record<'a> {
    /// Bytes that a change takes.
    pub fn length_of((key, value): Change<'_>) -> usize {
        PREFIX + key.len() + value.map_or(0, <[u8]>::len)
    }

    /// Writes a change behind what is there.
    pub fn append((key, value): Change<'_>, to: &mut Vec<u8>) {
        let length = u16::try_from(key.len()).ok().filter(|length| *length < GONE).expect("keys are short");
        let prefix = if value.is_some() { length } else { length | GONE };
        to.extend_from_slice(&prefix.to_le_bytes());
        to.extend_from_slice(key);
        to.extend_from_slice(value.unwrap_or_default());
    }

    fn prefix(self) -> u16 {
        u16::from_le_bytes([self.0[0], self.0[1]])
    }

    pub fn key(self) -> &'a [u8] {
        &self.0[PREFIX..PREFIX + usize::from(self.prefix() & !GONE)]
    }

    pub fn change(self) -> Change<'a> {
        let (key, value) = self.0[PREFIX..].split_at(usize::from(self.prefix() & !GONE));
        (key, (self.prefix() & GONE == 0).then_some(value))
    }
}

/// A change in memory of its own.
pub(super) struct Point(Box<[u8]>);

impl Point {
    pub fn new(change: Change<'_>) -> Point {
        let mut bytes = Vec::with_capacity(Record::length_of(change));
        Record::append(change, &mut bytes);
        Point(bytes.into_boxed_slice())
    }

    pub fn record(&self) -> Record<'_> {
        Record(&self.0)
    }

    /// Bytes of memory, which comes in multiples of 16, 8 of which are the allocator's.
    pub fn bytes(&self) -> usize {
        (self.0.len() + 8).next_multiple_of(16).max(32)
    }
}
