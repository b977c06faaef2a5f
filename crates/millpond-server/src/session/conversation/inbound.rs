//! Frames of the client: each becomes a command, or is answered at once.

use std::time::{Duration, Instant};

use millpond_core::command::{self, Command, Top};
use millpond_protocol::{self as frame, Block, Incoming, Response, VERSION};
use millpond_types::{Code, Filter, Millis, SessionId};

use super::{Begin, Consumer, Conversation, IDLE, Session};
use crate::convert::request::{self as convert, Refusal};
use crate::session::credit::{Grant, Window};
use crate::session::open::{Kind, MANAGE_OPEN_MAX, NAMES_MAX, OPEN_MAX, Open};
use crate::session::outbox::Close;
use crate::session::room::SMALL;
use crate::session::ticket::{UNANSWERED, ticket};
use crate::writer::{BURYING, FINISHING, OF_CONNECTIONS, Request};

/// How long a session may be resumed unless its client says.
const RESUME_DEFAULT: Millis = Millis::seconds(10);
/// The longest that a client may ask for: leases of the dead wait so long.
const RESUME_MAX: Millis = Millis::minutes(10);
/// The shortest: less than this is lost by a scheduling hiccup.
const RESUME_MIN: Millis = Millis(500);
/// Consumers of one connection: each may have a window of deliveries waiting here.
const CONSUMERS_MAX: usize = 64;

