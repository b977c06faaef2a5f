//! One connection's side of the protocol, without IO: frames in, commands out; outputs in, bytes out.
//!
//! Invariant: every request that is answered by the protocol is answered exactly once, in the order in which its reply
//! comes; deliveries keep the order in which the core decided them. How bytes and commands travel is left to
//! [`super::connection`].

mod ending;
mod inbound;
pub(super) mod lengthy;
mod outbound;
pub(super) mod routes;
mod sending;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond_core::output::Reply;
use millpond_protocol::{Response, Sink, encode_response};
use millpond_types::{Counted, Millis, NamespaceName, SessionId};

use super::Shared;
use super::credit::{PublishCredit, Window};
use super::frames::Frames;
use super::open::OpenRequests;
use super::outbox::{Close, Out, Outbox};
use super::ticket::ticket;
use super::toll::Wrong;
use super::uses::Joined;
use crate::bodies::Reading;
use crate::update_queue::Place;
use crate::writer::{BURYING, FINISHING, FORWARDING, LANES, LOOKING, Request};

use ending::Ending;
use lengthy::Lengthy;
pub(crate) use outbound::Telling;
use routes::{ROUTED, Routes};
use sending::Sending;

/// A connection without a frame for so long is closed. Long enough that a ping every 20 s keeps it, short enough that
/// the dead ones behind a gone network do not pile up.
pub(crate) const IDLE: Duration = Duration::from_secs(60);

/// Requests that may be open where little is asked for.
const LITTLE_OPEN: usize = 8;

/// One connection's state.
pub(crate) struct Conversation {
    number: u64,
    shared: Arc<Shared>,
    pub(crate) outbox: Arc<Outbox>,
    /// Where the last word goes, whatever is full by then.
    goodbye: Option<Place<Request, Reply>>,
    open: OpenRequests,
    session: Option<Session>,
    /// The sessions that it has ended, until that is answered. The core may not have heard of it, and others may take them
    /// over until then.
    ending: Ending,
    /// Begins of sessions that are not answered, which may be several.
    begins: VecDeque<Begin>,
    /// How many sessions it has named that were not there, since that was asked last.
    wrong_sessions: u32,
    /// How many sessions and consumers have begun: what answers come late is known by it.
    begun: u32,
    consumers: Vec<Consumer>,
    /// The namespace that it uses as it last asked, and in which epoch that was.
    used: Option<(u64, NamespaceName)>,
    credit: PublishCredit,
    /// Outputs that are not bytes yet, in order.
    backlog: VecDeque<Out>,
    /// The first of them, while its messages are read from the disk.
    reading: Option<Reading>,
    /// Room for what is read and written.
    pub(crate) sending: Sending,
    /// Whether there may be outputs that could become bytes at once, and were too many to do so together with others.
    has_more_to_say: bool,
    draining: bool,
    /// Requests that are answered at length.
    pub(crate) lengthy: Lengthy,
    /// Messages for exchanges, and what comes behind them in their lanes.
    pub(crate) routes: [Routes; ROUTED],
    /// Bytes of the buffer that frames are taken out of.
    pub(crate) buffer: usize,
    /// Commands that wait for room in the writer's lanes.
    pub(crate) lanes: [VecDeque<Request>; LANES],
    /// What those of each lane weigh, and those that are answered at length, but for what only finishes: while that waits, nothing
    /// is read.
    pub(crate) holding: [usize; LANES],
    /// Answers to frames as they were taken in, until there is room for them among those that wait to be written.
    at_once: Vec<u8>,
    /// Frames that wait to be written.
    pub(crate) out: Frames,
}

/// The session of a connection.
struct Session {
    id: SessionId,
    /// Which of the connection's it is.
    nth: u32,
    /// Whether the client was told; deliveries before that are none of its business.
    begun: bool,
    /// Whether its begin was asked for behind what makes dead letters, and waits with that.
    begins_late: bool,
    /// It is lost without a heartbeat for so long.
    resume: Duration,
    heartbeat: Instant,
}

