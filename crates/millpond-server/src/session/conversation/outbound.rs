//! Outputs for the client: each becomes a frame, once its messages are read and there is room in the write buffer.
//!
//! Messages are read here and not when they are delivered, so that a reader that is slow holds envelopes and no bodies.

use std::task::{Context, Poll};

use millpond_core::output::Reply;
use millpond_protocol::{LeasedRun, Response, Sink};
use millpond_types::limits::FRAME_MAX;
use millpond_types::{Code, LeaderEpoch};

use super::{Begin, Conversation};
use crate::bodies::{Read, Reading, Unread};
use crate::convert::response::response;
use crate::session::credit::{Grant, NOTHING};
use crate::session::open::{Kind, Open};
use crate::session::outbox::{Close, Out};
use crate::session::room::SMALL;
use crate::session::turns::Length;

/// Bytes that wait to be written, above which outputs stay what they are.
const OUT_ENOUGH: usize = 256 * 1024;
/// Outputs that become bytes at a time, as many as frames are taken in: small ones take a megabyte of the outbox and hardly any of
/// the bytes.
const OUTPUTS_MAX: usize = Length::WHOLE.frames;
/// Weight of answers that are not bytes yet, above which no more requests are read, however few others have.
const UNREAD_MAX: usize = 4 * 1024 * 1024;
/// Bytes of answers that were given at once and do not wait to be written yet, above which no more frames are taken in: a
/// hundred pings, or some refusals. Who reads has more with each write.
const AT_ONCE_ENOUGH: usize = 1024;
/// What a leased run takes in a frame beside its topic's name and its block.
const RUN_ENVELOPE: usize = 128;

impl Conversation {
    /// Turns outputs into bytes while there is room for them, and no more than may be at a time. The others stay in the outbox, which
    /// is bounded. An error closes the connection.
    pub(crate) fn pump(&mut self) -> Result<(), Close> {
        let at_once = self.at_once.len();
        // So few need no room where nothing else waits.
        let out = self.out.total();
        if at_once > 0 && (self.out.is_empty() || out < OUT_ENOUGH && self.sending.admits(out, at_once)) {
            self.out.bytes().extend(std::mem::take(&mut self.at_once));
        }
        let mut turned = 0;
        self.has_more_to_say = false;
        while self.has_room() && self.reading.is_none() {
            if self.backlog.is_empty() && !self.collect() {
                break;
            }
            if turned == OUTPUTS_MAX {
                self.has_more_to_say = true;
                break;
            }
            turned += 1;
            let bytes = self.backlog.front().expect("it was just filled").bytes();
            if !self.sending.admits(self.out.total(), bytes) {
                break;
            }
            let item = self.backlog.pop_front().expect("it was just looked at");
            self.outbox.turned(&item);
            self.turn(item);
        }
        self.outbox.closed().map_or(Ok(()), Err)
    }

    /// Whether so little waits to be written that outputs become bytes.
    pub(super) fn has_room(&self) -> bool {
        self.out.total() < OUT_ENOUGH
    }

    /// Whether the client takes its answers, so that those of further requests would not wait behind them.
    pub(super) fn is_read(&self) -> bool {
        self.has_room() && self.outbox.told() <= SMALL
    }

    /// Takes over what is in the outbox; false if nothing is.
    fn collect(&mut self) -> bool {
        let mut items = Vec::new();
        self.outbox.take(&mut items);
        self.backlog = items.into();
        !self.backlog.is_empty()
    }

    /// Whether the client asks for more than it reads, so that its requests wait until it has: how much that is depends on
    /// how much others have not read. Deliveries are bounded by their windows, and what is bytes already by the room for them.
    ///
    /// Nobody who reads waits for others to do so: with each answer that becomes bytes there are fewer. Where the disk stands
    /// still, answers wait that no client can take, and they count as well.
    pub(crate) fn is_behind(&self) -> bool {
        self.is_too_much(self.outbox.unread().0)
    }

    /// Whether it is the client that leaves so much unread, and not the disk.
    pub(crate) fn leaves_unread(&self) -> bool {
        self.is_too_much(self.outbox.told())
    }