impl Conversation {
    /// Takes a frame in. An error closes the connection.
    pub(crate) fn accept(&mut self, incoming: Incoming<frame::Request<Block>>, now: Instant) -> Result<(), Close> {
        let Incoming { correlation, frame: request, bytes } = incoming;
        let key = self.shared.hash_key;
        let manage = |command| (Kind::Manage, command);
        let (kind, mut command) = match request {
            frame::Request::Hello { client, .. } => {
                tracing::debug!(connection = self.number, client, "connected");
                self.welcome(correlation);
                return Ok(());
            }
            frame::Request::Ping => {
                self.answer_at_once(Response::Pong, correlation);
                return Ok(());
            }
            frame::Request::Publish(publish) => return self.publish(publish, correlation, bytes),
            frame::Request::Forward(forward) => return self.forward(forward, correlation, bytes),
            frame::Request::ForwardRoute(route) => return self.forward_route(route, correlation, bytes),
            frame::Request::Route(route) => return self.route(route, correlation, bytes),
            frame::Request::Finish(finish) => {
                self.finish(finish, correlation);
                return Ok(());
            }
            frame::Request::Credit { consumer, messages, bytes } => {
                return self.add_credit(consumer, Grant { messages, bytes }, correlation);
            }
            frame::Request::Heartbeat { except } => {
                let Some(session) = &mut self.session else {
                    return self.refuse(correlation, Code::SessionUnknown, NO_SESSION);
                };
                session.heartbeat = now;
                let session = session.id;
                self.tell(Command::Heartbeat { session, except });
                return Ok(());
            }
            frame::Request::SessionBegin { session, resume, held } => {
                self.begin_session(session, resume, held, correlation, now);
                return Ok(());
            }
            frame::Request::SessionEnd => return self.end_session(correlation),
            frame::Request::Attach(attach) => return self.attach(attach, correlation),
            frame::Request::Detach { consumer } => match &self.session {
                Some(session) => {
                    // Deliveries may be on their way until it is answered.
                    let found = self.consumers.iter().find(|other| other.number == consumer);
                    let nth = found.map_or(0, |found| found.nth);
                    (Kind::Detach { nth }, Command::Detach { session: session.id, consumer })
                }
                None => return self.refuse(correlation, Code::SessionUnknown, NO_SESSION),
            },
            frame::Request::Resign { consumer } => match &self.session {
                Some(session) => (Kind::Plain, Command::Resign { session: session.id, consumer }),
                None => return self.refuse(correlation, Code::SessionUnknown, NO_SESSION),
            },
            frame::Request::Receive(receive) => {
                if let Some(why) = self.may_not_use(&receive.namespace) {
                    return self.refuse(correlation, Code::QuotaExceeded, &why);
                }
                let names = listed(&receive.filter);
                if let Some(why) = self.may_not_list(names) {
                    return self.refuse(correlation, Code::LimitExceeded, &why);
                }
                (Kind::Receive { names: names as u32 }, convert::receive(receive))
            }
            frame::Request::Look { topic, which, group } => manage(convert::look(topic, which, group, key)),
            frame::Request::Cancel { topic, which } => {
                let topic = convert::topic(topic);
                let which = convert::which(which, &topic, key);
                manage(Command::Cancel { topic, which })
            }
            frame::Request::Reschedule { topic, which, delay } => {
                let topic = convert::topic(topic);
                let which = convert::which(which, &topic, key);
                manage(Command::Reschedule { topic, which, delay })
            }
            frame::Request::Pause { namespace, topics, lasts } => manage(Command::Pause { namespace, topics, lasts }),
            frame::Request::Resume { namespace, topics } => manage(Command::Resume { namespace, topics }),
            frame::Request::Forget { topic, dedup_id } => {
                let topic = convert::topic(topic);
                let dedup_hash = millpond_core::dedup_hash(key, &topic.namespace, &topic.name, &dedup_id);
                manage(Command::Forget { topic, dedup_hash })
            }
            frame::Request::Purge { namespace, filter, group } => manage(Command::Purge { namespace, filter, group }),
            frame::Request::NamespaceSet { namespace: name, policy, rules, based_on } => {
                manage(Command::NamespaceSet { name, policy, rules, based_on })
            }
            frame::Request::NamespaceDelete { namespace } => manage(Command::NamespaceDelete(namespace)),
            frame::Request::GroupCreate { namespace, group: name, start, kind } => {
                manage(Command::GroupCreate { namespace, name, start, kind })
            }
            frame::Request::GroupDelete { namespace, group: name } => manage(Command::GroupDelete { namespace, name }),
            frame::Request::Depose { namespace, group } => manage(Command::Depose { namespace, group }),
            frame::Request::ExchangeCreate { namespace, exchange: name, kind, unroutable } => {
                manage(Command::ExchangeCreate { namespace, name, kind, unroutable })
            }
            frame::Request::ExchangeDelete { namespace, exchange: name } => {
                manage(Command::ExchangeDelete { namespace, name })
            }
            frame::Request::Exchanges { namespace } => manage(Command::Exchanges(namespace)),
            frame::Request::Bind { namespace, exchange, binding } => {
                manage(Command::Bind { namespace, exchange, binding })
            }
            frame::Request::Unbind { namespace, exchange, binding } => {
                manage(Command::Unbind { namespace, exchange, binding })
            }
            frame::Request::Bindings { namespace, exchange } => manage(Command::Bindings { namespace, exchange }),
            frame::Request::Namespaces { after } => manage(Command::Namespaces { after }),
            frame::Request::Stats { namespace } => manage(Command::Stats(namespace)),
            frame::Request::Topics { listing, group } => {
                manage(Command::Topics { listing: convert::listing(listing), group })
            }
            frame::Request::Topic(topic) => manage(Command::Topic(convert::topic(topic))),
            frame::Request::TopTopics { namespace, prefix, by, limit, group } => {
                manage(Command::Top(Top { namespace, group, prefix, by, limit }))
            }
            frame::Request::DeadList { listing, group } => {
                manage(Command::DeadList { listing: convert::listing(listing), group })
            }
            frame::Request::DeadLook { topic, id, group } => {
                manage(Command::DeadLook { topic: convert::topic(topic), group, id })
            }
            frame::Request::DeadRedrive { namespace, group, which } => {
                manage(Command::DeadRedrive { namespace, group, which: convert::dead_which(which) })
            }
            frame::Request::DeadPurge { namespace, group, which } => {
                manage(Command::DeadPurge { namespace, group, which: convert::dead_which(which) })
            }
        };
        // It may wait for long, for the disk or for what it asks for, and is small.
        command.detach();
        self.ask(correlation, kind, command);
        Ok(())
    }

    /// A frame was refused by the codec and is off the buffer.
    pub(crate) fn refused(&mut self, correlation: u32, code: Code, detail: String, credit: u32) -> Result<(), Close> {
        if credit > 0 {
            self.spend(credit)?;
            self.give_back(credit);
        }
        self.answer_at_once(Response::Error { code, detail }, correlation);
        Ok(())
    }

