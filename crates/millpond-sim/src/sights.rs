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

/// What each checker has looked at somewhere in a range of fifty lives or more: one that saw nothing proves nothing.
pub const LOOKED_AT: [(Checker, &[&str]); 36] = [
    (
        Checker::Lost,
        &[
            "messages lost unconfirmed",
            "unconfirmed ends taken back",
            "moved",
            "delivered in frames",
            "copies confirmed",
            "messages to several groups confirmed",
            "copies given",
        ],
    ),
    (
        Checker::Back,
        &[
            "acked",
            "delivered again",
            "lease lost",
            "acks that came twice",
            "acks that came late",
            "acks of readers confirmed",
            "leases taken back",
            "cancelled",
            "purged",
            "dead letters purged",
            "redriven",
        ],
    ),
    (
        Checker::Reasons,
        &[
            "cancelled as somebody asked",
            "purged as somebody asked",
            "dropped for want of room",
            "acked by a forward that had waited",
            "cancelled and gone",
            "policies based on the one that was there",
            "what waited when it was purged",
        ],
    ),
    (
        Checker::Room,
        &[
            "as many as may wait",
            "as many as may wait where the oldest give way",
            "dropped in the order of its topic",
            "as many as a quota lets",
            "nearly as many bytes as a quota lets",
            "as many connections as a quota lets",
            "as many topics as a quota lets",
        ],
    ),
    (
        Checker::Growth,
        &[
            "sequences above an earlier life's",
            "leases above an earlier life's",
            "leases above another group's",
            "leases above those before a restart",
            "epochs above an earlier one",
        ],
    ),
    (
        Checker::Stuck,
        &[
            "answers in frames",
            "lulls in the midst",
            "short turns of the writer",
            "long requests that let short ones pass",
            "receives that wait for nothing",
            "consumers that wait for nothing",
            "who holds leases and waits for nothing",
            "wake-ups lost",
            "ready topics lost",
            "who was forgotten found",
        ],
    ),
    (Checker::Offices, &["leased to a leader", "delivered by an office", "offices led"]),
    (
        Checker::Terms,
        &[
            "terms that a heartbeat renewed",
            "offices resigned",
            "leaders deposed",
            "offices left by the last consumer",
            "leaders that detached one consumer of two",
            "offices left with a session",
            "offices that went with an expired session",
            "offices that lapsed",
        ],
    ),
    (Checker::Early, &["delayed", "delays over", "pauses over", "rescheduled"]),
    (
        Checker::Places,
        &[
            "delayed as long as it was asked",
            "rescheduled as it was asked",
            "failed and put at the tail",
            "failed and made to pause",
            "released for later",
            "topics paused for as long as it was asked",
        ],
    ),
    (
        Checker::Told,
        &[
            "told how often they were delivered before",
            "told how often they failed",
            "told in frames how often they were delivered before",
            "told in frames how often they failed",
            "dead letters with a reason",
            "dead letters shown",
            "dead letters looked at",
            "dead letters listed to the last",
            "dead letters in frames",
        ],
    ),
    (Checker::Halves, &["forwarded", "forwarded to exchanges", "forwards refused", "acked by forwards alone"]),
    (
        Checker::Order,
        &[
            "leased in strict order",
            "leased behind others in a run",
            "finished in a run",
            "finished out of order",
            "paused",
            "released",
        ],
    ),
    (
        Checker::Coalescing,
        &[
            "superseded",
            "took a place",
            "told who stands for a message",
            "declined",
            "one that waited behind one that ran",
            "redriven ones that gave way",
            "older ones that gave way to a redriven one",
            "failures inherited",
            "back-off inherited",
            "priorities inherited",
            "waiting inherited",
        ],
    ),
    (
        Checker::Newest,
        &[
            "newest ones that were worked on later",
            "newest ones that died",
            "newest ones that ended otherwise",
            "messages declined",
        ],
    ),
    (Checker::Watermark, &["cursors compared", "watermarks behind the scan"]),
    (
        Checker::Tallies,
        &[
            "waiting ones told",
            "delayed ones told",
            "retrying ones told",
            "leased ones told",
            "dead ones told",
            "accepted ones told",
            "declined ones told",
            "superseded ones told",
            "dropped ones told",
            "retained out ones told",
            "tallies that a start has found",
        ],
    ),
    (Checker::Priority, &["picked among several", "raised by its age"]),
    (
        Checker::Fairness,
        &[
            "turns that somebody waited for",
            "turns among prefixes that somebody waited for",
            "turns of the writer that left some to the next",
        ],
    ),
    (
        Checker::Memory,
        &[
            "idle topics out of memory",
            "commands that waited for topics",
            "leases counted",
            "leases where half of the room is taken",
            "consumers on rations",
            "receives refused on rations",
            "commands that waited beside others",
            "entries that were fetched for somebody",
            "producer sessions out of memory",
        ],
    ),
    (
        Checker::Starts,
        &["groups started with what others hold", "given to a group that starts", "saved for a group that starts"],
    ),
    (
        Checker::Retention,
        &["retained out", "retained out rightly", "retained out for their age", "what was far too much went"],
    ),
    (Checker::Once, &["given at most once"]),
    (
        Checker::Repeats,
        &["leases told again", "repeats for something else refused", "calls withdrawn that were repeated since"],
    ),
    (Checker::Routes, &["copies routed", "batches routed", "routed nowhere"]),
    (Checker::Expiry, &["expired", "ended for their TTL", "dead for their TTL"]),
    (
        Checker::Dedup,
        &[
            "duplicates",
            "repeats known by their dedup ids",
            "dedup ids forgotten",
            "forgotten as somebody asked",
            "states of repeats compared behind a wait",
            "repeats of what waits",
            "repeats of what is delayed",
            "repeats of what is leased",
            "repeats of dead letters",
            "repeats of what has ended",
        ],
    ),
    (
        Checker::Sessions,
        &[
            "batches of a session",
            "batches told again",
            "batches fenced",
            "batches out of their order",
            "session repeats told the same",
        ],
    ),
    (Checker::Failures, &["failures survived", "failures too many", "rejected"]),
    (
        Checker::Connections,
        &[
            "heartbeats in frames",
            "heartbeats in frames with exceptions",
            "routed in frames",
            "numbers of consumers used again",
            "connections closed for their session",
            "rejects and fails in their order",
            "sessions begun again behind their end",
        ],
    ),
    (
        Checker::Leases,
        &[
            "leases that ran out at their deadline",
            "leases that ran out with their session",
            "leases left out of a heartbeat",
            "leases kept by a session that was resumed",
            "sessions that expired in their time",
            "receipts that were taken",
            "receipts that were refused",
            "extended",
        ],
    ),
    (Checker::Grace, &["leases that the grace of a start kept", "outages"]),
    (
        Checker::Refusals,
        &[
            "refused by a full topic",
            "unknown by their ids",
            "refused by a quota of messages",
            "refused by a quota of bytes",
            "refused by a quota of topics",
            "refused by a quota of connections",
        ],
    ),
    (
        Checker::Rates,
        &["given for tokens", "last tokens taken", "out of tokens", "topics that vanished with a full bucket"],
    ),
    (Checker::Credit, &["given on credit", "given to a receive", "given more bytes than were left"]),
    (Checker::Survival, &["answers that had to survive"]),
];

