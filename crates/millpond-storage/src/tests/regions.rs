//! Every region of a directory, wounded in every way: bits flipped, files cut, sectors blanked, written elsewhere or in their
//! state of before, files empty, gone or in each other's place.
//!
//! A start then does one of three things. It refuses, and names the file and where in it ([`named`]). It gives up a tail that
//! nothing vouches for, and says so wherever there are bytes to say it of. Or everything is there, but for messages that say
//! that they are damaged, and where, when they are read. What it never does is to panic, to take a wounded message for a whole
//! one, or to call one ended that is not.

mod alike;
mod named;
mod tree;
mod wounds;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use millpond_core::Core;
use millpond_core::fact::FactLog;
use millpond_core::output::Extent;

use self::wounds::Wound;
use super::workload::{Workload, options, publish, state};
use crate::twin::{SECTOR, Seed, TwinDisk};
use crate::{Mark, ReadError, Verdict, inspect_disk, open};

type Files = BTreeMap<String, Vec<u8>>;

/// Bytes of the headers of a segment and of a batch.
const SEGMENT_HEADER: usize = 4096;
const BATCH_HEADER: usize = 64;

/// A directory in order, and what is true of it.
struct Whole {
    workload: Workload,
    files: Files,
    /// Every message that is needed.
    blocks: BTreeMap<u64, Bytes>,
    checkpoint: u64,
    end: u64,
    /// By position: file, offset and bytes with the header.
    batches: BTreeMap<u64, Batch>,
}

#[derive(Clone)]
struct Batch {
    file: String,
    offset: usize,
    bytes: usize,
    durable: u64,
}

/// What came of all wounds.
#[derive(Default, Debug)]
struct Tally {
    wounds: u32,
    refused: u32,
    torn: u32,
    damaged: u32,
    unharmed: u32,
}

#[test]
fn no_wound_of_any_region_goes_unnoticed() {
    let whole = Whole::make();
    let mut seed = Seed::new(17);
    let wounds = Mutex::new(whole.wounds(&mut seed));
    let judge = || {
        let mut tally = Tally::default();
        loop {
            let next = wounds.lock().unwrap().next();
            let Some(wound) = next else { return tally };
            whole.judge(&wound, &mut tally);
        }
    };
    let judges = thread::available_parallelism().map_or(1, NonZero::get);
    let tally = thread::scope(|scope| {
        let judges: Vec<_> = (0..judges).map(|_| scope.spawn(judge)).collect();
        judges.into_iter().map(|judge| judge.join().unwrap()).fold(Tally::default(), Tally::and)
    });
    eprintln!("wounds: {tally:?}");
    let Tally { refused, torn, damaged, unharmed, .. } = tally;
    assert!(refused > 1000 && torn > 30 && damaged > 1000 && unharmed > 1000, "{tally:?}");
}

#[test]
fn an_inspection_finds_whatever_a_read_finds() {
    let whole = Whole::make();
    for (at, block) in &whole.blocks {
        let (file, offset) = whole.place(*at);
        // In the middle of it, and where nothing is left of it.
        for cut in [false, true] {
            let mut files = whole.files.clone();
            let bytes = files.get_mut(&file).unwrap();
            if cut && *at < whole.checkpoint {
                bytes.truncate(offset);
            } else {
                bytes[offset + block.len() / 2] ^= 4;
            }
            let disk = whole.disk(&files);
            let mut told = Vec::new();
            let verdict = inspect_disk(Arc::new(disk), false, &mut told).unwrap();
            let told = String::from_utf8(told).unwrap();
            assert!(verdict == Verdict::Damaged && told.contains(&file), "{file} at {offset}, cut: {cut}: {told}");
        }
    }
}

impl Tally {
    fn and(self, other: Tally) -> Tally {
        Tally {
            wounds: self.wounds + other.wounds,
            refused: self.refused + other.refused,
            torn: self.torn + other.torn,
            damaged: self.damaged + other.damaged,
            unharmed: self.unharmed + other.unharmed,
        }
    }
}

impl Whole {
    /// Messages in several segments before a checkpoint, and behind it; two starts.
    fn make() -> Whole {
        let mut workload = Workload::new(TwinDisk::new(SECTOR), 33);
        let mut opened = workload.open().unwrap();
        let mut seed = Seed::new(6);
        for round in 0..24 {
            for _ in 0..3 {
                workload.turn(&mut opened, publish(&mut seed)).unwrap();
            }
            if round % 8 == 0 {
                workload.receive(&mut opened).unwrap();
                workload.ack(&mut opened).unwrap();
            }
        }
        (0..12).for_each(|_| _ = workload.turn(&mut opened, publish(&mut seed)).unwrap());
        workload.checkpoint(&mut opened);
        workload.turn(&mut opened, publish(&mut seed)).unwrap();
        workload.mark(&mut opened, Mark::Stop).unwrap();
        drop(opened);
        let mut opened = workload.open().unwrap();
        (0..4).for_each(|_| _ = workload.turn(&mut opened, publish(&mut seed)).unwrap());
        workload.mark(&mut opened, Mark::Stop).unwrap();

        let mut blocks = BTreeMap::new();
        opened.core.extents(&mut |_, extent: Extent| {
            blocks.insert(extent.position, opened.reader.read(extent).unwrap());
        });
        let (end, checkpoint) = (opened.appender.position(), opened.report.checkpoint);
        drop(opened);
        let mut files = workload.disk.snapshot();
        files.retain(|name, _| !name.starts_with("spare"));
        let batches = files.iter().filter(|(name, _)| name.ends_with(".journal")).flat_map(batches).collect();
        let whole = Whole { workload, files, blocks, checkpoint, end, batches };
        let before = whole.blocks.range(..checkpoint).count();
        let (needed, files) = (whole.blocks.len(), whole.files.len());
        assert!(before > 8 && before < needed && files > 4, "{before} of {needed} in {files} files");
        assert_eq!(whole.batches.last_key_value().map(|(position, last)| position + last.bytes as u64), Some(end));
        whole
    }

