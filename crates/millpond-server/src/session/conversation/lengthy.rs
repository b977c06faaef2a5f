//! Requests that are answered at length: with pages of rows, which may wait for who does not read.
//!
//! Each connection has one of them at the writer, once there is room for its rows among those of all connections, and the room
//! is held until they become bytes. The others wait here, so that what comes behind them goes on, and none asks for room before
//! its client has taken the last such answer: those who do not read have one each, and keep others waiting no longer. A client
//! that does not read what else is in front of its answer is closed for it if others wait.
//!
//! Looks at topics have a room of their own, for they have it while they wait for the disk as well: so `stats` and lists, by
//! which it can be seen that the disk is slow, wait for none of them.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::session::room::{Held, Room, Turn};
use crate::writer::{LOOKING, Request};

/// One part in so many of the room is for looks, and as much for the topics that messages were routed to: half of it for those
/// that were forwarded.
const PART: usize = 4;

/// Room for the rows of all connections.
#[derive(Clone, Debug)]
pub(crate) struct Rooms {
    /// For the answers of [messages for exchanges](super::routes).
    pub(crate) routes: Arc<Room>,
    /// For those of forwards to exchanges. These may be all that ends the leases for which publishes wait, with the room that they
    /// have.
    pub(crate) forwards: Arc<Room>,
    looks: Arc<Room>,
    others: Arc<Room>,
}

impl Rooms {
    /// Divides so many bytes.
    pub(crate) fn new(bytes: usize) -> Rooms {
        let part = bytes / PART;
        let [routes, forwards] = [part / 2; 2].map(Room::new);
        Rooms { routes, forwards, looks: Room::new(part), others: Room::new(bytes - 2 * part) }
    }

    /// That of the requests of a lane.
    fn of(&self, lane: usize) -> &Arc<Room> {
        if lane == LOOKING { &self.looks } else { &self.others }
    }
}

pub(crate) struct Lengthy {
    rooms: Rooms,
    waiting: VecDeque<Next>,
    /// The place of the one at the writer.
    open: Option<u32>,
    /// Room for its answer, or for that of the next.
    held: Option<Held>,
    turn: Option<Turn>,
    /// Whether it was answered since the next was asked for last.
    is_answered: bool,
    /// Bytes that the client has to take until it has that answer.
    untaken: usize,
}

struct Next {
    place: u32,
    /// Of its answer, at most.
    bytes: usize,
    /// With its lane.
    request: (usize, Request),
}

impl Lengthy {
    pub(crate) fn new(rooms: Rooms) -> Lengthy {
        Lengthy { rooms, waiting: VecDeque::new(), open: None, held: None, turn: None, is_answered: false, untaken: 0 }
    }

    pub(super) fn push(&mut self, place: u32, bytes: usize, request: (usize, Request)) {
        self.waiting.push_back(Next { place, bytes, request });
    }

