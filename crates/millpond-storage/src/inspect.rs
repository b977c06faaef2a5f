//! Reading a data directory offline: everything is verified and told, and nothing is changed.
//!
//! Works on a directory that cannot be opened, as far as it goes, and on one that is in use, where the end of the
//! journal moves while it is read.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use millpond_core::Core;
use millpond_core::fact::Fact;
use millpond_core::output::Extent;
use millpond_core::page::Page;
use millpond_types::block::Sizes;

use crate::checkpoint::{Checkpoint, LiveBytes};
use crate::codec::{Source, decode_fact};
use crate::damaged::{self, NOTE};
use crate::disk::{Disk, LockError, RealDisk, TREE};
use crate::finding::{Finding, Findings};
use crate::format::{FORMAT, Format};
use crate::journal::batch::{BatchHeader, EPOCH, HEADER, MARK, START, STOP};
use crate::journal::live::OPEN;
use crate::journal::scan::{Found, Scan};
use crate::journal::segments::Segment;
use crate::journal::shared::Shared;
use crate::open::{FILTER_BYTES, find_segments, reaches_back};
use crate::recover::{Recovered, Source as From, replay};
use crate::salvage::unfinished;
use crate::store::{FilterBounds, LayeredStore};
use crate::tree::TreeError;
use crate::{OpenError, OpenOptions, Reader};

/// What an inspection came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Everything is as it should be; a torn tail counts as that.
    InOrder,
    /// Something that was confirmed is damaged or missing; the report says what.
    Damaged,
}

/// Verifies a directory and tells what it finds, with each fact where `facts` is set.
///
/// # Errors
/// Where the report cannot be written, or there is no room for temporary files. What is wrong with the directory stands in the report.
pub fn inspect(directory: &Path, facts: bool, out: &mut dyn Findings) -> io::Result<Verdict> {
    match RealDisk::read_only(directory) {
        Ok(disk) => inspect_disk(Arc::new(disk), facts, out),
        Err(error) => {
            out.found(Finding::Damaged { what: format!("{} cannot be read: {error}", directory.display()) })?;
            Ok(Verdict::Damaged)
        }
    }
}

/// As [`inspect`], on any disk.
pub fn inspect_disk(disk: Arc<dyn Disk>, facts: bool, out: &mut dyn Findings) -> io::Result<Verdict> {
    let mut report = Report { disk, facts, out, verdict: Verdict::InOrder };
    report.write()?;
    Ok(report.verdict)
}

struct Report<'a> {
    disk: Arc<dyn Disk>,
    facts: bool,
    out: &'a mut dyn Findings,
    verdict: Verdict,
}

