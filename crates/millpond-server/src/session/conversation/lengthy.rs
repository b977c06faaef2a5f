//! Requests that are answered at length: with pages of rows, which may wait for who does not read.
//!
//! Each connection has one of them at the writer, once there is room for its rows among those of all connections, and the room
//! is held until they become bytes. The others wait here, so that what comes behind them goes on. A client that does not read
//! what is in front of its answer is closed for it if others wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::session::room::{Held, Room, Turn};
use crate::writer::Request;

pub(crate) struct Lengthy {
    room: Arc<Room>,
    waiting: VecDeque<Next>,
    /// The place of the one at the writer.
    open: Option<u32>,
    held: Option<Held>,
    turn: Option<Turn>,
    /// Whether its answer waits for the client.
    is_stuck: bool,
}

struct Next {
    place: u32,
    /// Of its answer, at most.
    bytes: usize,
    request: Request,
}

impl Lengthy {
    pub(crate) fn new(room: Arc<Room>) -> Lengthy {
        Lengthy { room, waiting: VecDeque::new(), open: None, held: None, turn: None, is_stuck: false }
    }

    pub(super) fn push(&mut self, place: u32, bytes: usize, request: Request) {
        self.waiting.push_back(Next { place, bytes, request });
    }

    /// Whether none waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The next one, if it may go to the writer.
    pub(super) fn next(&mut self) -> Option<Request> {
        let bytes = self.waiting.front().filter(|_| self.open.is_none())?.bytes;
        if self.held.is_none() && self.turn.is_none() {
            self.held = self.room.try_take(bytes);
            if self.held.is_none() {
                self.turn = Some(self.room.wait(bytes));
            }
        }
        self.held.as_ref()?;
        let Next { place, request, .. } = self.waiting.pop_front().expect("it was just looked at");
        self.open = Some(place);
        Some(request)
    }

    /// Resolves when there is room for the next one; never if none waits for it.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(turn) = &mut self.turn else { return Poll::Pending };
        let Poll::Ready(held) = turn.poll(context) else { return Poll::Pending };
        (self.turn, self.held) = (None, Some(held));
        Poll::Ready(())
    }

    /// The answer of the request in this place became bytes.
    pub(super) fn answered(&mut self, place: u32) {
        if self.open.take_if(|open| *open == place).is_some() {
            self.held = None;
        }
    }

    /// The client took so many bytes.
    pub(super) fn written(&mut self, bytes: usize) {
        if let Some(held) = &mut self.held {
            held.used(bytes);
        }
    }

    /// When [`Lengthy::is_overdue`] is to be asked, if the answer waits for the client.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().map(Held::look)
    }

    /// Whether the client hardly reads while its answer waits, as `is_stuck` says that it does now, and others for the room.
    pub(crate) fn is_overdue(&mut self, is_stuck: bool, now: Instant) -> bool {
        let was_stuck = std::mem::replace(&mut self.is_stuck, is_stuck);
        let Some(held) = self.held.as_mut().filter(|_| is_stuck) else { return false };
        if !was_stuck {
            held.begin(now);
        }
        held.is_overdue(now)
    }
}
