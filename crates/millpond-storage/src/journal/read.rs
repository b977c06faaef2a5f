//! Reading messages back.

use std::sync::Arc;

use bytes::Bytes;
use millpond_core::output::Extent;
use millpond_types::block::messages;

use super::live::LiveBytes;
use super::shared::Shared;

/// Reads messages: recent ones from memory without a copy, older ones from their segment, checked. Cheap to clone; reads
/// go on beside the writer and beside one another.
#[derive(Clone)]
pub struct Reader(Arc<Shared>);

/// Why messages could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The bytes are not what was written. The message that begins at this offset is the first that is damaged.
    #[error("a message in {file} at offset {offset} is not what was written: the disk has damaged it")]
    Damaged {
        /// The file.
        file: String,
        /// The offset in it.
        offset: u64,
    },
    /// The segment is gone: the message ended in the meantime.
    #[error("nothing is stored at position {0} any more")]
    Gone(u64),
    /// The disk said no.
    #[error("reading {file} at offset {offset} failed: {error}")]
    Io {
        /// The file.
        file: String,
        /// The offset in it.
        offset: u64,
        /// The system's word.
        error: std::io::Error,
    },
}

impl Reader {
    pub(crate) fn new(shared: Arc<Shared>) -> Reader {
        Reader(shared)
    }

    /// What each segment holds of messages that are still needed.
    pub fn live(&self) -> LiveBytes {
        let mut live = LiveBytes::default();
        self.0.segments.all().iter().for_each(|segment| live.put(segment.base, segment.end, segment.live.clone()));
        live
    }

    /// The messages at an extent, if they are in memory; never waits for the disk.
    pub fn recent(&self, extent: Extent) -> Option<Bytes> {
        self.0.tail.get(extent)
    }

    /// The messages at an extent, a whole block.
    pub fn read(&self, extent: Extent) -> Result<Bytes, ReadError> {
        if let Some(bytes) = self.0.tail.get(extent) {
            return Ok(bytes);
        }
        let segments = &self.0.segments;
        let segment = segments.find(extent.position).filter(|segment| extent.position < segment.end);
        let segment = segment.ok_or(ReadError::Gone(extent.position))?;
        let place = || self.0.disk.place(&segment.name);
        let offset = segment.offset(extent.position);
        if !segment.holds(extent) {
            // The file was cut off by somebody. What was needed of it has not ended by that.
            return Err(match segment.live.is_empty() {
                true => ReadError::Gone(extent.position),
                false => ReadError::Damaged { file: place(), offset },
            });
        }
        let mut block = vec![0; extent.length as usize];
        let result = segment.file.read_at(offset, &mut block);
        // The file may have become another segment while it was read.
        if segments.find(extent.position).is_none_or(|now| now.base != segment.base) {
            return Err(ReadError::Gone(extent.position));
        }
        result.map_err(|error| ReadError::Io { file: place(), offset, error })?;
        match first_damaged(&block) {
            None => Ok(Bytes::from(block)),
            // Nobody needs anything of this segment, and it may have been on its way to become another.
            Some(_) if segment.live.is_empty() => Err(ReadError::Gone(extent.position)),
            Some(at) => Err(ReadError::Damaged { file: place(), offset: offset + at as u64 }),
        }
    }
}

/// The offset of the first message of a block that is not what was written. A checksum of 0 is never verified.
fn first_damaged(block: &[u8]) -> Option<usize> {
    let mut at = 0;
    for message in messages(block) {
        match message {
            Ok(parts) if parts.checksum == 0 || parts.checksum == crc32c::crc32c(parts.checked) => at += parts.length,
            _ => return Some(at),
        }
    }
    None
}
