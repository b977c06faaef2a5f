//! The task of one connection: it moves the bytes of its socket, and [`Connection`] says which.
//!
//! Invariant: the task never blocks and never waits for one thing alone. It reads as long as the broker has room for
//! what it reads, writes what there is to write, and takes what was put into its outbox. All frames that are ready go out
//! in one write. A connection that rests holds no buffers.

use std::future::poll_fn;
use std::io::{self, Write};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond_protocol::{Response, encode_response};
use millpond_types::{Code, Counted};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{sleep_until, timeout};

use super::Shared;
use super::connection::{Connection, hardly_reads, stopped};
use super::intake::{Brought, Intake};
use super::outbox::{Close, Outbox};
use super::turns::{Effort, Turn};
use crate::lines::may_say;
use crate::update_queue::Refused;
use crate::writer::FINISHING;

/// How long a closing connection is given to take its last frame.
const LINGER: Duration = Duration::from_secs(1);

/// How a connection ended.
enum End {
    /// The client closed it, or the network did.
    Gone,
    /// The broker closes it.
    Close(Close),
}

impl From<Close> for End {
    fn from(close: Close) -> End {
        End::Close(close)
    }
}

/// Serves a connection until it ends. `connections_max` is held against those that are open.
pub(crate) async fn serve(mut stream: TcpStream, shared: Arc<Shared>, connections_max: usize) {
    let Some((number, outbox)) = shared.registry.connect(connections_max) else {
        shared.metrics.refused.inc();
        let open = Counted(connections_max as u64, "connection");
        let detail = format!("the broker has {open}, and may have no more; close one");
        return refuse(&mut stream, Close { code: Code::Overloaded, detail }).await;
    };
    let mut writer = shared.writer.source();
    let goodbye = loop {
        match shared.writer.place(FINISHING) {
            Ok(place) => break place,
            Err(Refused::Full(())) if writer.room(FINISHING, 1, 1).await.is_ok() => {}
            Err(_) => {
                shared.registry.disconnect(number, Vec::new(), |_| {});
                return refuse(&mut stream, stopped(&shared)).await;
            }
        }
    };
    shared.metrics.connected.inc();
    let now = Instant::now();
    let mut socket = Socket {
        connection: Connection::new((number, outbox.clone()), (writer, goodbye), shared.clone(), now),
        outbox,
        intake: Intake::new(shared.receiving.clone()),
        shared,
        effort: Effort::new(now),
        has_more_to_say: false,
    };
    let end = socket.run(&mut stream).await;
    if let End::Close(close) = end {
        let code = close.code.name();
        // Each code is a kind: what one client does wrong hides nothing of what others do.
        if let Some(left_out) = may_say(code) {
            tracing::info!(connection = number, code, detail = close.detail, left_out, "closing a connection");
        }
        // Others may wait for the room that it had. Whoever is closed for what it leaves unread would not read why, either.
        drop(socket.intake);
        if close.code != Code::Overloaded || socket.connection.unwritten().is_empty() {
            let rest = socket.connection.close(&close);
            farewell(&mut stream, &rest).await;
        }
    }
}

struct Socket {
    connection: Connection,
    outbox: Arc<Outbox>,
    shared: Arc<Shared>,
    intake: Intake,
    effort: Effort,
    /// Whether there may be outputs that the socket would take.
    has_more_to_say: bool,
}

impl Socket {
    async fn run(&mut self, stream: &mut TcpStream) -> End {
        let (reading, writing) = stream.split();
        match self.run_until_closed(reading, writing).await {
            Ok(()) => End::Gone,
            Err(end) => end,
        }
    }

    async fn run_until_closed(&mut self, mut reading: ReadHalf<'_>, writing: WriteHalf<'_>) -> Result<(), End> {
        let mut turn: Option<Turn> = None;
        let mut timer = pin!(sleep_until(Instant::now().into()));
        loop {
            self.flush(&writing)?;
            let found = self.connection.submit(self.effort.length().frames)?;
            self.effort.took_in(found);
            self.intake.told(self.connection.held_messages());
            drop(turn.take());
            self.connection.check_drained()?;
            if self.effort.needs_turn(&self.shared.turns) || self.connection.waits_for_turn() {
                turn = Some(self.shared.turns.next().await);
                while self.effort.gives_way() {
                    drop(turn.take());
                    turn = Some(self.shared.turns.next().await);
                }
                self.effort.begins(Instant::now());
            }
            if self.connection.takes_frames() {
                self.take_in()?;
                continue;
            }
            if turn.is_some() && self.may_read() && !self.read(&mut reading).await? {
                return Ok(());
            }
            if turn.is_some() || self.has_more_to_say {
                continue;
            }
            let is_writing = !self.connection.unwritten().is_empty();
            let is_reading = self.may_read();
            self.connection.note_reading(is_reading, Instant::now());
            let waits_for_turn = self.intake.is_waiting();
            let deadline = self.connection.deadline(is_reading);
            let deadline =
                self.intake.deadline(self.connection.is_stuck()).map_or(deadline, |other| deadline.min(other));
            // Deadlines move away with each frame. The timer is left where it is, and if it ends early nothing is due.
            if timer.is_elapsed() || timer.deadline() > deadline.into() {
                timer.as_mut().reset(deadline.into());
            }
            let (connection, intake) = (&mut self.connection, &mut self.intake);
            tokio::select! {
                biased;
                () = self.outbox.filled() => {}
                ready = reading.readable(), if is_reading => {
                    ready.map_err(|_| End::Gone)?;
                    let waits_for_much = self.connection.waits_for_much();
                    self.effort.called(&self.shared.turns, waits_for_much, Instant::now());
                    if !self.read(&mut reading).await? {
                        return Ok(());
                    }
                }
                ready = writing.writable(), if is_writing => ready.map_err(|_| End::Gone)?,
                waited = poll_fn(|context| connection.poll(context)) => waited?,
                () = intake.granted(), if waits_for_turn => {
                    // What was sent meanwhile is there.
                    if self.may_read() && !self.read(&mut reading).await? {
                        return Ok(());
                    }
                }
                () = timer.as_mut() => self.check_deadlines()?,
            }
        }
    }

