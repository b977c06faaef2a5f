//! The edges of a broker without sockets, threads and clocks, for a simulation that moves every byte itself.
//!
//! Connections are the real ones: their frames, credits, sessions and deadlines; so are what they share, and the queue in
//! front of the writer. What is left to the caller is what the network, the writer and the reading threads do: bytes
//! ([`Edge::hear`], [`Edge::say`]), commands ([`Edges::commands`]), outputs ([`Edges::release`]), time.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use millpond_core::command::{Command, Ticket};
use millpond_core::output::{Notice, Output, Reply};
use millpond_protocol::Limits;
use millpond_storage::Reader;
use millpond_storage::store::LayeredStore;
use millpond_types::Code;

use crate::bodies::{Bodies, Source};
use crate::health::Health;
use crate::memory::{MEMORY_MIN, Shares};
use crate::metrics::Metrics;
use crate::session::connection::Connection;
use crate::session::credit::Windows;
use crate::session::intake::Receiving;
use crate::session::outbox::Close;
use crate::session::room::Room;
use crate::session::ticket::{EMBEDDED, UNANSWERED, parts};
use crate::session::turns::Turns;
use crate::session::{Known, Registry, Shared};
use crate::update_queue::{Batch, Lane, Next, State, Worker};
use crate::writer::{FINISHING, Request, lanes};

/// See the module.
pub struct Edges {
    shared: Arc<Shared>,
    inbox: Worker<Inbox>,
    reading: Worker<Source>,
}

/// One connection. Dropped, it is as if its socket had closed.
pub struct Edge {
    connection: Connection,
    received: BytesMut,
}

/// Why the broker has closed a connection, and the last bytes that it says.
#[derive(Debug)]
pub struct Closed {
    /// Why.
    pub code: Code,
    /// What is still to be written, the closing frame included.
    pub last: Vec<u8>,
}

impl Edges {
    /// The edges of a broker that has just started, with the least memory that one may have.
    pub fn new(reader: Reader, store: LayeredStore, hash_key: [u64; 2], limits: Limits) -> Edges {
        let shares = Shares::of(MEMORY_MIN);
        let inbox = Worker::new(&lanes(&shares), Inbox::default());
        let metrics = Arc::new(Metrics::new());
        let source = Source::new(reader, metrics.clone(), inbox.submitter());
        let reading = Worker::new(&[Lane { capacity: shares.connections }], source.clone());
        let shared = Shared {
            writer: inbox.submitter(),
            registry: Arc::new(Registry::default()),
            known: Arc::new(Known::default()),
            bodies: Bodies::new(source, [reading.submitter()].into()),
            metrics,
            health: Arc::new(Health::default()),
            hash_key,
            limits,
            turns: Turns::new(),
            receiving: Receiving::new(shares.receiving),
            sending: Room::new(shares.sending),
            windows: Arc::new(Windows::new(shares.windows)),
            store,
            held: AtomicUsize::new(0),
            held_max: shares.held,
            connections_max: shares.connections,
        };
        Edges { shared: Arc::new(shared), inbox, reading }
    }

    /// A client connects: the broker's side of its connection.
    ///
    /// # Panics
    /// If the broker has as many connections as it may have.
    pub fn connect(&mut self, now: Instant) -> Edge {
        let known = self.shared.registry.connect(self.shared.connections_max).expect("a simulation has few");
        let writer = self.shared.writer.source();
        let goodbye = self.shared.writer.place(FINISHING).expect("nothing waits for long");
        let connection = Connection::new(known, (writer, goodbye), self.shared.clone(), now);
        Edge { connection, received: BytesMut::new() }
    }

    /// What the core tells its edges.
    pub fn note(&self, notice: Notice) {
        self.shared.known.note(notice);
    }

    /// The commands that connections have submitted, in the order in which the writer would take them. A ticket of `None`
    /// is of one that is never answered.
    pub fn commands(&mut self) -> Vec<(Option<Ticket>, Command)> {
        self.inbox.turn(Some(Duration::ZERO));
        std::mem::take(&mut self.inbox.state.commands)
    }

    /// Whether an output is for a connection and not for who embeds the broker.
    pub fn is_theirs(&self, output: &Output) -> bool {
        match output {
            Output::Reply { ticket, .. } => parts(*ticket).0 != EMBEDDED,
            Output::Delivery { session, .. } | Output::Standing { session, .. } | Output::SessionExpired(session) => {
                self.shared.registry.has(*session)
            }
        }
    }

    /// Tells outputs.
    pub fn release(&self, outputs: Vec<Output>) {
        self.shared.registry.release(outputs.into_iter());
    }

    /// Reads the messages that connections want and that are not in memory.
    pub fn read(&mut self) {
        self.reading.turn(Some(Duration::ZERO));
    }
}

impl Edge {
    /// Bytes of the client came.
    pub fn hear(&mut self, bytes: &[u8], now: Instant) -> Result<(), Closed> {
        self.received.extend_from_slice(bytes);
        self.go_on(now)
    }

    /// Does what it can without further bytes: takes in what has come, submits commands, and looks at its deadlines.
    fn go_on(&mut self, now: Instant) -> Result<(), Closed> {
        let went = self.try_go_on(now);
        went.map_err(|close| Closed { code: close.code, last: self.connection.close(&close) })
    }

    /// The bytes that it has to say, `most` at most.
    pub fn say(&mut self, most: usize, now: Instant) -> Result<Vec<u8>, Closed> {
        let said = match self.connection.say() {
            Ok(bytes) => bytes[..bytes.len().min(most)].to_vec(),
            Err(close) => return Err(Closed { code: close.code, last: self.connection.close(&close) }),
        };
        if !said.is_empty() {
            self.connection.wrote(said.len(), now);
        }
        Ok(said)
    }

    fn try_go_on(&mut self, now: Instant) -> Result<(), Close> {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(read) = self.connection.poll(&mut context) {
            read?;
        }
        self.connection.submit()?;
        let is_reading = self.connection.may_read();
        self.connection.note_reading(is_reading, now);
        if is_reading && !self.received.is_empty() {
            self.connection.hear(&mut self.received, now)?;
            self.connection.submit()?;
        }
        self.connection.check_deadlines(is_reading, now)
    }
}

/// What the writer is asked, until it is taken.
#[derive(Default)]
struct Inbox {
    commands: Vec<(Option<Ticket>, Command)>,
}

impl State for Inbox {
    type Request = Request;
    type Answer = Reply;

    fn weight(request: &Request) -> usize {
        request.weight()
    }

    fn update(&mut self, batch: &mut Batch<Request, Reply>) -> Next {
        for (request, _) in batch.drain() {
            match request {
                Request::Command(ticket, command) => {
                    let is_answered = parts(ticket).1 != UNANSWERED;
                    self.commands.push((is_answered.then_some(ticket), command));
                }
                Request::Call(command) => self.commands.push((None, command)),
                Request::Goodbye { withdrawn, session } => {
                    self.commands.extend(Request::last_word(withdrawn, session).map(|command| (None, command)));
                }
                Request::Committed(_) | Request::Fetched(_) => unreachable!("nobody commits or fetches here"),
            }
        }
        Next::Sleep(None)
    }
}
