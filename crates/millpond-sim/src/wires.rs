//! Connections of those clients that speak the protocol: real frames through the broker's real edges, over a network that
//! delays and splits bytes, falls silent in one direction or both, and cuts.
//!
//! A client listens to one wire at a time. What was on its way on one that it gave up may still reach the broker, behind
//! the first frames of the next one; and where the broker has not noticed, it goes on telling nobody. What a client hears
//! goes past the same checkers as what others are told, and the bodies that come out of a frame have to be those that
//! were sent.

mod asked;
mod end;
mod spoken;
mod users;
mod wire;

use std::collections::BTreeSet;
use std::time::Instant;

use bytes::Bytes;
use millpond_core::command::Command;
use millpond_core::output::{Notice, Output, Reply};
use millpond_protocol::LeasedRun;
use millpond_types::{MessageId, SessionId};

use crate::audit::compare;
use crate::bodies::tags_of;
use crate::broker::Broker;
use crate::canary::Canary;
use crate::clients::{Asked, Client, Request};
use crate::forwards::Forwards;
use crate::hand::Verb;
use crate::promises::{letters, told};
use crate::sights::Sights;
use crate::streams::Stream;
use crate::tape::Brief;
use crate::verdict::Violation;
use crate::world::World;

use asked::OnTheirWay;
use end::Heard;
use users::Users;
use wire::Wire;

/// Times that connections want messages read between two in which a read fails, about, on a disk that is bad.
const BODIES_FAIL: u64 = 3;

/// See the module.
pub struct Wires {
    wires: Vec<Wire>,
    on_their_way: OnTheirWay,
    users: Users,
    /// Whether all bytes arrive at once.
    is_smooth: bool,
    /// The directory's, with which dedup ids are found.
    hash_key: [u64; 2],
    canary: Option<Canary>,
}

impl Wires {
    /// Of a broker that has not begun.
    pub fn new(hash_key: [u64; 2], canary: Option<Canary>) -> Wires {
        Wires {
            wires: Vec::new(),
            on_their_way: OnTheirWay::default(),
            users: Users::default(),
            is_smooth: false,
            hash_key,
            canary,
        }
    }

    /// All connections are gone, with what was on its way.
    pub fn close(&mut self) {
        self.wires.clear();
        self.on_their_way = OnTheirWay::default();
        self.users = Users::default();
    }

    /// From here on the network is as it should be.
    pub fn smooth(&mut self) {
        self.is_smooth = true;
    }

    /// A connection asks the core for something. It is what its client has asked for, and in its order.
    pub fn asks(&mut self, connection: u64, command: &Command, sights: &mut Sights) -> Result<(), Violation> {
        self.on_their_way.comes(connection, command, sights)?;
        let heard = self.wires.iter().filter(|wire| wire.is_heard()).filter_map(Wire::number).collect();
        self.users.comes(connection, command, &heard, sights)?;
        if let Command::Heartbeat { except, .. } = command {
            sights.saw("heartbeats in frames");
            sights.saw_many("heartbeats in frames with exceptions", u64::from(!except.is_empty()));
        }
        Ok(())
    }

    /// What the core says to the broker's end.
    pub fn note(&mut self, notices: &[Notice]) {
        self.users.note(notices);
    }

    /// The numbers of the connections that the broker has.
    pub fn numbers(&self) -> BTreeSet<u64> {
        self.wires.iter().filter_map(Wire::number).collect()
    }

    /// A client was told that its session has begun. Another connection has lost it to that.
    fn begun(&mut self, client: Client, session: SessionId) {
        for wire in self.wires.iter_mut().filter(|wire| wire.client == client) {
            if wire.is_heard() { wire.begun(session) } else { wire.taken_over(session) }
        }
    }

    /// Whether the broker has not noticed of some client that it has gone.
    pub fn any_half_open(&self) -> bool {
        self.wires.iter().any(Wire::is_half_open)
    }

    /// What somebody who still listens has asked and is not told.
    pub fn unanswered(&self) -> Option<&Asked> {
        self.wires.iter().flat_map(Wire::open).next()
    }

    /// A client asks for something, on the wire that it listens to or a new one.
    fn post(
        &mut self,
        client: Client,
        request: Request,
        (broker, now): (&mut Broker, Instant),
        network: &mut Stream,
        sights: &mut Sights,
    ) {
        let listens = self.wires.iter().position(|wire| wire.client == client && wire.is_heard());
        if let Command::SessionLost(_) = request.command {
            if let Some(at) = listens {
                self.wires[at].give_up(!self.is_smooth && network.one_in(2), sights);
            }
            return;
        }
        let at = listens.unwrap_or_else(|| {
            self.wires.push(Wire::new(client, broker.connect(), self.hash_key, now));
            self.wires.len() - 1
        });
        // What the broker has closed asks for nothing any more.
        if let Some(connection) = self.wires[at].number() {
            self.on_their_way.ask(connection, &request.command);
            self.users.asks(connection, &request.command);
        }
        self.wires[at].ask(request, self.canary);
    }

    /// Carries bytes both ways, as many as the network is in the mood for: what clients hear, and whether anything moved.
    fn carry(
        &mut self,
        now: Instant,
        network: &mut Stream,
        sights: &mut Sights,
    ) -> Result<(Vec<(Client, Heard)>, bool), Violation> {
        let (mut heard, mut moved) = (Vec::new(), false);
        for wire in &mut self.wires {
            let was_heard = wire.is_heard();
            wire.turn(self.is_smooth, network, sights);
            if was_heard && !wire.is_heard() {
                heard.push((wire.client, Heard::Lost));
            }
            let edge_now = self.canary.map_or(now, |canary| canary.stops_the_clock(now, wire.left_at()));
            moved |= wire.carry((now, edge_now), network, sights)?;
            let (client, number) = (wire.client, wire.opened);
            let (told, refused) = wire.hear(network, sights)?;
            refused.iter().try_for_each(|name| self.users.refused(number, name, sights))?;
            heard.extend(told.into_iter().map(|heard| (client, heard)));
        }
        self.wires.retain(Wire::is_there);
        Ok((heard, moved))
    }
}

