//! What connections hold: sessions, consumers, open receives, and the names in their filters. How many bytes of memory that
//! takes, about, and how many it may.
//!
//! Invariant: what nobody uses any more goes before anybody is refused for want of room.

use millpond_types::TopicName;

use crate::dispatch::Dispatcher;
use crate::state::setup::{BUFFER, in_map};

/// A session, in the core and in the tables of the edge.
const SESSION: usize = 512;
/// A consumer or an open receive: itself, its places in the tables by time, ticket and request, among the hungry of its
/// scope and at its connection, in tables that are half empty.
const CONSUMER: usize = 512;
/// What a session with a consumer takes, beside a scope that it has in common with others.
pub const CLIENT_BYTES: usize = SESSION + CONSUMER;

/// A scope, with turns at a priority and in the tables of its group.
const SCOPE: usize = 768;
/// What a name in a filter takes beside its bytes: in the scope, in the table of scopes and in that of names, each with a list
/// of scopes, and what its topic is offered at.
const NAME: usize = 320;

/// A scope with such names.
pub(super) fn of_scope<'a>(names: impl Iterator<Item = &'a TopicName>) -> usize {
    SCOPE + names.map(|name| NAME + BUFFER + name.as_bytes().len()).sum::<usize>()
}

impl Dispatcher {
    /// What all of it takes.
    pub(crate) fn living_bytes(&self) -> usize {
        self.consumers.len() * CONSUMER + self.sessions.len() * SESSION + self.scopes.bytes()
    }

    /// Whether another session has room, once scopes that nobody uses have made it.
    pub(crate) fn has_room_for_session(&mut self) -> bool {
        self.make_room_for(SESSION)
    }

    /// How many bytes the scope of another consumer may take; `None` if there is no room even for one that is there already.
    pub(super) fn room_for_scope(&mut self) -> Option<usize> {
        self.make_room_for(CONSUMER).then(|| self.living_max - self.living_bytes() - CONSUMER)
    }

    fn make_room_for(&mut self, bytes: usize) -> bool {
        while self.living_bytes().saturating_add(bytes) > self.living_max {
            if !self.scopes.drop_idle() {
                return false;
            }
        }
        true
    }

    /// The scopes are summed up, and those that nobody uses are known.
    pub(crate) fn check_living(&self) {
        self.scopes.check_living();
    }
}

const _: () = assert!(in_map::<TopicName>() * 2 < NAME, "two tables know each name");