/// What has happened somewhere in such a range. A name that is misspelt here or there fails at once.
pub const HAPPENED: [&str; 56] = [
    "batches without room",
    "body beyond a segment",
    "checkpoints written",
    "dead",
    "disk full refusals",
    "faults of the disk",
    "filters made anew",
    "filters that were too full",
    "keys looked for on the disk in vain",
    "kills",
    "leases expired",
    "looked at",
    "marks",
    "namespaces deleted",
    "namespaces made",
    "offices taken in a cut",
    "orderly stops",
    "policies changed",
    "power cuts",
    "power cuts in a start",
    "publishes held back",
    "sessions expired",
    "sessions resumed",
    "topics back",
    "torn batches",
    "used namespaces deleted",
    "batches read while turns went by",
    "connections closed by clients",
    "connections closed by the broker",
    "connections cut",
    "connections left half open",
    "half-open connections closed by the broker",
    "half-open connections closed without a heartbeat",
    "frames split on their way",
    "the disk did nothing",
    "writes that went astray",
    "writes with a bit flipped",
    "writes that failed in part",
    "writes that a kill left in part",
    "names that a power cut took",
    "sectors lost",
    "sectors torn",
    "sectors kept behind lost ones",
    "faults of the disk in a start",
    "messages that could not be read",
    "reads of the tree that failed",
    "reads for moves that failed",
    "reads that failed in a start",
    "the clock was set ahead",
    "the clock was set back",
    "the clock was set back far",
    "frames held back on their way",
    "frames held back on their way to a client",
    "bytes that came one by one",
    "bytes that came to a client one by one",
    "frames split on their way to a client",
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
            Err(Violation::sights(what))
        })
    }

    /// What a range of lives never saw.
    pub fn missing(&self) -> Vec<&'static str> {
        let looked_at = LOOKED_AT.iter().flat_map(|(_, what)| *what);
        looked_at.chain(&HAPPENED).copied().filter(|what| self.of(what) == 0).collect()
    }
}
