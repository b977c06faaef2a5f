//! A connection without its socket: bytes in, commands out; outputs in, bytes out.
//!
//! What is said and heard is a [`Conversation`]'s; here is when it is read, when it is closed, and how commands go to the
//! writer: all of one read in one step per lane. It waits for nothing and asks no clock, so that whoever moves its bytes
//! may be a socket's task ([`super::socket`]) or a simulation ([`crate::manual`]). While the broker does not read, for
//! reasons of its own, no silence is held against the client.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use millpond_core::output::Reply;
use millpond_protocol::{Decoder, FrameError};
use millpond_types::Code;

use super::Shared;
use super::conversation::routes::Routes;
use super::conversation::{Conversation, IDLE};
use super::outbox::{Close, Outbox};
use super::toll::Toll;
use super::turns::frames_of;
use crate::update_queue::{Place, Source};
use crate::writer::{FINISHING, FORWARDING, OF_CONNECTIONS, PUBLISHING, Request};

/// How long what waits for the start of a group rests: such a wait is seconds, and many may wait.
const LOOKS_AGAIN: Duration = Duration::from_millis(100);

/// See the module.
pub(crate) struct Connection {
    conversation: Conversation,
    shared: Arc<Shared>,
    writer: Source<Request, Reply>,
    decoder: Decoder,
    /// How much of what this connection holds is counted in [`Shared::held`].
    held: usize,
    /// Whether frames were read when it was last looked.
    was_reading: bool,
    /// What it pays for wrong receipts.
    toll: Toll,
    /// When the client was last heard of.
    last_sign: Instant,
    /// Whether there may be whole frames among what was read.
    has_frames: bool,
    /// When it looks again whether what waits for the start of a group goes on.
    looks_again: Option<Instant>,
}

impl Connection {
    /// Its number.
    pub(crate) fn number(&self) -> u64 {
        self.conversation.number()
    }

    /// One that the registry has a number and an outbox for. `goodbye` is where its last word goes: it has its place from
    /// the beginning, so that it can always be said.
    pub(crate) fn new(
        (number, outbox): (u64, Arc<Outbox>),
        (writer, goodbye): (Source<Request, Reply>, Place<Request, Reply>),
        shared: Arc<Shared>,
        now: Instant,
    ) -> Connection {
        Connection {
            conversation: Conversation::new(number, outbox, goodbye, shared.clone()),
            decoder: Decoder::new(shared.limits),
            toll: Toll::default(),
            shared,
            writer,
            held: 0,
            was_reading: true,
            last_sign: now,
            has_frames: false,
            looks_again: None,
        }
    }

    /// Takes whole frames in, until they count so many and while the client takes the answers; how many they count. What is left of the
    /// bytes is the beginning of a frame, unless [`Connection::has_frames`]. With them comes how large the memory is that they are a
    /// part of.
    pub(crate) fn hear(
        &mut self,
        (bytes, whole): (&mut BytesMut, usize),
        most: usize,
        now: Instant,
    ) -> Result<usize, Close> {
        self.conversation.buffer = whole;
        self.has_frames = false;
        let mut taken = 0;
        while taken < most && !self.conversation.is_behind() {
            taken += match self.decoder.next_request(bytes) {
                Ok(None) => return Ok(taken),
                Ok(Some(incoming)) => {
                    let frames = frames_of(&incoming.frame);
                    self.conversation.accept(incoming, now)?;
                    frames
                }
                Err(FrameError::Refused { correlation, code, detail, credit }) => {
                    self.conversation.refused(correlation, code, detail, credit)?;
                    1
                }
                Err(FrameError::Fatal { code, detail }) => return Err(Close { code, detail }),
            };
            self.last_sign = now;
        }
        self.has_frames = !bytes.is_empty();
        Ok(taken)
    }

    /// Whether the client waits for more than somebody who asks for little.
    pub(crate) fn waits_for_much(&self) -> bool {
        self.conversation.waits_for_much()
    }

    /// Whether more whole frames may be there than were taken in.
    pub(crate) fn has_frames(&self) -> bool {
        self.has_frames
    }

    /// Whether some of them may be taken in now: those in front have gone to the writer, and the client takes the answers.
    pub(crate) fn takes_frames(&self) -> bool {
        self.has_frames && self.conversation.lanes[FINISHING].is_empty() && !self.conversation.is_behind()
    }

    /// Whether what it does next may take as long as a turn, and waits for one.
    pub(crate) fn waits_for_turn(&self) -> bool {
        self.conversation.waits_for_turn()
    }

