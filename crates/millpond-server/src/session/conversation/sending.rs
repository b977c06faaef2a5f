//! The room that a connection has for what it has still to write.
//!
//! A little needs none. For more, outputs stay what they are, envelopes without bodies, until there is room for their
//! bytes; all of it is given back when all is written. A client that does not read holds it, and is closed for it if others
//! wait.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::session::room::{Held, Room, SMALL, Turn};

pub(crate) struct Sending {
    room: Arc<Room>,
    held: Option<Held>,
    turn: Option<Turn>,
}

impl Sending {
    pub(crate) fn new(room: Arc<Room>) -> Sending {
        Sending { room, held: None, turn: None }
    }

    /// Whether `next` bytes may be added to the `waiting` ones that are to be written. If not, they may later: when those
    /// are written, or when [`Sending::poll`] has resolved.
    pub(crate) fn admits(&mut self, waiting: usize, next: usize) -> bool {
        let all = waiting + next;
        if self.turn.is_some() {
            return false;
        }
        if let Some(held) = &mut self.held {
            if held.is_enough(all) || held.try_extend(all) {
                return true;
            }
        } else if all <= SMALL {
            return true;
        } else {
            self.held = self.room.try_take(all);
            if self.held.is_some() {
                return true;
            }
        }
        if waiting == 0 {
            // Who waits for room has none.
            self.held = None;
            // A little that needs none may be written meanwhile, and be in front of it.
            self.turn = Some(self.room.wait(all + SMALL));
        }
        false
    }

    /// Resolves when there is room for what was not admitted; never if nothing waits for it.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(turn) = &mut self.turn else { return Poll::Pending };
        let Poll::Ready(held) = turn.poll(context) else { return Poll::Pending };
        self.turn = None;
        self.held = Some(held);
        Poll::Ready(())
    }

    /// So many bytes were written; with `all`, nothing is left.
    pub(crate) fn written(&mut self, bytes: usize, all: bool) {
        if all {
            self.held = None;
        } else if let Some(held) = &mut self.held {
            held.used(bytes);
        }
    }

    /// When [`Sending::is_overdue`] is to be asked, if ever.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().map(Held::look)
    }

    /// Whether the client hardly reads while others wait for the room.
    pub(crate) fn is_overdue(&mut self, now: Instant) -> bool {
        self.held.as_mut().is_some_and(|held| held.is_overdue(now))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_little_needs_no_room_and_more_waits_for_it() {
        let room = Room::new(10 * SMALL);
        let (mut one, mut other) = (Sending::new(room.clone()), Sending::new(room.clone()));
        assert!(one.admits(0, 8 * SMALL));
        assert!(one.admits(8 * SMALL, SMALL), "it grows while there is room");
        assert!(other.admits(0, SMALL));
        assert!(!other.admits(SMALL, SMALL + 1), "what it has is written first");
        assert!(!other.admits(0, 2 * SMALL));
        let poll = |sending: &mut Sending| sending.poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll(&mut other).is_pending());
        one.written(8 * SMALL, false);
        assert!(poll(&mut other).is_pending());
        one.written(SMALL, true);
        assert!(poll(&mut other).is_ready() && other.admits(0, 2 * SMALL));
        other.written(2 * SMALL, true);
        assert_eq!(room.free(), 10 * SMALL);
    }
}
