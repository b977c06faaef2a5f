//! The task of one connection: it moves bytes and commands, and [`Conversation`] says which.
//!
//! Invariant: the task never blocks and never waits for one thing alone. It reads as long as the broker has room for
//! what it reads, writes what there is to write, and takes what was put into its outbox. All commands of one read go to
//! the writer in one step per lane, all frames that are ready go out in one write. A connection that rests holds no
//! buffers. While the broker does not read, for reasons of its own, no silence is held against the client.

use std::future::poll_fn;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use millpond_core::output::Reply;
use millpond_protocol::{Decoder, FrameError, Response, encode_response};
use millpond_types::Code;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{sleep_until, timeout};

use super::Shared;
use super::conversation::{Conversation, IDLE};
use super::intake::{Brought, Intake};
use super::outbox::{Close, Outbox};
use super::turns::{Effort, FRAMES_IN_A_TURN, TURN, Turn};
use crate::update_queue::{Refused, Source};
use crate::writer::{FINISHING, PUBLISHING, Request};

/// How long a closing connection is given to take its last frame.
const LINGER: Duration = Duration::from_secs(1);

/// How a connection ended.
enum End {
    /// The client closed it, or the network did.
    Gone,
    /// The broker closes it.
    Close(Close),
}

/// Serves a connection until it ends. `connections_max` is held against those that are open.
pub(crate) async fn serve(mut stream: TcpStream, shared: Arc<Shared>, connections_max: usize) {
    let Some((number, outbox)) = shared.registry.connect(connections_max) else {
        shared.metrics.refused.inc();
        let detail = format!("the broker has {connections_max} connections, which is all it may have; close some");
        return refuse(&mut stream, Close { code: Code::Overloaded, detail }).await;
    };
    let mut writer = shared.writer.source();
    // The last word has its place from the beginning, so that it can always be said.
    let goodbye = loop {
        match shared.writer.place(FINISHING) {
            Ok(place) => break place,
            Err(Refused::Full(())) if writer.room(FINISHING, 1, 1).await.is_ok() => {}
            Err(_) => {
                shared.registry.disconnect(number, None, |_| {});
                return refuse(&mut stream, stopped(&shared)).await;
            }
        }
    };
    shared.metrics.connected.inc();
    let decoder = Decoder::new(shared.limits);
    let intake = Intake::new(shared.receiving.clone());
    let conversation = Conversation::new(number, outbox.clone(), goodbye, shared.clone());
    let mut connection = Connection {
        conversation,
        outbox,
        shared,
        writer,
        decoder,
        intake,
        written: 0,
        held: 0,
        was_reading: true,
        last_sign: Instant::now(),
        effort: Effort::new(Instant::now()),
        has_frames: false,
        has_more_to_say: false,
    };
    let end = connection.run(&mut stream).await;
    if let End::Close(close) = end {
        tracing::info!(connection = number, code = close.code.name(), detail = close.detail, "closing a connection");
        connection.conversation.close(&close);
        let rest = connection.conversation.out.split_off(connection.written);
        farewell(&mut stream, &rest).await;
    }
}

struct Connection {
    conversation: Conversation,
    outbox: Arc<Outbox>,
    shared: Arc<Shared>,
    writer: Source<Request, Reply>,
    decoder: Decoder,
    intake: Intake,
    /// How many of the bytes to write are written.
    written: usize,
    /// How much of what this connection holds is counted in [`Shared::held`].
    held: usize,
    /// Whether frames were read when the task last looked.
    was_reading: bool,
    /// When the client was last heard of.
    last_sign: Instant,
    effort: Effort,
    /// Whether there may be whole frames among what was read.
    has_frames: bool,
    /// Whether there may be outputs that the socket would take.
    has_more_to_say: bool,
}

impl Connection {
    async fn run(&mut self, stream: &mut TcpStream) -> End {
        let (reading, writing) = stream.split();
        match self.run_until_closed(reading, writing).await {
            Ok(()) => End::Gone,
            Err(end) => end,
        }
    }