    /// Turns outputs into bytes, as many as may be at a time, and gives the next that are to be written.
    pub(crate) fn say(&mut self, now: Instant) -> Result<&[u8], Close> {
        self.conversation.pump()?;
        self.toll.charge(self.conversation.take_wrong(), now);
        Ok(self.unwritten())
    }

    /// Whether there may be more outputs that become bytes, and nothing is waited for.
    pub(crate) fn has_more_to_say(&self) -> bool {
        self.conversation.has_more_to_say()
    }

    /// The next bytes that are to be written, as far as they are there.
    pub(crate) fn unwritten(&self) -> &[u8] {
        self.conversation.out.next()
    }

    /// So many of them were written.
    pub(crate) fn wrote(&mut self, bytes: usize, now: Instant) {
        if self.conversation.is_behind() {
            // Its frames are not read now: that it takes bytes is the sign of life.
            self.last_sign = now;
        }
        self.conversation.wrote(bytes);
    }

    /// What was written makes room for what was not.
    pub(crate) fn compact(&mut self) {
        self.conversation.out.compact();
    }

    /// The last bytes of a connection that is closed: those that were not written, and why.
    pub(crate) fn close(&mut self, close: &Close) -> Vec<u8> {
        self.conversation.close(close);
        self.conversation.out.take()
    }

    /// Hands commands to the writer, as many as its lanes have room for, and finds where messages for exchanges go for about as long
    /// as `most` frames take; how many it took. None of one that is closed: what it has not told of its session by the time that
    /// another has resumed it is told to nobody.
    pub(crate) fn submit(&mut self, most: usize) -> Result<usize, Close> {
        self.conversation.go_on_at_length();
        self.conversation.take_back_routed();
        self.tell()?;
        while self.conversation.go_on_routed(most) {
            self.tell()?;
        }
        self.conversation.lanes.iter_mut().for_each(let_wait);
        self.conversation.routes.iter_mut().for_each(|routes| let_wait(routes.waiting()));
        let held = self.conversation.holding.iter().sum();
        if held != self.held {
            self.shared.held.fetch_add(held, Ordering::Relaxed);
            self.shared.held.fetch_sub(self.held, Ordering::Relaxed);
            self.held = held;
        }
        Ok(self.conversation.take_found())
    }

    fn tell(&mut self) -> Result<(), Close> {
        let Connection { conversation, shared, writer, .. } = self;
        for lane in OF_CONNECTIONS {
            if conversation.goes_on_in(lane) {
                let mut stay = conversation.take_held(lane);
                let commands = &mut conversation.lanes[lane];
                if lane != FINISHING && !writer.is_open(lane) {
                    let_wait(commands);
                }
                // What finishes is told at once, or nothing more is read.
                let held: fn(&Request) -> usize = if lane == FINISHING { |_| 0 } else { Request::while_it_waits };
                let tell_all = || writer.tell_all(lane, commands, held);
                let told = shared.registry.unless_closed(&conversation.outbox, tell_all)?;
                conversation.holding[lane] -= told.map_err(|_| stopped(shared))?;
                commands.append(&mut stay);
                if commands.is_empty() {
                    *commands = Default::default();
                }
            }
        }
        Ok(())
    }

    /// Bytes of what it has that waits for the writer, of those that carry messages: publishes, and forwards.
    pub(crate) fn held_messages(&self) -> [usize; 2] {
        [PUBLISHING, FORWARDING].map(|lane| self.conversation.holding[lane])
    }

    /// Why it ends now, where it was asked to and all that it was asked is answered.
    pub(crate) fn check_drained(&self) -> Result<(), Close> {
        if !self.conversation.is_drained() {
            return Ok(());
        }
        let detail = "the broker is shutting down; connect again soon".to_owned();
        Err(Close { code: Code::Stopping, detail })
    }

    /// Whether more is to be read. Publishes and looks alone never stop the reading, for acks come on the same socket; but what
    /// connections hold together has a bound, and wrong receipts cost a while of it. Whole frames that are left are taken in first,
    /// also where the client has just caught up with its answers: it is for them that there may be no room for a read.
    pub(crate) fn may_read(&self) -> bool {
        let conversation = &self.conversation;
        let holds_too_much = self.held > 0 && self.shared.held.load(Ordering::Relaxed) > self.shared.held_max;
        let is_full = self.has_frames || !conversation.lanes[FINISHING].is_empty() || holds_too_much;
        !is_full && !conversation.is_draining() && !conversation.is_behind() && self.toll.until().is_none()
    }

