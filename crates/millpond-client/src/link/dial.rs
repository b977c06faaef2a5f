//! From an address to a link: look the name up, connect, say hello, hear welcome.

use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32};

use bytes::BytesMut;
use millpond_protocol::{Decoder, FrameError, Incoming, Limits, Request, Response, VERSION, encode_request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::traffic::{Incomings, Tasks};
use super::{Link, State, first_credit};
use crate::error::{Error, Result};
use crate::options::ClientOptions;
use crate::session::Session;

/// Makes a link. All addresses of the name are tried, in order.
pub(crate) async fn dial(options: &ClientOptions, epoch: u64, session: &Arc<Session>) -> Result<(Arc<Link>, Tasks)> {
    match timeout(options.connect_timeout, greet(options)).await {
        Ok(Ok(greeted)) => Ok(establish(greeted, epoch, session)),
        Ok(Err(error)) => Err(error),
        Err(_) => {
            let what = format!("no welcome within {:?}", options.connect_timeout);
            Err(unreachable(options, io::Error::new(io::ErrorKind::TimedOut, what)))
        }
    }
}

/// A connection on which the broker has said welcome.
struct Greeted {
    stream: TcpStream,
    incomings: Incomings,
    idle: millpond_types::Millis,
}

async fn greet(options: &ClientOptions) -> Result<Greeted> {
    let mut stream = TcpStream::connect(&options.server).await.map_err(|source| unreachable(options, source))?;
    // Frames are coalesced here; waiting for more in the kernel as well would only add delay.
    stream.set_nodelay(true).map_err(|source| unreachable(options, source))?;
    let mut hello = Vec::new();
    encode_request(&Request::Hello { version: VERSION, client: options.name.clone() }, 1, &mut hello);
    stream.write_all(&hello).await.map_err(|source| unreachable(options, source))?;

    let mut incomings = Incomings { decoder: Decoder::new(Limits::default()), buffer: BytesMut::new() };
    loop {
        let protocol = |detail: String| Error::Protocol { server: options.server.clone(), detail };
        match incomings.decoder.next_response(&mut incomings.buffer) {
            Ok(Some(Incoming { frame, .. })) => match frame {
                Response::Welcome { version: VERSION, idle, .. } => {
                    return Ok(Greeted { stream, incomings, idle });
                }
                Response::Closing { code, detail } | Response::Error { code, detail } => {
                    return Err(Error::Refused { code, detail });
                }
                Response::Welcome { version, .. } => {
                    return Err(protocol(format!(
                        "it welcomes with version {version}, and this client speaks {VERSION}"
                    )));
                }
                other => return Err(protocol(format!("the first frame is no welcome: {other:?}"))),
            },
            Ok(None) => {}
            Err(FrameError::Refused { detail, .. } | FrameError::Fatal { detail, .. }) => return Err(protocol(detail)),
        }
        let read = stream.read_buf(&mut incomings.buffer).await.map_err(|source| unreachable(options, source))?;
        if read == 0 {
            let what = "the connection was closed before a welcome";
            return Err(unreachable(options, io::Error::new(io::ErrorKind::UnexpectedEof, what)));
        }
    }
}

fn establish(greeted: Greeted, epoch: u64, session: &Arc<Session>) -> (Arc<Link>, Tasks) {
    let link = Arc::new(Link {
        epoch,
        idle: greeted.idle,
        credit: first_credit(),
        session: Arc::clone(session),
        state: Mutex::new(State::default()),
        // The hello was number 1.
        correlation: AtomicU32::new(2),
        heard: AtomicBool::new(true),
        wake: Notify::new(),
        ended: Notify::new(),
        room: Notify::new(),
    });
    let tasks = Tasks::spawn(&link, greeted.stream, greeted.incomings);
    (link, tasks)
}

fn unreachable(options: &ClientOptions, source: io::Error) -> Error {
    Error::Unreachable { server: options.server.clone(), source: Arc::new(source) }
}
