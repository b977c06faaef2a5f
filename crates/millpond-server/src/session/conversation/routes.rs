//! Messages for exchanges, until they go to the writer.
//!
//! A few bytes may go to a thousand topics, and take as long as a thousand frames to find them. So where a message goes is found
//! right before it does, when all that came before it has gone: what waits is as small as it came, and few bindings change
//! until the writer has it. What takes long to find is found in parts, a turn each ([`crate::session::turns`]).
//!
//! Its answer names all of these topics. Whose answers take more than a little together has room for them before the writer
//! has the message, and until they are bytes: of a client that does not read no more are published, and it is closed if others
//! wait for the room. What else publishes waits behind them, for a producer's batches have an order.
//!
//! Those that ack something, forwards, wait by themselves and have room of their own: they may be all that ends the leases for which
//! publishes wait.

use std::collections::{HashMap, VecDeque};
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use millpond_core::command::{Command, Route};
use millpond_core::routing::Finding;

use super::Conversation;
use super::lengthy::Rooms;
use crate::session::room::{Held, Room, SMALL, Turn};
use crate::session::ticket::parts;
use crate::session::turns::STEPS;
use crate::writer::{FORWARDING, PUBLISHING, Request};

/// In how many lanes there are such messages.
pub(super) const ROUTED: usize = 2;

/// Those of one lane.
pub(crate) struct Routes {
    lane: usize,
    room: Arc<Room>,
    /// The first of them is a message for an exchange.
    waiting: VecDeque<Request>,
    /// Bytes of the answers of those at the writer, by their places.
    open: HashMap<u32, usize>,
    /// All of them together.
    answers: usize,
    /// Room for them, where they take more than a little.
    held: Option<Held>,
    turn: Option<Turn>,
    /// How many frames would have taken as long as it took to find where they go, since that was asked last.
    found: usize,
    /// How far it is found where the first of them goes.
    finding: Option<Finding>,
}

impl Routes {
    /// Those of each lane, in the order of lanes.
    pub(super) fn of_lanes(rooms: &Rooms) -> [Routes; ROUTED] {
        let of = |(lane, room): (usize, &Arc<Room>)| {
            let (room, waiting, open) = (room.clone(), VecDeque::new(), HashMap::new());
            Routes { lane, room, waiting, open, answers: 0, held: None, turn: None, found: 0, finding: None }
        };
        [(FORWARDING, &rooms.forwards), (PUBLISHING, &rooms.routes)].map(of)
    }

    pub(super) fn lane(&self) -> usize {
        self.lane
    }

    /// The next of those that wait.
    pub(super) fn front(&self) -> Option<&Request> {
        self.waiting.front()
    }

    /// Whether what publishes has to wait behind others here.
    pub(super) fn are_any(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(super) fn push(&mut self, request: Request) {
        self.waiting.push_back(request);
    }

    /// Those that wait, to be [copied](Request::waits).
    pub(crate) fn waiting(&mut self) -> &mut VecDeque<Request> {
        &mut self.waiting
    }

    /// Takes room for one more answer, if there is some: whoever has room waits for no more of it.
    fn take_room(&mut self, place: u32, bytes: usize) -> bool {
        let all = self.answers + bytes;
        if all > SMALL {
            // It may have been given for an answer that was smaller, before its exchange was another one.
            let is_alone = self.answers == 0;
            self.held.take_if(|held| is_alone && !held.is_enough(all));
            let has_room = match &mut self.held {
                // The largest answer has all of the room when it is alone.
                Some(held) => is_alone || all <= self.room.bytes() && held.try_extend(all),
                None if self.turn.is_some() => false,
                None => {
                    self.held = self.room.try_take(all);
                    self.held.is_some()
                }
            };
            if !has_room {
                if self.held.is_none() && self.turn.is_none() {
                    self.turn = Some(self.room.wait(all));
                }
                return false;
            }
        }
        self.answers = all;
        self.open.insert(place, bytes);
        true
    }

    /// The answer of the request in this place became bytes, or none is to come.
    pub(super) fn answered(&mut self, place: u32) {
        let Some(bytes) = self.open.remove(&place) else { return };
        self.answers -= bytes;
        match &mut self.held {
            Some(held) if self.answers > SMALL => held.shrink(self.answers),
            held => *held = None,
        }
    }

    /// Resolves when there is room for the next answer; never if none waits for it.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(turn) = &mut self.turn else { return Poll::Pending };
        let Poll::Ready(held) = turn.poll(context) else { return Poll::Pending };
        (self.turn, self.held) = (None, Some(held));
        Poll::Ready(())
    }

    /// The client took so many bytes.
    pub(super) fn written(&mut self, bytes: usize) {
        self.held.iter_mut().for_each(|held| held.used(bytes));
    }

