//! Frames of the wire, of both sides.
//!
//! The first byte says which side's frames they are, whether the connection has begun, and whether the bytes are frames as
//! they would come or the kinds and payloads of frames whose headers are then put before them. Two more say where the stream is
//! split.
//!
//! What holds of any bytes: decoding ends, and takes no more memory than they account for; the same comes out wherever they are
//! split; and what is taken in is written as the same bytes, but for checksums that a publish left to the broker.

use std::fmt::Debug;

use bytes::{Bytes, BytesMut};
use millpond_protocol::{
    Block, Decoder, Forward, ForwardRoute, FrameError, Incoming, Publish, PublishRun, Request, Route, VERSION,
    encode_request, encode_response,
};

use super::framed;
use crate::memory;

/// Bytes of memory for each byte of a frame: rows take more than their bytes, the list doubles as it grows, and the stream is
/// there twice.
const EACH: usize = 96;
/// Streams of up to so many bytes are also split at every byte.
const SHORT: usize = 256;

/// Decodes a stream.
pub fn run(data: &[u8]) {
    let Some((&[flags, low, high], rest)) = data.split_first_chunk() else { return };
    let stream = if flags & 4 == 0 { rest.to_vec() } else { framed(rest).concat() };
    let split = usize::from(u16::from_le_bytes([low, high])) % (stream.len() + 1);
    if flags & 1 == 0 {
        let begun = flags & 2 != 0;
        check(&stream, split, &|| requests(begun), Decoder::next_request, |incoming, out| {
            encode_request(&as_sent(incoming.frame), incoming.correlation, out);
        });
    } else {
        check(&stream, split, &Decoder::default, Decoder::next_response, |incoming, out| {
            encode_response(&incoming.frame, incoming.correlation, out);
        });
    }
}

type Next<T> = fn(&mut Decoder, &mut BytesMut) -> Result<Option<Incoming<T>>, FrameError>;

fn check<T: Clone + PartialEq + Debug>(
    stream: &[u8],
    split: usize,
    decoder: &dyn Fn() -> Decoder,
    next: Next<T>,
    encode: fn(Incoming<T>, &mut Vec<u8>),
) {
    let decode = |pieces: &[&[u8]]| {
        let (mut decoder, mut buffer, mut found) = (decoder(), BytesMut::new(), Vec::new());
        for piece in pieces {
            buffer.extend_from_slice(piece);
            loop {
                let before = buffer.len();
                match next(&mut decoder, &mut buffer) {
                    Ok(None) => break,
                    fatal @ Err(FrameError::Fatal { .. }) => {
                        found.push((fatal.map(|_| None), 0));
                        return found;
                    }
                    taken => {
                        assert!(buffer.len() < before, "a frame that takes nothing off the buffer");
                        found.push((taken, before - buffer.len()));
                    }
                }
            }
        }
        found
    };
    let found = memory::bounded(stream.len(), EACH, || decode(&[stream]));
    assert_eq!(decode(&[&stream[..split], &stream[split..]]), found, "split at {split}");
    if stream.len() <= SHORT {
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(decode(&bytes), found, "split at every byte");
    }
    let mut at = 0;
    for (taken, length) in found {
        if let Ok(Some(incoming)) = taken {
            let mut written = Vec::new();
            assert_eq!(incoming.bytes as usize, length, "the length that is told");
            encode(incoming, &mut written);
            assert_same(&written, &stream[at..at + length]);
        }
        at += length;
    }
}

/// A checksum of zero leaves it to the broker, who fills it in as it takes the frame.
fn assert_same(written: &[u8], taken: &[u8]) {
    let is_same = written.len() == taken.len()
        && written.iter().zip(taken).all(|(written, taken)| written == taken || *taken == 0);
    assert!(is_same, "taken in as {taken:02x?}, written as {written:02x?}");
}

fn requests(begun: bool) -> Decoder {
    let mut decoder = Decoder::default();
    if begun {
        let mut hello = Vec::new();
        encode_request(&Request::Hello { version: VERSION, client: String::new() }, 0, &mut hello);
        decoder.next_request(&mut BytesMut::from(&hello[..])).expect("a hello is good");
    }
    decoder
}

/// Requests without blocks are the same in both forms.
macro_rules! blockless {
    ($request:expr; $($kind:ident $(($inner:ident))? $({ $($field:ident),* })?,)*) => {
        match $request {
            $(Request::$kind $(($inner))? $({ $($field),* })? => Request::$kind $(($inner))? $({ $($field),* })?,)*
            Request::Publish(_) | Request::Forward(_) | Request::ForwardRoute(_) | Request::Route(_) => {
                unreachable!("these have blocks")
            }
        }
    };
}

/// A request as a client would have built it.
fn as_sent(request: Request<Block>) -> Request<Bytes> {
    let runs = |runs: Vec<PublishRun<Block>>| {
        let sent = |run: PublishRun<Block>| {
            let PublishRun { topic, priority, delay, ttl, block } = run;
            PublishRun { topic, priority, delay, ttl, block: block.bytes }
        };
        runs.into_iter().map(sent).collect()
    };
    match request {
        Request::Publish(Publish { namespace, level, producer, runs: of }) => {
            Request::Publish(Publish { namespace, level, producer, runs: runs(of) })
        }
        Request::Forward(Forward { receipts, namespace, runs: of }) => {
            Request::Forward(Forward { receipts, namespace, runs: runs(of) })
        }
        Request::ForwardRoute(ForwardRoute { receipts, namespace, exchange, key, priority, delay, ttl, block }) => {
            let block = block.bytes;
            let route = ForwardRoute { receipts, namespace, exchange, key, priority, delay, ttl, block };
            Request::ForwardRoute(route)
        }
        Request::Route(Route { namespace, level, producer, exchange, key, priority, delay, ttl, block }) => {
            let block = block.bytes;
            Request::Route(Route { namespace, level, producer, exchange, key, priority, delay, ttl, block })
        }
        other => blockless!(other;
            Hello { version, client }, Ping, Receive(it), Finish(it), SessionBegin { session, resume, held },
            Heartbeat { except }, SessionEnd, Attach(it), Credit { consumer, messages, bytes }, Detach { consumer },
            Resign { consumer }, Look { topic, which, group }, Cancel { topic, which },
            Reschedule { topic, which, delay }, Pause { namespace, topics, lasts }, Resume { namespace, topics },
            Forget { topic, dedup_id }, Purge { namespace, filter, group }, NamespaceSet { namespace, policy, rules, based_on },
            NamespaceDelete { namespace }, GroupCreate { namespace, group, start, kind }, GroupDelete { namespace, group },
            Depose { namespace, group },
            ExchangeCreate { namespace, exchange, kind, unroutable }, ExchangeDelete { namespace, exchange },
            Exchanges { namespace }, Bind { namespace, exchange, binding }, Unbind { namespace, exchange, binding },
            Bindings { namespace, exchange }, Namespaces { after }, Stats { namespace }, Topics { listing, group }, Topic(it),
            TopTopics { namespace, prefix, by, limit, group }, DeadList { listing, group }, DeadLook { topic, id, group },
            DeadRedrive { namespace, group, which }, DeadPurge { namespace, group, which },
        ),
    }
}
