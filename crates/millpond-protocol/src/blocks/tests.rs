use super::*;
use crate::decoder::Limits;

fn block(messages: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut block = Vec::new();
    for (dedup_id, body) in messages {
        block::push(&mut block, dedup_id, &[], body).unwrap();
    }
    block
}

fn take(block: &[u8], limits: Limits) -> Result<Block, Bad> {
    let mut payload = Vec::new();
    put_sized(block, &mut payload);
    let mut ends = Vec::new();
    Block::take(&mut Reader::new(BytesMut::from(&payload[..]), limits, &mut ends))
}

#[test]
fn absent_checksums_are_filled_in_and_verified_when_they_come_back() {
    let taken = take(&block(&[(b"", b"one"), (b"", b"two")]), Limits::default()).unwrap();
    for parts in block::messages(&taken.bytes) {
        let parts = parts.unwrap();
        assert_eq!(parts.checksum, crc32c::crc32c(parts.checked));
    }
    assert_eq!(take(&taken.bytes, Limits::default()).unwrap(), taken);
    for flipped in [0, 8, 9, taken.bytes.len() - 1] {
        let mut damaged = taken.bytes.to_vec();
        damaged[flipped] ^= 4;
        assert_eq!(take(&damaged, Limits::default()).unwrap_err().code, Code::Malformed, "byte {flipped}");
    }
}

#[test]
fn sizes_are_those_of_a_walk() {
    let blocks = [
        block(&[(b"", b"alone")]),
        block(&[(b"", b"same"), (b"", b"size"), (b"", b"here")]),
        block(&[(b"", b"same"), (b"", b"size"), (b"", b"not here"), (b"", b"back")]),
        block(&[(b"id", b"x"), (b"", b"body")]),
    ];
    for bytes in blocks {
        let mut ends = Vec::new();
        for parts in block::messages(&bytes) {
            ends.push(ends.last().unwrap_or(&0) + parts.unwrap().length as u32);
        }
        let taken = take(&bytes, Limits::default()).unwrap();
        assert_eq!((taken.sizes, taken.count as usize), (Sizes::from_ends(&ends), ends.len()));
    }
}

#[test]
fn scratch_of_one_block_does_not_leak_into_the_next() {
    let mut payload = Vec::new();
    put_sized(&block(&[(b"", b"a"), (b"", b"bb")]), &mut payload);
    put_sized(&block(&[(b"", b"a"), (b"", b"b")]), &mut payload);
    let mut ends = Vec::new();
    let mut reader = Reader::new(BytesMut::from(&payload[..]), Limits::default(), &mut ends);
    assert!(matches!(Block::take(&mut reader).unwrap().sizes, Sizes::Ends(_)));
    assert!(matches!(Block::take(&mut reader).unwrap().sizes, Sizes::Uniform(10)));
}

#[test]
fn dedup_ids_are_found() {
    let taken = take(&block(&[(b"", b"none"), (b"first", b""), (b"second", b"x")]), Limits::default()).unwrap();
    let found: Vec<_> = taken.dedup.iter().map(|id| (id.index, taken.dedup_bytes(*id))).collect();
    assert_eq!(found, [(1, &b"first"[..]), (2, b"second")]);
}

#[test]
fn limits_hold_over_all_blocks_of_a_publish() {
    let small = Limits { body_max: 3, ..Limits::default() };
    let taken = take(&block(&[(b"", b"123"), (b"", b"1234"), (b"id", b"12345"), (b"", b"")]), small).unwrap();
    let too_large = |index, bytes| TooLarge { index, bytes, limit: 3 };
    assert_eq!((taken.count, taken.too_large), (4, vec![too_large(1, 4), too_large(2, 5)]));
    assert_eq!(take(&[], small).unwrap_err().code, Code::ArgumentInvalid);

    let large = Limits { body_max: u32::MAX, ..Limits::default() };
    let both = |first: &[u8], second: &[u8]| {
        let mut payload = Vec::new();
        put_sized(first, &mut payload);
        put_sized(second, &mut payload);
        let mut ends = Vec::new();
        let mut reader = Reader::new(BytesMut::from(&payload[..]), large, &mut ends);
        Block::take(&mut reader).unwrap();
        Block::take(&mut reader).map(|_| ()).map_err(|bad| (bad.code, bad.what.into_owned()))
    };
    let refused = |what: &str| Err((Code::LimitExceeded, format!("a publish holds at most {what}: send it in parts")));
    let of_messages = |count: usize| block(&vec![(&b""[..], &b""[..]); count]);
    let half = PUBLISH_MESSAGES_MAX / 2;
    assert_eq!(both(&of_messages(half), &of_messages(half)), Ok(()));
    assert_eq!(both(&of_messages(half), &of_messages(half + 1)), refused("65536 messages"));

    let envelope = block(&[(b"", b"")]).len();
    let of_bytes = |count: usize| block(&[(b"", &vec![0; count - envelope])]);
    let half = PUBLISH_BYTES_MAX / 2;
    assert_eq!(both(&of_bytes(half), &of_bytes(half)), Ok(()));
    assert_eq!(both(&of_bytes(half), &of_bytes(half + 1)), refused("4194304 bytes"));
}
