//! Facts, pages and entries: what is inside of the journal's batches and of the checkpoint, past every checksum.
//!
//! The first byte says which. Decoding never panics and takes no more memory than its bytes account for; and what it takes in
//! comes back from the bytes that are written of it. These may be fewer: a form may say in full what it could leave out.

use bytes::Bytes;
use millpond_core::fact::Fact;
use millpond_core::store::{Key, Shelf};
use millpond_storage::codec::{
    Context, Source, decode_entry, decode_fact, decode_page, dedup_until, encode_entry, encode_fact, encode_page,
    producer_until,
};

use crate::memory;

/// Bytes of memory for each byte: a page of a few bytes stands for a structure of some hundred.
const EACH: usize = 512;

/// Decodes one of them.
pub fn run(data: &[u8]) {
    let Some((&kind, rest)) = data.split_first() else { return };
    match kind % 3 {
        0 => facts(&Bytes::copy_from_slice(rest)),
        1 => page(&Bytes::copy_from_slice(rest)),
        _ => entry(rest),
    }
}

/// The facts of a batch.
fn facts(bytes: &Bytes) {
    let decode = |bytes: &Bytes| {
        let (mut source, mut facts) = (Source::new(bytes), Vec::new());
        while !source.is_empty() {
            let Ok(fact) = decode_fact(&mut source) else { break };
            facts.push(fact);
        }
        facts
    };
    let found: Vec<Fact> = memory::bounded(bytes.len(), EACH, || decode(bytes));
    let (mut context, mut written) = (Context::default(), Vec::new());
    for fact in &found {
        encode_fact(fact, &mut context, &mut written);
        // The journal copies the messages themselves.
        written.extend_from_slice(fact.block().map(|block| &block[..]).unwrap_or_default());
    }
    assert_eq!(decode(&written.into()), found);
}

fn page(bytes: &Bytes) {
    let mut source = Source::new(bytes);
    let Ok(page) = memory::bounded(bytes.len(), EACH, || decode_page(&mut source)) else { return };
    let mut written = Vec::new();
    encode_page(&page, &mut written);
    assert_eq!(decode_page(&mut Source::new(&written.into())), Ok(page));
}

/// A key, behind its length, and a value.
fn entry(data: &[u8]) {
    let Some((&length, rest)) = data.split_first() else { return };
    let (key, value) = rest.split_at(usize::from(length).min(rest.len()));
    let value = Bytes::copy_from_slice(value);
    _ = (dedup_until(&value), producer_until(&value));
    let Some(parsed) = Key::parse(key) else { return };
    assert_eq!(parsed.bytes(), key, "{parsed:?}");
    let Ok(page) = memory::bounded(value.len(), EACH, || decode_entry(&parsed, &value)) else { return };
    let shelf = if let Key::Topic { shelf, .. } = &parsed { *shelf } else { Shelf::Idle };
    assert_eq!(Key::of(&page, shelf), parsed, "{page:?}");
    let mut written = Vec::new();
    encode_entry(&page, &mut written);
    assert_eq!(decode_entry(&parsed, &written.into()), Ok(page));
}
