//! Appends frames to what is to be sent.

use bytes::Bytes;

use crate::frame::{Request, Response};
use crate::wire::Choice;

/// What frames are appended to. A plain buffer takes a copy of each block.
pub trait Sink {
    /// The bytes so far, without the blocks that were not copied.
    fn bytes(&mut self) -> &mut Vec<u8>;

    /// How many bytes there are so far, with these.
    fn total(&self) -> usize;

    /// Appends messages in block form.
    fn put_block(&mut self, block: &Bytes);
}

impl Sink for Vec<u8> {
    fn bytes(&mut self) -> &mut Vec<u8> {
        self
    }

    fn total(&self) -> usize {
        self.len()
    }

    fn put_block(&mut self, block: &Bytes) {
        self.extend_from_slice(block);
    }
}

/// Appends a request. `correlation` comes back with its answer.
///
/// A text over [`crate::TEXT_MAX`] bytes is cut. Anything else over its limit is written, and refused by the broker.
pub fn encode_request(request: &Request, correlation: u32, out: &mut impl Sink) {
    encode(request, correlation, out);
}

/// Appends a frame of the broker. `correlation` is that of the request it answers, zero if it answers none.
///
/// The caller keeps a frame below the limit told in the welcome, by asking for no more rows or bytes than fit.
pub fn encode_response(response: &Response, correlation: u32, out: &mut impl Sink) {
    encode(response, correlation, out);
}

fn encode(frame: &impl Choice, correlation: u32, out: &mut impl Sink) {
    let (start, before) = (out.bytes().len(), out.total());
    out.bytes().extend_from_slice(&[0; 4]);
    out.bytes().push(frame.number());
    out.bytes().extend_from_slice(&correlation.to_le_bytes());
    frame.put_fields(out);
    let length = u32::try_from(out.total() - before - 4).expect("a frame is far below 4 GiB");
    out.bytes()[start..start + 4].copy_from_slice(&length.to_le_bytes());
}
