//! Takes frames off the front of a receive buffer, whole or not at all.
//!
//! The decoder holds no bytes of its own: the caller reads from its socket into a `BytesMut` and asks for frames until
//! there is none. A frame's bytes are split off that buffer, and blocks and long names are slices of them. What is wrong with
//! one frame whose end is known is [`FrameError::Refused`], and the next frame can be read; what leaves the end of a
//! frame unknown or the peer a stranger is [`FrameError::Fatal`].

use bytes::{Buf, BytesMut};
use millpond_types::limits::{BODY_MAX_DEFAULT, FRAME_MAX};
use millpond_types::{Code, Counted};

use crate::HEADER;
use crate::blocks::Block;
use crate::frame::{Request, Response};
use crate::opening::{self, HELLO};
use crate::table::PUBLISHING;
use crate::wire::{Bad, Choice, Reader};

/// A frame that was taken in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Incoming<T> {
    /// The client's number for the request; zero for a frame that answers nothing.
    pub correlation: u32,
    /// The frame.
    pub frame: T,
    /// Bytes of the whole frame, header included: what a publish spends of its credit.
    pub bytes: u32,
}

/// Why a frame was not taken in.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The frame is off the buffer, nothing of it was done, and the next one can be read.
    #[error("{}: {detail}", code.name())]
    Refused {
        /// The frame's correlation number, for the answer.
        correlation: u32,
        /// Why.
        code: Code,
        /// In words, with the field.
        detail: String,
        /// Publish credit that the frame had spent: its bytes if it was a publish, else zero.
        credit: u32,
    },
    /// Nothing that follows can be understood: close the connection.
    #[error("{}: {detail}", code.name())]
    Fatal {
        /// Why.
        code: Code,
        /// In words.
        detail: String,
    },
}

/// What a decoder takes in at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Bytes that a frame's length field may say.
    pub frame_max: u32,
    /// Bytes of one body in a publish.
    pub body_max: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { frame_max: FRAME_MAX as u32, body_max: BODY_MAX_DEFAULT as u32 }
    }
}

/// Reads the frames of one direction of one connection.
#[derive(Debug, Default)]
pub struct Decoder {
    limits: Limits,
    /// Whether a hello was taken in.
    begun: bool,
    /// Scratch for the ends of a block's messages.
    ends: Vec<u32>,
}

/// Bytes that the buffer is made larger by at most for a frame that has only been announced.
const RESERVE_MAX: usize = 256 * 1024;

impl Decoder {
    /// A decoder at the beginning of a connection.
    pub fn new(limits: Limits) -> Decoder {
        Decoder { limits, begun: false, ends: Vec::new() }
    }

    /// The broker's side: takes the next request off `buffer`, if one is there in whole. Blocks of a publish come out
    /// valid, with their checksums filled in.
    ///
    /// Room for the rest of a frame is the caller's to make, who may have little.
    ///
    /// The first frame has to be a hello of this version, or the error is fatal, as soon as its bytes show it.
    pub fn next_request(&mut self, buffer: &mut BytesMut) -> Result<Option<Incoming<Request<Block>>>, FrameError> {
        if !self.begun {
            opening::check(buffer)?;
        }
        let Some(raw) = self.next_raw(buffer)? else { return Ok(None) };
        if self.begun && raw.kind == HELLO {
            return Err(raw.refused(Bad::new(Code::UnexpectedFrame, "the connection has begun already")));
        }
        let incoming = self.read(raw);
        if !self.begun
            && let Err(FrameError::Refused { code, detail, .. }) = incoming
        {
            // Nothing that follows is meant for a connection that has not begun.
            return Err(FrameError::Fatal { code, detail });
        }
        self.begun = true;
        incoming.map(Some)
    }

    /// The client's side: takes the next frame of the broker off `buffer`, if one is there in whole.
    pub fn next_response(&mut self, buffer: &mut BytesMut) -> Result<Option<Incoming<Response>>, FrameError> {
        if let Some(raw) = self.next_raw(buffer)? {
            return self.read(raw).map(Some);
        }
        let announced = buffer.first_chunk::<4>().map_or(0, |length| u32::from_le_bytes(*length) as usize + 4);
        buffer.reserve(announced.saturating_sub(buffer.len()).min(RESERVE_MAX));
        Ok(None)
    }

    fn next_raw(&self, buffer: &mut BytesMut) -> Result<Option<Raw>, FrameError> {
        let Some(length) = buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length);
        if length > self.limits.frame_max {
            let max = self.limits.frame_max;
            let detail = format!("a frame announces {length} bytes, and at most {max} are allowed");
            return Err(FrameError::Fatal { code: Code::FrameTooLarge, detail });
        }
        if (length as usize) < HEADER - 4 {
            let length = Counted(length.into(), "byte");
            let detail = format!("a frame announces {length}, and its kind and correlation take five");
            return Err(FrameError::Fatal { code: Code::Malformed, detail });
        }
        let bytes = length + 4;
        if buffer.len() < bytes as usize {
            return Ok(None);
        }
        let mut payload = buffer.split_to(bytes as usize);
        payload.advance(4);
        let kind = payload.get_u8();
        let correlation = payload.get_u32_le();
        Ok(Some(Raw { kind, correlation, payload, bytes }))
    }

    fn read<T: Choice>(&mut self, mut raw: Raw) -> Result<Incoming<T>, FrameError> {
        let payload = std::mem::take(&mut raw.payload);
        let mut reader = Reader::new(payload, self.limits, &mut self.ends);
        let found = T::take_fields(raw.kind, &mut reader).and_then(|found| {
            let Some(found) = found else {
                let what = format!("no frame of kind 0x{:02X} comes from this side", raw.kind);
                return Err(Bad::new(Code::UnexpectedFrame, what));
            };
            match reader.remaining() {
                0 => Ok(found),
                rest => Err(Bad::malformed(format!(
                    "there is more behind the last field: {}",
                    Counted(rest as u64, "byte")
                ))),
            }
        });
        match found {
            Ok(frame) => Ok(Incoming { correlation: raw.correlation, frame, bytes: raw.bytes }),
            Err(bad) => {
                let name = T::TABLE.iter().find(|kind| kind.number == raw.kind).map(|kind| kind.name);
                Err(raw.refused(match name {
                    Some(name) => bad.within(name),
                    None => bad,
                }))
            }
        }
    }
}

/// A whole frame, its payload not looked into.
struct Raw {
    kind: u8,
    correlation: u32,
    payload: BytesMut,
    bytes: u32,
}

impl Raw {
    fn refused(&self, bad: Bad) -> FrameError {
        let colon = if bad.place.is_empty() { "" } else { ": " };
        FrameError::Refused {
            correlation: self.correlation,
            code: bad.code,
            detail: format!("{}{colon}{}", bad.place, bad.what),
            credit: if PUBLISHING.contains(&self.kind) { self.bytes } else { 0 },
        }
    }
}
