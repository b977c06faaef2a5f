//! How a field is written and read: the [`Wire`] trait, numbers, lists and optional values, and, in
//! [`shape`], records and choices.
//!
//! Reading never panics and never allocates for a length that is not there: every length is held against the bytes that
//! remain before anything is taken. What blocks and long names are read into is a slice of the frame's own buffer.

mod shape;

use std::borrow::Cow;

use bytes::{Buf, Bytes, BytesMut};
use millpond_types::Code;

use crate::TEXT_MAX;
use crate::decoder::Limits;
use crate::encode::Sink;

pub use shape::Kind;
pub(crate) use shape::{Choice, choice, put, record, take};

/// A value with one byte form.
pub(crate) trait Wire: Sized {
    /// Appends the value.
    fn put(&self, out: &mut impl Sink);
    /// Takes a value off the front.
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad>;
}

/// A value of which a frame holds lists.
pub(crate) trait Row: Wire {
    /// The most that one list may hold.
    const MAX: usize;
    /// Bytes that each takes in a frame at least.
    const BYTES: usize = 1;
    /// What a list of them needs beyond being readable.
    fn check(_list: &[Self]) -> Result<(), Bad> {
        Ok(())
    }
}

/// What is wrong with a payload, and in which field.
#[derive(Debug)]
pub(crate) struct Bad {
    pub(crate) code: Code,
    /// The field's path, outermost first.
    pub(crate) place: String,
    pub(crate) what: Cow<'static, str>,
}

impl Bad {
    pub(crate) fn new(code: Code, what: impl Into<Cow<'static, str>>) -> Bad {
        Bad { code, place: String::new(), what: what.into() }
    }

    pub(crate) fn malformed(what: impl Into<Cow<'static, str>>) -> Bad {
        Bad::new(Code::Malformed, what)
    }

    pub(crate) fn limit(what: impl Into<Cow<'static, str>>) -> Bad {
        Bad::new(Code::LimitExceeded, what)
    }

    /// The same, said of a field that holds the place named so far.
    pub(crate) fn within(mut self, field: &str) -> Bad {
        let dot = if self.place.is_empty() { "" } else { "." };
        self.place = format!("{field}{dot}{}", self.place);
        self
    }
}

/// A payload that is being read.
pub(crate) struct Reader<'a> {
    /// From the last slice taken on; `at` bytes of it are read.
    rest: BytesMut,
    at: usize,
    pub(crate) limits: Limits,
    /// Room for the ends of a block's messages, kept by the decoder from frame to frame.
    pub(crate) ends: &'a mut Vec<u32>,
    /// Messages of this frame's blocks so far.
    pub(crate) messages: usize,
    /// Bytes of this frame's blocks so far.
    pub(crate) block_bytes: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(payload: BytesMut, limits: Limits, ends: &'a mut Vec<u32>) -> Reader<'a> {
        Reader { rest: payload, at: 0, limits, ends, messages: 0, block_bytes: 0 }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.rest.len() - self.at
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Bad> {
        let found = *self.rest[self.at..].first_chunk::<N>().ok_or_else(cut_off)?;
        self.at += N;
        Ok(found)
    }

    /// The next bytes as a part of the frame's buffer that may still be written to.
    pub(crate) fn part(&mut self, length: usize) -> Result<BytesMut, Bad> {
        if length > self.remaining() {
            return Err(cut_off());
        }
        if length == 0 {
            return Ok(BytesMut::new());
        }
        self.rest.advance(self.at);
        self.at = 0;
        Ok(self.rest.split_to(length))
    }

    /// A length of four bytes and as many bytes as it says, at most `max`.
    pub(crate) fn sized(&mut self, max: usize) -> Result<BytesMut, Bad> {
        let length = u32::take(self)? as usize;
        if length > max {
            return Err(Bad::limit(format!("{length} bytes, and at most {max} are allowed")));
        }
        self.part(length)
    }
}

fn cut_off() -> Bad {
    Bad::malformed("the frame ends before this field does")
}

/// Appends a length of four bytes and the bytes.
pub(crate) fn put_sized(bytes: &[u8], out: &mut impl Sink) {
    put_length(bytes.len(), out);
    out.bytes().extend_from_slice(bytes);
}

fn put_length(length: usize, out: &mut impl Sink) {
    u32::try_from(length).expect("a field is far below 4 GiB").put(out);
}

/// Bytes that are no block, at most `MAX` of them.
pub(crate) struct Short<const MAX: usize>;

impl<const MAX: usize> Short<MAX> {
    pub(crate) fn put(bytes: &Bytes, out: &mut impl Sink) {
        put_sized(bytes, out);
    }

    pub(crate) fn take(from: &mut Reader<'_>) -> Result<Bytes, Bad> {
        Ok(from.sized(MAX)?.freeze())
    }
}

macro_rules! number {
    ($($type:ty)*) => {$(
        impl Wire for $type {
            fn put(&self, out: &mut impl Sink) {
                out.bytes().extend_from_slice(&self.to_le_bytes());
            }

            fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
                Ok(<$type>::from_le_bytes(from.array()?))
            }
        }
    )*};
}

number!(u8 u16 u32 u64 u128);

impl Wire for bool {
    fn put(&self, out: &mut impl Sink) {
        out.bytes().push(u8::from(*self));
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        match u8::take(from)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Bad::malformed(format!("a flag is 0 or 1, and this is {other}"))),
        }
    }
}

/// Messages in block form, not looked into: what a publish holds before the broker has read it, and what it delivers.
impl Wire for Bytes {
    fn put(&self, out: &mut impl Sink) {
        put_length(self.len(), out);
        out.put_block(self);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok(from.sized(usize::MAX)?.freeze())
    }
}

/// Text for people. One that is too long is cut: it must never make a frame unreadable.
impl Wire for String {
    fn put(&self, out: &mut impl Sink) {
        put_sized(&self.as_bytes()[..self.floor_char_boundary(TEXT_MAX)], out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let bytes = from.sized(TEXT_MAX)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| Bad::malformed("a text is UTF-8, and this is not"))?;
        Ok(text.to_owned())
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, out: &mut impl Sink) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        if bool::take(from)? { T::take(from).map(Some) } else { Ok(None) }
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, out: &mut impl Sink) {
        self.0.put(out);
        self.1.put(out);
    }

    #[inline(always)]
    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        Ok((A::take(from)?, B::take(from)?))
    }
}

/// Bytes of memory that are reserved for rows before they are read, beyond as many as they have in the frame; a list that
/// needs more grows as its rows turn out to be there.
const RESERVED: usize = 8 * 1024;

/// Appends a list.
pub(crate) fn put_rows<T: Row>(rows: &[T], out: &mut impl Sink) {
    u32::try_from(rows.len()).expect("a list is far below four billion rows").put(out);
    rows.iter().for_each(|row| row.put(out));
}

impl<T: Row> Wire for Vec<T> {
    fn put(&self, out: &mut impl Sink) {
        put_rows(self, out);
    }

    fn take(from: &mut Reader<'_>) -> Result<Self, Bad> {
        let count = u32::take(from)? as usize;
        if count > T::MAX {
            return Err(Bad::limit(format!("{count} rows, and at most {} are allowed", T::MAX)));
        }
        if count > from.remaining() / T::BYTES {
            return Err(cut_off());
        }
        let reserved = (RESERVED + from.remaining()) / size_of::<T>();
        let mut rows = Vec::with_capacity(count.min(reserved));
        for _ in 0..count {
            rows.push(T::take(from)?);
        }
        T::check(&rows)?;
        Ok(rows)
    }
}