    async fn run_until_closed(&mut self, mut reading: ReadHalf<'_>, writing: WriteHalf<'_>) -> Result<(), End> {
        let mut turn: Option<Turn> = None;
        loop {
            self.flush(&writing)?;
            self.submit()?;
            drop(turn.take());
            if self.conversation.is_drained() {
                return Err(End::Close(Close {
                    code: Code::Stopping,
                    detail: "the broker is shutting down; connect again soon".to_owned(),
                }));
            }
            if self.effort.needs_turn() {
                turn = Some(self.shared.turns.next().await);
            }
            if self.has_frames {
                self.take_in()?;
                continue;
            }
            if turn.is_some() && self.may_read() && !self.read(&mut reading).await? {
                return Ok(());
            }
            if turn.is_some() || self.has_more_to_say {
                continue;
            }
            let is_writing = self.written < self.conversation.out.len();
            let is_reading = self.may_read();
            self.note_reading(is_reading);
            let (lane, weight, count) = self.waits_for_room().unwrap_or_default();
            let waits_for_turn = self.intake.is_waiting();
            let deadline = self.deadline();
            let (conversation, intake) = (&mut self.conversation, &mut self.intake);
            let writer = &mut self.writer;
            tokio::select! {
                biased;
                () = self.outbox.filled() => {}
                ready = reading.readable(), if is_reading => {
                    ready.map_err(|_| End::Gone)?;
                    if !self.read(&mut reading).await? {
                        return Ok(());
                    }
                }
                ready = writing.writable(), if is_writing => ready.map_err(|_| End::Gone)?,
                read = poll_fn(|context| conversation.poll_reading(context)) => read.map_err(End::Close)?,
                room = async { writer.room(lane, weight, count).await }, if count > 0 => {
                    room.map_err(|_| End::Close(stopped(&self.shared)))?;
                }
                () = intake.granted(), if waits_for_turn => {}
                () = sleep_until(deadline.into()) => self.check_deadlines()?,
            }
        }
    }

    /// Reads once, without waiting, and takes frames in. False at the end of the stream.
    async fn read(&mut self, stream: &mut ReadHalf<'_>) -> Result<bool, End> {
        match self.intake.read(stream).await {
            Brought::Something(bytes) => self.effort.moved(bytes),
            Brought::Nothing => return Ok(true),
            Brought::End => return Ok(false),
        }
        self.take_in()?;
        Ok(true)
    }

    /// Takes whole frames in, no more than may be in a turn.
    fn take_in(&mut self) -> Result<(), End> {
        let now = Instant::now();
        for frames in 0..FRAMES_IN_A_TURN {
            let taken = match self.decoder.next_request(&mut self.intake.bytes) {
                Ok(None) => {
                    self.effort.took_in(frames);
                    self.has_frames = false;
                    self.intake.settle();
                    return Ok(());
                }
                Ok(Some(incoming)) => self.conversation.accept(incoming, now),
                Err(FrameError::Refused { correlation, code, detail, credit }) => {
                    self.conversation.refused(correlation, code, detail, credit)
                }
                Err(FrameError::Fatal { code, detail }) => Err(Close { code, detail }),
            };
            self.last_sign = now;
            taken.map_err(End::Close)?;
        }
        self.effort.took_in(FRAMES_IN_A_TURN);
        self.has_frames = true;
        Ok(())
    }

