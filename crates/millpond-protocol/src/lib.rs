//! The wire protocol of Millpond, sans-IO: frames as data and the codec that reads and writes them.
//!
//! `docs/protocol.md` is the specification; `vectors.txt` beside this crate's manifest holds test vectors that both are
//! held against.

mod frame;

pub use frame::*;

/// Bytes of publish frames that a client may have sent beyond what the broker has given back, from the connection's
/// first byte on. A constant of the protocol, so that the first publish waits for nothing. Every publish frame, its
/// length field included, spends its bytes; the broker gives them back with [`Response::PublishCredit`].
pub const PUBLISH_CREDIT: u32 = 16 * 1024 * 1024;