/// The begin of a session, until it is answered.
struct Begin {
    /// Which of the connection's it is.
    nth: u32,
    id: SessionId,
    resume: Millis,
    /// Whether the client named one, to go on with it.
    is_named: bool,
}

/// A consumer of that session, until its end is answered.
struct Consumer {
    number: u32,
    /// Which of all that have begun it is.
    nth: u32,
    /// How many names its filter lists.
    names: usize,
    window: Window,
}

impl Conversation {
    pub(crate) fn new(number: u64, outbox: Arc<Outbox>, goodbye: Place<Request, Reply>, shared: Arc<Shared>) -> Self {
        Conversation {
            number,
            sending: Sending::new(shared.sending.clone()),
            lengthy: Lengthy::new(shared.lengthy.clone()),
            routes: Routes::of_lanes(&shared.lengthy),
            shared,
            outbox,
            goodbye: Some(goodbye),
            open: OpenRequests::default(),
            session: None,
            ending: Ending::default(),
            begins: VecDeque::new(),
            wrong_sessions: 0,
            begun: 0,
            consumers: Vec::new(),
            used: None,
            credit: PublishCredit::default(),
            backlog: VecDeque::new(),
            reading: None,
            has_more_to_say: false,
            draining: false,
            buffer: 0,
            lanes: Default::default(),
            holding: [0; LANES],
            at_once: Vec::new(),
            out: Frames::default(),
        }
    }

    /// The connection's number.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Whether it has more requests without an answer than a few that ask one after the other, or has some that found no room.
    /// Receives wait for messages, and for nobody's turn.
    pub(crate) fn waits_for_much(&self) -> bool {
        self.open.beside_receives() > LITTLE_OPEN
            || self.routes.iter().any(Routes::are_any)
            || self.lanes.iter().any(|lane| !lane.is_empty())
    }

    /// Whether the connection was asked to end, and all that it was asked is answered. Receives that wait are not
    /// waited for.
    pub(crate) fn is_drained(&self) -> bool {
        self.draining
            && self.open.only_receives()
            && self.backlog.is_empty()
            && self.reading.is_none()
            && self.at_once.is_empty()
            && self.out.is_empty()
            && self.lanes.iter().all(VecDeque::is_empty)
    }

    /// Whether outputs were too many to become bytes together, so that the rest is not waited for.
    pub(crate) fn has_more_to_say(&self) -> bool {
        self.has_more_to_say
    }

