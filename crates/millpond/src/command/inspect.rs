//! `inspect`: verifies and reads a data directory offline. What is found is told by the storage; this is its face.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::PathBuf;

use clap::Args;
use millpond_storage::Verdict;

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
}

impl Inspect {
    /// Carries the command out.
    pub fn run(self) -> Result<(), Failure> {
        let mut output = BufWriter::new(std::io::stdout().lock());
        let verdict = millpond_storage::inspect(&self.directory, self.facts, &mut output);
        let verdict = verdict.and_then(|verdict| output.flush().map(|()| verdict));
        match verdict {
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
}
