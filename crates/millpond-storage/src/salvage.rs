//! Brings the messages of a directory that cannot be started into a fresh one.
//!
//! Works from the records that the journal's segments still hold, without any checkpoint, and reads on behind whatever is
//! damaged. What comes over: for each group every message of which there is a record and the bytes, and no record of its
//! end there; dead letters as dead letters; namespaces with their policies, and groups, of which some record tells. All numbers
//! begin above those of the old directory, so that no old id or receipt means anything in the new one. Groups do not share
//! what they have in common: each has its own copy.
//!
//! What is lost: dedup ids, producer sessions, pauses, leases. What the records cannot tell is decided for the message: it
//! may come again though it was finished, where the record of its end went with a segment that was taken back; and it may
//! stand in a topic called `salvaged/NUMBER`, where the record of its topic's name did.
//!
//! The old directory is only read.

mod fresh;
mod groups;
mod held;
mod lacks;
mod seen;
mod sorted;
pub mod unfinished;

use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use millpond_core::output::Extent;
use millpond_core::page::RunPage;
use millpond_core::{Core, Now};
use millpond_types::block;

use crate::disk::{Disk, LockError, RealDisk};
use crate::format::Format;
use crate::journal::Failure;
use crate::journal::batch::BatchHeader;
use crate::journal::live::{ByGroup, OPEN};
use crate::journal::scan::{Found, Scan};
use crate::journal::segment::{SegmentHeader, read_end, segment_base};
use crate::journal::segments::Segment;
use crate::open::{hold, open_held};
use crate::recover::facts_of;
use crate::{OpenError, OpenOptions};
use fresh::Fresh;
use groups::Groups;
use lacks::Lacks;
use unfinished::UNFINISHED;

