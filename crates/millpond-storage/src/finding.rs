//! What an inspection finds, piece by piece, and how that reads as a line of its report.

use std::fmt;
use std::io::{self, Write};

use millpond_core::fact::Fact;

use crate::damaged::NOTE;
use crate::format::FORMAT_VERSION;
use crate::recover::Torn;

/// Something that an inspection tells of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The directory.
    Directory {
        /// Where it is.
        place: String,
        /// Its id.
        id: u128,
    },
    /// Another process has it: the end of the journal moves, and the checkpoint is left out.
    InUse,
    /// What a broker that ran has noted as damage.
    Noted {
        /// What it is.
        what: String,
    },
    /// The checkpoint.
    Checkpoint {
        /// The journal position that it is of.
        position: u64,
        /// The start that made it.
        start: u32,
        /// Namespaces in it.
        namespaces: u64,
        /// Topics in it.
        topics: u64,
    },
    /// A segment of the journal; its batches follow.
    Segment {
        /// Its name.
        name: String,
        /// The position at which it begins.
        position: u64,
        /// Bytes of the file.
        bytes: u64,
    },
    /// A batch of facts; they follow.
    Batch {
        /// Its position.
        position: u64,
        /// How many facts.
        facts: u32,
        /// The position known durable when it was written.
        durable: u64,
        /// The start that wrote it.
        start: u32,
        /// The run time in it.
        run: u64,
        /// The wall time in it.
        wall: u64,
        /// What else it is: `start`, `mark`, `stop`.
        flags: Vec<&'static str>,
    },
    /// A fact.
    Fact {
        /// Its position.
        position: u64,
        /// The fact, without its block.
        fact: Box<Fact>,
        /// Bytes of its block.
        block: Option<usize>,
    },
    /// The end of a segment.
    SegmentEnd {
        /// Its name.
        name: String,
        /// Batches in it.
        batches: u64,
        /// Facts in it.
        facts: u64,
        /// The position behind the last batch.
        position: u64,
        /// The place of that in the file.
        offset: u64,
    },
    /// The journal.
    Journal {
        /// Where it ends.
        end: u64,
        /// Whether it ends with an orderly stop.
        is_orderly: bool,
        /// Starts of a broker so far.
        starts: u32,
    },
    /// A batch behind the end that is not whole, for which nothing vouches; the next start drops it.
    TornTail(Torn),
    /// What is still needed of a segment.
    Live {
        /// Its name.
        name: String,
        /// Bytes of it.
        bytes: u64,
    },
    /// What is still needed in all.
    AllLive {
        /// Bytes of messages.
        bytes: u64,
        /// Runs that they are of.
        runs: u64,
    },
    /// Something that was confirmed is damaged or missing.
    Damaged {
        /// What, and where.
        what: String,
    },
}

/// Whoever is told what an inspection finds. What takes bytes is given lines.
pub trait Findings {
    /// Takes one.
    ///
    /// # Errors
    /// Where it cannot be passed on; the inspection ends.
    fn found(&mut self, finding: Finding) -> io::Result<()>;
}

impl<W: Write> Findings for W {
    fn found(&mut self, finding: Finding) -> io::Result<()> {
        writeln!(self, "{finding}")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Directory { place, id } => write!(f, "directory   {place} format {FORMAT_VERSION} id {id:032x}"),
            Finding::InUse => {
                let told = "the end of the journal moves while it is read, and the checkpoint is left out";
                write!(f, "in use      by another process: {told}")
            }
            Finding::Noted { what } => {
                write!(f, "noted       in {NOTE}, for the next start to read all of the checkpoint: {what}")
            }
            Finding::Checkpoint { position, start, namespaces, topics } => write!(
                f,
                "checkpoint  at position {position} by start {start}: {namespaces} namespaces, {topics} topics"
            ),
            Finding::Segment { name, position, bytes } => {
                write!(f, "segment     {name} from position {position}, {bytes} bytes")
            }
            Finding::Batch { position, facts, durable, start, run, wall, flags } => {
                write!(
                    f,
                    "batch       {position} facts {facts} durable {durable} start {start} run {run} wall {wall}"
                )?;
                flags.iter().try_for_each(|flag| write!(f, " {flag}"))
            }
            Finding::Fact { position, fact, block } => {
                write!(f, "fact        {position} {fact:?}")?;
                block.map_or(Ok(()), |bytes| write!(f, " with a block of {bytes} bytes"))
            }
            Finding::SegmentEnd { batches, facts, position, offset, .. } => {
                write!(f, "            {batches} batches, {facts} facts, to position {position} (offset {offset})")
            }
            Finding::Journal { end, is_orderly, starts } => {
                let state = if *is_orderly { "stopped in good order" } else { "not stopped in good order" };
                write!(f, "journal     ends at position {end}, {state}, {starts} starts so far")
            }
            Finding::TornTail(Torn { file, offset, bytes }) => write!(
                f,
                "torn tail   {file} from offset {offset} on: {bytes} bytes behind the end, for which nothing vouches; the next start drops them"
            ),
            Finding::Live { name, bytes } => write!(f, "live        {bytes} bytes in {name}"),
            Finding::AllLive { bytes, runs } => {
                write!(f, "live        {bytes} bytes in {runs} runs of messages in all")
            }
            Finding::Damaged { what } => write!(f, "DAMAGED     {what}"),
        }
    }
}
