//! What was seen, counted by name: a checker that saw nothing proves nothing, so a life has to have seen the usual, and a
//! range of lives everything that is rare.

use std::collections::BTreeMap;

use crate::verdict::{Checker, Violation};

/// How often each thing was seen.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Sights(pub BTreeMap<&'static str, u64>);

/// What a life of the usual length sees at the very least; one that does not proves nothing.
pub const EVERY_LIFE: [(&str, u64); 7] = [
    ("published", 40),
    ("confirmed", 20),
    ("delivered", 5),
    ("ended", 20),
    ("end confirmed", 1),
    ("restarts", 1),
    ("bodies compared", 5),
];

/// What a range of fifty lives or more has seen somewhere. A name that is misspelt here fails at once.
pub const EVERY_RANGE: [&str; 117] = [
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
    "batches fenced",
    "batches out of their order",
    "batches told again",
    "commands that waited for topics",
    "copies routed",
    "cursors compared",
    "dead for their TTL",
    "ended for their TTL",
    "failures inherited",
    "failures survived",
    "failures too many",
    "finished in a run",
    "finished out of order",
    "given at most once",
    "given to a group that starts",
    "groups started with what others hold",
    "idle topics out of memory",
    "leased behind others in a run",
    "leased in strict order",
    "leases taken back",
    "leases told again",
    "messages declined",
    "older ones that gave way to a redriven one",
    "one that waited behind one that ran",
    "out of tokens",
    "picked among several",
    "raised by its age",
    "redriven ones that gave way",
    "repeats known by their dedup ids",
    "retained out for their age",
    "retained out rightly",
    "routed nowhere",
    "superseded",
    "told who stands for a message",
    "took a place",
    "turns that somebody waited for",
    "waiting inherited",
    "watermarks behind the scan",
    "answers in frames",
    "batches read while turns went by",
    "connections closed by clients",
    "connections closed by the broker",
    "connections cut",
    "connections left half open",
    "heartbeats in frames",
    "heartbeats in frames with exceptions",
    "numbers of consumers used again",
    "connections closed for their session",
    "delivered in frames",
    "frames split on their way",
    "the disk did nothing",
    "writes that went astray",
    "writes with a bit flipped",
    "leases that the grace of a start kept",
    "leases that ran out at their deadline",
    "leases that ran out with their session",
    "leases left out of a heartbeat",
    "leases kept by a session that was resumed",
    "sessions that expired in their time",
    "receipts that were taken",
    "receipts that were refused",
    "given on credit",
    "given to a receive",
    "given more bytes than were left",
    "receives that wait for nothing",
    "consumers that wait for nothing",
    "leased to a leader",
    "back-off inherited",
    "priorities inherited",
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
