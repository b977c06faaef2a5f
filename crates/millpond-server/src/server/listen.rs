//! Binding ports and taking connections in.
//!
//! Connections are taken in by a thread that serves only HTTP beside: where very many come at once, each of which is served for
//! a moment as soon as it is there, the system's queue would overflow meanwhile, and those who are turned away try again
//! after a second, or after several.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;

use super::ServeError;
use super::limits::OpenFiles;
use crate::lines::may_say;
use crate::session::{Shared, socket};

/// Connections that the system holds until they are taken in: room for a burst of thousands. The system may lower it
/// (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;
/// How long nothing is accepted after the system had no more files or memory for it.
const EXHAUSTED: Duration = Duration::from_millis(50);

/// Takes the port, without listening on it yet.
pub(super) fn bind(address: SocketAddr) -> Result<TcpSocket, ServeError> {
    let bind = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        // A port that a broker had a moment ago can be had again; one that another process listens on cannot.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    };
    bind().map_err(|error| ServeError::Listen { address, error })
}

/// Listens.
pub(super) fn start(socket: TcpSocket, address: SocketAddr) -> Result<TcpListener, ServeError> {
    socket.listen(BACKLOG).map_err(|error| ServeError::Listen { address, error })
}

/// What to do about an error, as the end of a sentence.
pub(super) fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another process listens there: stop it, or choose another port",
        io::ErrorKind::AddrNotAvailable => {
            "; the address belongs to no interface of this machine: choose one that does"
        }
        io::ErrorKind::PermissionDenied => "; ports below 1024 need a privilege: choose a higher one",
        _ => "",
    }
}

/// Takes connections in for ever. Each becomes a task of `sessions`, which does all else that there is to do for it.
pub(super) async fn accept(
    listener: TcpListener,
    sessions: Handle,
    shared: Arc<Shared>,
    connections_max: usize,
    files: OpenFiles,
) {
    loop {
        let stream = next(&listener).await;
        if !files.are_left_beside(&stream) {
            shared.metrics.refused.inc();
            socket::turn_away(stream);
            continue;
        }
        let shared = shared.clone();
        sessions.spawn(async move {
            match adopted(stream) {
                Ok(stream) => socket::serve(stream, shared, connections_max).await,
                Err(error) => tracing::debug!(%error, "a connection was gone before it was taken in"),
            }
        });
    }
}

/// The connection as one of the runtime that this is called in.
fn adopted(stream: TcpStream) -> io::Result<TcpStream> {
    // Frames are written when they are ready, many in one write; waiting for more would only cost time.
    stream.set_nodelay(true)?;
    TcpStream::from_std(stream.into_std()?)
}

/// The next connection that there is.
pub(super) async fn next(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) if is_of_one_connection(&error) => {
                tracing::debug!(%error, "a connection was gone before it was taken in");
            }
            Err(error) => {
                if let Some(left_out) = may_say("exhausted") {
                    tracing::warn!(%error, left_out, "no connection can be taken in right now");
                }
                tokio::time::sleep(EXHAUSTED).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
