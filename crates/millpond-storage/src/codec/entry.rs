//! The byte form of the values in the tree: a byte with the version of the form, then a page without what its key says.

use bytes::Bytes;
use millpond_core::page::Page;
use millpond_core::store::Key;
use millpond_types::WallTime;
use millpond_types::limits::PRODUCER_EXPIRY;

use super::{BadRecord, Sink, Source, VERSION};

/// Appends the value of a page's entry.
pub fn encode_entry(page: &Page, out: &mut Vec<u8>) {
    let mut sink = Sink::new(out);
    sink.byte(VERSION);
    sink.rest_of_page(page);
}

/// The page of an entry. The value has to be all of it.
pub fn decode_entry(key: &Key, value: &Bytes) -> Result<Page, BadRecord> {
    let mut source = Source::new(value);
    source.entry_version()?;
    let page = source.rest_of_page(key)?;
    if source.is_empty() { Ok(page) } else { Err(source.bad("has something behind its end")) }
}

/// When the dedup id of an entry ceases to count, from its value alone.
pub fn dedup_until(value: &Bytes) -> Option<WallTime> {
    let mut source = Source::new(value);
    let mut read = || {
        source.entry_version()?;
        source.message_id()?;
        source.until()
    };
    read().ok()
}

/// When the producer session of an entry ceases to count, from its value alone.
pub fn producer_until(value: &Bytes) -> Option<WallTime> {
    let mut source = Source::new(value);
    let mut read = || {
        source.entry_version()?;
        source.number32()?;
        source.wall()
    };
    read().ok().map(|used| used + PRODUCER_EXPIRY)
}

impl Source<'_> {
    fn entry_version(&mut self) -> Result<(), BadRecord> {
        if self.byte()? == VERSION { Ok(()) } else { Err(self.bad("is of a version that this program does not know")) }
    }
}