    /// Begins to count the client's silence when reading goes on. It rests behind that.
    pub(crate) fn note_reading(&mut self, is_reading: bool, now: Instant) {
        if is_reading && !std::mem::replace(&mut self.was_reading, is_reading) {
            self.last_sign = now;
            self.conversation.reading_again(now);
        }
        self.was_reading = is_reading;
        self.looks_again = self.conversation.has_held().then(|| now + LOOKS_AGAIN);
    }

    /// Resolves when messages that are being read are there, or room for them or for the commands that found none; never,
    /// if none of this is to come.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Close>> {
        if let Poll::Ready(read) = self.conversation.poll_reading(context) {
            return Poll::Ready(read);
        }
        // One of them may be shut, and the others not.
        for lane in OF_CONNECTIONS {
            if !self.conversation.goes_on_in(lane) {
                continue;
            }
            let commands = &self.conversation.lanes[lane];
            let (first, count) = (commands.front().map_or(0, Request::weight), commands.len());
            if let Poll::Ready(room) = pin!(self.writer.room(lane, first, count)).poll(context) {
                return Poll::Ready(room.map_err(|_| stopped(&self.shared)));
            }
        }
        Poll::Pending
    }

    /// When something is overdue if nothing happens until then; `is_reading` as for [`Connection::check_deadlines`].
    pub(crate) fn deadline(&self, is_reading: bool) -> Instant {
        let Conversation { sending, lengthy, routes, .. } = &self.conversation;
        let stuck = lengthy.deadline().into_iter().chain(routes.iter().filter_map(Routes::deadline)).min();
        let stuck = stuck.filter(|_| self.conversation.is_stuck());
        let heartbeat = self.heartbeat_deadline(is_reading);
        let others = [heartbeat, sending.deadline(), stuck, self.toll.until(), self.looks_again];
        others.into_iter().flatten().fold(self.last_sign + IDLE, Instant::min)
    }

    /// Why it ends now, where something is overdue. `is_reading` says whether its bytes are read: a heartbeat that the
    /// broker does not read cannot be late.
    pub(crate) fn check_deadlines(&mut self, is_reading: bool, now: Instant) -> Result<(), Close> {
        self.toll.look(now);
        if now >= self.last_sign + IDLE {
            if !is_reading && !self.conversation.leaves_unread() {
                // It may have sent much, and it is us who do not read it.
                self.last_sign = now;
                return Ok(());
            }
            let detail = format!("no frame came for {} s; send a ping now and then", IDLE.as_secs());
            return Err(Close { code: Code::UnexpectedFrame, detail });
        }
        if self.heartbeat_deadline(is_reading).is_some_and(|deadline| now >= deadline) {
            let detail = "no heartbeat came in time; connect again and resume the session".to_owned();
            return Err(Close { code: Code::SessionUnknown, detail });
        }
        let is_stuck = self.conversation.is_stuck();
        let Conversation { sending, lengthy, routes, .. } = &mut self.conversation;
        let routes_are = routes.iter_mut().fold(false, |overdue, routes| routes.is_overdue(is_stuck, now) | overdue);
        if sending.is_overdue(now) | lengthy.is_overdue(is_stuck, now) | routes_are {
            return Err(hardly_reads());
        }
        Ok(())
    }

    /// Whether its answers wait until the client takes what is in front of them.
    pub(crate) fn is_stuck(&self) -> bool {
        self.conversation.is_stuck()
    }

    fn heartbeat_deadline(&self, is_reading: bool) -> Option<Instant> {
        self.conversation.heartbeat_deadline().filter(|_| is_reading)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.held.fetch_sub(self.held, Ordering::Relaxed);
    }
}

/// None of these goes on for now. Those in front have waited before.
fn let_wait(commands: &mut VecDeque<Request>) {
    commands.iter_mut().rev().map(Request::waits).take_while(|is_new| *is_new).for_each(drop);
}

/// Why a connection is closed that leaves its answers unread.
pub(crate) fn hardly_reads() -> Close {
    let detail = "the connection hardly reads while others wait for the room of what it asked; read".to_owned();
    Close { code: Code::Overloaded, detail }
}

/// Why a connection is closed whose broker takes no more commands.
pub(crate) fn stopped(shared: &Shared) -> Close {
    match shared.health.failure() {
        Some(_) => {
            Close { code: Code::StorageFailed, detail: "the broker's data directory failed; see its log".to_owned() }
        }
        None => Close { code: Code::Stopping, detail: "the broker is shutting down; connect again soon".to_owned() },
    }
}

#[cfg(test)]
mod tests;
