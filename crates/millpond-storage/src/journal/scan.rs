//! Walking the batches of a segment, and telling what an invalid batch means.
//!
//! A walk ends at the first place where no valid batch stands. That place is the end of the journal, or a torn tail, or
//! damage; which of them depends on what is known durable, and that is [`crate::recover`]'s decision. Batches of an
//! earlier start behind those of a later one are what that start had written and lost: they are not valid.

use std::io;

use bytes::{Bytes, BytesMut};

use super::batch::{ALIGN, BatchHeader, HEADER, NoHeader};
use super::segments::Segment;
use crate::disk::DiskFile;

/// Bytes read at once.
const WINDOW: usize = 1024 * 1024;
/// A stretch of space that was never used.
static EMPTY: [u8; 4096] = [0; 4096];

/// A walk through a segment.
pub struct Scan<'a> {
    segment: &'a Segment,
    directory: u128,
    window: Window<'a>,
    /// The position of the next batch.
    pub position: u64,
    /// The start of the batch before.
    pub start: u32,
}

/// What stands at a position.
pub enum Found {
    /// A batch, whole.
    Batch(BatchHeader, Bytes),
    /// No header of this place.
    Nothing,
    /// A batch of so many bytes, as far as one can tell, that is not whole: a header without the payload that belongs to
    /// it, or what is left of a header.
    Torn(u64),
    /// A batch that was written, and lost, by an earlier start.
    Lost,
    /// A header of a later version.
    Version(u8),
}

/// What valid headers behind the end of a walk say.
pub struct Behind {
    /// Everything before this position was durable once; 0 if none says anything.
    pub durable: u64,
    /// The latest start that wrote any of them, or anything before them.
    pub start: u32,
    /// How many of them are of this start or a later one.
    pub batches: u64,
    /// Where the last of those ends.
    pub end: u64,
}

impl<'a> Scan<'a> {
    /// Walks a segment from a position on, which a batch of `start` comes before.
    pub fn new(segment: &'a Segment, directory: u128, position: u64, start: u32) -> Scan<'a> {
        Scan { segment, directory, window: Window::new(segment.file.as_ref(), segment.bytes), position, start }
    }

    /// Looks at the next place, and steps over the batch if there is one.
    pub fn step(&mut self) -> io::Result<Found> {
        let offset = self.segment.offset(self.position);
        let header = match self.header(self.position)? {
            Ok(header) => header,
            Err(NoHeader::Other) => return Ok(Found::Nothing),
            Err(NoHeader::Broken) => return Ok(Found::Torn(HEADER as u64)),
            Err(NoHeader::Version(version)) => return Ok(Found::Version(version)),
        };
        if header.start < self.start {
            return Ok(Found::Lost);
        }
        let payload = self.window.get(offset + HEADER as u64, header.length as usize)?;
        match payload.filter(|payload| crc32c::crc32c(payload) == header.payload_checksum) {
            None => Ok(Found::Torn(header.total())),
            Some(payload) => {
                assert!(header.end() > self.position, "a batch is longer than nothing");
                self.position = header.end();
                self.start = header.start;
                Ok(Found::Batch(header, payload))
            }
        }
    }

    /// Looks through all that stands behind the place where the walk ended.
    pub fn behind(&mut self) -> io::Result<Behind> {
        let mut behind = Behind { durable: 0, start: self.start, batches: 0, end: self.position };
        let mut position = self.position;
        while self.segment.offset(position) + HEADER as u64 <= self.segment.bytes {
            // Most of it is space that was never used: passed over a stretch at a time.
            let offset = self.segment.offset(position);
            if let Some(at) = self.window.find(offset, EMPTY.len())?
                && self.window.piece[at..at + EMPTY.len()] == EMPTY
            {
                position += EMPTY.len() as u64;
                continue;
            }
            for position in (position..position + EMPTY.len() as u64).step_by(ALIGN) {
                let Ok(header) = self.header(position)? else { continue };
                // What an earlier start wrote and lost was lost before this one vouched for anything.
                if header.start >= self.start {
                    behind.durable = behind.durable.max(header.durable);
                    behind.batches += 1;
                    behind.end = behind.end.max(header.end());
                }
                behind.start = behind.start.max(header.start);
            }
            position += EMPTY.len() as u64;
        }
        Ok(behind)
    }

    /// Looks for the next header behind the place where the walk ended, by the same start or a later one, and goes on
    /// there. False if there is none.
    pub fn seek(&mut self) -> io::Result<bool> {
        let mut position = self.position + ALIGN as u64;
        while self.segment.offset(position) + HEADER as u64 <= self.segment.bytes {
            if let Ok(header) = self.header(position)?
                && header.start >= self.start
            {
                self.position = position;
                return Ok(true);
            }
            position += ALIGN as u64;
        }
        Ok(false)
    }

    /// Walks up to a position, over whatever is damaged, and says where the last batch before it ends.
    pub fn end_before(&mut self, position: u64) -> io::Result<u64> {
        let mut end = self.position;
        while self.position < position {
            match self.step()? {
                Found::Batch(..) => {
                    end = self.position;
                    continue;
                }
                Found::Torn(bytes) => end = self.position + bytes,
                Found::Nothing | Found::Lost | Found::Version(_) => {}
            }
            if !self.seek()? {
                break;
            }
        }
        Ok(end)
    }

    fn header(&mut self, position: u64) -> io::Result<Result<BatchHeader, NoHeader>> {
        let Some(at) = self.window.find(self.segment.offset(position), HEADER)? else {
            return Ok(Err(NoHeader::Other));
        };
        let bytes = self.window.piece[at..].first_chunk().expect("the window holds what it found");
        Ok(BatchHeader::read(bytes, position, self.directory))
    }
}

/// Reads a file in large pieces.
struct Window<'a> {
    file: &'a dyn DiskFile,
    bytes: u64,
    from: u64,
    piece: Bytes,
}

impl<'a> Window<'a> {
    fn new(file: &'a dyn DiskFile, bytes: u64) -> Window<'a> {
        Window { file, bytes, from: 0, piece: Bytes::new() }
    }

    /// Bytes of the file; `None` past its end.
    fn get(&mut self, offset: u64, length: usize) -> io::Result<Option<Bytes>> {
        Ok(self.find(offset, length)?.map(|at| self.piece.slice(at..at + length)))
    }

    /// Where in the piece bytes of the file are; `None` past the file's end.
    fn find(&mut self, offset: u64, length: usize) -> io::Result<Option<usize>> {
        if offset.checked_add(length as u64).is_none_or(|end| end > self.bytes) {
            return Ok(None);
        }
        let end = self.from + self.piece.len() as u64;
        if offset < self.from || offset + length as u64 > end {
            let take = (self.bytes - offset).min(length.max(WINDOW) as u64) as usize;
            let old = std::mem::take(&mut self.piece);
            let mut piece = old.try_into_mut().unwrap_or_else(|_| BytesMut::new());
            piece.resize(take, 0);
            self.file.read_at(offset, &mut piece)?;
            (self.from, self.piece) = (offset, piece.freeze());
        }
        Ok(Some((offset - self.from) as usize))
    }
}
