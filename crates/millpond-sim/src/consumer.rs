//! Attached consumers: a session that begins, is lost, is resumed and ends; credit; heartbeats; and a hand that
//! finishes what it was given.

use millpond_core::command::{Attach, Command, SessionBegin};
use millpond_core::output::LeasedRun;
use millpond_protocol as frame;
use millpond_types::{Filter, GroupName, MessageId, Millis, NamespaceName, Receipt, SessionId, TopicName};

use crate::clients::{Asked, Request};
use crate::hand::Hand;
use crate::plan::Plan;
use crate::sights::Sights;
use crate::streams::Stream;

/// See the module.
pub struct Consumer {
    index: usize,
    namespaces: Vec<NamespaceName>,
    topics: Vec<TopicName>,
    session: SessionId,
    connected: bool,
    attached: Vec<u32>,
    next_consumer: u32,
    /// Numbers of consumers that were detached, so they may be used again.
    free: Vec<u32>,
    hand: Hand,
}

impl Consumer {
    /// The consumer of an index.
    pub fn new(index: usize, plan: &Plan, load: &mut Stream) -> Consumer {
        Consumer {
            index,
            namespaces: plan.namespaces.iter().map(|(name, _)| name.clone()).collect(),
            topics: plan.topics.clone(),
            session: fresh_session(load),
            connected: false,
            attached: Vec::new(),
            next_consumer: 0,
            free: Vec::new(),
            hand: Hand::default(),
        }
    }

    /// Does something.
    pub fn act(&mut self, load: &mut Stream) -> Vec<Request> {
        let other = |command, what| vec![Request { command, asked: Asked::Other(what) }];
        let session = self.session;
        if !self.connected {
            if load.one_in(6)
                && let Some(forgotten) = self.hand.one(load)
            {
                self.hand.forget(forgotten);
            }
            let mut requests = vec![self.begin(Millis(load.between(100, 12_000)))];
            requests.push(self.attach(load));
            return requests;
        }
        match load.weighted(&[12, 6, 5, 2, 2, 1, 1]) {
            0 => self.hand.verb(load).into_iter().collect(),
            1 if !self.attached.is_empty() => {
                let consumer = *load.pick(&self.attached);
                let (messages, bytes) = (load.between(1, 30) as u32, load.between(1, 10_000));
                other(Command::Credit { session, consumer, messages, bytes }, "credit")
            }
            2 => {
                let except = if load.one_in(4) { self.hand.one(load) } else { None };
                other(Command::Heartbeat { session, except: except.into_iter().collect() }, "heartbeats")
            }
            3 if self.attached.len() < 4 => vec![self.attach(load)],
            4 if !self.attached.is_empty() => {
                let index = load.below(self.attached.len() as u64) as usize;
                let consumer = self.attached.swap_remove(index);
                let asked = Asked::Detach { consumer: self.index, number: consumer };
                vec![Request { command: Command::Detach { session, consumer }, asked }]
            }
            5 => {
                self.connection_lost();
                other(Command::SessionLost(session), "sessions lost")
            }
            6 => {
                self.connection_lost();
                self.hand.forget_all();
                // Now and then it begins anew under the same id.
                if !load.one_in(3) {
                    self.session = fresh_session(load);
                }
                other(Command::SessionEnd(session), "sessions ended")
            }
            _ => Vec::new(),
        }
    }

