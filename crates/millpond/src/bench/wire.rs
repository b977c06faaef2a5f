//! One connection of the load generator: blocking, on a thread of its own, without any convenience between it and the
//! socket, because it shares the machine with the broker that it measures.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use millpond_protocol::{Decoder, FrameError, Incoming, Request, Response, VERSION, encode_request};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::failure::Failure;

/// How long a read waits before the caller looks at its clock and at whether it is to stop.
const TICK: Duration = Duration::from_millis(100);
/// How long an answer may take before the run is given up.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Bytes of one read. More than a socket's buffer holds at once is of no use.
const READ: usize = 256 * 1024;
/// The correlation number of the calls around a run; those of the run count from 0.
const CALL: u32 = u32::MAX;

/// Nanoseconds since the first call in this process: the one clock of all threads of a run.
pub fn nanos() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// A connection that has said hello.
pub struct Wire {
    stream: TcpStream,
    decoder: Decoder,
    inbox: BytesMut,
    chunk: Box<[u8]>,
}

impl Wire {
    /// Connects, says hello and waits for the welcome.
    pub fn connect(address: SocketAddr) -> Result<Wire, Failure> {
        let stream = TcpStream::connect(address).map_err(|why| super::target::away(&address.to_string(), &why))?;
        let prepared = stream.set_nodelay(true).and_then(|()| stream.set_read_timeout(Some(TICK)));
        prepared.map_err(lost)?;
        let chunk = vec![0; READ].into_boxed_slice();
        let mut wire = Wire { stream, decoder: Decoder::default(), inbox: BytesMut::new(), chunk };
        match wire.call(&hello())? {
            Response::Welcome { .. } => Ok(wire),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends bytes that are frames already.
    pub fn send(&mut self, frames: &[u8]) -> Result<(), Failure> {
        self.stream.write_all(frames).map_err(lost)
    }

    /// Waits for bytes until `deadline`, or for a tick where there is none, and takes in what is there.
    pub fn wait(&mut self, deadline: Option<u64>) -> Result<(), Failure> {
        if let Some(deadline) = deadline {
            let left = deadline.saturating_sub(nanos());
            let left = Timespec { tv_sec: (left / 1_000_000_000) as i64, tv_nsec: (left % 1_000_000_000) as _ };
            let mut sockets = [PollFd::new(&self.stream, PollFlags::IN)];
            if poll(&mut sockets, Some(&left)).unwrap_or(0) == 0 {
                return Ok(());
            }
        }
        match self.stream.read(&mut self.chunk) {
            Ok(0) => Err(Failure::unreachable("the broker closed the connection in mid-run: look at its log")),
            Ok(n) => {
                self.inbox.extend_from_slice(&self.chunk[..n]);
                Ok(())
            }
            Err(why) if matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {
                Ok(())
            }
            Err(why) => Err(lost(why)),
        }
    }

    /// The next frame of those taken in.
    pub fn next(&mut self) -> Result<Option<Incoming<Response>>, Failure> {
        next(&mut self.decoder, &mut self.inbox)
    }

    /// Sends a publish that is a frame already, and waits until it is confirmed. Nothing else is under way.
    pub fn publish(&mut self, frame: &[u8]) -> Result<(), Failure> {
        self.send(frame)?;
        loop {
            match self.next()? {
                Some(Incoming { frame: Response::Published(_), .. }) => return Ok(()),
                Some(other) => return Err(unexpected(&other.frame)),
                None => self.wait(None)?,
            }
        }
    }

    /// Sends a request and waits for its answer. Frames in between that answer nothing are dropped.
    pub fn call(&mut self, request: &Request) -> Result<Response, Failure> {
        let mut frame = Vec::new();
        encode_request(request, CALL, &mut frame);
        self.send(&frame)?;
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            while let Some(incoming) = self.next()? {
                if incoming.correlation == CALL {
                    return Ok(incoming.frame);
                }
            }
            self.wait(None)?;
        }
        Err(silent())
    }
}

/// The first frame of a connection.
pub fn hello() -> Request {
    Request::Hello { version: VERSION, client: concat!("millpond-bench/", env!("CARGO_PKG_VERSION")).into() }
}

/// The next frame of a buffer; a broker that closes or speaks nonsense is a failure.
pub fn next(decoder: &mut Decoder, inbox: &mut BytesMut) -> Result<Option<Incoming<Response>>, Failure> {
    match decoder.next_response(inbox) {
        Ok(Some(Incoming { frame: Response::Closing { code, detail }, .. })) => {
            Err(Failure::refused(format!("the broker closed the connection: {} ({detail})", code.name())))
        }
        Ok(found) => Ok(found),
        Err(FrameError::Refused { detail, .. } | FrameError::Fatal { detail, .. }) => {
            Err(Failure::refused(format!("what answers is no broker of this version: {detail}")))
        }
    }
}

/// An answer that has no place where it came.
pub fn unexpected(response: &Response) -> Failure {
    match response {
        Response::Error { code, detail } => Failure::refused(format!("{}: {detail}", code.name())),
        _ => Failure::refused("the broker gave an answer that does not belong to the question: its version differs"),
    }
}

/// A connection that broke.
pub fn lost(why: std::io::Error) -> Failure {
    Failure::unreachable(format!("the connection to the broker is lost: {why}; look at its log"))
}

/// A broker that does not answer.
pub fn silent() -> Failure {
    Failure::unreachable(format!("no answer for {} s: the broker hangs, or its disk does", PATIENCE.as_secs()))
}
