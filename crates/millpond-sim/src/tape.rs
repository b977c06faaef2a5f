//! All that happens in a life, as a hash and, where wanted, as lines: the same seed twice gives the same.

use std::fmt;

use millpond_core::command::Command;

/// FNV-1a: enough to compare two runs of the same program.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// See the module.
pub struct Tape {
    hash: u64,
    print: bool,
}

impl Tape {
    /// An empty tape; `print` for lines on standard output.
    pub fn new(print: bool) -> Tape {
        Tape { hash: OFFSET, print }
    }

    /// Something happened.
    pub fn note(&mut self, what: fmt::Arguments<'_>) {
        let line = what.to_string();
        self.bytes(line.as_bytes());
        if self.print {
            println!("{line}");
        }
    }

    /// Bytes that belong to the life, without a line.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.hash = bytes.iter().fold(self.hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    }

    /// The hash of everything so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// A command without its bodies.
pub fn brief(command: &Command) -> String {
    match command {
        Command::Publish(publish) => {
            let runs: Vec<_> = publish.runs.iter().map(|run| (&run.topic, run.priority.level(), run.count)).collect();
            format!("publish {} {:?} {:?} {runs:?}", publish.namespace, publish.producer, publish.level)
        }
        other => format!("{other:?}"),
    }
}
