//! Starts from directories of the twin disk: any bytes in their files, and a good directory that something was done to.
//!
//! The first byte says which directory it is; the rest is what is done to it, an edit after another. A start refuses, or opens a
//! state that the journal has really gone through. Then all that is to be read can be read or says that it is damaged,
//! the broker goes on with it, and another start finds the same. An inspection and a salvage of the same bytes end as well.
//! Where files were added and none was touched, a start refuses or finds all that there is; where a segment is
//! shorter than it says, it refuses.
//!
//! Checksums are made anew on request, so that what is behind them is reached: but never those of facts, for a fact whose
//! checksum is right is taken for what the core has decided, and one that contradicts the state stops the process.

mod good;

use std::collections::BTreeMap;
use std::sync::Arc;

use arbitrary::Unstructured;
use millpond_core::Core;
use millpond_core::fact::FactLog;
use millpond_core::page::Page;
use millpond_storage::twin::{SMALL_SECTOR, TwinDisk};
use millpond_storage::{ReadError, inspect_disk, open, salvage_disk};
use millpond_types::block;

use crate::checkpoint::canonical;
use good::{Good, go_on, options};

type Files = BTreeMap<String, Vec<u8>>;

/// Edits of one directory: the wounds that one start has to cope with at a time are few.
const EDITS_MAX: usize = 8;
/// Bytes of a segment's header, and of those that mean something.
const SEGMENT_HEADER: usize = 4096;
const SEGMENT_FIELDS: usize = 56;
/// Bytes of a batch's header, its checksum last.
const BATCH_HEADER: usize = 64;

/// Starts from a directory.
pub fn run(data: &[u8]) {
    let Some((&which, rest)) = data.split_first() else { return };
    let mut bytes = Unstructured::new(rest);
    let goods = Good::all();
    let good = &goods[usize::from(which) % goods.len()];
    let mut files = if which & 0x80 == 0 { good.files.clone() } else { Files::new() };
    let mut touched = Touched::Plain;
    for _ in 0..EDITS_MAX {
        match edit(&mut bytes, &mut files, good) {
            Ok(Edit::Sealed) => touched = Touched::Sealed,
            Ok(Edit::Plain) => {}
            Err(_) => break,
        }
    }
    if good.files.iter().all(|(name, bytes)| files.get(name) == Some(bytes)) {
        touched = Touched::Nothing;
    }
    let disk = || TwinDisk::from_snapshot(SMALL_SECTOR, &files).with_tree_of(&good.disk);
    if which & 0x40 != 0 {
        let mut told = Vec::new();
        inspect_disk(Arc::new(disk()), true, &mut told).expect("a report in memory");
        // It ends, one way or the other.
        _ = salvage_disk(Arc::new(disk()), Arc::new(TwinDisk::new(SMALL_SECTOR)), &options(), &mut told);
    }
    let is_short = |(name, whole): (&String, &Vec<u8>)| {
        let is_its_own = |bytes: &&Vec<u8>| bytes.get(..SEGMENT_FIELDS) == whole.get(..SEGMENT_FIELDS);
        name.ends_with(".journal") && files.get(name).filter(is_its_own).is_some_and(|bytes| bytes.len() < whole.len())
    };
    let short = good.files.iter().any(is_short);
    start(disk(), good, touched, short);
}

/// What was done to the files of a good directory, all in all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Touched {
    /// Others were added.
    Nothing,
    /// Bytes were changed.
    Plain,
    /// Checksums were made that they match.
    Sealed,
}