    /// Reads once, without waiting, and takes frames in. False at the end of the stream.
    async fn read(&mut self, stream: &mut ReadHalf<'_>) -> Result<bool, End> {
        match self.intake.read(stream, self.effort.length().bytes).await {
            Brought::Something(bytes) => self.effort.moved(bytes),
            Brought::Nothing => return Ok(true),
            Brought::End => return Ok(false),
        }
        self.take_in()?;
        Ok(true)
    }

    /// Takes whole frames in, no more than may be in a turn.
    fn take_in(&mut self) -> Result<(), Close> {
        let frames = self.connection.hear(self.intake.received(), self.effort.length().frames, Instant::now())?;
        self.effort.took_in(frames);
        if frames > 0 {
            self.intake.taken();
        }
        if !self.connection.has_frames() {
            self.intake.settle();
        }
        Ok(())
    }

    /// Writes as much as the socket takes and may be in a turn.
    fn flush(&mut self, stream: &WriteHalf<'_>) -> Result<(), End> {
        self.has_more_to_say = false;
        let (now, mut moved, most) = (Instant::now(), 0, self.effort.length().bytes);
        loop {
            if !self.has_more_to_say {
                self.connection.say(now)?;
                self.has_more_to_say = self.connection.has_more_to_say();
            }
            let bytes = self.connection.unwritten();
            if bytes.is_empty() {
                if self.has_more_to_say {
                    self.effort.said_much();
                }
                return Ok(());
            }
            if moved >= most {
                self.has_more_to_say = true;
                return Ok(());
            }
            match stream.try_write(&bytes[..bytes.len().min(most)]) {
                Ok(bytes) => {
                    moved += bytes;
                    self.effort.moved(bytes);
                    self.connection.wrote(bytes, Instant::now());
                    self.intake.wrote(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.connection.compact();
                    self.has_more_to_say = false;
                    return Ok(());
                }
                Err(_) => return Err(End::Gone),
            }
        }
    }

    fn may_read(&self) -> bool {
        !self.intake.is_waiting() && self.connection.may_read()
    }

    fn check_deadlines(&mut self) -> Result<(), Close> {
        let now = Instant::now();
        self.connection.check_deadlines(self.may_read(), now)?;
        if self.intake.is_left_unread(self.connection.is_stuck(), now) {
            return Err(hardly_reads());
        }
        if self.intake.is_overdue(now) {
            let detail = "a large frame came too slowly while others waited for its room; send smaller ones".to_owned();
            return Err(Close { code: Code::Overloaded, detail });
        }
        Ok(())
    }
}

/// Closes a connection that was not taken in.
async fn refuse(stream: &mut TcpStream, close: Close) {
    let mut frame = Vec::new();
    encode_response(&Response::Closing { code: close.code, detail: close.detail }, 0, &mut frame);
    farewell(stream, &frame).await;
}

/// Closes a connection at once, because the files of the process are needed elsewhere. Whether the client reads why is up
/// to the network: it is not waited for.
pub(crate) fn turn_away(stream: TcpStream) {
    let detail =
        "the broker's limit of open files leaves no more for connections; close some, or raise it (`ulimit -n`)";
    let closing = Response::Closing { code: Code::Overloaded, detail: detail.to_owned() };
    let mut frame = Vec::new();
    encode_response(&closing, 0, &mut frame);
    let told = stream.into_std().and_then(|mut stream| stream.write_all(&frame));
    if let Err(error) = told {
        tracing::debug!(%error, "a client that is turned away was not told why");
    }
}

/// Writes the last bytes, and reads on for a moment so that the client's unread bytes do not destroy them on their way.
async fn farewell(stream: &mut TcpStream, last: &[u8]) {
    let told = async {
        stream.write_all(last).await?;
        stream.shutdown().await?;
        let mut rest = [0; 1024];
        loop {
            stream.readable().await?;
            match stream.try_read(&mut rest) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    };
    // A client that is gone, or does not take it, has been told as well as can be.
    let _: Result<io::Result<()>, _> = timeout(LINGER, told).await;
}