impl Report<'_> {
    fn write(&mut self) -> io::Result<()> {
        if unfinished::is_there(self.disk.as_ref())? {
            self.damaged(OpenError::Unfinished(self.disk.place("")).to_string())?;
        }
        let directory = match Format::read(self.disk.as_ref()) {
            Ok(Some(format)) => format.directory,
            Ok(None) => return self.damaged(format!("{} is missing: no data directory", self.disk.place(FORMAT))),
            Err(error) => return self.damaged(format!("{}: {error}", self.disk.place(FORMAT))),
        };
        self.out.found(Finding::Directory { place: self.disk.place(""), id: directory })?;
        // Held to the end: the tree is no good to two at a time.
        let lock = self.disk.lock();
        let in_use = matches!(lock, Err(LockError::InUse));
        if in_use {
            self.out.found(Finding::InUse)?;
        }
        match damaged::read(self.disk.as_ref()) {
            Ok(None) => {}
            // The broker that is running has left it, and nothing below tells of the checkpoint.
            Ok(Some(what)) if in_use => self.damaged(format!("{}: {what}", self.disk.place(NOTE)))?,
            Ok(Some(what)) => self.out.found(Finding::Noted { what: what.to_string() })?,
            Err(error) => self.damaged(format!("{}: {error}", self.disk.place(NOTE)))?,
        }
        let segments = match find_segments(self.disk.as_ref(), directory) {
            Ok(segments) => segments,
            Err(error) => return self.damaged(error.to_string()),
        };
        let known = (!in_use).then(|| self.know(directory, &segments));
        let mut start = 0;
        for segment in &segments {
            let end = match &known {
                Some(Ok(known)) => known.end(segment),
                _ => Some(segment.end).filter(|end| *end == OPEN),
            };
            start = self.segment(segment, end, directory, start)?;
        }
        let Some(known) = known else { return Ok(()) };
        let Known { checkpoint, live, replayed, .. } = match known {
            Ok(known) => known,
            Err(error @ TreeError::NoMirror(_)) => return Err(io::Error::other(error)),
            Err(error) => return self.damaged(format!("{}: {error}", self.disk.place(TREE))),
        };
        checkpoint.map_or(Ok(()), |checkpoint| self.out.found(checkpoint))?;
        match replayed {
            Err(error) => self.damaged(error.to_string()),
            Ok(recovered) => {
                let (end, starts) = (recovered.report.end, recovered.report.start - 1);
                self.out.found(Finding::Journal { end, is_orderly: recovered.report.orderly, starts })?;
                if let Some(torn) = recovered.report.torn {
                    self.out.found(Finding::TornTail(torn))?;
                }
                recovered.state.map_or(Ok(()), |core| self.messages(&core, &live, segments))
            }
        }
    }

    /// Reads the tree, every byte of it verified, and what the journal makes of its checkpoint.
    fn know(&self, directory: u128, segments: &[Segment]) -> Result<Known, TreeError> {
        let disk = self.disk.as_ref();
        let tree = disk.tree(OpenOptions::default().tree)?;
        tree.verify()?;
        let found = Checkpoint::read(&tree, directory)?;
        let checkpoint = found.as_ref().map(told);
        let (position, live) =
            found.as_ref().map_or_else(Default::default, |found| (found.position, found.live.clone()));
        if found.is_none() && !segments.is_empty() && !reaches_back(segments) {
            let replayed = Err(OpenError::CheckpointGone(disk.place(TREE)));
            return Ok(Known { checkpoint, position, live, replayed });
        }
        let store = LayeredStore::new(tree, FilterBounds::within(FILTER_BYTES));
        let from = From { disk, directory, store: &store };
        let replayed = replay::<Core>(from, found, segments, &OpenOptions::default());
        let live = replayed.as_ref().map_or(live, |recovered| recovered.live.clone());
        Ok(Known { checkpoint, position, live, replayed })
    }

    /// Tells a segment, and returns the start that wrote its last batch. `end` is where it ended, if that is known.
    fn segment(&mut self, segment: &Segment, end: Option<u64>, directory: u128, start: u32) -> io::Result<u32> {
        let Segment { base: position, bytes, .. } = *segment;
        self.out.found(Finding::Segment { name: segment.name.clone(), position, bytes })?;
        let mut scan = Scan::new(segment, directory, segment.base, start);
        let (mut batches, mut facts, mut found) = (0u64, 0u64, Ok(Found::Nothing));
        // Where it has ended, its rest may hold anything.
        while Some(scan.position) != end {
            found = scan.step();
            let Ok(Found::Batch(header, payload)) = &found else { break };
            batches += 1;
            facts += u64::from(header.facts);
            if self.facts {
                self.batch(header, payload)?;
            }
        }
        let (position, offset) = (scan.position, segment.offset(scan.position));
        self.out.found(Finding::SegmentEnd { name: segment.name.clone(), batches, facts, position, offset })?;
        let is_damaged = match (end, &found) {
            // What the end of the journal means, a start decides.
            (Some(end), _) => position < end && end != OPEN,
            // It has ended here, if nothing behind says that there was more.
            (None, Ok(Found::Nothing | Found::Lost)) => scan.behind().is_ok_and(|behind| behind.durable > position),
            (None, _) => true,
        };
        if is_damaged {
            let what = match found {
                Ok(Found::Torn(_)) => "a batch that does not match its checksum".into(),
                Ok(Found::Lost) => "a batch that an earlier start wrote and lost".into(),
                Ok(Found::Version(version)) => format!("a batch of a newer form, {version}"),
                Ok(Found::Batch(..) | Found::Nothing) => "no batch".into(),
                Err(error) => format!("what cannot be read: {error}"),
            };
            let place = self.disk.place(&segment.name);
            self.damaged(format!("{place} at offset {offset}: {what}, and the journal went on there"))?;
        }
        Ok(scan.start)
    }

    fn batch(&mut self, header: &BatchHeader, payload: &bytes::Bytes) -> io::Result<()> {
        let flags = [(START, "start"), (EPOCH, "epoch"), (MARK, "mark"), (STOP, "stop")].into_iter();
        let flags = flags.filter(|(flag, _)| header.flags & flag != 0).map(|(_, name)| name).collect();
        let BatchHeader { position, facts, durable, start, .. } = *header;
        let (run, wall) = (header.run.0, header.wall.0);
        self.out.found(Finding::Batch { position, facts, durable, start, run, wall, flags })?;
        let mut source = Source::new(payload);
        for _ in 0..header.facts {
            let position = header.position + (HEADER + source.at()) as u64;
            match decode_fact(&mut source) {
                Ok(fact) => self.out.found(without_block(position, fact))?,
                Err(error) => return self.damaged(format!("the batch at position {}: {error}", header.position)),
            }
        }
        Ok(())
    }

    /// Reads every message that is still needed, and tells what each segment holds of them.
    fn messages(&mut self, core: &Core, live: &LiveBytes, segments: Vec<Segment>) -> io::Result<()> {
        let shared = Arc::new(Shared::new(self.disk.clone(), 0, 0, &OpenOptions::default()));
        for segment in segments {
            shared.segments.add(Segment { live: live.of(segment.base), ..segment });
        }
        let reader = Reader::new(shared.clone());
        let (mut runs, mut bytes, mut errors) = (0u64, 0u64, Vec::new());
        core.extents(&mut |_, extent: Extent| {
            runs += 1;
            bytes += u64::from(extent.length);
            match reader.read(extent) {
                Ok(_) => {}
                Err(error) => errors.push(error.to_string()),
            }
        });
        for error in errors {
            self.damaged(error)?;
        }
        for Segment { base, name, .. } in shared.segments.all() {
            self.out.found(Finding::Live { name, bytes: live.of(base).most() })?;
        }
        self.out.found(Finding::AllLive { bytes, runs })
    }

    fn damaged(&mut self, what: String) -> io::Result<()> {
        self.verdict = Verdict::Damaged;
        self.out.found(Finding::Damaged { what })
    }
}