/// Why nothing was salvaged, or not all.
#[derive(Debug, thiserror::Error)]
pub enum SalvageError {
    /// A broker has it.
    #[error("{0} is in use by another process: stop that one first")]
    InUse(String),
    /// Nothing tells which directory the files are of.
    #[error("{0} holds neither a FORMAT file nor a journal segment whose header is whole: there is nothing to go by")]
    NoDirectory(String),
    /// There is something in the directory that was to be fresh.
    #[error("{0} is not empty: name a directory that is, or that is not there")]
    NotFresh(String),
    /// The fresh directory could not be made.
    #[error("the new directory cannot be made: {0}")]
    Open(#[from] OpenError),
    /// The fresh directory could not be written to.
    #[error("writing the new directory failed: {0}; remove it and try again")]
    Write(#[from] Failure),
    /// There is no space for the fresh directory.
    #[error("the disk of the new directory is full; remove it, make room, and try again")]
    Full,
    /// The old directory could not be read, or the report not be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Salvages a directory into a fresh one, and writes a report.
pub fn salvage(from: &Path, to: &Path, out: &mut dyn Write) -> Result<(), SalvageError> {
    salvage_disk(Arc::new(RealDisk::read_only(from)?), Arc::new(RealDisk::create(to)?), &OpenOptions::default(), out)
}

/// As [`salvage`], on any disks.
pub fn salvage_disk(
    from: Arc<dyn Disk>,
    to: Arc<dyn Disk>,
    options: &OpenOptions,
    out: &mut dyn Write,
) -> Result<(), SalvageError> {
    let _lock = match from.lock() {
        Ok(lock) => lock,
        Err(LockError::InUse) => return Err(SalvageError::InUse(from.place(""))),
        Err(LockError::Io(error)) => return Err(error.into()),
    };
    if !to.list()?.is_empty() {
        return Err(SalvageError::NotFresh(to.place("")));
    }
    let old = Old::read(from.as_ref(), out)?;
    let hold = hold(to.as_ref())?;
    let io = |what, error| OpenError::Io { place: to.place(UNFINISHED), what, error };
    unfinished::begin(to.as_ref()).map_err(|error| io("writing", error))?;
    let counts = Fresh { opened: open_held::<Core>(to.clone(), hold, options)?, now: old.now }.fill(old)?;
    unfinished::end(to.as_ref()).map_err(|error| io("removing", error))?;
    Ok(counts.tell(out)?)
}

/// What there is of the old directory.
struct Old {
    segments: Vec<Segment>,
    groups: Groups,
    /// The latest times that any batch tells.
    now: Now,
}

impl Old {
    fn read(disk: &dyn Disk, out: &mut dyn Write) -> Result<Old, SalvageError> {
        // In the order of their bases, which is that of their names. The header of a segment says nothing that its name does
        // not, but for the directory's id and the file's length.
        let names = disk.list()?.into_iter();
        let mut found: Vec<(u64, String)> = names.filter_map(|name| Some((segment_base(&name)?, name))).collect();
        found.sort();
        let bases: Vec<u64> = found.iter().map(|(base, _)| *base).collect();
        let opened = found.iter().map(|(base, name)| {
            let file = disk.open(name)?;
            let bytes = file.length()?;
            Ok(Segment { base: *base, end: OPEN, name: name.clone(), file, bytes, live: ByGroup::default() })
        });
        let opened: Vec<io::Result<Segment>> = opened.collect();
        let headers = opened.iter().flatten().filter_map(|segment| SegmentHeader::read(segment.file.as_ref()).ok());
        let by_header: Vec<u128> = headers.map(|header| header.directory).collect();
        let by_format = Format::read(disk).ok().flatten().map(|format| format.directory);
        // A FORMAT that none of them is of was put there from another directory.
        let by_format = by_format.filter(|directory| by_header.is_empty() || by_header.contains(directory));
        let directory = by_format
            .or_else(|| by_header.first().copied())
            .ok_or_else(|| SalvageError::NoDirectory(disk.place("")))?;
        let mut walk = Walk {
            directory,
            groups: Groups::default(),
            now: Now::default(),
            lacks: Lacks::new(disk, directory, out)?,
        };
        let mut segments = Vec::new();
        let mut reached = Reached { whole: 0, end: Some(0), goes_on: None };
        for (index, ((base, name), opened)) in found.iter().zip(opened).enumerate() {
            if *base < reached.whole {
                walk.lacks.foreign(name)?;
                continue;
            }
            walk.lacks.gap(reached.end, *base)?;
            if reached.end != Some(*base) {
                walk.groups.miss_records();
            }
            reached = match opened {
                Ok(segment) => {
                    let reached = walk.segment(&segment, &bases[index + 1..])?;
                    segments.push(segment);
                    reached
                }
                Err(error) => {
                    walk.lacks.unopened(name, &error)?;
                    Reached { whole: 0, end: None, goes_on: None }
                }
            };
        }
        walk.lacks.newest(reached.end, reached.goes_on.is_some())?;
        let Walk { groups, now, .. } = walk;
        Ok(Old { segments, groups, now })
    }

    /// Those messages of a run whose bytes are what was written, one behind the other, and where each ends.
    fn messages(&self, run: &RunPage) -> (Vec<u8>, Vec<u32>) {
        let (mut whole, mut ends) = (Vec::new(), Vec::new());
        for at in run.index..run.index + run.count {
            let one = RunPage { index: at, count: 1, ..run.clone() };
            let bytes = self.bytes(one.extent()).unwrap_or_default();
            let is_whole = block::first(&bytes).is_ok_and(|parts| {
                parts.length == bytes.len() && (parts.checksum == 0 || parts.checksum == crc32c::crc32c(parts.checked))
            });
            if is_whole {
                whole.extend_from_slice(&bytes);
                ends.push(whole.len() as u32);
            }
        }
        (whole, ends)
    }

    fn bytes(&self, extent: Extent) -> Option<Vec<u8>> {
        let before = self.segments.partition_point(|segment| segment.base <= extent.position).checked_sub(1)?;
        let segment = Some(&self.segments[before]).filter(|segment| segment.holds(extent))?;
        let mut block = vec![0; extent.length as usize];
        segment.file.read_at(segment.offset(extent.position), &mut block).ok()?;
        Some(block)
    }
}

/// Goes through the segments and takes note of what their records tell.
struct Walk<'a> {
    directory: u128,
    groups: Groups,
    now: Now,
    lacks: Lacks<'a>,
}

/// How far a segment takes the journal.
struct Reached {
    /// Everything before this position was read, or is known to lie in the files so far; 0 where that cannot be known.
    whole: u64,
    /// Where the next segment should begin, if that is known.
    end: Option<u64>,
    /// The same, where the segment itself says so: then there was a next one.
    goes_on: Option<u64>,
}

impl Walk<'_> {
    /// Reads a segment, over whatever is damaged. `rest` are the bases of those behind it.
    fn segment(&mut self, segment: &Segment, rest: &[u64]) -> io::Result<Reached> {
        let ended = match read_end(segment.file.as_ref(), self.directory, segment.base) {
            Ok(ended) => ended,
            Err(error) => {
                self.lacks.skipped(segment, segment.base, None, &format!("cannot be read: {error}"))?;
                return Ok(Reached { whole: 0, end: None, goes_on: None });
            }
        };
        if let Ok(SegmentHeader { length: Some(length), .. }) = SegmentHeader::read(segment.file.as_ref())
            && segment.bytes < length
        {
            self.lacks.short(segment, length)?;
        }
        let mut scan = Scan::new(segment, self.directory, segment.base, 0);
        let (mut batches, mut facts, mut is_whole) = (0u64, 0u64, true);
        while scan.position < ended {
            let from = scan.position;
            let what = match scan.step() {
                Ok(Found::Batch(header, payload)) => {
                    batches += 1;
                    facts += u64::from(header.facts);
                    self.batch(&header, &payload)?;
                    continue;
                }
                _ if rest.contains(&from) => break,
                // Where it says that it has ended, it is not the end. The next one is begun for a batch that did not fit.
                Ok(Found::Nothing | Found::Lost) if ended == OPEN && (batches > 0 || rest.is_empty()) => What::End,
                Ok(Found::Torn(_)) if ended == OPEN && rest.is_empty() => What::Torn,
                Ok(Found::Nothing | Found::Lost) => What::Damage("holds no batch".into()),
                Ok(Found::Torn(_)) => What::Damage("holds a batch that does not match its checksum".into()),
                Ok(Found::Version(version)) => What::Damage(format!("holds a batch of a newer form, {version}")),
                Err(error) => What::Damage(format!("cannot be read: {error}")),
            };
            let is_behind = scan.seek().unwrap_or(false);
            let to = if is_behind { Some(scan.position) } else { Some(ended).filter(|end| *end != OPEN) };
            match what {
                What::End if !is_behind => break,
                What::Torn if !is_behind => {
                    self.lacks.torn(segment, from)?;
                    break;
                }
                What::End | What::Torn => self.lacks.skipped(segment, from, to, "holds no valid batch")?,
                What::Damage(what) => self.lacks.skipped(segment, from, to, &what)?,
            }
            is_whole = false;
            self.groups.miss_records();
            if !is_behind {
                break;
            }
        }
        writeln!(self.lacks.out, "segment     {}: {batches} batches, {facts} facts", segment.name)?;
        let goes_on = Some(ended).filter(|end| *end != OPEN);
        // Behind damage may stand what an earlier start wrote and lost, and another segment holds.
        let whole = goes_on.unwrap_or(if is_whole { scan.position } else { 0 });
        Ok(Reached { whole, end: goes_on.or(Some(whole).filter(|_| is_whole)), goes_on })
    }

    fn batch(&mut self, header: &BatchHeader, payload: &Bytes) -> io::Result<()> {
        self.now.run = self.now.run.max(header.run);
        self.now.wall = self.now.wall.max(header.wall);
        match facts_of(header, payload) {
            Ok(facts) => facts.into_iter().for_each(|(fact, position)| self.groups.note(fact, position)),
            Err(bad) => {
                self.groups.miss_records();
                writeln!(self.lacks.out, "SKIPPED     the batch at {}: {bad}. Report this", header.position)?
            }
        }
        Ok(())
    }
}

/// What a place means at which no valid batch stands.
enum What {
    /// Where nothing says otherwise, the end of what the segment holds.
    End,
    /// The end of the journal, and what was being written there.
    Torn,
    Damage(String),
}
