//! Simulated lives of a broker, each from a seed.
//!
//! ```text
//!             streams ──► plan
//!                │
//! clients ──┬──► world ──► broker (the server's: connections, writer, journal) ──► twin disk
//!    ▲      └─ wires ─┘         │ facts, seen from the stage                           ▲
//!    │       (frames)           ├──► ledger ◄── lost, back, stuck, audit   losses ─────┘
//!    └────── told ◄───┘         └──► promises ◄──► model
//! ```
//!
//! One thread to a life, one clock, one source of randomness: the same seed leads to the same life, byte by byte. The clients do
//! what clients do and more; the broker is the server's own, without threads: what a thread would do is a step; the process and
//! the power go at any step, in mid-operation, and in the start after that;
//! the disk tears, reorders and loses what was not synced, stands still, fails and fills up; the network splits, delays and
//! cuts. Checkers, one for each promise, hold the facts and what clients were told against two plain models that read all
//! facts along.
//!
//! What it leaves to others: sockets, threads and real files (the tests of `millpond-server` and `millpond`), and
//! damage of what was synced (the tests of `millpond-storage`).

mod audit;
mod back;
mod bodies;
mod broker;
mod canary;
mod candidates;
mod clients;
mod clock;
mod consumer;
mod copies;
mod drain;
mod forwards;
mod hand;
mod ledger;
mod losses;
mod lost;
mod model;
mod offices;
mod operator;
pub mod patience;
mod plan;
mod producer;
mod promises;
mod range;
mod receiver;
mod sights;
mod stage;
mod streams;
mod stuck;
mod subscribers;
mod tape;
mod told;
mod verdict;
mod versioned;
mod wires;
mod world;
mod wreck;

pub use canary::{CANARIES, Canary};
pub use range::{Led, Range};
pub use sights::{EVERY_LIFE, HAPPENED, LOOKED_AT, Sights};
pub use verdict::{Checker, Violation};

#[cfg(test)]
mod tests;

/// Steps of a life before it is brought to its end.
pub const STEPS: u64 = 1700;

/// How to lead a life.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Steps before everything is brought to its end.
    pub steps: u64,
    /// A fault put in on purpose.
    pub canary: Option<Canary>,
    /// Whether to print all that happens.
    pub trace: bool,
    /// Whether to tell the hash of the life.
    pub hashed: bool,
}

impl Options {
    /// The command that leads lives of these options again, but for which they are.
    pub fn again(&self) -> String {
        let mut command = "cargo run --release -p millpond-sim --".to_owned();
        if self.steps != STEPS {
            command += &format!(" --steps {}", self.steps);
        }
        if let Some(canary) = self.canary {
            command += &format!(" --canary {}", canary.name());
        }
        command
    }
}

impl Default for Options {
    fn default() -> Self {
        Options { steps: STEPS, canary: None, trace: false, hashed: true }
    }
}

/// How a life went.
pub struct Life {
    /// The first promise that was broken.
    pub verdict: Result<(), Violation>,
    /// The hash of the history and of the disk, if it was asked for: the same for the same seed and options.
    pub hash: Option<u64>,
    /// What was seen.
    pub sights: Sights,
}

/// Leads the life of a seed.
///
/// # Panics
/// If an assertion of the core or the storage fails.
pub fn live(seed: u64, options: Options) -> Life {
    let _led = patience::begins(seed, &options);
    let mut world = world::World::new(seed, options);
    let verdict = world.live();
    let sights = world.sights();
    let long_enough = options.steps >= STEPS;
    let verdict = verdict.and_then(|()| if long_enough { sights.check_life() } else { Ok(()) });
    Life { verdict, hash: world.hash(), sights }
}
