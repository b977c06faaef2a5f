//! All that happens in a life, as a hash and, where wanted, as lines: the same seed twice gives the same.
//!
//! To write a history down takes a tenth of the time that leading it takes, so it is left out where nobody asks for either.

use std::fmt::{self, Write};

use millpond_core::command::Command;

use crate::Options;

/// FNV-1a: enough to compare two runs of the same program.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// See the module.
pub struct Tape {
    hash: Option<Hash>,
    print: bool,
}

impl Tape {
    /// An empty tape.
    pub fn new(options: &Options) -> Tape {
        Tape { hash: options.hashed.then_some(Hash(OFFSET)), print: options.trace }
    }

    /// Something happened.
    pub fn note(&mut self, what: fmt::Arguments<'_>) {
        if let Some(hash) = &mut self.hash {
            hash.write_fmt(what).expect("a hash takes everything");
        }
        if self.print {
            println!("{what}");
        }
    }

    /// Bytes that belong to the life, without a line.
    pub fn bytes(&mut self, bytes: &[u8]) {
        if let Some(hash) = &mut self.hash {
            hash.take(bytes);
        }
    }

    /// The hash of everything so far, if it was to be kept.
    pub fn hash(&self) -> Option<u64> {
        self.hash.as_ref().map(|hash| hash.0)
    }
}

struct Hash(u64);

impl Hash {
    fn take(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME));
    }
}

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.take(text.as_bytes());
        Ok(())
    }
}

/// A command without its bodies.
pub struct Brief<'a>(pub &'a Command);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Command::Publish(publish) => {
                let runs: Vec<_> =
                    publish.runs.iter().map(|run| (&run.topic, run.priority.level(), run.count)).collect();
                write!(f, "publish {} {:?} {:?} {runs:?}", publish.namespace, publish.producer, publish.level)
            }
            other => write!(f, "{other:?}"),
        }
    }
}
