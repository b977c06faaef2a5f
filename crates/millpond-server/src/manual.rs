//! A broker whose threads, sockets and clocks are the caller's, for a simulation that moves every byte itself and lets time
//! pass as it likes.
//!
//! Everything else is the real thing: the writer with its lanes, its batches and its sleep, the stages behind it, and the
//! connections with their frames, credits, sessions and deadlines. Where a thread would take what waits for it, the caller
//! lets it ([`ManualBroker::write`], [`ManualBroker::commit`], [`ManualBroker::fetch`], [`ManualBroker::read`]); what a
//! socket would carry, it carries ([`Edge::hear`], [`Edge::say`]); and what may be told it takes, and tells
//! ([`ManualBroker::take_told`], [`ManualBroker::tell`]).

use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use millpond_core::Core;
use millpond_core::command::{Command, Ticket};
use millpond_core::output::Output;
use millpond_protocol::Limits;
use millpond_storage::{Housekeeper, Mover, OpenError, Opened, Reader, Recovery};
use millpond_types::Code;

use crate::bodies::{Bodies, Source};
use crate::memory::{MEMORY_MIN, Shares};
use crate::session::connection::Connection;
use crate::session::outbox::Close;
use crate::session::ticket::{UNANSWERED, parts, ticket};
use crate::session::turns::Length;
use crate::session::{Common, Registry, Shared};
use crate::update_queue::{Lane, Next, Worker};
pub use crate::writer::Host;
use crate::writer::{Clock, FINISHING, Fetcher, Journal, Parts, Request, THREADS, Writer, lanes};

/// The connection that a program's own commands come from. No other has this number, however many there were.
const PROGRAM: u64 = (1 << 40) - 1;

/// See the module.
pub struct ManualBroker<H: Host> {
    shared: Arc<Shared>,
    writer: Worker<Writer<H>>,
    journal: Worker<Journal>,
    fetchers: Vec<Worker<Fetcher>>,
    reading: Worker<Source>,
    reader: Reader,
    /// To be stepped now and then.
    pub housekeeper: Housekeeper,
    /// To be asked now and then.
    pub mover: Mover,
}

/// What there is room for, in bytes: for all else a broker has as much as in the least memory that it may have.
#[derive(Clone, Copy, Debug)]
pub struct Rooms {
    /// Of topics in memory.
    pub topics: usize,
    /// Of entries that are not on the disk yet.
    pub layers: usize,
    /// Of commands that wait for what is on the disk.
    pub parked: usize,
    /// Of producer sessions in memory.
    pub producers: usize,
}

impl Rooms {
    /// Those of the least memory.
    pub fn least() -> Rooms {
        let Shares { room: topics, layers, parked, producers, .. } = Shares::of(MEMORY_MIN);
        Rooms { topics, layers, parked, producers }
    }
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

impl<H: Host> ManualBroker<H> {
    /// Begins service on an open directory, with so much room; and what was found in the directory.
    pub fn start(
        mut opened: Opened,
        Rooms { topics: room, layers, parked, producers }: Rooms,
        mut host: H,
    ) -> Result<(ManualBroker<H>, Recovery), OpenError> {
        let mut clock = Clock::starting_from(opened.report.now, host.now());
        opened.start(clock.tick(host.now(), host.system()))?;
        let Opened { core, store, appender, committer, reader, housekeeper, mover, report } = opened;
        let shares = Shares { room, layers, parked, producers, ..Shares::of(MEMORY_MIN) };
        let (hash_key, common) = (core.hash_key(), Common::new(Registry::holding()));
        let journal = Worker::new(&Journal::LANES, Journal::new(&common));
        let fetchers: Vec<_> = (0..THREADS).map(|_| Worker::new(&Fetcher::LANES, Fetcher::new(&store))).collect();
        let parts = Parts {
            host,
            core,
            store: store.clone(),
            shares,
            fetchers: fetchers.iter().map(Worker::submitter).collect(),
            appender,
            committer,
            clock,
            journal: journal.submitter(),
            common: common.clone(),
        };
        let writer = Worker::new_with(&lanes(&shares), |own| Writer::new(parts, own));
        let source = Source::new(reader.clone(), common.metrics.clone(), writer.submitter());
        let reading = Worker::new(&[Lane::new(shares.connections)], source.clone());
        let bodies = Bodies::new(source, [reading.submitter()].into());
        let known = (hash_key, Limits::default());
        let shared = Shared::new(common, (writer.submitter(), bodies), known, store, &shares);
        let shared = Arc::new(shared);
        let broker = ManualBroker { shared, writer, journal, fetchers, reading, reader, housekeeper, mover };
        Ok((broker, report))
    }

    /// The state, for looking at it.
    pub fn core(&self) -> &Core {
        self.writer.state.core()
    }

    /// The state, for putting a fault into it.
    pub fn core_mut(&mut self) -> &mut Core {
        self.writer.state.core_mut()
    }

    /// What the writer runs in.
    pub fn host(&mut self) -> &mut H {
        &mut self.writer.state.host
    }

    /// For messages by their place.
    pub fn reader(&self) -> &Reader {
        &self.reader
    }

    /// The ticket of the program's own command of this index; see [`ManualBroker::submit`].
    pub fn ticket(index: u32) -> Ticket {
        ticket(PROGRAM, index % UNANSWERED)
    }

