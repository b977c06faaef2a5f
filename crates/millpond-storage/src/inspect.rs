//! Reading a data directory offline: everything is verified and told, and nothing is changed.
//!
//! Works on a directory that cannot be opened, as far as it goes, and on one that is in use, where the end of the
//! journal moves while it is read.

use std::io::{self, Write};
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
use crate::format::{FORMAT, FORMAT_VERSION, Format};
use crate::journal::batch::{BatchHeader, HEADER, MARK, START, STOP};
use crate::journal::live::OPEN;
use crate::journal::scan::{Found, Scan};
use crate::journal::segments::Segment;
use crate::journal::shared::Shared;
use crate::open::{FILTER_BYTES, find_segments, reaches_back};
use crate::recover::{Source as From, replay};
use crate::store::LayeredStore;
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

/// Verifies a directory and writes a report, with each fact in a line of its own where `facts` is set.
///
/// # Errors
/// Where the report cannot be written, or there is no room for temporary files. What is wrong with the directory stands in the report.
pub fn inspect(directory: &Path, facts: bool, out: &mut dyn Write) -> io::Result<Verdict> {
    match RealDisk::read_only(directory) {
        Ok(disk) => inspect_disk(Arc::new(disk), facts, out),
        Err(error) => {
            writeln!(out, "DAMAGED     {} cannot be read: {error}", directory.display())?;
            Ok(Verdict::Damaged)
        }
    }
}

/// As [`inspect`], on any disk.
pub fn inspect_disk(disk: Arc<dyn Disk>, facts: bool, out: &mut dyn Write) -> io::Result<Verdict> {
    let mut report = Report { disk, facts, out, verdict: Verdict::InOrder };
    report.write()?;
    Ok(report.verdict)
}

struct Report<'a> {
    disk: Arc<dyn Disk>,
    facts: bool,
    out: &'a mut dyn Write,
    verdict: Verdict,
}

