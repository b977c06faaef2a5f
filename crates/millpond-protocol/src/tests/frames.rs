//! Every frame comes out as it went in, however the bytes are cut on their way.

use bytes::BytesMut;
use proptest::prelude::*;

use millpond_types::NamespaceView;
use millpond_types::limits::{FRAME_MAX, PAGE_BYTES_MAX};

use super::draw::Draw;
use crate::*;

/// What a page's frame takes beside its rows: its header, the number of rows and where the next page begins.
const PAGE_HEAD: usize = HEADER + 4 + 4 + TOKEN_MAX;
const _: () = assert!(PAGE_BYTES_MAX + PAGE_HEAD <= FRAME_MAX);

/// A decoder behind its hello, with room for the large blocks that are drawn.
pub(super) fn begun() -> Decoder {
    let mut decoder = Decoder::default();
    let mut hello = Vec::new();
    encode_request(&Request::Hello { version: VERSION, client: String::new() }, 0, &mut hello);
    decoder.next_request(&mut BytesMut::from(&hello[..])).unwrap().unwrap();
    decoder
}

/// The same request as a client would have built it.
fn as_sent(request: &Request<Block>) -> String {
    let plain = |run: &PublishRun<Block>| PublishRun {
        topic: run.topic.clone(),
        priority: run.priority,
        delay: run.delay,
        ttl: run.ttl,
        block: run.block.bytes.clone(),
    };
    match request {
        Request::Forward(forward) => {
            let runs = forward.runs.iter().map(plain).collect();
            let Forward { receipts, namespace, .. } = forward;
            let forward = Forward { receipts: receipts.clone(), namespace: namespace.clone(), runs };
            format!("{:?}", Request::Forward(forward))
        }
        Request::ForwardRoute(route) => {
            let ForwardRoute { receipts, namespace, exchange, key, priority, delay, ttl, block } = route.clone();
            let block = block.bytes;
            let route = ForwardRoute { receipts, namespace, exchange, key, priority, delay, ttl, block };
            format!("{:?}", Request::ForwardRoute(route))
        }
        Request::Route(route) => {
            let Route { namespace, level, producer, exchange, key, priority, delay, ttl, block } = route.clone();
            let block = block.bytes;
            let route = Route { namespace, level, producer, exchange, key, priority, delay, ttl, block };
            format!("{:?}", Request::Route(route))
        }
        Request::Publish(publish) => {
            let runs = publish.runs.iter().map(plain).collect();
            let Publish { namespace, level, producer, .. } = publish;
            let publish = Publish { namespace: namespace.clone(), level: *level, producer: *producer, runs };
            format!("{:?}", Request::Publish(publish))
        }
        // All others hold no block, so both forms print alike.
        other => format!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn requests_come_back_in_one_stream(seed: u64, pieces in 1usize..5000) {
        let mut draw = Draw(seed);
        let mut sent = Vec::new();
        let mut bytes = Vec::new();
        for (i, kind) in REQUEST_KINDS.iter().enumerate() {
            let request = draw.request(kind.name);
            let start = bytes.len();
            encode_request(&request, i as u32, &mut bytes);
            sent.push((i as u32, (bytes.len() - start) as u32, format!("{request:?}")));
        }
        let (mut decoder, mut buffer, mut found) = (Decoder::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(pieces) {
            buffer.extend_from_slice(piece);
            while let Some(incoming) = decoder.next_request(&mut buffer).unwrap() {
                found.push((incoming.correlation, incoming.bytes, as_sent(&incoming.frame)));
            }
        }
        prop_assert_eq!(found, sent);
        prop_assert!(buffer.is_empty());
    }

    /// The core ends a page by what its views say that they take.
    #[test]
    fn no_row_of_a_page_takes_more_than_its_view_says(seed: u64) {
        for kind in ["Messages", "Namespaces", "Dead"] {
            let response = Draw(seed).response(kind);
            let (mut bytes, mut at_most) = (Vec::new(), PAGE_HEAD);
            match &response {
                Response::Messages(rows) => {
                    at_most += rows.iter().map(|row| row.frame_bytes() + row.block.len()).sum::<usize>();
                }
                Response::Namespaces { rows, .. } => {
                    at_most += rows.iter().map(NamespaceView::frame_bytes).sum::<usize>();
                }
                Response::Dead { rows, .. } => {
                    at_most += rows.iter().map(|row| row.frame_bytes() + row.message.block.len()).sum::<usize>();
                }
                other => panic!("{other:?} has no rows"),
            }
            encode_response(&response, 1, &mut bytes);
            prop_assert!(bytes.len() <= at_most, "{} of {at_most} bytes: {response:?}", bytes.len());
        }
    }

    #[test]
    fn responses_come_back_in_one_stream(seed: u64, pieces in 1usize..5000) {
        let mut draw = Draw(seed);
        let (mut sent, mut bytes) = (Vec::new(), Vec::new());
        for (i, kind) in RESPONSE_KINDS.iter().enumerate() {
            let response = draw.response(kind.name);
            let start = bytes.len();
            encode_response(&response, i as u32, &mut bytes);
            sent.push(Incoming { correlation: i as u32, bytes: (bytes.len() - start) as u32, frame: response });
        }
        let (mut decoder, mut buffer, mut found) = (Decoder::default(), BytesMut::new(), Vec::new());
        for piece in bytes.chunks(pieces) {
            buffer.extend_from_slice(piece);
            while let Some(incoming) = decoder.next_response(&mut buffer).unwrap() {
                found.push(incoming);
            }
        }
        prop_assert_eq!(found, sent);
    }
}

#[test]
fn a_frame_may_be_split_at_every_byte() {
    for kind in REQUEST_KINDS.iter().filter(|kind| kind.name != "Hello") {
        let request = Draw(7).request(kind.name);
        let mut bytes = Vec::new();
        encode_request(&request, 1, &mut bytes);
        // Long frames at every byte of their front, where the fields are, and then here and there.
        for cut in (0..bytes.len()).filter(|cut| *cut < 200 || cut % 97 == 0) {
            let (mut decoder, mut buffer) = (begun(), BytesMut::from(&bytes[..cut]));
            assert_eq!(decoder.next_request(&mut buffer), Ok(None), "{} cut at {cut}", kind.name);
            buffer.extend_from_slice(&bytes[cut..]);
            let found = decoder.next_request(&mut buffer).unwrap().unwrap();
            assert_eq!(as_sent(&found.frame), format!("{request:?}"));
        }
    }
}

#[test]
fn blocks_and_long_names_are_slices_of_the_buffer() {
    let mut bytes = Vec::new();
    let Request::Publish(mut publish) = Draw(3).request("Publish") else { panic!() };
    publish.runs.iter_mut().for_each(|run| run.topic = "a long name, ".repeat(9).as_str().try_into().unwrap());
    encode_request(&Request::Publish(publish), 1, &mut bytes);
    let mut buffer = BytesMut::from(&bytes[..]);
    let range = buffer.as_ptr_range();
    let Request::Publish(publish) = begun().next_request(&mut buffer).unwrap().unwrap().frame else { panic!() };
    for run in publish.runs {
        assert!(range.contains(&run.block.bytes.as_ptr()) && range.contains(&run.topic.as_bytes().as_ptr()));
    }
}

#[test]
fn a_long_text_is_cut_where_a_character_ends() {
    let detail = "☃".repeat(TEXT_MAX);
    let mut bytes = Vec::new();
    encode_response(&Response::Error { code: millpond_types::Code::DiskFull, detail }, 1, &mut bytes);
    let found = Decoder::default().next_response(&mut BytesMut::from(&bytes[..])).unwrap().unwrap();
    let Response::Error { detail, .. } = found.frame else { panic!() };
    assert_eq!(detail, "☃".repeat(TEXT_MAX / 3));
}