    fn welcome(&mut self, correlation: u32) {
        let limits = self.shared.limits;
        let idle = Millis(IDLE.as_millis() as u64);
        let welcome =
            Response::Welcome { version: VERSION, frame_max: limits.frame_max, body_max: limits.body_max, idle };
        // Once, and before all else.
        self.write(welcome, correlation);
    }

    fn publish(&mut self, publish: frame::Publish<Block>, correlation: u32, bytes: u32) -> Result<(), Close> {
        self.spend(bytes)?;
        let silent = publish.level == frame::Level::None;
        if let Some(detail) = self.may_not_use(&publish.namespace) {
            self.give_back(bytes);
            if !silent {
                self.answer_at_once(Response::Error { code: Code::QuotaExceeded, detail }, correlation);
            }
            return Ok(());
        }
        let command = convert::publish(publish, self.shared.hash_key);
        if !self.ask(correlation, Kind::Publish { bytes, silent }, command) {
            self.give_back(bytes);
        }
        Ok(())
    }

    fn forward(&mut self, forward: frame::Forward<Block>, correlation: u32, bytes: u32) -> Result<(), Close> {
        self.spend(bytes)?;
        if let Some(detail) = self.may_not_use(&forward.namespace) {
            self.give_back(bytes);
            return self.refuse(correlation, Code::QuotaExceeded, &detail);
        }
        let command = convert::forward(forward, self.shared.hash_key);
        self.ask_to_publish(command, (correlation, bytes, false));
        Ok(())
    }

    fn forward_route(&mut self, route: frame::ForwardRoute<Block>, correlation: u32, bytes: u32) -> Result<(), Close> {
        self.spend(bytes)?;
        if let Some(detail) = self.may_not_use(&route.namespace) {
            self.give_back(bytes);
            return self.refuse(correlation, Code::QuotaExceeded, &detail);
        }
        self.ask_to_publish(convert::forward_route(route).map(Command::Route), (correlation, bytes, false));
        Ok(())
    }

    fn route(&mut self, route: frame::Route<Block>, correlation: u32, bytes: u32) -> Result<(), Close> {
        self.spend(bytes)?;
        let silent = route.level == frame::Level::None;
        if let Some(detail) = self.may_not_use(&route.namespace) {
            self.give_back(bytes);
            if !silent {
                self.answer_at_once(Response::Error { code: Code::QuotaExceeded, detail }, correlation);
            }
            return Ok(());
        }
        self.ask_to_publish(convert::route(route).map(Command::Route), (correlation, bytes, silent));
        Ok(())
    }

    /// Asks for what a frame with messages became, or answers why that is nothing. The frame has spent so many bytes of credit.
    fn ask_to_publish(&mut self, command: Result<Command, Refusal>, (correlation, bytes, silent): (u32, u32, bool)) {
        let is_asked = match command {
            Ok(command) => self.ask(correlation, Kind::Publish { bytes, silent }, command),
            Err(Refusal { code, detail }) => {
                self.answer_at_once(Response::Error { code, detail }, correlation);
                false
            }
        };
        if !is_asked {
            self.give_back(bytes);
        }
    }

    fn spend(&mut self, bytes: u32) -> Result<(), Close> {
        if self.credit.spend(bytes) {
            return Ok(());
        }
        let detail = format!(
            "more than {} bytes of publish frames were sent and not given back; wait for publish credit",
            frame::PUBLISH_CREDIT
        );
        Err(Close { code: Code::PublishCreditExceeded, detail })
    }

    pub(super) fn give_back(&mut self, bytes: u32) {
        if let Some(bytes) = self.credit.give_back(bytes) {
            // A few bytes for megabytes: no room is asked for them.
            self.write(Response::PublishCredit { bytes }, 0);
        }
    }

    fn finish(&mut self, finish: frame::Finish, correlation: u32) {
        // What names a namespace may be refused by the core, too.
        let (silent, is_answered) = (!finish.confirm, finish.confirm || finish.namespace.is_some());
        match convert::finish(finish) {
            Ok(command) if is_answered => {
                self.ask(correlation, Kind::Finish { silent }, command);
            }
            Ok(command) => self.tell(command),
            Err(Refusal { code, detail }) => self.answer_at_once(Response::Error { code, detail }, correlation),
        }
    }

