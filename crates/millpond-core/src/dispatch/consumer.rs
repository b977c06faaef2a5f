//! Consumers: attached ones, and one-shot receives, which are consumers that are served once.

use alloc::vec::Vec;

use millpond_types::{Filter, Millis, RunTime, SessionId};

use crate::command::Ticket;
use crate::dispatch::living::{self, Client};
use crate::dispatch::offices::Seat;
use crate::dispatch::repeats::Repeatable;
use crate::dispatch::scope::ScopeSlot;
use crate::dispatch::scopes::NoScope;
use crate::dispatch::{ConsumerSlot, Dispatcher};
use crate::fact::GroupNumber;
use crate::output::LeasedRun;
use crate::state::State;

pub(crate) struct Consumer {
    pub(crate) kind: Kind,
    pub(crate) group: GroupNumber,
    pub(crate) seat: Seat,
    /// What it is served from.
    pub(super) scope: ScopeSlot,
    /// Whether it stands among the hungry of its scope.
    pub(crate) queued: bool,
    /// Whether it waits until its session holds less, and stands there for as long no more.
    pub(crate) is_rationed: bool,
    /// Messages that may still be delivered.
    pub(crate) messages: u32,
    /// Bytes that may still be delivered; less than nothing where the last message took more than were left.
    pub(crate) bytes: i64,
    pub(crate) lease: Option<Millis>,
    pub(crate) at_most_once: bool,
    /// What this turn has given it.
    pub(crate) got: Vec<LeasedRun>,
    /// How much the last delivery was: the next one is probably no larger.
    pub(crate) last_count: usize,
    /// What its client is charged for it.
    pub(super) weight: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Belongs to a session, under a number.
    Attached { session: SessionId, number: u32 },
    /// Is answered once.
    Once { ticket: Ticket, until: RunTime, repeat: Option<Repeatable> },
}

impl Consumer {
    pub(crate) fn is_hungry(&self) -> bool {
        self.messages > 0 && self.bytes > 0 && self.seat.is_served()
    }

    /// Whether it is given only what it has bytes for: a receive that has its first message.
    pub(crate) fn is_exact(&self) -> bool {
        matches!(self.kind, Kind::Once { .. }) && !self.got.is_empty()
    }

    /// Who set it up.
    pub(super) fn client(&self) -> Client {
        match self.kind {
            Kind::Attached { session, .. } => Client::Session(session),
            Kind::Once { ticket, .. } => Client::Connection(ticket.client()),
        }
    }

    /// The session that holds what it is given; zero for a receive.
    pub(crate) fn holder(&self) -> SessionId {
        match self.kind {
            Kind::Attached { session, .. } => session,
            Kind::Once { .. } => SessionId(0),
        }
    }
}

/// What a new consumer is made of.
pub(crate) struct NewConsumer<'a> {
    pub(crate) kind: Kind,
    pub(crate) group: GroupNumber,
    pub(crate) seat: Seat,
    pub(crate) filter: &'a Filter,
    pub(crate) messages: u32,
    pub(crate) bytes: u64,
    pub(crate) lease: Option<Millis>,
    pub(crate) at_most_once: bool,
}

impl Dispatcher {
    /// Refused where there is no room for it or for what its filter asks for, its client would leave too little for others, or
    /// not as many prefixes are left.
    pub(crate) fn add(&mut self, new: NewConsumer<'_>, state: &State) -> Result<ConsumerSlot, NoScope> {
        let scope = match self.open_scope(&new, state) {
            Err(NoScope::Room) if self.give_way_to(new.filter) => self.open_scope(&new, state),
            opened => opened,
        }?;
        let consumer = Consumer {
            kind: new.kind,
            group: new.group,
            seat: new.seat,
            scope,
            queued: false,
            is_rationed: false,
            messages: new.messages,
            bytes: i64::try_from(new.bytes).unwrap_or(i64::MAX),
            lease: new.lease,
            at_most_once: new.at_most_once,
            got: Vec::new(),
            last_count: 0,
            weight: living::of_consumer(new.filter),
        };
        let client = consumer.client();
        self.charge(client, consumer.weight);
        let slot = self.consumers.insert(consumer) as ConsumerSlot;
        match new.kind {
            Kind::Attached { session, .. } => {
                self.sessions.get_mut(&session).expect("a consumer's session is there").consumers.push(slot);
            }
            Kind::Once { ticket, until, repeat } => {
                self.waiting.insert((until, slot));
                self.receives.insert(ticket, slot);
                if let Some(receive) = repeat {
                    self.repeats.asked(ticket, receive);
                }
            }
        }
        if !self.leaves_room(client) {
            self.remove(slot);
            return Err(NoScope::Share { held: self.held_by(client) });
        }
        self.feed(slot);
        Ok(slot)
    }

    fn open_scope(&mut self, new: &NewConsumer<'_>, state: &State) -> Result<ScopeSlot, NoScope> {
        let room = self.room_for_scope().ok_or(NoScope::Room)?;
        self.scopes.open(new.group, new.filter, (state, &self.reach), room)
    }

    pub(crate) fn remove(&mut self, slot: ConsumerSlot) -> Consumer {
        self.off_ration(slot);
        let consumer = self.consumers.remove(slot as usize);
        self.scopes.close(consumer.scope, slot, consumer.queued);
        self.discharge(consumer.client(), consumer.weight);
        match consumer.kind {
            Kind::Attached { session, .. } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.consumers.retain(|other| *other != slot);
                }
                if consumer.seat != Seat::Shared {
                    self.left_seat(session, consumer.group);
                }
            }
            Kind::Once { ticket, until, repeat } => {
                self.waiting.remove(&(until, slot));
                self.receives.remove(&ticket);
                if let Some(receive) = repeat {
                    self.repeats.over(receive.key);
                }
            }
        }
        consumer
    }

    /// Lets a consumer with credit stand among the hungry of its scope.
    pub(crate) fn feed(&mut self, slot: ConsumerSlot) {
        let consumer = &mut self.consumers[slot as usize];
        if consumer.is_hungry() && !consumer.is_rationed && !core::mem::replace(&mut consumer.queued, true) {
            self.scopes.feed(consumer.scope, slot);
        }
    }

    /// The consumer of a session with a number.
    pub(crate) fn attached(&self, session: SessionId, number: u32) -> Option<ConsumerSlot> {
        let wanted = Kind::Attached { session, number };
        let slots = &self.sessions.get(&session)?.consumers;
        slots.iter().copied().find(|slot| self.consumers[*slot as usize].kind == wanted)
    }

    /// Whether what comes next for a consumer is being read.
    pub(crate) fn is_held(&self, slot: ConsumerSlot) -> bool {
        self.scopes.slots[self.consumers[slot as usize].scope as usize].is_held
    }
}
