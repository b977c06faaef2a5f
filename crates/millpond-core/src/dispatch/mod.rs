//! Who gets what: consumers, the scopes that they are served from, and the turn that brings both together.
//!
//! What is ready stands in the order of topics ([`crate::state::order`]). All else here belongs to connections: nothing
//! of it is journaled, and after a start consumers attach again.

mod cold;
pub(crate) mod consumer;
mod domain;
mod fair;
pub(crate) mod living;
mod measure;
pub(crate) mod offices;
pub(crate) mod rations;
pub(crate) mod reach;
mod remembered;
pub(crate) mod repeats;
pub(crate) mod scope;
pub(crate) mod scopes;
mod serve;
pub(crate) mod session;
mod stretches;
mod sweep;
mod touched;
mod turns;
mod view;
pub(crate) mod watch;

#[cfg(test)]
mod tests;

use alloc::collections::BTreeSet;

use hashbrown::HashMap;
use millpond_types::{RunTime, SessionId};
use slab::Slab;

use crate::command::Ticket;
use crate::dispatch::consumer::Consumer;
use crate::dispatch::living::Client;
use crate::dispatch::measure::Measure;
use crate::dispatch::offices::Offices;
use crate::dispatch::rations::Rations;
use crate::dispatch::reach::Reach;
use crate::dispatch::repeats::Repeats;
use crate::dispatch::scopes::Scopes;
use crate::dispatch::session::Session;
use crate::dispatch::watch::Watch;
use crate::state::hash::FixedState;

/// A consumer's place in memory.
pub(crate) type ConsumerSlot = u32;

#[derive(Default)]
pub(crate) struct Dispatcher {
    pub(crate) consumers: Slab<Consumer>,
    pub(crate) scopes: Scopes,
    /// Whether turns have passed in this turn because the ends of messages are held.
    pub(crate) has_passed: bool,
    pub(crate) measure: Measure,
    /// In how many turns one after the other something was on its way to somebody that was not being read, and none of them
    /// had leased enough: the invariants hold that it comes.
    pub(crate) turns_held: u32,
    pub(crate) reach: Reach,
    /// Of exclusive groups.
    pub(crate) offices: Offices,
    pub(crate) sessions: HashMap<SessionId, Session, FixedState>,
    /// How many of them a start has found and nobody has come back to.
    pub(crate) found: usize,
    /// Sessions whose connection is gone, by the time at which they expire.
    pub(crate) losing: BTreeSet<(RunTime, SessionId)>,
    /// Those of them that hold neither leases nor an office, by the time at which they were lost: where room is short they
    /// give way, the first one first.
    pub(crate) yielding: BTreeSet<(RunTime, SessionId)>,
    /// One-shot receives, by the time at which they give up.
    pub(crate) waiting: BTreeSet<(RunTime, ConsumerSlot)>,
    pub(crate) receives: HashMap<Ticket, ConsumerSlot, FixedState>,
    /// Receives that may be asked for again.
    pub(crate) repeats: Repeats,
    pub(crate) rations: Rations,
    pub(crate) watch: Watch,
    /// What the consumers of each client take.
    pub(crate) clients: HashMap<Client, usize, FixedState>,
    /// Bytes that all may take which connections hold here.
    pub(crate) living_max: usize,
    /// No lease expires before: the start of the broker and some grace, so that consumers can come back.
    pub(crate) grace: RunTime,
}