    fn disk(&self, files: &Files) -> TwinDisk {
        TwinDisk::from_snapshot(SECTOR, files).with_tree_of(&self.workload.disk)
    }

    /// The file and offset of a position.
    fn place(&self, position: u64) -> (String, usize) {
        let batch = self.batches.range(..=position).next_back().unwrap();
        (batch.1.file.clone(), batch.1.offset + (position - batch.0) as usize)
    }

    fn judge(&self, wound: &Wound<'_>, tally: &mut Tally) {
        let Wound { what, file, files } = wound;
        tally.wounds += 1;
        let what = format!("{file}, {what}");
        let disk = self.disk(files);
        let opened = catch_unwind(AssertUnwindSafe(|| open::<Core>(Arc::new(disk), &options())));
        let opened = match opened.unwrap_or_else(|_| panic!("a panic: {what}")) {
            Ok(opened) => opened,
            Err(error) => {
                let named = self.named(wound, &error).unwrap_or_else(|| panic!("{what}: no reason for {error}"));
                assert!(error.to_string().contains(&named), "{what}: {error}, and it should name: {named}");
                tally.refused += 1;
                return;
            }
        };
        let is_short = |bytes: &Vec<u8>| file.ends_with(".journal") && bytes.len() < self.files[*file].len();
        assert!(!files.get(*file).is_some_and(is_short), "{what}: a start that does not see that it is short");
        let end = opened.report.end;
        let vouched = self.vouched(files);
        assert!(end >= vouched, "{what}: ends at {end}, and what is left says that {vouched} had been durable");
        let expected = self.workload.state_at(end).unwrap_or_else(|| panic!("{what}: no batch ended at {end}"));
        assert!(state(&opened.core) == *expected, "{what}: not the state at {end}");
        if end < self.end {
            // Nothing tells of a batch that is gone without a trace.
            let (name, offset) = self.place(end);
            let rest = files.get(&name).and_then(|bytes| bytes.get(offset..)).unwrap_or_default();
            let is_trace = rest
                .get(..BATCH_HEADER)
                .is_some_and(|header| header.starts_with(b"MPB1") || header[16..24] == end.to_le_bytes());
            assert!(opened.report.torn.is_some() || !is_trace, "{what}: gives up what is behind {end} without a word");
            tally.torn += 1;
        }
        let mut damaged = 0;
        opened.core.extents(&mut |_, extent| match opened.reader.read(extent) {
            Ok(block) => assert!(self.blocks.get(&extent.position).is_none_or(|whole| *whole == block), "{what}"),
            Err(ReadError::Damaged { file: found, offset }) => {
                assert!(self.is_named_by_read(extent, &files[*file], &found, offset), "{what}: {found} at {offset}");
                damaged += 1;
            }
            Err(error) => panic!("{what}: a message that is needed: {error}"),
        });
        tally.damaged += u32::from(damaged > 0);
        tally.unharmed += u32::from(damaged == 0 && end == self.end);
    }

    /// What is known to have been durable from what the wound has left: the checkpoint, the segments, and the headers that
    /// still stand.
    fn vouched(&self, files: &Files) -> u64 {
        let stands = |batch: &&Batch| {
            let header = batch.offset..batch.offset + BATCH_HEADER;
            files.get(&batch.file).and_then(|bytes| bytes.get(header.clone())) == self.files[&batch.file].get(header)
        };
        let headers = self.batches.values().filter(stands).map(|batch| batch.durable);
        headers.max().unwrap_or_default().max(self.checkpoint)
    }
}

/// The offsets that somebody is told.
fn offsets(said: &str) -> impl Iterator<Item = u64> {
    let behind = said.split("offset ").skip(1);
    behind.filter_map(|text| text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
}

/// The batches of a segment.
fn batches((name, bytes): (&String, &Vec<u8>)) -> Vec<(u64, Batch)> {
    let base = u64::from_str_radix(&name[..16], 16).unwrap();
    let (mut offset, mut found) = (SEGMENT_HEADER, Vec::new());
    while let Some(header) = bytes.get(offset..offset + BATCH_HEADER) {
        let position = base + (offset - SEGMENT_HEADER) as u64;
        let u64_at = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
        if header[..4] != *b"MPB1" || u64_at(16) != position {
            break;
        }
        let payload = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        let bytes = BATCH_HEADER + payload.next_multiple_of(8);
        found.push((position, Batch { file: name.clone(), offset, bytes, durable: u64_at(24) }));
        offset += bytes;
    }
    found
}