/// What a start comes to know.
struct Known {
    /// What is told of the checkpoint, where there is one.
    checkpoint: Option<Finding>,
    /// Where it stands.
    position: u64,
    /// What the segments hold: at the end of the journal, or as of the checkpoint, where a start does not get further.
    live: LiveBytes,
    replayed: Result<Recovered<Core>, OpenError>,
}

impl Known {
    /// Where a segment ended, if that is known: the one behind it may be gone. Of one that the next start takes back, because it
    /// lies before the checkpoint and holds nothing that is needed, anything will do: it may have been put back from an old copy.
    fn end(&self, segment: &Segment) -> Option<u64> {
        let is_needed = !self.live.of(segment.base).is_empty() || segment.end > self.position;
        match (is_needed, &self.replayed) {
            (true, _) => Some(self.live.end(segment.base).map_or(segment.end, |end| end.min(segment.end))),
            (false, Ok(_)) => Some(OPEN),
            (false, Err(_)) => None,
        }
    }
}

fn told(checkpoint: &Checkpoint) -> Finding {
    let (mut namespaces, mut topics) = (0u64, 0u64);
    for page in &checkpoint.pages {
        if let Page::Namespace(page) = page {
            namespaces += 1;
            topics += page.groups.iter().map(|group| group.topics).sum::<u64>();
        }
    }
    let Checkpoint { position, start, .. } = *checkpoint;
    Finding::Checkpoint { position, start, namespaces, topics }
}

/// A fact; of its block, how large it is.
fn without_block(position: u64, mut fact: Fact) -> Finding {
    let block = fact.block().map(|block| block.len());
    match &mut fact {
        Fact::Published { block, sizes, .. } | Fact::Moved { block, sizes, .. } => {
            (*block, *sizes) = (Bytes::new(), Sizes::Uniform(0));
        }
        Fact::DeadMoved { block, .. } => *block = Bytes::new(),
        _ => {}
    }
    Finding::Fact { position, fact: Box::new(fact), block }
}
