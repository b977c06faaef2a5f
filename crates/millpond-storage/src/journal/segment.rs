//! Segment files: their names and their header.
//!
//! A segment is a preallocated file named `BASE.journal`, where BASE is the journal position of its first batch in 16
//! hexadecimal digits. It begins with a header of 4,096 bytes, so that no sector is shared with a batch; the batches
//! follow one another without gaps. What follows the last batch is the rest of the space: zeros, or what an earlier use
//! has left. The file has its length before it has its name, so one that is shorter was cut by somebody.
//!
//! | bytes | field | |
//! |---|---|---|
//! | 8 | magic | `MILLPOND` |
//! | 4 | version | of the journal's form: 1 |
//! | 4 | start | the start of the broker that made the segment |
//! | 8 | base | everything before this position was durable when the segment was made |
//! | 16 | directory | the id of the directory |
//! | 4 | checksum | CRC-32C of the 40 bytes above |
//! | 8 | length | bytes of the file |
//! | 4 | checksum | CRC-32C of the first 40 bytes and the length |
//!
//! (older versions of the program have left the last two zero, and nothing is known of the length), and at byte 512, for a sector that is written again may be torn, and what stands above never is:
//!
//! | bytes | field | |
//! |---|---|---|
//! | 8 | end | behind the last batch, written when the journal goes on in another segment; 0 or all ones before that |
//! | 4 | checksum | CRC-32C of the directory's id, base and end |
//!
//! The end is durable before anything in the other segment is confirmed. So where that one is gone, a start knows it. An end
//! that does not match its checksum says nothing: it was being written.

use std::io;

use bytes::BufMut;

use super::live::OPEN;
use crate::disk::DiskFile;

/// Bytes of a segment before its first batch.
pub const SEGMENT_HEADER: u64 = 4096;
/// The version of the journal's form.
pub const JOURNAL_VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"MILLPOND";
const SUFFIX: &str = ".journal";
const USED: usize = 56;
/// Where the version stands.
pub const VERSION_AT: usize = 8;
/// Where the base stands, and behind it the directory's id.
pub const BASE_AT: u64 = 16;
pub const DIRECTORY_AT: u64 = 24;
/// Where the checksum of all of that stands.
const CHECKSUM_AT: usize = 40;
/// Where the length stands.
const LENGTH_AT: usize = 44;
/// And where the checksum of that.
const LENGTH_SUM_AT: usize = 52;
/// Where the end stands.
pub const END_AT: u64 = 512;

/// The name of the segment that begins at a position.
pub fn segment_name(base: u64) -> String {
    format!("{base:016x}{SUFFIX}")
}

/// Where no segment begins: a journal that grows by a gigabyte a second is there in 292 years. Positions in a file that
/// begins before it are numbers still.
const BASE_END: u64 = 1 << 63;

/// The base of a segment of this name, if it is one's.
pub fn segment_base(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX).filter(|digits| digits.len() == 16)?;
    let base = u64::from_str_radix(digits, 16).ok()?;
    (segment_name(base) == name && base < BASE_END).then_some(base)
}

/// A segment's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentHeader {
    /// The start of the broker that made it.
    pub start: u32,
    /// The position of its first batch.
    pub base: u64,
    /// The directory's id.
    pub directory: u128,
    /// Bytes of its file, unless it was made by a version that did not say.
    pub length: Option<u64>,
}

/// Why a file has no header that we can use.
#[derive(Debug, thiserror::Error)]
pub enum BadSegment {
    /// The bytes are no header.
    #[error("at offset {offset} it {what}")]
    NoHeader {
        /// Where that shows.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// A later version wrote it.
    #[error(
        "at offset {VERSION_AT} it says that a newer version of Millpond wrote it (journal form {0}): use that version"
    )]
    Version(u32),
    /// It could not be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl SegmentHeader {
    /// Writes the header into a file; the caller syncs.
    pub fn write(&self, file: &dyn DiskFile) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER as usize);
        bytes.put_slice(&MAGIC);
        bytes.put_u32_le(JOURNAL_VERSION);
        bytes.put_u32_le(self.start);
        bytes.put_u64_le(self.base);
        bytes.put_u128_le(self.directory);
        let checksum = crc32c::crc32c(&bytes);
        bytes.put_u32_le(checksum);
        assert_eq!(bytes.len(), LENGTH_AT, "the header has the length of its table");
        if let Some(length) = self.length {
            bytes.put_u64_le(length);
            bytes.put_u32_le(length_checksum(checksum, length));
        }
        bytes.resize(SEGMENT_HEADER as usize, 0);
        file.write_at(0, &bytes)
    }

    /// Reads the header of a file.
    pub fn read(file: &dyn DiskFile) -> Result<SegmentHeader, BadSegment> {
        let mut bytes = [0; USED];
        match file.read_at(0, &mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                let offset = file.length()?;
                return Err(BadSegment::NoHeader { offset, what: "ends within the header of a segment" });
            }
            other => other?,
        }
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        if bytes[..MAGIC.len()] != MAGIC {
            return Err(BadSegment::NoHeader { offset: 0, what: "does not begin as a segment does" });
        }
        if u32_at(CHECKSUM_AT) != crc32c::crc32c(&bytes[..CHECKSUM_AT]) {
            let what = "has a checksum that the header before it does not match";
            return Err(BadSegment::NoHeader { offset: CHECKSUM_AT as u64, what });
        }
        match u32_at(VERSION_AT) {
            JOURNAL_VERSION => {}
            version => return Err(BadSegment::Version(version)),
        }
        let length = Some(u64_at(LENGTH_AT)).filter(|_| bytes[LENGTH_AT..] != [0; USED - LENGTH_AT]);
        if length.is_some_and(|length| u32_at(LENGTH_SUM_AT) != length_checksum(u32_at(CHECKSUM_AT), length)) {
            let what = "has a checksum that the length before it does not match";
            return Err(BadSegment::NoHeader { offset: LENGTH_SUM_AT as u64, what });
        }
        Ok(SegmentHeader {
            start: u32_at(12),
            base: u64_at(16),
            directory: u128::from_le_bytes(bytes[24..40].try_into().expect("sixteen bytes")),
            length,
        })
    }
}

/// Goes on from the header's own checksum, over what that covers.
fn length_checksum(header: u32, length: u64) -> u32 {
    crc32c::crc32c_append(header, &length.to_le_bytes())
}

/// Notes durably where a segment has ended, or with [`OPEN`] that it has not.
pub fn write_end(file: &dyn DiskFile, directory: u128, base: u64, end: u64) -> io::Result<()> {
    let mut bytes = end.to_le_bytes().to_vec();
    bytes.put_u32_le(end_checksum(directory, base, end));
    file.write_at(END_AT, &bytes)?;
    file.sync()
}

/// Where a segment has ended, as far as it says so; otherwise [`OPEN`].
pub fn read_end(file: &dyn DiskFile, directory: u128, base: u64) -> io::Result<u64> {
    let mut bytes = [0; 12];
    match file.read_at(END_AT, &mut bytes) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(OPEN),
        other => other?,
    }
    let end = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let is_whole = u32::from_le_bytes(bytes[8..].try_into().expect("four bytes")) == end_checksum(directory, base, end);
    Ok(if is_whole && end > base { end } else { OPEN })
}

fn end_checksum(directory: u128, base: u64, end: u64) -> u32 {
    let fields = [&directory.to_le_bytes()[..], &base.to_le_bytes(), &end.to_le_bytes()];
    fields.into_iter().fold(0, crc32c::crc32c_append)
}