    /// Whether the connection was asked to end. It takes no more frames then.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining
    }

    /// Whether commands that wait in a lane go to the writer now. Those that are answered at length are in the first two: they wait
    /// for a client that does not read, and so does all else that finishes, forwards among it: with a few bytes they
    /// ask for the outcomes of thousands of receipts. What ends leases goes in the order of the lanes, for of what is leased together
    /// one ends after the other; it does not wait for those who look, but what publishes does: who forgets a dedup id publishes under it
    /// next. Of a client that does not read publishes go on, for others wait
    /// for their room, but for those to exchanges ([`routes`]).
    pub(crate) fn goes_on_in(&self, lane: usize) -> bool {
        let none_in = |lanes: &[usize]| lanes.iter().all(|lane| self.lanes[*lane].is_empty());
        !none_in(&[lane])
            && !self.lanes[lane].front().is_some_and(|first| self.is_held(first))
            && match lane {
                FINISHING | LOOKING => !self.is_behind(),
                BURYING => none_in(&[FINISHING]) && !self.is_behind(),
                FORWARDING => none_in(&[FINISHING, LOOKING, BURYING]) && !self.is_behind(),
                _ => none_in(&[LOOKING]) || self.is_behind(),
            }
    }

    /// Whether a request waits for the start of a group in the namespace that it adds to.
    pub(super) fn is_held(&self, request: &Request) -> bool {
        let known = &self.shared.known;
        known.are_any_held() && request.adds_to().is_some_and(|namespace| known.is_held(namespace))
    }

    /// Whether any does.
    pub(crate) fn has_held(&self) -> bool {
        let fronts = self.lanes.iter().map(VecDeque::front).chain(self.routes.iter().map(Routes::front));
        fronts.flatten().any(|first| self.is_held(first))
    }

    /// Takes what does out of a lane, with all that comes behind it there.
    pub(crate) fn take_held(&mut self, lane: usize) -> VecDeque<Request> {
        if !self.shared.known.are_any_held() {
            return VecDeque::new();
        }
        let first = self.lanes[lane].iter().position(|request| self.is_held(request));
        first.map(|first| self.lanes[lane].split_off(first)).unwrap_or_default()
    }

    /// What it has named that was not there, since this was asked last.
    pub(crate) fn take_wrong(&mut self) -> Wrong {
        Wrong { receipts: self.outbox.take_wrong_receipts(), sessions: std::mem::take(&mut self.wrong_sessions) }
    }

    /// When the session is lost unless a heartbeat comes.
    pub(crate) fn heartbeat_deadline(&self) -> Option<Instant> {
        self.session.as_ref().map(|session| session.heartbeat + session.resume)
    }

    /// Frames are read again after a while in which the broker had no room for them: heartbeats may be among them.
    pub(crate) fn reading_again(&mut self, now: Instant) {
        if let Some(session) = &mut self.session {
            session.heartbeat = now;
        }
    }

    /// The sessions that it has begun and that are not over.
    fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.session.iter().map(|session| session.id).chain(self.ending.ids())
    }

    /// So many bytes of the frames that wait were written.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.out.wrote(bytes);
        self.lengthy.written(bytes);
        self.routes.iter_mut().for_each(|routes| routes.written(bytes));
        self.sending.written(bytes, self.out.is_empty() && self.reading.is_none());
    }

    /// The last frame of a connection.
    pub(crate) fn close(&mut self, close: &Close) {
        self.out.bytes().append(&mut self.at_once);
        self.write(Response::Closing { code: close.code, detail: close.detail.clone() }, 0);
    }

    /// Why the connection may not use a namespace, if it may not.
    fn may_not_use(&mut self, namespace: &NamespaceName) -> Option<String> {
        let uses = &self.shared.known.uses;
        let epoch = uses.epoch();
        if self.used.as_ref().is_some_and(|(of, used)| *of == epoch && used == namespace) {
            return None;
        }
        match uses.join(self.number, namespace) {
            Joined::Yes => {
                // Not as a part of the buffer that the frame came in.
                self.used = Some((epoch, namespace.detach()));
                None
            }
            // The core says so.
            Joined::Unknown => None,
            Joined::Full { quota } => {
                self.shared.metrics.connections_over_quota.inc();
                let users = Counted(quota, "connection");
                Some(format!(
                    "namespace {namespace} is in use by {users}, and no more may publish to it or receive from it: close one, or raise quota-connections"
                ))
            }
        }
    }

    /// Answers a frame as it is taken in.
    fn answer_at_once(&mut self, response: Response, correlation: u32) {
        encode_response(&response, correlation, &mut self.at_once);
    }

    /// Writes a frame. Its blocks may be parts of what the journal keeps in memory, all of which would stay for a client
    /// that reads slowly: they are copied.
    fn write(&mut self, response: Response, correlation: u32) {
        encode_response(&response, correlation, self.out.bytes());
    }

    /// Writes a frame whose blocks were read for it alone.
    fn write_own(&mut self, response: Response, correlation: u32) {
        encode_response(&response, correlation, &mut self.out);
    }
}

impl Drop for Conversation {
    /// However the connection ends, what of its requests may go on for long is withdrawn and its session may be resumed
    /// elsewhere.
    fn drop(&mut self) {
        self.shared.known.uses.leave(self.number);
        let place = self.goodbye.take().expect("a conversation says goodbye once");
        let withdrawn: Vec<_> = self.open.withdrawable().map(|index| ticket(self.number, index)).collect();
        let sessions = self.sessions().collect();
        self.shared.registry.disconnect(self.number, sessions, |lost| {
            if !lost.is_empty() || !withdrawn.is_empty() {
                place.put(Request::Goodbye { withdrawn, lost });
            }
        });
    }
}
