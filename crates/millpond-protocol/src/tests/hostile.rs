//! Bytes that nobody should send. The decoder never panics, always makes progress, and holds what it is given.

use bytes::BytesMut;
use millpond_types::limits::RECEIPTS_MAX;
use millpond_types::{Code, LeaseNumber, Receipt, TopicNumber};
use proptest::prelude::*;

use super::draw::Draw;
use super::frames::begun;
use crate::*;

/// Decodes until there is no frame left or the connection is over; returns the number of frames and refusals.
fn drain(decoder: &mut Decoder, buffer: &mut BytesMut) -> usize {
    for turn in 0.. {
        let before = buffer.len();
        match decoder.next_request(buffer) {
            Ok(None) | Err(FrameError::Fatal { .. }) => return turn,
            Ok(Some(_)) | Err(FrameError::Refused { .. }) => assert!(buffer.len() < before, "no progress"),
        }
    }
    unreachable!()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes(bytes: Vec<u8>) {
        drain(&mut Decoder::default(), &mut BytesMut::from(&bytes[..]));
        drain(&mut begun(), &mut BytesMut::from(&bytes[..]));
        let _ = Decoder::default().next_response(&mut BytesMut::from(&bytes[..]));
    }

    #[test]
    fn random_payloads_of_every_kind(payload: Vec<u8>, correlation: u32) {
        let mut buffer = BytesMut::new();
        for kind in 0..=u8::MAX {
            buffer.extend_from_slice(&(payload.len() as u32 + 5).to_le_bytes());
            buffer.extend_from_slice(&[kind]);
            buffer.extend_from_slice(&correlation.to_le_bytes());
            buffer.extend_from_slice(&payload);
        }
        prop_assert_eq!(drain(&mut begun(), &mut buffer.clone()), 256);
        let mut decoder = Decoder::default();
        for _ in 0..256 {
            if let Err(FrameError::Fatal { .. }) | Ok(None) = decoder.next_response(&mut buffer) {
                panic!("the end of a whole frame is known");
            }
        }
    }

    #[test]
    fn frames_with_bytes_changed(seed: u64, changes in proptest::collection::vec((any::<u32>(), any::<u8>()), 1..4)) {
        let mut draw = Draw(seed);
        for kind in REQUEST_KINDS {
            let mut bytes = Vec::new();
            encode_request(&draw.request(kind.name), 1, &mut bytes);
            for (at, value) in &changes {
                let at = *at as usize % bytes.len().min(100);
                bytes[at] = *value;
            }
            drain(&mut begun(), &mut BytesMut::from(&bytes[..]));
        }
        for kind in RESPONSE_KINDS {
            let mut bytes = Vec::new();
            encode_response(&draw.response(kind.name), 1, &mut bytes);
            for (at, value) in &changes {
                let at = *at as usize % bytes.len().min(100);
                bytes[at] = *value;
            }
            let _ = Decoder::default().next_response(&mut BytesMut::from(&bytes[..]));
        }
    }
}

#[test]
fn an_announced_length_is_not_allocated_for() {
    let mut bytes = (Limits::default().frame_max).to_le_bytes().to_vec();
    bytes.push(0x10);
    let mut buffer = BytesMut::from(&bytes[..]);
    assert_eq!(begun().next_request(&mut buffer), Ok(None));
    assert!(buffer.capacity() < 1024 * 1024, "{}", buffer.capacity());
}

#[test]
fn a_refused_publish_says_what_credit_it_had_spent() {
    let mut bytes = Vec::new();
    encode_request(&Draw(1).request("Publish"), 5, &mut bytes);
    let spent = bytes.len() as u32;
    let namespace = HEADER + 1;
    bytes[namespace] = b'/';
    let error = begun().next_request(&mut BytesMut::from(&bytes[..])).unwrap_err();
    let FrameError::Refused { correlation: 5, code, detail, credit } = error else { panic!("{error}") };
    assert_eq!((code, credit), (Code::NameInvalid, spent));
    assert!(detail.starts_with("Publish.namespace: "), "{detail}");
}

#[test]
fn a_call_names_so_many_receipts() {
    let receipt = Receipt { topic: TopicNumber(1), group: 0, lease: LeaseNumber(1) };
    let read = |count: usize| {
        let (verb, receipts) = (FinishVerb::Ack, vec![(receipt, 1); count]);
        let mut bytes = Vec::new();
        encode_request(&Request::Finish(Finish { verb, confirm: true, namespace: None, receipts }), 5, &mut bytes);
        begun().next_request(&mut BytesMut::from(&bytes[..]))
    };
    assert!(matches!(read(RECEIPTS_MAX), Ok(Some(_))));
    let refused = read(RECEIPTS_MAX + 1);
    assert!(
        matches!(&refused, Err(FrameError::Refused { code: Code::LimitExceeded, detail, .. })
            if detail.contains("10000")),
        "{refused:?}"
    );
}