/// `short` where a segment is not as long as its header says.
fn start(disk: TwinDisk, good: &Good, touched: Touched, short: bool) {
    let Ok(mut opened) = open::<Core>(Arc::new(disk.clone()), &options()) else { return };
    let end = opened.report.end;
    let found = state(&opened.core);
    assert!(opened.report.fresh || !short, "a segment is short");
    if touched == Touched::Plain && !opened.report.fresh {
        let known = good.states.get(&end).unwrap_or_else(|| panic!("no batch ended at {end}"));
        assert_eq!(found, *known, "the state at {end}");
    }
    if touched == Touched::Nothing {
        assert_eq!(Some((&end, &found)), good.states.last_key_value(), "the end of what nobody has touched");
    }
    opened.core.extents(&mut |_, extent| match opened.reader.read(extent) {
        Ok(read) => assert!(block::messages(&read).all(|message| message.is_ok()), "a broken message at {extent:?}"),
        Err(ReadError::Damaged { .. }) if touched != Touched::Nothing => {}
        Err(error) => panic!("a message that is needed: {error}"),
    });
    if go_on(&mut opened).is_err() {
        return;
    }
    let (end, found) = (opened.appender.position(), state(&opened.core));
    drop(opened);
    let again = open::<Core>(Arc::new(disk), &options()).unwrap_or_else(|error| panic!("the next start: {error}"));
    assert_eq!((again.report.end, state(&again.core)), (end, found), "the next start");
}

/// All but the numbers, which hold the time.
fn state(core: &Core) -> Vec<Page> {
    canonical(core.pages().skip(1))
}

enum Edit {
    /// Bytes are changed, as a disk or a person would.
    Plain,
    /// And a checksum was made that they match.
    Sealed,
}

/// Does something to the files.
fn edit(from: &mut Unstructured<'_>, files: &mut Files, good: &Good) -> arbitrary::Result<Edit> {
    let kind = from.int_in_range(0..=11)?;
    let name = name(from, files, good)?;
    if kind >= 10 || !files.contains_key(&name) {
        files.insert(name.clone(), fresh(from, &name, good)?);
        return Ok(Edit::Sealed);
    }
    let others = files.clone();
    let bytes = files.get_mut(&name).expect("it is there");
    let at = place(from, bytes)?;
    let span = |length: usize, bytes: &[u8]| at..(at + length).min(bytes.len());
    match kind {
        0 if at < bytes.len() => bytes[at] ^= 1 << from.int_in_range(0..=7)?,
        1 if at < bytes.len() => bytes[at] = from.arbitrary()?,
        2 => {
            let value = from.arbitrary::<u64>()?.to_le_bytes();
            let span = span([1, 2, 4, 8][from.int_in_range(0..=3)?], bytes);
            let length = span.len();
            bytes[span].copy_from_slice(&value[..length]);
        }
        3 => bytes.truncate(at),
        4 => {
            let value = if from.arbitrary()? { 0 } else { 0xff };
            let span = span(SMALL_SECTOR, bytes);
            bytes[span].fill(value);
        }
        5 => {
            let (to, span) = (place(from, bytes)?, span(SMALL_SECTOR, bytes));
            let piece = bytes[span].to_vec();
            let to = to.min(bytes.len() - piece.len());
            bytes[to..to + piece.len()].copy_from_slice(&piece);
        }
        6 => _ = files.remove(&name),
        7 => {
            let other = self::name(from, files, good)?;
            if let Some(contents) = others.get(&other) {
                files.insert(name, contents.clone());
            }
        }
        8 => {
            let length = from.int_in_range(0..=64)?;
            let more = from.bytes(length.min(from.len()))?.to_vec();
            bytes.splice(at..at, more);
        }
        9 => {
            reseal(from, bytes, good)?;
            return Ok(Edit::Sealed);
        }
        _ => {}
    }
    Ok(Edit::Plain)
}

/// One that is there, or that could be.
fn name(from: &mut Unstructured<'_>, files: &Files, good: &Good) -> arbitrary::Result<String> {
    let names: Vec<&String> = files.keys().chain(good.files.keys()).collect();
    Ok(match from.int_in_range(0..=names.len())? {
        other if other == names.len() => format!("{:016x}.journal", from.arbitrary::<u64>()?),
        known => names[known].clone(),
    })
}

