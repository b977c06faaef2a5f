//! Connections of clients. Each is one task: it reads frames and submits commands, and it takes what is in its outbox
//! and writes frames.
//!
//! [`conversation`] is what a connection says and hears, [`connection`] when, both without IO; [`socket`] moves its bytes.
//! The writer never waits for a connection: outputs go into outboxes ([`outbox`]) that [`registry`] finds, and everything
//! that a connection may make the broker hold is bounded ([`credit`], [`open`], [`outbox`], [`room`]), as is what it may
//! do while others wait ([`turns`]).

pub(crate) mod connection;
pub(crate) mod conversation;
pub(crate) mod credit;
mod frames;
pub(crate) mod intake;
pub(crate) mod known;
mod open;
pub(crate) mod outbox;
pub(crate) mod registry;
pub(crate) mod room;
pub(crate) mod socket;
pub(crate) mod ticket;
mod toll;
pub(crate) mod turns;
pub(crate) mod uses;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use millpond_core::output::Reply;
use millpond_protocol::Limits;
use millpond_storage::store::LayeredStore;

use crate::bodies::Bodies;
use crate::convert::request::HashKey;
use crate::health::Health;
use crate::memory::Shares;
use crate::metrics::Metrics;
use crate::update_queue::Submitter;
use crate::writer::Request;

use conversation::lengthy::Rooms;
use credit::Windows;
use intake::Receiving;
pub(crate) use known::Known;
pub(crate) use registry::Registry;
use room::Room;
use turns::Turns;

/// What the writer and connections share.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) registry: Arc<Registry>,
    pub(crate) known: Arc<Known>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    pub(crate) turns: Arc<Turns>,
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) writer: Submitter<Request, Reply>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) known: Arc<Known>,
    pub(crate) bodies: Bodies,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health: Arc<Health>,
    pub(crate) hash_key: HashKey,
    pub(crate) limits: Limits,
    /// The number of the program's own next receive, so that it is not withdrawn with another one. Those of connections have none,
    /// which is zero.
    pub(crate) receives: AtomicU64,
    /// The line of connections that have much to do.
    pub(crate) turns: Arc<Turns>,
    /// Room for frames that are not whole yet.
    pub(crate) receiving: Receiving,
    /// Room for frames that wait to be written.
    pub(crate) sending: Arc<Room>,
    /// Messages that the core may have delivered and no connection has written.
    pub(crate) windows: Arc<Windows>,
    /// What the core keeps outside of its memory, for the metrics.
    pub(crate) store: LayeredStore,
    /// Bytes of publishes that connections hold because the writer's lane is full, over all connections.
    pub(crate) held: AtomicUsize,
    /// Above this many, connections that hold publishes stop reading.
    pub(crate) held_max: usize,
    /// Room for the rows of answers at length.
    pub(crate) lengthy: Rooms,
    /// Above so many bytes of answers that are not written, who has more than a few of them is not read.
    pub(crate) unread_max: usize,
    /// How many connections the memory is enough for.
    pub(crate) connections_max: usize,
}

impl Common {
    /// Of a broker that begins.
    pub(crate) fn new(registry: Registry) -> Common {
        let (known, metrics, health) = (Known::default(), Metrics::new(), Health::default());
        let (registry, known) = (Arc::new(registry), Arc::new(known));
        let (metrics, health, turns) = (Arc::new(metrics), Arc::new(health), Arc::new(Turns::new()));
        Common { registry, known, metrics, health, turns }
    }
}

impl Shared {
    /// With as much room as the shares are.
    pub(crate) fn new(
        common: Common,
        (writer, bodies): (Submitter<Request, Reply>, Bodies),
        (hash_key, limits): (HashKey, Limits),
        store: LayeredStore,
        shares: &Shares,
    ) -> Shared {
        let Common { registry, known, metrics, health, turns } = common;
        Shared {
            writer,
            registry,
            known,
            bodies,
            metrics,
            health,
            hash_key,
            limits,
            receives: AtomicU64::new(1),
            turns,
            receiving: Receiving::new(shares.receiving, shares.held),
            sending: Room::new(shares.sending),
            windows: Arc::new(Windows::new(shares.windows)),
            store,
            held: AtomicUsize::new(0),
            held_max: shares.held,
            lengthy: Rooms::new(shares.unread),
            unread_max: shares.unread,
            connections_max: shares.connections,
        }
    }
}