    /// Takes everything there is and acks it.
    pub fn finish(&mut self) -> Vec<Request> {
        let mut requests = Vec::new();
        let session = self.session;
        if self.connected && !self.attached.iter().any(|consumer| *consumer >= FINISHING) {
            // It begins anew, so that what it has forgotten is given back.
            self.connection_lost();
            requests.push(Request { command: Command::SessionLost(session), asked: Asked::Other("sessions lost") });
        }
        if !self.connected {
            requests.push(self.begin(Millis::seconds(10)));
        }
        if self.attached.iter().all(|consumer| *consumer < FINISHING) {
            self.attached.extend(FINISHING..FINISHING + self.namespaces.len() as u32);
            let everything = self.namespaces.iter().zip(FINISHING..).map(|(namespace, consumer)| Attach {
                session,
                consumer,
                namespace: namespace.clone(),
                group: GroupName::default(),
                filter: Filter::All,
                // All else has to come as credit.
                messages: 1,
                bytes: 1,
                lease: None,
                at_most_once: false,
            });
            let asked = Asked::Other("attached");
            requests
                .extend(everything.map(|attach| Request { command: Command::Attach(attach), asked: asked.clone() }));
        }
        for consumer in self.attached.iter().copied() {
            let command = Command::Credit { session, consumer, messages: 1_000_000, bytes: 1 << 40 };
            requests.push(Request { command, asked: Asked::Other("credit") });
        }
        requests.extend(self.hand.ack_all());
        let command = Command::Heartbeat { session, except: Vec::new() };
        requests.push(Request { command, asked: Asked::Other("heartbeats") });
        requests
    }

    /// The answer to a session's begin.
    pub fn begun(&mut self, resumed: bool, sights: &mut Sights) {
        if resumed {
            sights.saw("sessions resumed");
        } else {
            self.hand.forget_all();
        }
    }

    /// The answer to a detachment.
    pub fn detached(&mut self, number: u32, sights: &mut Sights) {
        sights.saw("detached");
        self.free.push(number);
    }

    /// A delivery came; false if it is not for this one, or its connection is gone.
    pub fn deliver(&mut self, session: SessionId, leases: &[LeasedRun]) -> bool {
        let is_ours = self.connected && session == self.session;
        if is_ours {
            self.hand.take(leases);
        }
        is_ours
    }

    /// A delivery came on its connection.
    pub fn given(&mut self, leases: &[frame::LeasedRun]) {
        if self.connected {
            self.hand.take(leases);
        }
    }

    /// A lease was not ended.
    pub fn keep(&mut self, receipt: Receipt, id: MessageId) {
        self.hand.keep(receipt, id);
    }

    /// The connection is gone. The leases stay in hand: the session may be resumed.
    pub fn connection_lost(&mut self) {
        self.connected = false;
        self.attached.clear();
        self.free.clear();
    }

    fn begin(&mut self, resume: Millis) -> Request {
        self.connected = true;
        let asked = Asked::Begin { consumer: self.index, session: self.session };
        let begin = SessionBegin { session: self.session, resume, held: self.hand.held() };
        Request { command: Command::SessionBegin(begin), asked }
    }

    fn attach(&mut self, load: &mut Stream) -> Request {
        let (consumer, what) = match self.free.pop() {
            Some(number) => (number, "numbers of consumers used again"),
            None => {
                self.next_consumer += 1;
                (self.next_consumer, "attached")
            }
        };
        self.attached.push(consumer);
        let attach = Attach {
            session: self.session,
            consumer,
            namespace: load.pick(&self.namespaces).clone(),
            group: GroupName::default(),
            filter: draw_filter(&self.topics, load),
            messages: load.below(20) as u32,
            bytes: load.between(1, 10_000),
            lease: load.one_in(3).then(|| Millis(load.between(100, 10_000))),
            at_most_once: false,
        };
        Request { command: Command::Attach(attach), asked: Asked::Other(what) }
    }
}

/// The numbers of the consumers that take everything at the end begin here.
const FINISHING: u32 = 1 << 30;

fn fresh_session(load: &mut Stream) -> SessionId {
    SessionId(load.draw() | 1)
}

/// All topics, some, or those with a prefix.
pub fn draw_filter(topics: &[TopicName], load: &mut Stream) -> Filter {
    match load.weighted(&[5, 2, 2]) {
        0 => Filter::All,
        1 => Filter::Topics((0..load.between(1, 3)).map(|_| load.pick(topics).clone()).collect()),
        _ => {
            let prefixes = ["a", "a/", "b/1", "d/x", "zzz"];
            let prefix = |name: &&str| TopicName::try_from(*name).expect("a valid prefix");
            Filter::Prefixes((0..load.between(1, 2)).map(|_| prefix(load.pick(&prefixes))).collect())
        }
    }
}
