//! Reads for a group: attached or one shot at a time, at least once or at most once, asking again where an answer may have
//! been lost, now and then for something else.

use millpond_core::command::{Attach, Command, Receive, SessionBegin};
use millpond_core::output::LeasedRun;
use millpond_types::{Filter, GroupName, Millis, RequestId, SessionId, TopicName};

use super::{GROUPS, Of, group, home, other};
use crate::clients::{Asked, Request};
use crate::consumer::draw_filter;
use crate::hand::{Hand, Verb};
use crate::streams::Stream;

/// A reader's consumers: one that has to finish what it is given, one that need not, and that which takes all in the end.
const TO_FINISH: u32 = 1;
const AT_MOST_ONCE: u32 = 2;
const LAST: u32 = 3;

/// See the module.
pub struct Reader {
    index: usize,
    group: GroupName,
    session: SessionId,
    connected: bool,
    /// Whether it has come to the end.
    takes_all: bool,
    hand: Hand,
    /// What was asked for last, to be asked for again.
    asked: Option<Receive>,
    /// How often it has asked, which numbers its calls.
    calls: u64,
}

impl Reader {
    pub(super) fn new(index: usize, load: &mut Stream) -> Reader {
        let (session, hand) = (SessionId(load.draw() | 1), Hand::default());
        Reader {
            index,
            group: GroupName::default(),
            session,
            connected: false,
            takes_all: false,
            hand,
            asked: None,
            calls: 0,
        }
    }

    /// Does something.
    pub(super) fn act(&mut self, topics: &[TopicName], load: &mut Stream) -> Vec<Request> {
        if load.one_in(3) {
            return vec![self.receive(topics, load)];
        }
        let session = self.session;
        if !self.connected {
            return self.begin(topics, load);
        }
        match load.weighted(&[12, 5, 4, 1, 1]) {
            0 => self.verb(load).into_iter().collect(),
            1 => {
                let consumer = *load.pick(&[TO_FINISH, AT_MOST_ONCE]);
                let (messages, bytes) = (load.between(1, 12) as u32, load.between(1, 10_000));
                vec![other(Command::Credit { session, consumer, messages, bytes }, "credit")]
            }
            2 => {
                let except = if load.one_in(4) { self.hand.one(load) } else { None };
                vec![other(Command::Heartbeat { session, except: except.into_iter().collect() }, "heartbeats")]
            }
            3 => {
                self.connection_lost();
                vec![other(Command::SessionLost(session), "sessions lost")]
            }
            _ => vec![self.end(load)],
        }
    }

    /// Takes everything of a group and acks it.
    pub(super) fn finish(&mut self, group: GroupName) -> Vec<Request> {
        let session = self.session;
        let mut requests = Vec::new();
        if !self.connected || !self.takes_all {
            (self.group, self.takes_all) = (group, true);
            if std::mem::take(&mut self.connected) {
                // It begins anew, so that what it has forgotten is given back.
                requests.push(other(Command::SessionLost(session), "sessions lost"));
            }
            requests.extend(self.begin_session(Millis::seconds(10)));
            requests.push(self.attach(LAST, Filter::All, (1000, 1_000_000)));
        }
        let (messages, bytes) = (1000, 1_000_000);
        requests.push(other(Command::Credit { session, consumer: LAST, messages, bytes }, "credit"));
        requests.extend(self.hand.ack_all().map(shared));
        requests.push(other(Command::Heartbeat { session, except: Vec::new() }, "heartbeats"));
        requests
    }

    pub(super) fn take(&mut self, leases: &[LeasedRun]) {
        self.hand.take(leases);
    }

    pub(super) fn forget_all(&mut self) {
        self.hand.forget_all();
    }

    /// A delivery came; false if it is not for this one.
    pub(super) fn deliver(&mut self, session: SessionId, consumer: u32, leases: &[LeasedRun]) -> bool {
        if session == self.session && self.connected && consumer != AT_MOST_ONCE {
            self.hand.take(leases);
        }
        session == self.session
    }

    pub(super) fn connection_lost(&mut self) {
        self.connected = false;
    }

    fn verb(&mut self, load: &mut Stream) -> Option<Request> {
        self.hand.verb(load).map(shared)
    }