impl Report<'_> {
    fn write(&mut self) -> io::Result<()> {
        let directory = match Format::read(self.disk.as_ref()) {
            Ok(Some(format)) => format.directory,
            Ok(None) => return self.damaged(format!("{} is missing: no data directory", self.disk.place(FORMAT))),
            Err(error) => return self.damaged(format!("{}: {error}", self.disk.place(FORMAT))),
        };
        writeln!(self.out, "directory   {} format {FORMAT_VERSION} id {directory:032x}", self.disk.place(""))?;
        // Held to the end: the tree is no good to two at a time.
        let lock = self.disk.lock();
        let in_use = matches!(lock, Err(LockError::InUse));
        if in_use {
            let told = "the end of the journal moves while it is read, and the checkpoint is left out";
            writeln!(self.out, "in use      by another process: {told}")?;
        }
        match damaged::read(self.disk.as_ref()) {
            Ok(None) => {}
            // The broker that is running has left it, and nothing below tells of the checkpoint.
            Ok(Some(what)) if in_use => self.damaged(format!("{}: {what}", self.disk.place(NOTE)))?,
            Ok(Some(what)) => {
                writeln!(self.out, "noted       in {NOTE}, for the next start to read all of the checkpoint: {what}")?;
            }
            Err(error) => self.damaged(format!("{}: {error}", self.disk.place(NOTE)))?,
        }
        let segments = match find_segments(self.disk.as_ref(), directory) {
            Ok(segments) => segments,
            Err(error) => return self.damaged(error.to_string()),
        };
        let tree = (!in_use).then(|| self.tree(directory));
        let mut start = 0;
        for segment in &segments {
            let end = match &tree {
                Some(Ok((_, checkpoint))) => end(segment, checkpoint.as_ref()),
                _ => Some(segment.end).filter(|end| *end == OPEN),
            };
            start = self.segment(segment, end, directory, start)?;
        }
        let Some(tree) = tree else { return Ok(()) };
        let (store, checkpoint) = match tree {
            Ok(found) => found,
            Err(error @ TreeError::NoMirror(_)) => return Err(io::Error::other(error)),
            Err(error) => return self.damaged(format!("{}: {error}", self.disk.place(TREE))),
        };
        if let Some(checkpoint) = &checkpoint {
            self.checkpoint(checkpoint)?;
        } else if !segments.is_empty() && !reaches_back(&segments) {
            return self.damaged(OpenError::CheckpointGone(self.disk.place(TREE)).to_string());
        }
        let disk = self.disk.clone();
        let from = From { disk: disk.as_ref(), directory, store: &store };
        match replay::<Core>(from, checkpoint, &segments, &OpenOptions::default()) {
            Err(error) => self.damaged(error.to_string()),
            Ok(recovered) => {
                let state =
                    if recovered.report.orderly { "stopped in good order" } else { "not stopped in good order" };
                let (end, starts) = (recovered.report.end, recovered.report.start - 1);
                writeln!(self.out, "journal     ends at position {end}, {state}, {starts} starts so far")?;
                if recovered.report.torn > 0 {
                    let torn = recovered.report.torn;
                    writeln!(
                        self.out,
                        "torn tail   {torn} bytes behind the end, never confirmed; the next start drops them"
                    )?;
                }
                recovered.state.map_or(Ok(()), |core| self.messages(&core, &recovered.live, segments))
            }
        }
    }

    /// The tree, every byte of it verified, and its checkpoint.
    fn tree(&self, directory: u128) -> Result<(LayeredStore, Option<Checkpoint>), TreeError> {
        let tree = self.disk.tree(OpenOptions::default().tree)?;
        tree.verify()?;
        let checkpoint = Checkpoint::read(&tree, directory)?;
        Ok((LayeredStore::new(tree, FILTER_BYTES), checkpoint))
    }

    fn checkpoint(&mut self, checkpoint: &Checkpoint) -> io::Result<()> {
        let (mut namespaces, mut topics) = (0u64, 0u64);
        for page in &checkpoint.pages {
            if let Page::Namespace(page) = page {
                namespaces += 1;
                topics += page.groups.iter().map(|group| group.topics).sum::<u64>();
            }
        }
        let Checkpoint { position, start, .. } = checkpoint;
        writeln!(
            self.out,
            "checkpoint  at position {position} by start {start}: {namespaces} namespaces, {topics} topics"
        )
    }

    /// Tells a segment, and returns the start that wrote its last batch. `end` is where it ended, if that is known.
    fn segment(&mut self, segment: &Segment, end: Option<u64>, directory: u128, start: u32) -> io::Result<u32> {
        writeln!(self.out, "segment     {} from position {}, {} bytes", segment.name, segment.base, segment.bytes)?;
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
        writeln!(self.out, "            {batches} batches, {facts} facts, to position {position} (offset {offset})")?;
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
        let flags = [(START, " start"), (MARK, " mark"), (STOP, " stop")].into_iter();
        let flags = flags.filter(|(flag, _)| header.flags & flag != 0).map(|(_, name)| name).collect::<String>();
        writeln!(
            self.out,
            "batch       {} facts {} durable {} start {} run {} wall {}{flags}",
            header.position, header.facts, header.durable, header.start, header.run.0, header.wall.0
        )?;
        let mut source = Source::new(payload);
        for _ in 0..header.facts {
            let position = header.position + (HEADER + source.at()) as u64;
            match decode_fact(&mut source) {
                Ok(fact) => writeln!(self.out, "fact        {position} {}", fact_line(fact))?,
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
            writeln!(self.out, "live        {} bytes in {name}", live.of(base).most())?;
        }
        writeln!(self.out, "live        {bytes} bytes in {runs} runs of messages in all")
    }

    fn damaged(&mut self, what: String) -> io::Result<()> {
        self.verdict = Verdict::Damaged;
        writeln!(self.out, "DAMAGED     {what}")
    }
}

/// Where a segment ended, if that is known: the one behind it may be gone. A segment that lies before the checkpoint and is not
/// in its table holds nothing that is needed.
fn end(segment: &Segment, checkpoint: Option<&Checkpoint>) -> Option<u64> {
    let Some(Checkpoint { position, live, .. }) = checkpoint else { return Some(segment.end) };
    match live.end(segment.base) {
        Some(OPEN) => Some(segment.end),
        None => Some(segment.end).filter(|end| end > position),
        end => end,
    }
}

/// A fact in one line; of a block, how large it is.
fn fact_line(mut fact: Fact) -> String {
    let mut tail = String::new();
    if let Some(block) = fact.block() {
        tail = format!(" with a block of {} bytes", block.len());
    }
    match &mut fact {
        Fact::Published { block, sizes, .. } | Fact::Moved { block, sizes, .. } => {
            (*block, *sizes) = (Bytes::new(), Sizes::Uniform(0));
        }
        Fact::DeadMoved { block, .. } => *block = Bytes::new(),
        _ => {}
    }
    format!("{fact:?}{tail}")
}
