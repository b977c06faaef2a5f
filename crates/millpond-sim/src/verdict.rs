//! What a life ends with: a violation, or a count of what the checkers have seen.

use std::collections::BTreeMap;
use std::fmt;

/// The promises that are watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Checker {
    /// Confirmed and lost: what was confirmed is there, with the body that was sent, or has ended by one reason.
    Lost,
    /// Ended and back: what has ended stays so; nothing is leased or stored twice; numbers only grow.
    Back,
    /// Ready and stuck: with willing consumers and enough time everything comes to its end.
    Stuck,
    /// Office and epoch: an epoch is one leader's, and deliveries of two never mix.
    Offices,
    /// Delayed and early: nothing that is delayed is ready before its time.
    Early,
    /// By halves: what is acked and published as one is both or neither.
    Halves,
    /// The life itself was no use: it saw too little to prove anything.
    Sights,
}

impl fmt::Display for Checker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Checker::Lost => "confirmed and lost",
            Checker::Back => "ended and back",
            Checker::Stuck => "ready and stuck",
            Checker::Offices => "office and epoch",
            Checker::Early => "delayed and early",
            Checker::Halves => "forwarded by halves",
            Checker::Sights => "saw too little",
        })
    }
}

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{checker}: {what}")]
pub struct Violation {
    /// Who found it.
    pub checker: Checker,
    /// What was found.
    pub what: String,
}

impl Violation {
    /// Something that was confirmed is not there.
    pub fn lost(what: String) -> Violation {
        Violation { checker: Checker::Lost, what }
    }

    /// Something is there again, or twice.
    pub fn back(what: String) -> Violation {
        Violation { checker: Checker::Back, what }
    }

    /// Two leaders at a time, or messages of one among those of another.
    pub fn offices(what: String) -> Violation {
        Violation { checker: Checker::Offices, what }
    }

    /// Something is ready before its time.
    pub fn early(what: String) -> Violation {
        Violation { checker: Checker::Early, what }
    }

    /// One half of what is one is there.
    pub fn halves(what: String) -> Violation {
        Violation { checker: Checker::Halves, what }
    }

    /// Something does not come to its end.
    pub fn stuck(what: String) -> Violation {
        Violation { checker: Checker::Stuck, what }
    }
}

/// How often each thing was seen.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sights(pub BTreeMap<&'static str, u64>);

/// Messages that a life of the usual length stores at the very least.
pub const PUBLISHED_MIN: u64 = 40;

/// What a life of the usual length sees at the very least; one that does not proves nothing.
pub const EVERY_LIFE: [(&str, u64); 7] = [
    ("published", PUBLISHED_MIN),
    ("confirmed", 20),
    ("delivered", 5),
    ("ended", 20),
    ("end confirmed", 1),
    ("restarts", 1),
    ("bodies compared", 5),
];

/// What a range of fifty lives or more has seen somewhere. A name that is misspelt here fails at once.
pub const EVERY_RANGE: [&str; 48] = [
    "acked",
    "batches of a session",
    "batches without room",
    "body beyond a segment",
    "cancelled",
    "checkpoints written",
    "dead",
    "dead letters purged",
    "dedup ids forgotten",
    "delayed",
    "delays over",
    "delivered again",
    "disk full refusals",
    "duplicates",
    "delivered by an office",
    "expired",
    "faults of the disk",
    "forwarded",
    "forwards refused",
    "kills",
    "lease lost",
    "leases expired",
    "looked at",
    "marks",
    "messages lost unconfirmed",
    "moved",
    "namespaces deleted",
    "namespaces made",
    "offices led",
    "orderly stops",
    "paused",
    "policies changed",
    "power cuts",
    "power cuts in a start",
    "purged",
    "retained out",
    "redriven",
    "rejected",
    "released",
    "rescheduled",
    "session repeats told the same",
    "sessions expired",
    "sessions resumed",
    "topics back",
    "torn batches",
    "wake-ups lost",
    "who was forgotten found",
    "unconfirmed ends taken back",
];

impl Sights {
    /// Counts one.
    pub fn saw(&mut self, what: &'static str) {
        self.saw_many(what, 1);
    }

    /// Counts several.
    pub fn saw_many(&mut self, what: &'static str, count: u64) {
        *self.0.entry(what).or_default() += count;
    }

    /// How often it was seen.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// Adds those of another life.
    pub fn add(&mut self, other: &Sights) {
        other.0.iter().for_each(|(what, count)| self.saw_many(what, *count));
    }

    /// Whether a life has seen enough.
    pub fn check_life(&self) -> Result<(), Violation> {
        let short = EVERY_LIFE.iter().find(|(what, least)| self.of(what) < *least);
        short.map_or(Ok(()), |(what, least)| {
            let what = format!("{what}: {} times, and {least} is the least that proves anything", self.of(what));
            Err(Violation { checker: Checker::Sights, what })
        })
    }

    /// What a range of lives never saw.
    pub fn missing(&self) -> Vec<&'static str> {
        EVERY_RANGE.into_iter().filter(|what| self.of(what) == 0).collect()
    }
}
