//! The wire protocol of Millpond, sans-IO: frames as data and the codec that reads and writes them.
//!
//! `docs/protocol.md` is the specification; `vectors.txt` beside this crate's manifest holds test vectors that both are
//! held against. Bytes come from a socket into a [`bytes::BytesMut`], a [`Decoder`] takes frames off it whose
//! blocks and long names are slices of that buffer, and [`encode_request`] and [`encode_response`] append frames to a
//! [`Sink`]: a `Vec<u8>`, or what keeps large blocks where they lie. The codec holds the form of a frame and the limits on its lengths; whether a value makes sense (a lease of a minute, a
//! policy) is decided behind it, for those who embed the broker need that too.

mod blocks;
mod decoder;
mod encode;
mod frame;
mod opening;
mod table;
#[cfg(test)]
mod tests;
mod vocabulary;
mod wire;

pub use blocks::{Block, DedupId, TooLarge};
pub use decoder::{Decoder, FrameError, Incoming, Limits};
pub use encode::{Sink, encode_request, encode_response};
pub use frame::*;
pub use table::{FORWARDING, PUBLISHING, REQUEST_KINDS, RESPONSE_KINDS};
pub use wire::Kind;

/// The first bytes of a hello's payload, so that another protocol is told at once.
pub const MAGIC: [u8; 4] = *b"MLPD";

/// Bytes of a frame's header: length (4), kind (1), correlation (4). The length counts all that follows it.
pub const HEADER: usize = 9;

/// Bytes of publish frames that a client may have sent beyond what the broker has given back, from the connection's
/// first byte on. A constant of the protocol, so that the first publish waits for nothing. Every publish frame, its
/// length field included, spends its bytes; the broker gives them back with [`Response::PublishCredit`].
pub const PUBLISH_CREDIT: u32 = 16 * 1024 * 1024;

/// Bytes of a text in a frame (a detail, a client's name): encoding cuts a longer one. Room for a reason of
/// [`millpond_types::limits::REASON_MAX`] bytes, all of them replaced because they were no UTF-8.
pub const TEXT_MAX: usize = 4 * 1024;

/// Bytes of a page token ([`Listing::after`]): room for a topic's name and a message id.
pub const TOKEN_MAX: usize = 1024;