impl World {
    /// Clients that speak the protocol say what they have to say, bytes travel, and they hear what has come. False if
    /// nothing did.
    pub(crate) fn exchange(&mut self) -> Result<bool, Violation> {
        let now = self.clock.now();
        self.plan_read(BODIES_FAIL);
        let broker = self.broker.as_mut().expect("the broker runs");
        broker.read();
        self.sights.saw_many("messages that could not be read", u64::from(self.disk.unplan_read()));
        self.wires.users.look(&self.promises.model, &self.wires.numbers());
        let mut posted = self.clients.posted();
        posted.extend(self.subscribers.posted());
        let mut moved = !posted.is_empty();
        for (client, request) in posted {
            self.tape.note(format_args!("{client:?} {}", Brief(&request.command)));
            asks(&request.asked, &mut self.forwards, &mut self.sights);
            self.wires.post(client, request, (broker, now), &mut self.streams.network, &mut self.sights);
        }
        let (heard, carried) = self.wires.carry(now, &mut self.streams.network, &mut self.sights)?;
        moved |= carried || !heard.is_empty();
        for (client, heard) in heard {
            self.tape.note(format_args!("{client:?} hears {heard:?}"));
            self.hears(client, heard)?;
        }
        Ok(moved)
    }

    fn hears(&mut self, client: Client, heard: Heard) -> Result<(), Violation> {
        match heard {
            Heard::Reply(asked, reply) => {
                self.sights.saw("answers in frames");
                if let Asked::Subscriber(of) = &asked {
                    self.sights.saw_many("routed in frames", u64::from(is_routed(&reply)));
                    return self.tell_subscriber(of, &reply);
                }
                if let (Asked::Begin { session, .. }, Reply::SessionBegun { .. }) = (&asked, &reply) {
                    self.wires.begun(client, *session);
                }
                self.judge(&asked, &reply)?;
                self.clients.answer(&asked, &reply, &mut self.sights)
            }
            Heard::Given(mut runs) => {
                if let Some(canary) = self.options.canary {
                    runs.iter_mut().for_each(|run| canary.garbles(run));
                }
                self.arrived(&runs)?;
                self.clients.given(client, &runs);
                Ok(())
            }
            Heard::Shown(asked, rows) => self.shown(&asked, rows.into_iter()),
            Heard::Letters(asked, mut rows) => {
                if let Some(canary) = self.options.canary {
                    canary.mislabels(&mut rows);
                }
                for row in &rows {
                    letters::heard(row, &self.promises.model, &mut self.sights)?;
                }
                self.shown(&asked, rows.into_iter().map(|row| (row.message.id, row.message.block)))
            }
            Heard::Lost => {
                match client {
                    Client::Publisher => self.subscribers.connection_lost(),
                    client => self.clients.connection_lost(client),
                }
                Ok(())
            }
        }
    }

    fn shown(&mut self, asked: &Asked, rows: impl Iterator<Item = (MessageId, Bytes)>) -> Result<(), Violation> {
        if let Asked::Other(what) = asked {
            self.sights.saw(what);
        }
        for (id, block) in rows.filter(|(_, block)| !block.is_empty()) {
            self.sights.saw("looked at in frames");
            compare(1, id, Ok(&tags_of(&block)), &self.promises.model)?;
        }
        Ok(())
    }

    fn arrived(&mut self, runs: &[LeasedRun]) -> Result<(), Violation> {
        for run in runs {
            self.sights.saw_many("delivered in frames", u64::from(run.count));
            let first = MessageId { topic: run.receipt.topic, priority: run.priority, sequence: run.first };
            compare(run.count, first, Ok(&tags_of(&run.block)), &self.ledger)?;
        }
        told::heard(runs, &self.promises.model, &mut self.sights)
    }

    /// Tells an output to the connection that it is for.
    pub(crate) fn tell_wire(&mut self, mut output: Output) -> Result<(), Violation> {
        match &output {
            Output::Delivery { leases, .. } | Output::Reply { reply: Reply::Received(leases), .. } => {
                self.delivered(leases)?;
            }
            Output::SessionExpired(_) => self.sights.saw("sessions expired"),
            Output::Reply { .. } | Output::Standing { .. } => {}
        }
        if self.options.canary.is_some_and(|canary| canary.forgets(&output)) && self.swallows_now() {
            return Ok(());
        }
        if let Some(canary) = self.options.canary {
            canary.misdirects(&mut output);
        }
        self.broker().tell(output);
        Ok(())
    }
}

/// Something was asked.
pub fn asks(asked: &Asked, forwards: &mut Forwards, sights: &mut Sights) {
    match asked {
        Asked::Publish { batch: Some(_), .. } => sights.saw("batches of a session"),
        Asked::Forward { leases, outputs } => forwards.asked(leases, outputs),
        Asked::Finish { verb: Verb::Ack, leases } => forwards.acks(leases),
        _ => {}
    }
}

/// Whether a message was stored where an exchange led.
fn is_routed(reply: &Reply) -> bool {
    matches!(reply, Reply::Published { topics, .. } if !topics.is_empty())
}