    /// When [`Routes::is_overdue`] is to be asked, if its answers wait for the client.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().map(Held::look)
    }

    /// Whether the client hardly reads while its answers wait, as `is_stuck` says that they do now, and others for the room.
    pub(crate) fn is_overdue(&mut self, is_stuck: bool, now: Instant) -> bool {
        self.held.as_mut().is_some_and(|held| held.is_left_unread(is_stuck, now))
    }
}

impl Conversation {
    /// Lets the next of what waits here go into its lane, if that is empty; whether one did. It is found where it goes for about as
    /// long as `most` frames take, with what was found since that was asked last.
    pub(crate) fn go_on_routed(&mut self, most: usize) -> bool {
        (0..ROUTED).any(|of| self.go_on_routed_of(of, most))
    }

    fn go_on_routed_of(&mut self, of: usize, most: usize) -> bool {
        let lane = self.routes[of].lane;
        // What waits for the start of a group has no room that others wait for.
        let is_held = self.routes[of].waiting.front().is_none_or(|first| self.is_held(first));
        if is_held || !self.lanes[lane].is_empty() {
            return false;
        }
        if self.is_next_to_be_found(of) && !self.find(of, most) {
            return false;
        }
        let (is_read, routes) = (self.is_read(), &mut self.routes[of]);
        if let Some((place, route)) = routed(&routes.waiting) {
            let bytes = route.copies.named_bytes();
            if !is_read {
                // It waits for its client, and for no room before that. What it was given it has for an answer of before.
                routes.turn = None;
                routes.held.take_if(|_| routes.answers <= SMALL);
                return false;
            }
            if !routes.take_room(place, bytes) {
                return false;
            }
        }
        let next = routes.waiting.pop_front().expect("there are some");
        // Its exchange may have gone meanwhile.
        routes.finding = None;
        self.lanes[lane].push_back(next);
        true
    }

    /// A message that has found no room in its lane, and whose exchange is another one by now, is found its way anew. What came
    /// behind it there goes back with it.
    pub(crate) fn take_back_routed(&mut self) {
        for routes in &mut self.routes {
            let Some((place, route)) = routed(&self.lanes[routes.lane]) else { continue };
            if !self.shared.known.is_current(route) {
                routes.answered(place);
                let mut lane = mem::take(&mut self.lanes[routes.lane]);
                lane.append(&mut routes.waiting);
                routes.waiting = lane;
            }
        }
    }

    /// Whether a message that is next waits for a turn, to be found its way.
    pub(crate) fn waits_for_turn(&self) -> bool {
        self.routes.iter().zip(0..).any(|(routes, of)| {
            let goes_on = routes.front().is_some_and(|first| !self.is_held(first));
            goes_on && self.lanes[routes.lane].is_empty() && self.is_next_to_be_found(of)
        })
    }

    /// How many frames would have taken as long as it took to find where messages go since this was asked last.
    pub(crate) fn take_found(&mut self) -> usize {
        self.routes.iter_mut().map(|routes| mem::take(&mut routes.found)).sum()
    }

    fn is_next_to_be_found(&self, of: usize) -> bool {
        routed(&self.routes[of].waiting).is_some_and(|(_, route)| !self.shared.known.is_current(route))
    }

    /// Goes on to find where the next message goes; whether that is found.
    fn find(&mut self, of: usize, most: usize) -> bool {
        let all: usize = self.routes.iter().map(|routes| routes.found).sum();
        let (routes, hash_key) = (&mut self.routes[of], self.shared.hash_key);
        let request = routes.waiting.front_mut().expect("there is one");
        let before = request.while_it_waits();
        let Request::Command(_, Command::Route(route), _) = request else { unreachable!("it is for an exchange") };
        // One that is gone by now the core knows best.
        let Some(exchange) = self.shared.known.exchange(route) else { return true };
        if all >= most {
            return false;
        }
        let left = (most - all).saturating_mul(STEPS);
        let (mut finding, left) = match routes.finding.take() {
            Some(finding) if finding.version() == exchange.version => (finding, left),
            // It is another exchange, and might be at each part.
            Some(_) => (exchange.begin(), usize::MAX),
            None => (exchange.begin(), left),
        };
        let begin = finding.steps();
        let is_found = exchange.hold(&mut finding, route, hash_key, left);
        let end = if is_found {
            exchange.end(finding, route);
            route.steps
        } else {
            routes.finding.insert(finding).steps()
        };
        routes.found += ((end - begin) / STEPS).max(1);
        let holding = &mut self.holding[routes.lane];
        *holding += request.while_it_waits();
        *holding -= before;
        is_found
    }
}

/// The first of these, with its place, if it is a message for an exchange.
fn routed(requests: &VecDeque<Request>) -> Option<(u32, &Route)> {
    match requests.front() {
        Some(Request::Command(ticket, Command::Route(route), _)) => Some((parts(*ticket).1, route)),
        _ => None,
    }
}