    /// The number of the connection that a ticket is of; `None` of the program itself.
    pub fn connection_of(ticket: Ticket) -> Option<u64> {
        Some(parts(ticket).0).filter(|number| *number != PROGRAM)
    }

    /// Submits a command of the program itself, in the lane that it belongs in. It is given back where that is full.
    pub fn submit(&self, ticket: Ticket, command: Command) -> Option<Command> {
        let lane = Request::lane(&command);
        match self.shared.writer.tell(lane, Request::Command(ticket, command, 0)).err()?.into_request() {
            Request::Command(_, command, _) => Some(command),
            _ => unreachable!("it was a command"),
        }
    }

    /// Whether the writer would be woken.
    pub fn is_writer_awake(&self) -> bool {
        self.writer.has_work()
    }

    /// A turn of the writer, with all that waits. Returns how long it sleeps if nothing comes, or why it has ended.
    pub fn write(&mut self) -> Result<Option<Duration>, String> {
        match self.writer.turn(Some(Duration::ZERO)) {
            Next::Sleep(sleep) => Ok(sleep),
            Next::End => Err(self.shared.health.failure().expect("a writer ends for a reason").to_owned()),
        }
    }

    /// Writes and syncs the batch that is on its way; false if there is none.
    pub fn commit(&mut self) -> bool {
        self.journal.has_work() && self.journal.turn(Some(Duration::ZERO)) == Next::Sleep(None)
    }

    /// Reads what the core wants, as far as it was sent to this one of some threads; false if nothing was.
    pub fn fetch(&mut self, thread: usize) -> bool {
        let fetcher = &mut self.fetchers[thread % THREADS];
        fetcher.has_work() && fetcher.turn(Some(Duration::ZERO)) == Next::Sleep(None)
    }

    /// Whether the core waits for anything that is read.
    pub fn is_fetching(&self) -> bool {
        self.writer.state.is_fetching()
    }

    /// Whether a batch waits for which the disk had no room at all.
    pub fn is_stuck(&self) -> bool {
        self.writer.state.is_stuck()
    }

    /// Bytes of the batch that is made while another one is on its way, or waits.
    pub fn batch_bytes(&self) -> usize {
        self.writer.state.batch_bytes()
    }

    /// Whether publishes wait for memory.
    pub fn is_pushed_back(&self) -> bool {
        self.writer.state.is_pushed_back()
    }

    /// Whether the journal rests, and a mark behind it says so.
    pub fn is_marked(&self) -> bool {
        self.writer.state.is_marked()
    }

    /// Reads the messages that connections want and that are not in memory.
    pub fn read(&mut self) {
        self.reading.turn(Some(Duration::ZERO));
    }

    /// What may be told by now, and was not taken yet.
    pub fn take_told(&self) -> Vec<Output> {
        self.shared.registry.take_held()
    }

    /// Whether an output is for a connection and not for the program itself.
    pub fn is_for_connection(&self, output: &Output) -> bool {
        match output {
            Output::Reply { ticket, .. } => parts(*ticket).0 != PROGRAM,
            Output::Delivery { session, .. } | Output::Standing { session, .. } | Output::SessionExpired(session) => {
                self.shared.registry.has(*session)
            }
        }
    }

    /// Tells an output to the connection that it is for.
    pub fn tell(&self, output: Output) {
        self.shared.registry.spread(std::iter::once(output));
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

    /// Ends in good order: what was submitted is decided, everything is durable, and the journal's end is marked. All
    /// connections have to be gone.
    pub fn stop(self) -> Result<H, String> {
        let ManualBroker { shared, writer, mut journal, mut fetchers, .. } = self;
        let writer = writer.finish(|| {
            journal.turn(Some(Duration::ZERO));
            fetchers.iter_mut().for_each(|fetcher| _ = fetcher.turn(Some(Duration::ZERO)));
        });
        if let Some(failure) = shared.health.failure() {
            return Err(failure.to_owned());
        }
        writer.close().map_err(|failure| failure.to_string())
    }
}

impl Edge {
    /// The connection's number.
    pub fn number(&self) -> u64 {
        self.connection.number()
    }

    /// Whether it reads what comes, or has too much of it already.
    pub fn may_read(&self) -> bool {
        self.connection.may_read()
    }

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
        loop {
            if let Err(close) = self.connection.say(now) {
                return Err(Closed { code: close.code, last: self.connection.close(&close) });
            }
            // Of many outputs none may have become bytes.
            if !self.connection.unwritten().is_empty() || !self.connection.has_more_to_say() {
                break;
            }
        }
        let bytes = self.connection.unwritten();
        let said = bytes[..bytes.len().min(most)].to_vec();
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
        self.submit()?;
        let is_reading = self.connection.may_read();
        self.connection.note_reading(is_reading, now);
        if (is_reading || self.connection.takes_frames()) && !self.received.is_empty() {
            let whole = self.received.capacity();
            self.connection.hear((&mut self.received, whole), Length::WHOLE.frames, now)?;
            self.submit()?;
        }
        self.connection.check_deadlines(is_reading, now)
    }

    /// Here it has a turn whenever it waits for one.
    fn submit(&mut self) -> Result<(), Close> {
        self.connection.submit(Length::WHOLE.frames)?;
        while self.connection.waits_for_turn() {
            self.connection.submit(Length::WHOLE.frames)?;
        }
        Ok(())
    }
}
