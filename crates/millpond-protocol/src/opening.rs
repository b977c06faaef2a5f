//! The first bytes of a connection. A hello begins with the magic and the version, in this place in every version to
//! come, so a stranger is told apart before a frame of its making is believed in.

use millpond_types::Code;

use crate::decoder::FrameError;
use crate::encode::Sink;
use crate::wire::{Bad, Reader, Wire};
use crate::{HEADER, MAGIC, TEXT_MAX, VERSION};

/// The kind of a hello.
pub(crate) const HELLO: u8 = 0x01;
/// The smallest hello's length field: kind, correlation, magic, version, an empty name.
const LENGTH_MIN: u32 = (HEADER - 4 + 4 + 2 + 4) as u32;
/// The largest hello's length field.
const LENGTH_MAX: u32 = LENGTH_MIN + TEXT_MAX as u32;

/// The magic and the version, as the form of [`crate::Request::Hello`]'s version.
pub(crate) struct Opening;

impl Opening {
    pub(crate) fn put(version: &u16, out: &mut impl Sink) {
        out.bytes().extend_from_slice(&MAGIC);
        version.put(out);
    }

    pub(crate) fn take(from: &mut Reader<'_>) -> Result<u16, Bad> {
        if from.array()? != MAGIC {
            return Err(Bad::malformed("a hello begins with MLPD"));
        }
        u16::take(from)
    }
}

/// Checks as much of a connection's first frame as has arrived.
pub(crate) fn check(bytes: &[u8]) -> Result<(), FrameError> {
    let Some(length) = bytes.first_chunk::<4>() else { return Ok(()) };
    let fits = (LENGTH_MIN..=LENGTH_MAX).contains(&u32::from_le_bytes(*length));
    let kind = bytes.get(4).is_none_or(|kind| *kind == HELLO);
    let magic = bytes.get(HEADER..).unwrap_or(&[]).iter().zip(MAGIC).all(|(found, expected)| *found == expected);
    if !fits || !kind || !magic {
        return Err(FrameError::Fatal { code: Code::Malformed, detail: stranger(bytes) });
    }
    if let Some(version) = bytes.get(HEADER + 4..).and_then(|rest| rest.first_chunk::<2>())
        && u16::from_le_bytes(*version) != VERSION
    {
        let theirs = u16::from_le_bytes(*version);
        let detail = format!("the client speaks version {theirs} of the protocol and this broker version {VERSION}");
        return Err(FrameError::Fatal { code: Code::UnsupportedVersion, detail });
    }
    Ok(())
}

fn stranger(bytes: &[u8]) -> String {
    const METHODS: [&[u8; 4]; 8] = [b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"PATC", b"PRI "];
    let likeness = if METHODS.iter().any(|method| bytes.starts_with(*method)) {
        "they look like HTTP, which has a port of its own"
    } else if bytes.starts_with(&[0x16, 0x03]) {
        "they look like TLS, and this port speaks plain TCP"
    } else {
        "they are no hello frame"
    };
    format!("the first bytes of a connection are a hello of the Millpond protocol: {likeness}")
}
