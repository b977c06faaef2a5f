//! Reading messages back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use millpond_core::output::Extent;
use millpond_types::block::messages;

use super::live::LiveBytes;
use super::shared::Shared;

#[cfg(test)]
mod tests;

/// Bytes between two messages up to which they are read at once: of topics that were published to one after the other, the
/// facts between their messages.
const GAP_MAX: u64 = 512;
/// Bytes that are read at once at most where messages are close together: a thousand small ones.
const TOGETHER_MAX: u64 = 128 * 1024;

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

    /// The position behind the last batch that was written: up to there the journal survives a kill of the process.
    pub fn written(&self) -> u64 {
        self.0.segments.end()
    }

    /// The position up to which it survives a power cut.
    pub fn durable(&self) -> u64 {
        self.0.durable.load(Ordering::Acquire)
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

    /// The messages at each of some extents, whole blocks. What lies close together is read at once.
    pub fn read_all(&self, extents: &[Extent]) -> Vec<Result<Bytes, ReadError>> {
        let mut blocks = Vec::with_capacity(extents.len());
        let mut rest = extents;
        while !rest.is_empty() {
            let (close, others) = rest.split_at(close_together(rest));
            match self.read_together(close) {
                Some(together) => blocks.extend(together.into_iter().map(Ok)),
                None => blocks.extend(close.iter().map(|extent| self.read(*extent))),
            }
            rest = others;
        }
        blocks
    }

    /// Extents that are close together, by one read; `None` where there is one alone, where the first is in memory, or where
    /// anything is not as it should be, which is then told of each.
    fn read_together(&self, extents: &[Extent]) -> Option<Vec<Bytes>> {
        let [first, .., last] = extents else { return None };
        if self.recent(*first).is_some() {
            return None;
        }
        let length = last.position - first.position + u64::from(last.length);
        let all = Extent { position: first.position, length: u32::try_from(length).expect("they are close together") };
        let segments = &self.0.segments;
        let segment =
            segments.find(all.position).filter(|segment| last.position < segment.end && segment.holds(all))?;
        let mut bytes = vec![0; all.length as usize];
        segment.file.read_at(segment.offset(all.position), &mut bytes).ok()?;
        if segments.base(all.position) != Some(segment.base) {
            return None;
        }
        let blocks = extents.iter().map(|extent| {
            let from = (extent.position - all.position) as usize;
            let block = &bytes[from..from + extent.length as usize];
            // Copied, so that a small message does not hold on to what lies around it.
            first_damaged(block).is_none().then(|| Bytes::copy_from_slice(block))
        });
        blocks.collect()
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
        if segments.base(extent.position) != Some(segment.base) {
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

/// How many of the first extents lie behind one another and close together: at least one.
pub fn close_together(extents: &[Extent]) -> usize {
    let end = |extent: &Extent| extent.position + u64::from(extent.length);
    let is_close = |pair: &[Extent]| {
        let gap = pair[1].position.checked_sub(end(&pair[0]));
        gap.is_some_and(|gap| gap <= GAP_MAX) && end(&pair[1]) - extents[0].position <= TOGETHER_MAX
    };
    1 + extents.windows(2).take_while(|pair| is_close(pair)).count()
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
