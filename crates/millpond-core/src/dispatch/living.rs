//! What connections hold: sessions, consumers, open receives, and the names in their filters. How many bytes of memory that
//! takes, about, and how many it may.
//!
//! A client, which is a session or else a connection with its receives, is charged for all that it asks for, also where others
//! ask for the same; what all of them take counts that once.
//!
//! Half of the room is for clients that hold little ([`LITTLE`]), whatever others hold: what takes a client beyond that has to
//! fit the other half, and leave as much of it free as the client holds.
//!
//! A session that a start has found counts when its client comes back: it may be one of many from a time with more memory, and
//! those that do not come back are over in seconds. Who comes back is not refused, and has a connection, of which there are not
//! more than memory for them.
//!
//! A lost session that holds neither leases nor an office is a promise that it may be resumed and nothing else. So it takes room
//! only while nobody else needs it: otherwise whoever begins session after session and closes its connections would shut all
//! others out for as long as these may be resumed.
//!
//! Invariant: what nobody uses any more goes before anybody is refused for want of room, scopes first.

use alloc::collections::BTreeMap;

use millpond_types::limits::TOPIC_NAME_MAX;
use millpond_types::{Filter, SessionId, TopicName};

use crate::dispatch::Dispatcher;
use crate::state::setup::{BUFFER, in_map};

/// A session, in the core and in the tables of the edge.
const SESSION: usize = 512;
/// A consumer or an open receive: itself, its places in the tables by time, ticket and request, among the hungry of its
/// scope and at its connection, in tables that are half empty.
const CONSUMER: usize = 512;
/// What a session with a consumer takes, beside a scope that it has in common with others.
pub const CLIENT_BYTES: usize = SESSION + CONSUMER;

/// What a client may hold for as long as there is any room: a consumer of a few topics, or of one with the longest name.
const LITTLE: usize = 3 * 1024;

/// A scope, with turns at a priority and in the tables of its group.
const SCOPE: usize = 768;
/// What a name in a filter takes beside its bytes: in the scope, in the table of scopes and in that of names, each with a list
/// of scopes, and what its topic is offered at.
const NAME: usize = 320;

/// Who sets up consumers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Client {
    /// For those that are attached.
    Session(SessionId),
    /// For its open receives.
    Connection(u64),
}

/// What the client of a consumer with such a filter is charged.
pub(super) fn of_consumer(filter: &Filter) -> usize {
    match filter {
        Filter::All => CONSUMER,
        Filter::Topics(names) | Filter::Prefixes(names) => CONSUMER + of_scope(names.iter()),
    }
}

/// A scope with such names.
pub(super) fn of_scope<'a>(names: impl Iterator<Item = &'a TopicName>) -> usize {
    SCOPE + names.map(|name| NAME + BUFFER + name.as_bytes().len()).sum::<usize>()
}

impl Dispatcher {
    /// What all of it takes.
    pub(crate) fn living_bytes(&self) -> usize {
        let sessions = self.sessions.len() - self.found;
        self.consumers.len() * CONSUMER + sessions * SESSION + self.scopes.bytes()
    }

    /// What the consumers of a client are charged.
    pub(super) fn held_by(&self, client: Client) -> usize {
        self.clients.get(&client).copied().unwrap_or(0)
    }

    pub(super) fn charge(&mut self, client: Client, bytes: usize) {
        *self.clients.entry(client).or_default() += bytes;
    }

    pub(super) fn discharge(&mut self, client: Client, bytes: usize) {
        let held = self.clients.get_mut(&client).expect("who sets something up is charged for it");
        *held -= bytes;
        if *held == 0 {
            self.clients.remove(&client);
        }
    }

    /// Whether a client holds little, or no more than is free for others that do not.
    pub(super) fn leaves_room(&mut self, client: Client) -> bool {
        let held = self.held_by(client);
        while held > LITTLE && held > self.free_for_much() {
            let would_leave = held + self.staying_bytes() <= self.room_for_much();
            let has_made_room = self.scopes.drop_idle() || would_leave && self.drop_yielding();
            if !has_made_room {
                return false;
            }
        }
        true
    }

    /// What all of it takes but lost sessions that give way.
    fn staying_bytes(&self) -> usize {
        self.living_bytes() - self.yielding.len() * SESSION
    }

    /// Bytes that all may take together who hold more than a little.
    pub(crate) fn room_for_much(&self) -> usize {
        self.living_max / 2
    }

    /// How many of these are free.
    pub(crate) fn free_for_much(&self) -> usize {
        self.room_for_much().saturating_sub(self.living_bytes())
    }

    /// Whether another session has room, once what nobody uses has made it.
    pub(crate) fn has_room_for_session(&mut self) -> bool {
        self.make_room_for(SESSION)
    }

    /// How many bytes the scope of another consumer may take; `None` if there is no room even for one that is there already.
    pub(super) fn room_for_scope(&mut self) -> Option<usize> {
        self.make_room_for(CONSUMER).then(|| self.living_max - self.living_bytes() - CONSUMER)
    }

    fn make_room_for(&mut self, bytes: usize) -> bool {
        while self.living_bytes().saturating_add(bytes) > self.living_max {
            let would_fit = self.staying_bytes().saturating_add(bytes) <= self.living_max;
            let has_made_room = self.scopes.drop_idle() || would_fit && self.drop_yielding();
            if !has_made_room {
                return false;
            }
        }
        true
    }

    /// Lets lost sessions give way to a consumer whose scope had no room. Whether it may have some now.
    pub(super) fn give_way_to(&mut self, filter: &Filter) -> bool {
        !self.yielding.is_empty() && self.make_room_for(of_consumer(filter))
    }

    /// The scopes are summed up, those that nobody uses are known, and clients are charged for what they set up.
    pub(crate) fn check_living(&self) {
        self.scopes.check_living();
        self.reach.check_known_bytes();
        assert_eq!(self.count_found(), self.found, "sessions that a start has found are counted");
        let mut charged: BTreeMap<Client, usize> = BTreeMap::new();
        for (_, consumer) in &self.consumers {
            *charged.entry(consumer.client()).or_default() += consumer.weight;
        }
        assert_eq!(charged.len(), self.clients.len(), "who holds nothing is forgotten");
        assert!(
            charged.iter().all(|(client, bytes)| self.held_by(*client) == *bytes),
            "clients are charged what they hold"
        );
    }
}

const _: () = assert!(in_map::<TopicName>() * 2 < NAME, "two tables know each name");
const _: () = assert!(CONSUMER + SCOPE + NAME + BUFFER + TOPIC_NAME_MAX <= LITTLE, "any topic is little");