    fn begin_session(
        &mut self,
        session: SessionId,
        resume: Millis,
        held: Vec<(millpond_types::Receipt, u32)>,
        correlation: u32,
        now: Instant,
    ) {
        let resume = if resume == Millis::ZERO { RESUME_DEFAULT } else { resume };
        let held = convert::receipt_runs(held);
        let refusal = match &held {
            _ if self.session.is_some() => Some((Code::UnexpectedFrame, "this connection has a session already")),
            _ if !(RESUME_MIN..=RESUME_MAX).contains(&resume) => {
                Some((Code::ArgumentInvalid, "resume is from 500 ms to 10 min, or 0 for the default of 10 s"))
            }
            Err(Refusal { code, detail }) => Some((*code, detail.as_str())),
            Ok(_) => None,
        };
        if let Some((code, detail)) = refusal {
            self.answer_at_once(Response::Error { code, detail: detail.to_owned() }, correlation);
            return;
        }
        let held = held.expect("what is refused is answered");
        let id = if session == SessionId(0) { random_session() } else { session };
        self.begun += 1;
        let nth = self.begun;
        let command = Command::SessionBegin(command::SessionBegin { session: id, resume, held });
        let begins_late = self.outbox.is_burying();
        if self.ask(correlation, Kind::SessionBegin { nth }, command) {
            self.begins.push_back(Begin { nth, id, resume, is_named: session != SessionId(0) });
            if let Some(other) = self.shared.registry.take_session(id, self.number, &self.outbox) {
                self.shared.known.uses.leave(other);
            }
            let resume = Duration::from_millis(resume.0);
            self.session = Some(Session { id, nth, begun: false, begins_late, resume, heartbeat: now });
        }
    }

    fn end_session(&mut self, correlation: u32) -> Result<(), Close> {
        let Some(Session { nth, id, .. }) = self.session else {
            return self.refuse(correlation, Code::SessionUnknown, "this connection has no session to end");
        };
        if self.ask(correlation, Kind::SessionEnd { nth }, Command::SessionEnd(id)) {
            self.session = None;
            self.consumers.clear();
            self.ending.push(nth, id);
        }
        Ok(())
    }

    fn attach(&mut self, attach: frame::Attach, correlation: u32) -> Result<(), Close> {
        let Some(session) = &self.session else {
            return self.refuse(correlation, Code::SessionUnknown, NO_SESSION);
        };
        let session = session.id;
        let frame::Attach { consumer, namespace, group, filter, messages, bytes, lease, at_most_once } = attach;
        if self.consumers.iter().any(|other| other.number == consumer) {
            let detail = "a consumer of this number is attached already; choose another";
            return self.refuse(correlation, Code::ConsumerExists, detail);
        }
        if self.consumers.len() >= CONSUMERS_MAX {
            let detail = "a connection attaches at most 64 consumers; open another connection";
            return self.refuse(correlation, Code::LimitExceeded, detail);
        }
        if let Some(why) = self.may_not_use(&namespace) {
            return self.refuse(correlation, Code::QuotaExceeded, &why);
        }
        let names = listed(&filter);
        if let Some(why) = self.may_not_list(names) {
            return self.refuse(correlation, Code::LimitExceeded, &why);
        }
        let (window, first) = Window::new(Grant { messages, bytes }, &self.shared.windows);
        let Grant { messages, bytes } = first;
        let attach =
            command::Attach { session, consumer, namespace, group, filter, messages, bytes, lease, at_most_once };
        let mut command = Command::Attach(attach);
        command.detach();
        self.begun += 1;
        let nth = self.begun;
        if self.ask(correlation, Kind::Attach { nth }, command) {
            self.consumers.push(Consumer { number: consumer, nth, names, window });
        }
        Ok(())
    }

    /// Why no filter of so many names may be added to those that there are, if none may.
    fn may_not_list(&self, names: usize) -> Option<String> {
        let before = self.open.names() + self.consumers.iter().map(|consumer| consumer.names).sum::<usize>();
        (before + names > NAMES_MAX).then(|| {
            format!(
                "the consumers and waiting receives of this connection list {before} topics and prefixes, and {NAMES_MAX} at most: use prefixes, or another connection"
            )
        })
    }

