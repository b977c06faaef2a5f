//! Holds `vectors.txt` against the codec, in both directions.

use bytes::{Bytes, BytesMut};

use super::frames::begun;
use crate::decoder::Limits;
use crate::wire::{Choice, Reader};
use crate::*;

pub(super) const TEXT: &str = include_str!("../../vectors.txt");

pub(super) struct Vector<'a> {
    pub(super) name: &'a str,
    from: &'a str,
    reads: Result<&'a str, &'a str>,
    pub(super) bytes: Vec<u8>,
}

pub(super) fn all() -> Vec<Vector<'static>> {
    let text = TEXT.lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>();
    text.split(|line| line.is_empty()).filter(|lines| !lines.is_empty()).map(parse).collect()
}

fn parse<'a>(lines: &[&'a str]) -> Vector<'a> {
    let field = |key: &str| lines.iter().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let name = field("vector ").expect("a vector begins with its name");
    let reads = field("reads ").ok_or_else(|| field("error ").unwrap_or_else(|| panic!("{name}: what is read")));
    let bytes = lines.iter().filter_map(|line| line.strip_prefix("  ")).flat_map(hex).collect();
    Vector { name, from: field("from ").expect("who sends it"), reads, bytes }
}

/// Pairs of hex digits up to the two spaces before what they mean.
pub(super) fn hex(line: &str) -> Vec<u8> {
    let digits = line.split("  ").next().unwrap();
    digits.split(' ').map(|pair| u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("{line}"))).collect()
}

/// Reads a frame's payload by itself and writes the frame again.
fn there_and_back<T: Choice + std::fmt::Debug>(bytes: &[u8], encode: fn(&T, u32, &mut Vec<u8>)) -> (String, Vec<u8>) {
    let (mut ends, mut written) = (Vec::new(), Vec::new());
    let mut reader = Reader::new(BytesMut::from(&bytes[HEADER..]), Limits::default(), &mut ends);
    let frame = T::take_fields(bytes[4], &mut reader).unwrap().unwrap();
    let correlation = u32::from_le_bytes(*bytes[5..].first_chunk().unwrap());
    encode(&frame, correlation, &mut written);
    (format!("{frame:?}"), written)
}

#[test]
fn frames_are_read_and_written_as_the_vectors_say() {
    let mut seen = Vec::new();
    for Vector { name, from, reads, bytes } in all() {
        let Ok(reads) = reads else { continue };
        let (read, written) = match from {
            "broker" => there_and_back(&bytes, encode_response),
            _ => there_and_back::<Request<Bytes>>(&bytes, encode_request),
        };
        assert_eq!(read, reads, "{name} is read as something else");
        assert_eq!(written, bytes, "{name} is written as something else");
        let mut buffer = BytesMut::from(&bytes[..]);
        let whole = match from {
            "client first" => Decoder::default().next_request(&mut buffer).map(|found| found.is_some()),
            "client" => begun().next_request(&mut buffer).map(|found| found.is_some()),
            _ => Decoder::default().next_response(&mut buffer).map(|found| found.is_some()),
        };
        assert_eq!(whole, Ok(true), "{name}");
        seen.push(bytes[4]);
    }
    for kind in REQUEST_KINDS.iter().chain(RESPONSE_KINDS) {
        assert!(seen.contains(&kind.number), "{} has no vector", kind.name);
    }
}

#[test]
fn errors_are_what_the_vectors_say() {
    let mut ping = Vec::new();
    encode_request(&Request::Ping, 99, &mut ping);
    for Vector { name, from, reads, bytes } in all() {
        let Err(expected) = reads else { continue };
        let mut buffer = BytesMut::from(&bytes[..]);
        buffer.extend_from_slice(&ping);
        let mut decoder = if from == "client first" { Decoder::default() } else { begun() };
        let error = match from {
            "broker" => decoder.next_response(&mut buffer).map(|_| ()),
            _ => decoder.next_request(&mut buffer).map(|_| ()),
        };
        let found = match &error.expect_err(name) {
            FrameError::Refused { code, .. } => format!("refused {}", code.name()),
            FrameError::Fatal { code, .. } => format!("fatal {}", code.name()),
        };
        assert_eq!(found, expected, "{name}");
        if expected.starts_with("refused") && from != "broker" {
            let next = decoder.next_request(&mut buffer).unwrap().map(|incoming| incoming.frame);
            assert_eq!(next, Some(Request::Ping), "after {name} the connection goes on");
        }
    }
}
