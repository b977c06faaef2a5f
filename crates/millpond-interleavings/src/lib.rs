//! The modules of Millpond whose threads wait for one another, under a scheduler that tries many orders.
//!
//! They are compiled here a second time, from the files of their crates, with `sync` in the place of those crates' own: with
//! shuttle's primitives for those of `std`. So the code is the one that runs, and the crates that run it know nothing of this.
//! A scenario is a function of a few threads; `tests/orders.rs` has each run in many orders, always the same ones.
//!
//! Invariant: no wait here ends by time. A wake-up that is lost leaves threads that wait for ever, which the scheduler tells as a
//! deadlock, with the order in which it came to that.
//!
//! Left to others: what the modules do where nobody gets in between (their own tests), and what of tokio they stand on: its
//! semaphores and notices are taken here as single steps. Memory that is seen late by another core is not tried: that concerns
//! flags (the bell closes, the disk is full, writing is hurried) and counts (credit, bytes that nobody has read, wrong receipts,
//! requests that are undecided), each
//! of which stands for itself; all else that is shared lies under a mutex.

// Clippy looks at tests even where there are none to run: those of the modules below are not for this scheduler.
#![cfg(not(test))]

pub mod housekeeping;
pub mod layers;
mod lines;
pub mod queue;
pub mod segments;
pub mod sessions;
mod sync;
pub mod takeover;

use millpond_storage::tree::{Tree, TreeError};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

#[allow(dead_code, reason = "the storage uses more of it")]
#[path = "../../millpond-storage/src/journal/bell.rs"]
mod bell;
#[allow(dead_code, reason = "the storage uses more of it")]
#[path = "../../millpond-storage/src/tree/compactor.rs"]
mod compactor;
/// What of the storage only reckons.
mod codec {
    pub(crate) use millpond_storage::codec::{decode_entry, encode_entry};
}
#[allow(dead_code, reason = "the server uses more of it")]
#[path = "../../millpond-server/src/session/credit.rs"]
mod credit;
#[allow(dead_code, reason = "the server uses more of it")]
#[path = "../../millpond-server/src/session/outbox.rs"]
mod outbox;
#[allow(dead_code, reason = "the server uses more of it")]
#[path = "../../millpond-server/src/session/registry.rs"]
mod registry;
#[allow(dead_code, reason = "the server uses more of it")]
#[path = "../../millpond-server/src/session/room.rs"]
mod room;
#[allow(dead_code, reason = "the storage uses more of it")]
#[path = "../../millpond-storage/src/journal/spares.rs"]
mod spares;
#[allow(dead_code, unused_imports, reason = "the storage uses more of it")]
#[path = "../../millpond-storage/src/store/mod.rs"]
mod store;
#[path = "../../millpond-storage/src/journal/tail.rs"]
mod tail;
#[allow(dead_code, reason = "the server uses more of it")]
#[path = "../../millpond-server/src/session/ticket.rs"]
mod ticket;
/// The tree itself, in memory and in single steps, and the compactor of above.
mod tree {
    pub(crate) use crate::compactor::Compactor;
    pub(crate) use millpond_storage::tree::{CommitHead, Tree, TreeError, dedup_until};
}
#[allow(dead_code, reason = "the server uses more of it")]
#[path = "../../millpond-server/src/session/turns.rs"]
mod turns;
#[allow(dead_code, unused_imports, reason = "the server uses more of it")]
#[path = "../../millpond-server/src/update_queue/mod.rs"]
mod update_queue;
#[allow(dead_code, reason = "the server uses more of it")]
#[path = "../../millpond-server/src/session/uses.rs"]
mod uses;

/// Orders in which a scenario is run by each of the two ways to choose them, unless `ORDERS` says otherwise.
const ORDERS: usize = 1000;
/// How often the second way goes against its own preference, where it matters most: a mistake seldom takes more.
const SURPRISES: usize = 3;
/// Which orders these are.
const SEED: u64 = 2026;

/// Runs a scenario in many orders: each step drawn anew, and then by threads that have preferences, which comes to what takes a
/// thread that stands still for long. What goes wrong is told with the order, which `shuttle::replay` takes.
pub fn in_many_orders(scenario: fn()) {
    let orders = std::env::var("ORDERS").map_or(ORDERS, |orders| orders.parse().expect("a number"));
    Runner::new(RandomScheduler::new_from_seed(SEED, orders), Config::new()).run(scenario);
    Runner::new(PctScheduler::new_from_seed(SEED, SURPRISES, orders), Config::new()).run(scenario);
}