    fn begin(&mut self, topics: &[TopicName], load: &mut Stream) -> Vec<Request> {
        if self.hand.is_empty() {
            let groups = ["default", GROUPS[0], GROUPS[1]];
            self.group = group(load.word(&groups));
        }
        let mut requests: Vec<Request> = self.begin_session(Millis(load.between(100, 12_000))).into_iter().collect();
        for consumer in [TO_FINISH, AT_MOST_ONCE] {
            if consumer == TO_FINISH || load.one_in(2) {
                let filter = draw_filter(topics, load);
                requests.push(self.attach(consumer, filter, (load.below(12) as u32, load.between(1, 10_000))));
            }
        }
        requests
    }

    fn begin_session(&mut self, resume: Millis) -> Option<Request> {
        if std::mem::replace(&mut self.connected, true) {
            return None;
        }
        let begin = SessionBegin { session: self.session, resume, held: self.hand.held() };
        let asked = Asked::Subscriber(Of::Begin(self.index));
        Some(Request { command: Command::SessionBegin(begin), asked })
    }

    fn end(&mut self, load: &mut Stream) -> Request {
        let ended = std::mem::replace(&mut self.session, SessionId(load.draw() | 1));
        self.connection_lost();
        self.hand.forget_all();
        other(Command::SessionEnd(ended), "sessions ended")
    }

    fn attach(&self, consumer: u32, filter: Filter, (messages, bytes): (u32, u64)) -> Request {
        let attach = Attach {
            session: self.session,
            consumer,
            namespace: home(),
            group: self.group.clone(),
            filter,
            messages,
            bytes,
            lease: None,
            at_most_once: consumer == AT_MOST_ONCE,
        };
        other(Command::Attach(attach), "attached")
    }

    fn receive(&mut self, topics: &[TopicName], load: &mut Stream) -> Request {
        if let Some(asked) = &self.asked {
            if let Some(request) = asked.request.filter(|_| load.one_in(8)) {
                // Now and then the one before, as of a program that has asked again before it lets go of that.
                let call = asked.call - u64::from(load.one_in(4));
                return other(Command::WithdrawRequest { namespace: home(), request, call }, "receives withdrawn");
            }
            if load.one_in(2) {
                let (is_like, asked) = (!load.one_in(4), asked.clone());
                let again = if is_like { asked } else { unlike(&asked, topics, load) };
                return self.ask(again, is_like);
            }
        }
        let receive = Receive {
            namespace: home(),
            group: self.group.clone(),
            filter: draw_filter(topics, load),
            messages: load.between(1, 6) as u32,
            bytes: load.between(1, 5000),
            lease: load.one_in(2).then(|| Millis(load.between(100, 10_000))),
            wait: Millis(load.below(2) * load.below(5000)),
            at_most_once: load.one_in(4),
            request: (!load.one_in(3)).then(|| RequestId(load.draw().into())),
            call: 0,
        };
        self.ask(receive, true)
    }

    /// Each call has a number of its own. What was asked like this may be asked again, and withdrawn.
    fn ask(&mut self, receive: Receive, is_kept: bool) -> Request {
        self.calls += 1;
        let receive = Receive { call: self.calls, ..receive };
        if is_kept {
            self.asked = Some(receive.clone());
        }
        let asked = Asked::Subscriber(Of::Receive(self.index, receive.at_most_once));
        Request { command: Command::Receive(receive), asked }
    }
}

/// A repeat that asks for something else, as of a program that mistakes what it has named.
fn unlike(asked: &Receive, topics: &[TopicName], load: &mut Stream) -> Receive {
    match load.below(3) {
        0 => Receive { group: group(load.word(&["default", GROUPS[0], GROUPS[1]])), ..asked.clone() },
        1 => Receive { filter: draw_filter(topics, load), ..asked.clone() },
        _ => Receive { messages: asked.messages.div_ceil(2), ..asked.clone() },
    }
}

/// A verb of the hand, of which only an ack's outcome is remembered.
fn shared(request: Request) -> Request {
    match request.asked {
        Asked::Finish { verb: Verb::Ack, leases } => {
            Request { command: request.command, asked: Asked::Subscriber(Of::Ack(leases)) }
        }
        _ => other(request.command, "verbs of readers"),
    }
}
