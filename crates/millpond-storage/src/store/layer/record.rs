//! One change of a layer: its key's length (2 bytes, the top bit set where the entry is gone), the key and the value.

use super::{Change, SLOT};

/// Set in a record's length where the entry is gone.
const GONE: u16 = 1 << 15;
/// Bytes of the length.
const PREFIX: usize = 2;

/// A change in one piece of memory.
pub(super) struct Record(Box<[u8]>);

impl Record {
    pub fn new(key: &[u8], value: Option<&[u8]>) -> Record {
        let length = u16::try_from(key.len()).ok().filter(|length| *length < GONE).expect("keys are short");
        let prefix = if value.is_some() { length } else { length | GONE };
        Record([&prefix.to_le_bytes()[..], key, value.unwrap_or_default()].concat().into_boxed_slice())
    }

    fn prefix(&self) -> u16 {
        u16::from_le_bytes([self.0[0], self.0[1]])
    }

    pub fn key(&self) -> &[u8] {
        &self.0[PREFIX..PREFIX + usize::from(self.prefix() & !GONE)]
    }

    pub fn value(&self) -> Option<&[u8]> {
        let value = &self.0[PREFIX + usize::from(self.prefix() & !GONE)..];
        (self.prefix() & GONE == 0).then_some(value)
    }

    pub fn change(&self) -> Change<'_> {
        (self.key(), self.value())
    }

    /// Bytes of memory, which comes in multiples of 16, 8 of which are the allocator's.
    pub fn bytes(&self) -> usize {
        SLOT + (self.0.len() + 8).next_multiple_of(16).max(32)
    }
}
