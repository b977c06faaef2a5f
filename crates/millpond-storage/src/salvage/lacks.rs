//! What a salvage does not find, and what may be gone with it, in the words of its report.
//!
//! Segments that hold nothing that is needed are taken back, so that a journal has gaps is in order. Whether one is, the
//! checkpoint knows, if it can still be read; nothing else of the salvage rests on it.

use std::io::{self, Write};

use millpond_core::{Core, LevelBounds};

use crate::OpenOptions;
use crate::checkpoint::{Checkpoint, LiveBytes};
use crate::disk::{Disk, TREE};
use crate::journal::segment::segment_name;
use crate::journal::segments::Segment;
use crate::open::find_segments;
use crate::recover::{Source, replay};
use crate::store::LayeredStore;
use crate::tree::TreeError;

/// What becomes of messages whose records are gone.
const GONE: &str = "messages published there are lost, those that ended there come again, and topics that began there may \
                    have lost their names";

/// Bytes of memory for topics while it is found out what is needed at the journal's end: all that counts is the sum.
const ROOM: usize = 16 * 1024 * 1024;

/// See the module.
pub struct Lacks<'a> {
    /// Where the checkpoint stands, and what it knows of the segments before.
    checkpoint: Option<(u64, LiveBytes)>,
    pub out: &'a mut dyn Write,
}

impl<'a> Lacks<'a> {
    pub fn new(disk: &dyn Disk, directory: u128, out: &'a mut dyn Write) -> io::Result<Lacks<'a>> {
        let bounds = LevelBounds::within(ROOM);
        let options = OpenOptions { room: ROOM, bounds, ..OpenOptions::default() };
        let found = disk.tree(options.tree).and_then(|tree| Ok((Checkpoint::read(&tree, directory)?, tree)));
        let (checkpoint, tree) = match found {
            Ok((Some(checkpoint), tree)) => (checkpoint, tree),
            Ok((None, _)) => return Ok(Lacks { checkpoint: None, out }),
            Err(error @ TreeError::NoMirror(_)) => return Err(io::Error::other(error)),
            Err(error) => {
                let place = disk.place(TREE);
                writeln!(
                    out,
                    "SKIPPED     {place}: {error}. It alone could tell what was taken back from what was removed"
                )?;
                return Ok(Lacks { checkpoint: None, out });
            }
        };
        // As of the checkpoint; where a start would go on from it, as of the journal's end, for what has ended behind it may
        // have been taken back.
        let (position, live) = (checkpoint.position, checkpoint.live.clone());
        let store = LayeredStore::new(tree, options.filter);
        let replayed = find_segments(disk, directory).and_then(|segments| {
            let source = Source { disk, directory, store: &store };
            replay::<Core>(source, Some(checkpoint), &segments, &options)
        });
        Ok(Lacks { checkpoint: Some((position, replayed.map_or(live, |recovered| recovered.live))), out })
    }

    /// Between where a segment ended, if that is known, and where the next one begins.
    pub fn gap(&mut self, end: Option<u64>, base: u64) -> io::Result<()> {
        let Some(end) = end.filter(|end| *end < base) else { return Ok(()) };
        let bytes = base - end;
        let place = format!("positions {end} to {base}, {bytes} bytes, are in no file");
        let Some((position, live)) = &self.checkpoint else {
            return writeln!(
                self.out,
                "MISSING     {place}: they were taken back because nothing in them was needed any more, or removed, and there \
                 is no checkpoint that could tell. If they were removed, {GONE}: put the files back from a copy, if there is \
                 one, and salvage anew"
            );
        };
        let needed: Vec<u64> = live.bases().filter(|at| (end..base).contains(at)).collect();
        if let Some(first) = needed.first() {
            let bytes: u64 = needed.iter().map(|at| live.of(*at).most()).sum();
            let name = segment_name(*first);
            writeln!(
                self.out,
                "MISSING     {place}: as of the checkpoint, {bytes} bytes of messages there were still needed, and those that \
                 have not ended since are lost. Put the files back from a copy, {name} first, and salvage anew"
            )
        } else if base > *position {
            let name = segment_name(end);
            writeln!(
                self.out,
                "MISSING     {place}: files were removed. So {GONE}. Put the files back from a copy, {name} first, and salvage \
                 anew"
            )
        } else {
            writeln!(
                self.out,
                "taken back  {place}: nothing in them was needed; messages that ended there may come again"
            )
        }
    }

    /// Behind the newest segment there was another one, if that one says so, or if it ends before the checkpoint.
    pub fn newest(&mut self, end: Option<u64>, goes_on: bool) -> io::Result<()> {
        let is_short = |end: &u64| goes_on || self.checkpoint.as_ref().is_some_and(|(position, _)| end < position);
        let Some(end) = end.filter(is_short) else { return Ok(()) };
        let name = segment_name(end);
        writeln!(
            self.out,
            "MISSING     all from position {end} on: files were removed, or the newest was put back as it had been before. So \
             {GONE}. Put the newest files back from a copy, {name} first if there is one, and salvage anew"
        )
    }

    /// A part of a segment cannot be made sense of.
    pub fn skipped(&mut self, segment: &Segment, from: u64, to: Option<u64>, what: &str) -> io::Result<()> {
        let (name, offset) = (&segment.name, segment.offset(from));
        let to = to.map_or("on".into(), |to| format!("to offset {}, {} bytes,", segment.offset(to), to - from));
        writeln!(
            self.out,
            "SKIPPED     {name} from offset {offset} {to} {what}: damaged. So {GONE}. Put the file back from a copy, if there is \
             one, and salvage anew"
        )
    }

    /// A file is not as long as it was.
    pub fn short(&mut self, segment: &Segment, length: u64) -> io::Result<()> {
        let Segment { name, bytes, .. } = segment;
        writeln!(
            self.out,
            "MISSING     {name} has {bytes} bytes of its {length}: it was cut short. Of what stood behind, if anything did, {GONE}. \
             Put the file back from a copy, if there is one, and salvage anew"
        )
    }

    /// The journal ends in the middle of a batch.
    pub fn torn(&mut self, segment: &Segment, from: u64) -> io::Result<()> {
        let (name, offset) = (&segment.name, segment.offset(from));
        writeln!(
            self.out,
            "torn tail   {name} from offset {offset} on holds a batch that does not match its checksum, and nothing behind it: it \
             was being written when the broker ended, and nothing in it was confirmed; or else it is damaged"
        )
    }

    /// A file cannot be of this journal.
    pub fn foreign(&mut self, name: &str) -> io::Result<()> {
        writeln!(
            self.out,
            "SKIPPED     {name}: it begins where the one before has not ended, and so is of another copy of the directory"
        )
    }

    /// A file cannot even be opened.
    pub fn unopened(&mut self, name: &str, error: &io::Error) -> io::Result<()> {
        writeln!(
            self.out,
            "SKIPPED     {name} cannot be opened: {error}. So {GONE}. Put the file back from a copy, if there is one, and salvage \
             anew"
        )
    }
}
