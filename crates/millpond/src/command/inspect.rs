//! `inspect`: verifies and reads a data directory offline, or brings its messages into a fresh one. What is found is told
//! by the storage; this is its face.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use millpond_storage::{Finding, Findings, Torn, Verdict};
use serde_json::{Value, json};

use crate::cli::{Globals, Output};
use crate::failure::Failure;

/// Verify and read a data directory offline; nothing in it is changed
#[derive(Args)]
#[command(after_help = "Exits with 1 if anything that was confirmed is damaged or missing; the report says what.")]
pub struct Inspect {
    /// The data directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Print every fact of the journal, each on a line
    #[arg(long)]
    facts: bool,
    /// Bring the messages that the journal still holds into a fresh directory, for when this one cannot be started and
    /// there is no copy of it. Ids and receipts change; dedup ids, producer sessions and pauses are lost
    #[arg(long, value_name = "TO_DIR", conflicts_with = "facts")]
    salvage: Option<PathBuf>,
}

impl Inspect {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        if let Some(to) = &self.salvage {
            return self.salvage(to, globals.output);
        }
        match self.report(globals.output) {
            Ok(Verdict::InOrder) => Ok(()),
            Ok(Verdict::Damaged) => Err(Failure::refused(format!(
                "{} is damaged, or no data directory: see the report above",
                self.directory.display()
            ))),
            // Somebody looked at the first lines only, as `head` does.
            Err(why) if why.kind() == ErrorKind::BrokenPipe => Ok(()),
            Err(why) => Err(Failure::refused(format!("the report cannot be written: {why}"))),
        }
    }

    fn salvage(&self, to: &Path, form: Output) -> Result<(), Failure> {
        let mut output = BufWriter::new(io::stdout().lock());
        let result = match form {
            Output::Table => millpond_storage::salvage(&self.directory, to, &mut output),
            Output::Json => {
                let mut lines = Objects { output: &mut output, line: Vec::new(), about: String::new() };
                millpond_storage::salvage(&self.directory, to, &mut lines)
            }
        };
        let told = result.and_then(|()| Ok(output.flush()?));
        told.map_err(|why| Failure::refused(format!("{} was not salvaged: {why}", self.directory.display())))
    }

    fn report(&self, form: Output) -> io::Result<Verdict> {
        let mut output = BufWriter::new(io::stdout().lock());
        let verdict = match form {
            Output::Table => millpond_storage::inspect(&self.directory, self.facts, &mut output),
            Output::Json => millpond_storage::inspect(&self.directory, self.facts, &mut Fields(&mut output)),
        }?;
        if form == Output::Json {
            writeln!(output, "{}", json!({ "about": "verdict", "in_order": verdict == Verdict::InOrder }))?;
        }
        output.flush().map(|()| verdict)
    }
}

/// Tells each finding as an object on a line.
struct Fields<'a>(&'a mut dyn Write);

impl Findings for Fields<'_> {
    fn found(&mut self, finding: Finding) -> io::Result<()> {
        writeln!(self.0, "{}", object(&finding))
    }
}

fn object(finding: &Finding) -> Value {
    match finding {
        Finding::Directory { place, id } => {
            json!({ "about": "directory", "directory": place, "id": format!("{id:032x}") })
        }
        Finding::InUse => json!({ "about": "in use" }),
        Finding::Noted { what } => json!({ "about": "noted", "what": what }),
        Finding::Checkpoint { position, start, namespaces, topics } => json!({
            "about": "checkpoint", "position": position, "start": start, "namespaces": namespaces, "topics": topics,
        }),
        Finding::Segment { name, position, bytes } => {
            json!({ "about": "segment", "segment": name, "position": position, "bytes": bytes })
        }
        Finding::Batch { position, facts, durable, start, run, wall, flags } => json!({
            "about": "batch", "position": position, "facts": facts, "durable": durable, "start": start,
            "run_ms": run, "wall_ms": wall, "flags": flags,
        }),
        Finding::Fact { position, fact, block } => {
            json!({ "about": "fact", "position": position, "fact": format!("{fact:?}"), "block_bytes": block })
        }
        Finding::SegmentEnd { name, batches, facts, position, offset } => json!({
            "about": "segment end", "segment": name, "batches": batches, "facts": facts, "position": position,
            "offset": offset,
        }),
        Finding::Journal { end, is_orderly, starts } => {
            json!({ "about": "journal", "position": end, "orderly": is_orderly, "starts": starts })
        }
        Finding::TornTail(Torn { file, offset, bytes }) => {
            json!({ "about": "torn tail", "file": file, "offset": offset, "bytes": bytes })
        }
        Finding::Live { name, bytes } => json!({ "about": "live", "segment": name, "bytes": bytes }),
        Finding::AllLive { bytes, runs } => json!({ "about": "all live", "bytes": bytes, "runs": runs }),
        Finding::Damaged { what } => json!({ "about": "damaged", "what": what }),
    }
}

/// Columns of such a line that say what it is about. Where they are empty, it is still about the same.
const ABOUT: usize = 12;

/// Makes an object of each line of what a salvage tells.
struct Objects<'a, W> {
    output: &'a mut W,
    /// What is written of a line so far.
    line: Vec<u8>,
    /// What the last line was about.
    about: String,
}

impl<W: Write> Write for Objects<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for &byte in bytes {
            if byte != b'\n' {
                self.line.push(byte);
                continue;
            }
            let (about, text) = self.line.split_at(ABOUT.min(self.line.len()));
            let about = String::from_utf8_lossy(about).trim().to_lowercase();
            if !about.is_empty() {
                self.about = about;
            }
            let object = json!({ "about": self.about, "text": String::from_utf8_lossy(text) });
            writeln!(self.output, "{object}")?;
            self.line.clear();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}
