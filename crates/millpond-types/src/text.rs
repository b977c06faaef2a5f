//! The bytes of a name: in place where they are few, and shared where they are many.
//!
//! Most names are short, and a broker holds and hands on millions of them: in place they cost no allocation, and a copy no
//! counting. Invariant: up to [`SHORT_MAX`] bytes are in place, always.

use core::cmp::Ordering;
use core::hash::{Hash, Hasher};
use core::mem::size_of;

use bytes::Bytes;

/// What is left in a [`Bytes`] beside the pointer that tells one from the other, and a length.
const SHORT_MAX: usize = size_of::<Bytes>() - size_of::<usize>() - 1;

/// See the module.
#[derive(Clone)]
pub(crate) enum Text {
    Short { length: u8, bytes: [u8; SHORT_MAX] },
    Long(Bytes),
}

const _: () = assert!(size_of::<Text>() == size_of::<Bytes>(), "what is in place takes no more room");

impl Text {
    /// The bytes, and if they are few no part of the buffer that they came in.
    pub(crate) fn new(bytes: Bytes) -> Text {
        Text::short(&bytes).unwrap_or(Text::Long(bytes))
    }

    /// The same bytes in a buffer of their own.
    pub(crate) fn copy_of(bytes: &[u8]) -> Text {
        Text::short(bytes).unwrap_or_else(|| Text::Long(Bytes::copy_from_slice(bytes)))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        match self {
            Text::Short { length, bytes } => &bytes[..usize::from(*length)],
            Text::Long(bytes) => bytes,
        }
    }

    fn short(from: &[u8]) -> Option<Text> {
        let mut bytes = [0; SHORT_MAX];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        Some(Text::Short { length: from.len() as u8, bytes })
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Text) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Text) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn whatever_its_length_it_is_the_bytes_that_it_was_made_of() {
        let all: Vec<u8> = (0..2 * SHORT_MAX as u8).collect();
        for length in 0..all.len() {
            let bytes = &all[..length];
            let (taken, copied) = (Text::new(Bytes::copy_from_slice(bytes)), Text::copy_of(bytes));
            assert_eq!((taken.as_bytes(), copied.as_bytes()), (bytes, bytes));
            assert!(taken == copied && taken.clone() == copied);
            assert_eq!(matches!(taken, Text::Short { .. }), length <= SHORT_MAX);
        }
        let (short, long) = (Text::copy_of(b"b"), Text::copy_of(&[b'a'; 100]));
        assert!(long < short && short.cmp(&Text::copy_of(b"b")) == Ordering::Equal);
    }
}
