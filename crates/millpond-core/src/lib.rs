//! The deterministic state machine of Millpond: commands in, facts and outputs out.
//!
//! ```text
//! command ──► decide ──► facts ──► apply ──► state
//!                │         └──► the journal, by the shell
//!                └──► outputs, held by the shell until the facts are durable
//! ```
//!
//! The core does no IO: no clock, socket, file, thread or randomness. Time is handed in. The same commands at the same
//! times give the same facts, and the same facts give the same state, whatever of it is in memory. `#![no_std]` holds
//! the first of these up, and the tests replay every history to hold up the second.
//!
//! See [`Core`] for the contract of a turn.
#![no_std]

extern crate alloc;

mod advance;
mod apply;
pub mod command;
mod core_turn;
mod decide;
mod dispatch;
mod eviction;
pub mod fact;
mod fetch;
pub mod invariants;
mod jobs;
mod left_behind;
mod marks;
pub mod outcomes;
pub mod output;
pub mod page;
mod pages;
mod parking;
mod replay;
pub mod routing;
mod run;
mod saving;
mod state;
pub mod store;
mod time_index;

pub use core_turn::{Core, Decision};
pub use dispatch::living::CLIENT_BYTES;
pub use dispatch::watch::WATCH_EVERY;
pub use pages::BadPage;
pub use state::Now;
pub use state::bounds::LevelBounds;
pub use state::hash::{NEIGHBOURS, beside, dedup_hash};