    /// The next one, if it may go to the writer. Whose client does not take what is in front of its answer has no room and waits
    /// for none: there `is_read` is false, or the `unwritten` bytes are those of the last answer still.
    pub(super) fn next(&mut self, is_read: bool, unwritten: usize) -> Option<(usize, Request)> {
        if mem::take(&mut self.is_answered) {
            self.untaken = unwritten;
        }
        let Next { bytes, request: (lane, _), .. } = self.waiting.front().filter(|_| self.open.is_none())?;
        if !is_read || self.untaken > 0 {
            (self.held, self.turn) = (None, None);
            return None;
        }
        if self.held.is_none() && self.turn.is_none() {
            let room = self.rooms.of(*lane);
            self.held = room.try_take(*bytes);
            if self.held.is_none() {
                self.turn = Some(room.wait(*bytes));
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
            self.is_answered = true;
        }
    }

    /// The client took so many bytes.
    pub(super) fn written(&mut self, bytes: usize) {
        self.untaken = self.untaken.saturating_sub(bytes);
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
        self.held.as_mut().is_some_and(|held| held.is_left_unread(is_stuck, now))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;
    use std::time::Duration;

    use millpond_core::command::{Command, Ticket};

    use super::*;
    use crate::writer::FINISHING;

    fn asked(room: &Arc<Room>, places: u32) -> Lengthy {
        asked_in(
            FINISHING,
            &Rooms { routes: Room::new(0), forwards: Room::new(0), looks: Room::new(0), others: room.clone() },
            places,
        )
    }

    fn asked_in(lane: usize, rooms: &Rooms, places: u32) -> Lengthy {
        let mut lengthy = Lengthy::new(rooms.clone());
        let request =
            |place: u32| (lane, Request::Command(Ticket(place.into()), Command::Namespaces { after: None }, 0));
        (0..places).for_each(|place| lengthy.push(place, 100, request(place)));
        lengthy
    }

    fn has_come(lengthy: &mut Lengthy) -> bool {
        lengthy.poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    #[test]
    fn one_goes_at_a_time_and_others_have_the_room_when_it_is_answered() {
        let room = Room::new(100);
        let (mut one, mut other) = (asked(&room, 2), asked(&room, 1));
        assert!(one.next(true, 0).is_some() && one.next(true, 0).is_none());
        assert!(other.next(true, 0).is_none() && !has_come(&mut other));
        one.answered(1);
        assert!(!has_come(&mut other), "that was the answer of another request");
        one.answered(0);
        assert!(has_come(&mut other) && other.next(true, 0).is_some());
        assert!(one.next(true, 0).is_none(), "its second one waits in line");
        other.answered(0);
        assert!(has_come(&mut one) && one.next(true, 0).is_some());
        drop(one);
        assert_eq!(room.free(), 100, "whose connection is gone has none");
    }

    #[test]
    fn looks_that_wait_for_the_disk_leave_lists_their_room() {
        let rooms = Rooms::new(100);
        let (mut look, mut next) = (asked_in(LOOKING, &rooms, 1), asked_in(LOOKING, &rooms, 1));
        assert!(look.next(true, 0).is_some() && next.next(true, 0).is_none());
        assert!(asked_in(FINISHING, &rooms, 1).next(true, 0).is_some());
        drop(look);
        assert!(has_come(&mut next) && next.next(true, 0).is_some());
    }

    #[test]
    fn who_does_not_read_keeps_nobody_waiting() {
        let room = Room::new(100);
        let (mut one, mut other) = (asked(&room, 2), asked(&room, 1));
        assert!(one.next(false, 0).is_none() && room.free() == 100);
        assert!(one.next(true, 0).is_some() && other.next(true, 0).is_none() && !has_come(&mut other));
        one.answered(0);
        assert!(has_come(&mut other), "it was given the room");
        assert!(other.next(false, 0).is_none() && one.next(true, 0).is_some(), "and has let it go");
    }

    #[test]
    fn who_has_not_taken_an_answer_is_not_given_the_next() {
        let room = Room::new(100);
        let mut one = asked(&room, 2);
        assert!(one.next(true, 0).is_some());
        one.answered(0);
        assert!(one.next(true, 80).is_none() && room.free() == 100);
        one.written(70);
        assert!(one.next(true, 1000).is_none(), "what came behind it is not waited for");
        one.written(10);
        assert!(one.next(true, 990).is_some());
    }

    #[test]
    fn who_stops_to_read_is_overdue_while_others_wait() {
        let room = Room::new(100);
        let (mut one, mut other) = (asked(&room, 1), asked(&room, 1));
        assert!(one.next(true, 0).is_some());
        let late = |times: u32| Instant::now() + times * Duration::from_secs(11);
        assert!(!one.is_overdue(true, late(1)), "it is stuck from now on");
        assert!(!one.is_overdue(true, late(2)), "nobody waits");
        assert!(other.next(true, 0).is_none());
        assert!(!one.is_overdue(false, late(3)), "it is the broker that takes so long");
        assert!(!one.is_overdue(true, late(4)) && one.is_overdue(true, late(5)));
    }
}