    fn is_too_much(&self, own: usize) -> bool {
        let (_, of_all) = self.outbox.unread();
        own > if of_all > self.shared.unread_max { SMALL } else { UNREAD_MAX } || self.at_once.len() >= AT_ONCE_ENOUGH
    }

    /// Whether answers, or what asks for more of them, wait until the client takes what is in front of them.
    pub(crate) fn is_stuck(&self) -> bool {
        !self.out.is_empty() && !self.is_read()
    }

    /// Resolves when messages that are being read are there, or the room that they wait for; never, if neither is to come.
    pub(crate) fn poll_reading(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Close>> {
        let has_room = self.sending.poll(context).is_ready() || self.lengthy.poll(context).is_ready();
        if has_room || self.routes.iter_mut().any(|routes| routes.poll(context).is_ready()) {
            return Poll::Ready(Ok(()));
        }
        let Some(reading) = &mut self.reading else { return Poll::Pending };
        let Poll::Ready(read) = reading.poll(context) else { return Poll::Pending };
        let reading = self.reading.take().expect("it was just polled");
        Poll::Ready(match read {
            Ok(read) => {
                self.told(reading.what, read);
                Ok(())
            }
            Err(_) => Err(Close { code: Code::Stopping, detail: "the broker is shutting down".to_owned() }),
        })
    }

    fn turn(&mut self, item: Out) {
        match item {
            Out::Drain => self.draining = true,
            Out::SessionExpired => {
                // Before its session has begun here, an expiry belongs to the connection that was lost, as deliveries do: it
                // was decided before the resumption, and the core has a new session by the time that it comes.
                if let Some(session) = self.session.take_if(|session| session.begun) {
                    self.consumers.clear();
                    self.shared.registry.release_session(session.id, self.number);
                    self.write(Response::SessionExpired, 0);
                }
            }
            Out::Standing { consumer, standing } => {
                if self.session.as_ref().is_some_and(|session| session.begun) {
                    self.write(Response::Standing { consumer, standing }, 0);
                }
            }
            Out::Delivery { consumer, epoch, leases } => {
                // Before its session has begun here, a delivery belongs to the connection that was lost.
                if self.session.as_ref().is_some_and(|session| session.begun) {
                    let spent = leases.iter().fold(NOTHING, |spent, run| Grant {
                        messages: spent.messages + run.count,
                        bytes: spent.bytes + u64::from(run.extent.length),
                    });
                    self.read(Telling::Delivery { consumer, epoch, spent }, Unread::Leases(leases));
                }
            }
            Out::Reply { index, reply } => {
                self.lengthy.answered(index);
                self.routes.iter_mut().for_each(|routes| routes.answered(index));
                if let Some(open) = self.open.remove(index) {
                    self.answer(open, reply);
                }
            }
        }
    }

    fn answer(&mut self, open: Open, reply: Reply) {
        let Open { correlation, kind } = open;
        let is_refused = matches!(reply, Reply::Refused { .. });
        match kind {
            Kind::Publish { bytes, silent } => {
                self.give_back(bytes);
                if silent {
                    return;
                }
            }
            Kind::Finish { silent: true } if !is_refused => return,
            Kind::SessionBegin { nth } => return self.session_begun(nth, reply, correlation),
            Kind::Attach { nth } if is_refused => self.consumers.retain(|consumer| consumer.nth != nth),
            Kind::Detach { nth } => self.consumers.retain(|consumer| consumer.nth != nth),
            Kind::SessionEnd { nth } => self.session_ended(nth),
            Kind::Attach { .. } | Kind::Finish { .. } | Kind::Receive { .. } => {}
            Kind::Plain | Kind::Manage => {}
        }
        match reply {
            Reply::Received(runs) => self.read(Telling::Answer { correlation }, Unread::Leases(runs)),
            Reply::Messages(rows) => self.read(Telling::Answer { correlation }, Unread::Messages(rows)),
            Reply::Dead { rows, next } => self.read(Telling::Answer { correlation }, Unread::Dead(rows, next)),
            reply => self.write(response(reply), correlation),
        }
    }

    /// The begin of a session is answered. The client may have ended it since, and begun another one.
    fn session_begun(&mut self, nth: u32, reply: Reply, correlation: u32) {
        let at = self.begins.iter().position(|begin| begin.nth == nth).expect("a begin is answered once");
        let Begin { id, resume: heartbeat, is_named, .. } = self.begins.remove(at).expect("it was just found");
        let Reply::SessionBegun { resumed } = reply else {
            if self.session.take_if(|session| session.nth == nth).is_some() {
                self.shared.registry.release_session(id, self.number);
            }
            return self.write(response(reply), correlation);
        };
        self.wrong_sessions += u32::from(is_named && !resumed);
        if let Some(session) = self.session.as_mut().filter(|session| session.nth == nth) {
            session.begun = true;
        }
        self.write(Response::SessionBegun { session: id, resumed, heartbeat }, correlation);
    }

    /// The end of a session is answered. It may have been begun again since.
    fn session_ended(&mut self, nth: u32) {
        let (id, ends_again) = self.ending.answered(nth);
        if !ends_again && self.session.as_ref().is_none_or(|session| session.id != id) {
            self.shared.registry.release_session(id, self.number);
        }
    }

    fn read(&mut self, what: Telling, unread: Unread) {
        match self.shared.bodies.read(self.number, unread) {
            Ok(read) => self.told(what, read),
            Err(pending) => self.reading = Some(Reading { what, pending }),
        }
    }

    fn told(&mut self, what: Telling, read: Read) {
        match (what, read) {
            (Telling::Delivery { consumer, epoch, spent }, Read::Leases(runs)) => {
                self.deliver(consumer, epoch, spent, runs);
            }
            (Telling::Delivery { consumer, epoch, spent }, Read::NoLeases(..)) => {
                self.deliver(consumer, epoch, spent, Vec::new());
            }
            (Telling::Answer { correlation }, Read::Leases(runs)) => self.write(Response::Received(runs), correlation),
            (Telling::Answer { correlation }, Read::NoLeases(code, why)) => {
                self.write(Response::Error { code, detail: why.to_owned() }, correlation);
            }
            (Telling::Answer { correlation }, Read::Messages(rows)) => {
                self.write_own(Response::Messages(rows), correlation)
            }
            (Telling::Answer { correlation }, Read::Dead(rows, next)) => {
                self.write_own(Response::Dead { rows, next: next.into() }, correlation);
            }
            (Telling::Delivery { .. }, _) => unreachable!("a delivery is of leases"),
        }
    }

    /// Writes a delivery, in several frames where one would be too large. `spent` is the credit that the core counts for
    /// it: more than the client sees, where a message could not be read.
    fn deliver(&mut self, consumer: u32, epoch: Option<LeaderEpoch>, spent: Grant, runs: Vec<LeasedRun>) {
        let mut used = NOTHING;
        let mut frame = Vec::new();
        let mut length = 0;
        for run in runs {
            used.messages += run.count;
            used.bytes += run.block.len() as u64;
            let cost = run.topic.as_bytes().len() + run.block.len() + RUN_ENVELOPE;
            if length + cost > FRAME_MAX - RUN_ENVELOPE && !frame.is_empty() {
                self.write(Response::Delivery { consumer, epoch, leases: std::mem::take(&mut frame) }, 0);
                length = 0;
            }
            length += cost;
            frame.push(run);
        }
        if !frame.is_empty() {
            self.write(Response::Delivery { consumer, epoch, leases: frame }, 0);
        }
        let found = self.consumers.iter_mut().find(|other| other.number == consumer);
        if let Some(told) = found.and_then(|found| found.window.written(spent, used)) {
            self.tell_credit(consumer, told);
        }
    }
}

/// Whom messages are read for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Telling {
    /// The answer of a request.
    Answer { correlation: u32 },
    /// A consumer, the epoch that it leads in, and the credit that the core counts for the delivery.
    Delivery { consumer: u32, epoch: Option<LeaderEpoch>, spent: Grant },
}