/// Anywhere, in the header of the file, or in that of a batch.
fn place(from: &mut Unstructured<'_>, bytes: &[u8]) -> arbitrary::Result<usize> {
    let at = match from.int_in_range(0..=2)? {
        0 => usize::from(from.arbitrary::<u16>()?),
        1 => from.int_in_range(0..=SEGMENT_FIELDS)?,
        _ => {
            let batches = batches(bytes);
            let batch = if batches.is_empty() { SEGMENT_HEADER } else { *from.choose(&batches)? };
            batch + from.int_in_range(0..=BATCH_HEADER + 16)?
        }
    };
    Ok(at % (bytes.len() + 1))
}

/// Where batches begin.
fn batches(bytes: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (SEGMENT_HEADER, Vec::new());
    while let Some(header) = bytes.get(at..at + BATCH_HEADER).filter(|header| header.starts_with(b"MPB1")) {
        found.push(at);
        let payload = u32::from_le_bytes(header[8..12].try_into().expect("four bytes")) as usize;
        at = at.saturating_add(BATCH_HEADER + payload.next_multiple_of(8));
    }
    found
}

/// Fields of a batch's header that may say anything without contradicting the facts: version, flags, what is always zero,
/// length, position and what is known durable, by their offset and their bytes.
const FIELDS: [(usize, usize); 6] = [(4, 1), (5, 1), (6, 2), (8, 4), (16, 8), (24, 8)];

/// Changes a field of a batch's header, and makes its checksum anew.
fn reseal(from: &mut Unstructured<'_>, bytes: &mut [u8], good: &Good) -> arbitrary::Result<()> {
    let batches = batches(bytes);
    if batches.is_empty() {
        return Ok(());
    }
    let batch = *from.choose(&batches)?;
    let (field, length) = *from.choose(&FIELDS)?;
    let value = from.arbitrary::<u64>()?.to_le_bytes();
    let header = &mut bytes[batch..batch + BATCH_HEADER];
    header[field..field + length].copy_from_slice(&value[..length]);
    seal(header, good.directory);
    Ok(())
}

fn seal(header: &mut [u8], directory: u128) {
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&directory.to_le_bytes()), &header[..BATCH_HEADER - 4]);
    header[BATCH_HEADER - 4..].copy_from_slice(&checksum.to_le_bytes());
}

/// A new file: bytes as they come, behind a good segment header, or behind that and the header of a batch which says
/// that they are facts.
fn fresh(from: &mut Unstructured<'_>, name: &str, good: &Good) -> arbitrary::Result<Vec<u8>> {
    let form = from.int_in_range(0..=3)?;
    let length = from.int_in_range(0..=1024)?;
    let contents = from.bytes(length.min(from.len()))?;
    let base = name.get(..16).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let (Some(base), 1..) = (base, form) else { return Ok(contents.to_vec()) };
    let mut bytes = b"MILLPOND".to_vec();
    bytes.extend_from_slice(&1u32.to_le_bytes());
    bytes.extend_from_slice(&1u32.to_le_bytes());
    bytes.extend_from_slice(&base.to_le_bytes());
    bytes.extend_from_slice(&good.directory.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.resize(SEGMENT_HEADER, 0);
    if form > 1 && !good::are_facts(contents) {
        let mut header = [0; BATCH_HEADER];
        header[..4].copy_from_slice(b"MPB1");
        header[4] = 1;
        header[8..12].copy_from_slice(&(contents.len() as u32).to_le_bytes());
        header[12..16].copy_from_slice(&from.int_in_range(1..=3u32)?.to_le_bytes());
        header[16..24].copy_from_slice(&base.to_le_bytes());
        header[48] = 1;
        header[52..56].copy_from_slice(&crc32c::crc32c(contents).to_le_bytes());
        seal(&mut header, good.directory);
        bytes.extend_from_slice(&header);
    }
    bytes.extend_from_slice(contents);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    Ok(bytes)
}
