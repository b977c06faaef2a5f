//! Appends frames to a send buffer. A block is copied once, from where it lies into the buffer.

use crate::frame::{Request, Response};
use crate::wire::Choice;

/// Appends a request. `correlation` comes back with its answer.
///
/// A text over [`crate::TEXT_MAX`] bytes is cut. Anything else over its limit is written, and refused by the broker.
pub fn encode_request(request: &Request, correlation: u32, out: &mut Vec<u8>) {
    encode(request, correlation, out);
}

/// Appends a frame of the broker. `correlation` is that of the request it answers, zero if it answers none.
///
/// The caller keeps a frame below the limit told in the welcome, by asking for no more rows or bytes than fit.
pub fn encode_response(response: &Response, correlation: u32, out: &mut Vec<u8>) {
    encode(response, correlation, out);
}

fn encode(frame: &impl Choice, correlation: u32, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.push(frame.number());
    out.extend_from_slice(&correlation.to_le_bytes());
    frame.put_fields(out);
    let length = u32::try_from(out.len() - start - 4).expect("a frame is far below 4 GiB");
    out[start..start + 4].copy_from_slice(&length.to_le_bytes());
}