    /// Turns outputs into bytes and writes as many as the socket takes and may be in a turn.
    fn flush(&mut self, stream: &WriteHalf<'_>) -> Result<(), End> {
        self.has_more_to_say = false;
        let mut moved = 0;
        loop {
            self.conversation.pump().map_err(End::Close)?;
            let is_behind = self.conversation.is_behind();
            let out = &mut self.conversation.out;
            if out.is_empty() {
                return Ok(());
            }
            if moved >= TURN {
                self.has_more_to_say = true;
                return Ok(());
            }
            let end = out.len().min(self.written + TURN);
            match stream.try_write(&out[self.written..end]) {
                Ok(bytes) => {
                    moved += bytes;
                    self.effort.moved(bytes);
                    self.written += bytes;
                    let all = self.written == out.len();
                    if all {
                        self.written = 0;
                    }
                    self.conversation.written(bytes, all);
                    if is_behind {
                        // Its frames are not read now: that it takes bytes is the sign of life.
                        self.last_sign = Instant::now();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if self.written > out.len() / 2 {
                        out.drain(..self.written);
                        self.written = 0;
                    }
                    return Ok(());
                }
                Err(_) => return Err(End::Gone),
            }
        }
    }

    /// Hands commands to the writer, as many as its lanes have room for.
    fn submit(&mut self) -> Result<(), End> {
        for lane in [FINISHING, PUBLISHING] {
            let commands = &mut self.conversation.lanes[lane];
            if !commands.is_empty() {
                let told = self.writer.tell_all(lane, commands);
                let told = told.map_err(|_| End::Close(stopped(&self.shared)))?;
                if lane == PUBLISHING {
                    self.conversation.publishing -= told;
                }
                if commands.is_empty() {
                    *commands = Default::default();
                }
            }
        }
        let held = self.conversation.publishing;
        if held != self.held {
            self.shared.held.fetch_add(held, Ordering::Relaxed);
            self.shared.held.fetch_sub(self.held, Ordering::Relaxed);
            self.held = held;
        }
        Ok(())
    }

    /// Publishes alone never stop the reading, for acks come on the same socket; but what connections hold together has
    /// a bound.
    fn may_read(&self) -> bool {
        let conversation = &self.conversation;
        let holds_too_much = self.held > 0 && self.shared.held.load(Ordering::Relaxed) > self.shared.held_max;
        let is_full = !conversation.lanes[FINISHING].is_empty() || holds_too_much;
        !is_full && !self.intake.is_waiting() && !conversation.is_draining() && !conversation.is_behind()
    }

    /// Begins to count the client's silence when reading goes on.
    fn note_reading(&mut self, is_reading: bool) {
        if is_reading && !std::mem::replace(&mut self.was_reading, is_reading) {
            self.last_sign = Instant::now();
            self.conversation.reading_again(self.last_sign);
        }
        self.was_reading = is_reading;
    }

    /// The lane that has no room for commands, what the first of them weighs, and how many there are.
    fn waits_for_room(&self) -> Option<(usize, usize, usize)> {
        [FINISHING, PUBLISHING].into_iter().find_map(|lane| {
            let commands = &self.conversation.lanes[lane];
            commands.front().map(|first| (lane, first.weight(), commands.len()))
        })
    }

    /// When something is overdue if nothing happens until then.
    fn deadline(&self) -> Instant {
        let others = [self.heartbeat_deadline(), self.intake.deadline(), self.conversation.sending.deadline()];
        others.into_iter().flatten().fold(self.last_sign + IDLE, Instant::min)
    }

    /// A heartbeat that the broker does not read cannot be late.
    fn heartbeat_deadline(&self) -> Option<Instant> {
        self.conversation.heartbeat_deadline().filter(|_| self.may_read())
    }

    fn check_deadlines(&mut self) -> Result<(), End> {
        let now = Instant::now();
        if now >= self.last_sign + IDLE {
            if !self.may_read() && !self.conversation.is_behind() {
                // It may have sent much, and it is us who do not read it.
                self.last_sign = now;
                return Ok(());
            }
            let detail = format!("no frame came for {} s; send a ping now and then", IDLE.as_secs());
            return Err(End::Close(Close { code: Code::UnexpectedFrame, detail }));
        }
        if self.heartbeat_deadline().is_some_and(|deadline| now >= deadline) {
            let detail = "no heartbeat came in time; connect again and resume the session".to_owned();
            return Err(End::Close(Close { code: Code::SessionUnknown, detail }));
        }
        if self.intake.is_overdue(now) {
            let detail = "a large frame came too slowly while others waited for its room; send smaller ones".to_owned();
            return Err(End::Close(Close { code: Code::Overloaded, detail }));
        }
        if self.conversation.sending.is_overdue(now) {
            let detail = "the connection hardly reads while others wait for the room of its answers; read".to_owned();
            return Err(End::Close(Close { code: Code::Overloaded, detail }));
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.held.fetch_sub(self.held, Ordering::Relaxed);
    }
}

fn stopped(shared: &Shared) -> Close {
    match shared.health.failure() {
        Some(_) => Close { code: Code::StorageFailed, detail: "the broker's journal failed; see its log".to_owned() },
        None => Close { code: Code::Stopping, detail: "the broker is shutting down; connect again soon".to_owned() },
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
