//! Connections to a running broker: frames in any order, and bytes that are no frames.
//!
//! The first byte says whether a hello comes first and whether the rest is kinds and payloads, to which headers are made,
//! or the stream as it is. Two more say where it is split into two writes.
//!
//! Whatever comes, the broker answers each request once at most, in frames that a client can read, closes the
//! connection when there is no more, and welcomes the next client.

use std::collections::BTreeSet;

use bytes::BytesMut;
use millpond_protocol::{Decoder, Request, Response, VERSION, encode_request};

use super::framed;
use super::serving::{Said, served};

/// Frames that matter to one another are near one another.
const LENGTH_MAX: usize = 8 * 1024;
/// One input in so many is followed by another client.
const PROBED: usize = 16;

/// Says something to the listener.
pub fn run(data: &[u8]) {
    let Some((&[flags, low, high], rest)) = data.split_first_chunk() else { return };
    let rest = &rest[..rest.len().min(LENGTH_MAX)];
    let mut said = if flags & 1 == 0 { hello() } else { Vec::new() };
    let is_framed = flags & 2 == 0;
    let frames = if is_framed { framed(rest) } else { vec![rest.to_vec()] };
    said.extend(frames.iter().flatten());
    let split = usize::from(u16::from_le_bytes([low, high])) % (said.len() + 1);
    let broker = served();
    let answered = answers(&broker.protocol(Said::All([&said[..split], &said[split..]])));
    if is_framed {
        // The hello is number zero; the frames behind it count from one.
        let numbers: BTreeSet<u32> = answered.iter().copied().collect();
        assert_eq!(numbers.len(), answered.len(), "an answer twice: {answered:?}");
        assert!(numbers.iter().all(|number| *number as usize <= frames.len()), "{answered:?} of {}", frames.len());
    }
    if said.len().is_multiple_of(PROBED) {
        let hello = hello();
        broker.protocol(Said::Until(&hello, &|heard| answers(heard).contains(&0)));
    }
}

fn hello() -> Vec<u8> {
    let mut hello = Vec::new();
    encode_request(&Request::Hello { version: VERSION, client: "fuzz".into() }, 0, &mut hello);
    hello
}

/// The numbers of the requests that were answered.
fn answers(heard: &[u8]) -> Vec<u32> {
    let (mut decoder, mut buffer) = (Decoder::default(), BytesMut::from(heard));
    let mut answered = Vec::new();
    while let Some(incoming) = decoder.next_response(&mut buffer).expect("a client can read it") {
        let is_answer = !matches!(
            incoming.frame,
            Response::Delivery { .. }
                | Response::Standing { .. }
                | Response::PublishCredit { .. }
                | Response::SessionExpired
                | Response::Closing { .. }
        );
        if is_answer {
            answered.push(incoming.correlation);
        }
    }
    answered
}