    fn add_credit(&mut self, consumer: u32, credit: Grant, correlation: u32) -> Result<(), Close> {
        if self.session.is_none() {
            return self.refuse(correlation, Code::SessionUnknown, NO_SESSION);
        }
        let Some(found) = self.consumers.iter_mut().find(|other| other.number == consumer) else {
            let detail = format!("no consumer {consumer} is attached here; attach it first");
            return self.refuse(correlation, Code::ConsumerUnknown, &detail);
        };
        if let Some(told) = found.window.add(credit) {
            self.tell_credit(consumer, told);
        }
        Ok(())
    }

    pub(super) fn tell_credit(&mut self, consumer: u32, credit: Grant) {
        let Some(session) = self.session.as_ref().map(|session| session.id) else { return };
        self.tell(Command::Credit { session, consumer, messages: credit.messages, bytes: credit.bytes });
    }

    /// Submits a command that is answered; false if the connection has too many open, and then the client is told.
    fn ask(&mut self, correlation: u32, kind: Kind, command: Command) -> bool {
        let Some(index) = self.open.insert(Open { correlation, kind }) else {
            let detail = format!(
                "the connection has {OPEN_MAX} requests unanswered, or {MANAGE_OPEN_MAX} that look, list or manage; wait for answers"
            );
            self.answer_at_once(Response::Error { code: Code::LimitExceeded, detail }, correlation);
            return false;
        };
        self.submit(index, command);
        true
    }

    /// Submits a command that nobody waits for.
    pub(super) fn tell(&mut self, command: Command) {
        self.submit(UNANSWERED, command);
    }

    /// Whether a command is decided behind what makes dead letters: a heartbeat only where its session begins there.
    fn comes_behind_letters(&self, command: &Command) -> bool {
        match command {
            Command::Heartbeat { .. } => {
                self.session.as_ref().is_some_and(|session| session.begins_late && !session.begun)
            }
            _ => Request::comes_behind_letters(command),
        }
    }

    fn submit(&mut self, index: u32, command: Command) {
        let lane = match Request::lane(&command) {
            FINISHING if self.outbox.is_burying() && self.comes_behind_letters(&command) => BURYING,
            lane => lane,
        };
        debug_assert!(OF_CONNECTIONS.contains(&lane));
        if lane == BURYING {
            self.outbox.buries();
        }
        let answer = Request::answer(&command);
        let is_routed = matches!(command, Command::Route(_));
        let routes = self.routes.iter_mut().find(|routes| routes.lane() == lane && (is_routed || routes.are_any()));
        let request = Request::Command(ticket(self.number, index), command, self.buffer);
        let is_lengthy = answer > SMALL;
        if is_lengthy || lane != FINISHING {
            self.holding[lane] += request.while_it_waits();
        }
        match routes {
            _ if is_lengthy => self.lengthy.push(index, answer, (lane, request)),
            Some(routes) => routes.push(request),
            None => self.lanes[lane].push_back(request),
        }
    }

    /// Lets the next request that is answered at length go to the writer, if it may: not while its answer would wait behind
    /// others for the client to take them, for then whoever waits for room would do so too.
    pub(crate) fn go_on_at_length(&mut self) {
        if self.reading.is_none() {
            let Some((lane, request)) = self.lengthy.next(self.is_read(), self.out.unwritten()) else { return };
            if lane == FINISHING {
                // While anything waits there, nothing more is read.
                self.holding[lane] -= request.while_it_waits();
            }
            self.lanes[lane].push_back(request);
        }
    }

    fn refuse(&mut self, correlation: u32, code: Code, detail: &str) -> Result<(), Close> {
        self.answer_at_once(Response::Error { code, detail: detail.to_owned() }, correlation);
        Ok(())
    }
}

/// How many names a filter lists.
fn listed(filter: &Filter) -> usize {
    match filter {
        Filter::All => 0,
        Filter::Topics(names) | Filter::Prefixes(names) => names.len(),
    }
}

const NO_SESSION: &str = "this connection has no session; begin one first";

/// A session's id is all that resuming takes, so it must not be guessable.
fn random_session() -> SessionId {
    loop {
        let id = getrandom::u64().expect("the operating system gives random numbers");
        if id != 0 {
            return SessionId(id);
        }
    }
}
