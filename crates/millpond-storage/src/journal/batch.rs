//! The header of a batch, and the batch on its way from the writer to the disk.
//!
//! All numbers are little-endian. A batch begins at a multiple of eight bytes of its segment and of the journal.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 4 | magic | `MPB1` |
//! | 1 | version | of the facts' byte form: [`crate::codec::VERSION`] |
//! | 1 | flags | 1: mark; 2: orderly stop; 4: start; 8: epoch |
//! | 2 | | 0 |
//! | 4 | length | bytes of the payload; zeros follow it up to a multiple of eight |
//! | 4 | facts | how many the payload holds |
//! | 8 | position | the journal position of the header |
//! | 8 | durable | every position before this one was known durable when the batch was written |
//! | 8 | run time | in milliseconds |
//! | 8 | wall time | in milliseconds |
//! | 4 | start | counts the starts of the broker on this directory: never less than in the batch before |
//! | 4 | payload checksum | CRC-32C |
//! | 4 | header checksum | CRC-32C of the directory's id and the 60 bytes above |
//!
//! A header is valid where it stands only if its position is the position of that place and its checksum was made with
//! the id of this directory: so what an earlier use left in a segment is never taken for a batch. `start` tells
//! a batch from one that an earlier start wrote at the same position and lost ([`super::scan`]).

use bytes::{BufMut, Bytes, BytesMut};
use millpond_core::output::Holdings;
use millpond_types::{RunTime, WallTime};

use crate::codec;

/// Bytes of a header.
pub const HEADER: usize = 64;
/// Batches begin at multiples of this.
pub const ALIGN: usize = 8;
const MAGIC: [u8; 4] = *b"MPB1";

/// The batch holds no facts: it is there to vouch for those before it.
pub const MARK: u8 = 1;
/// The broker was stopped in good order behind this batch.
pub const STOP: u8 = 2;
/// The first batch of a start.
pub const START: u8 = 4;
/// A checkpoint begins before this batch. From here on the first fact about each topic is preceded by one that says where the
/// topic is, whether or not the checkpoint was ever written.
pub const EPOCH: u8 = 8;

/// A header, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchHeader {
    /// Bytes of the payload.
    pub length: u32,
    /// Facts in the payload.
    pub facts: u32,
    /// The journal position of the header.
    pub position: u64,
    /// What was known durable when the batch was written.
    pub durable: u64,
    /// The run time of its turn.
    pub run: RunTime,
    /// The wall time of its turn.
    pub wall: WallTime,
    /// The start that wrote it.
    pub start: u32,
    /// [`MARK`], [`STOP`], [`START`], [`EPOCH`].
    pub flags: u8,
    /// CRC-32C of the payload.
    pub payload_checksum: u32,
}

/// Why bytes are no header of this place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoHeader {
    /// Something else stands here, or nothing.
    Other,
    /// A header of this place stood here, or was being written: what is left of it does not match its checksum.
    Broken,
    /// The header is whole, and of a version that this build does not know.
    Version(u8),
}

impl BatchHeader {
    /// Reads the header that stands at `position` of the directory's journal.
    pub fn read(bytes: &[u8; HEADER], position: u64, directory: u128) -> Result<BatchHeader, NoHeader> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let (is_header, is_here) = (bytes[..4] == MAGIC, u64_at(16) == position);
        let is_whole = u32_at(60) == header_checksum(bytes, directory);
        if !(is_header && is_here && is_whole) {
            // What an earlier use left here is whole, and of another place. Space that was never used says 0 of everything.
            let is_left_of_one = !is_whole && (is_header || is_here && position > 0);
            return Err(if is_left_of_one { NoHeader::Broken } else { NoHeader::Other });
        }
        if bytes[4] != codec::VERSION {
            return Err(NoHeader::Version(bytes[4]));
        }
        Ok(BatchHeader {
            flags: bytes[5],
            length: u32_at(8),
            facts: u32_at(12),
            position,
            durable: u64_at(24),
            run: RunTime(u64_at(32)),
            wall: WallTime(u64_at(40)),
            start: u32_at(48),
            payload_checksum: u32_at(52),
        })
    }

    /// The header's bytes.
    pub fn bytes(&self, directory: u128) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let mut rest = &mut bytes[..];
        rest.put_slice(&MAGIC);
        rest.put_slice(&[codec::VERSION, self.flags, 0, 0]);
        rest.put_u32_le(self.length);
        rest.put_u32_le(self.facts);
        rest.put_u64_le(self.position);
        rest.put_u64_le(self.durable);
        rest.put_u64_le(self.run.0);
        rest.put_u64_le(self.wall.0);
        rest.put_u32_le(self.start);
        rest.put_u32_le(self.payload_checksum);
        let checksum = header_checksum(&bytes, directory);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Bytes of the whole batch, padding included.
    pub fn total(&self) -> u64 {
        (HEADER as u64 + u64::from(self.length)).next_multiple_of(ALIGN as u64)
    }

    /// The position behind the batch.
    pub fn end(&self) -> u64 {
        self.position + self.total()
    }
}

fn header_checksum(bytes: &[u8; HEADER], directory: u128) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&directory.to_le_bytes()), &bytes[..60])
}

/// A sealed batch: whole but for the parts of its header that are known as it is written.
pub struct Batch {
    /// Room for the header, the payload and the padding.
    pub(super) buffer: BytesMut,
    pub(super) header: BatchHeader,
    /// What it has changed of what the groups hold.
    pub(super) holdings: Holdings,
}

impl Batch {
    /// The journal position of the batch.
    pub fn position(&self) -> u64 {
        self.header.position
    }

    /// The position behind it: what is durable once the batch is.
    pub fn end(&self) -> u64 {
        self.header.end()
    }

    /// How many facts it holds.
    pub fn facts(&self) -> u32 {
        self.header.facts
    }

    /// Bytes that are written.
    pub fn bytes(&self) -> u64 {
        self.header.total()
    }

    /// Completes the header and gives the bytes to write.
    pub(super) fn finish(&mut self, durable: u64, directory: u128) -> &[u8] {
        assert!(durable <= self.header.position, "a batch cannot be durable before it is written");
        assert_eq!(self.buffer.len() as u64, self.header.total(), "a sealed batch has its final length");
        self.header.durable = durable;
        self.header.payload_checksum = crc32c::crc32c(&self.buffer[HEADER..HEADER + self.header.length as usize]);
        let header = self.header.bytes(directory);
        self.buffer[..HEADER].copy_from_slice(&header);
        &self.buffer
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.buffer.freeze()
    }
}
