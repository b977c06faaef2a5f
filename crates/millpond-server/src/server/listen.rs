//! Binding ports and taking connections in.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{unconstrained, yield_now};

use super::ServeError;
use super::limits::OpenFiles;
use crate::session::{Shared, socket};

/// Connections that the system holds until they are taken in: room for a burst of thousands. The system may lower it
/// (`net.core.somaxconn`).
const BACKLOG: u32 = 4096;
/// Connections taken in before anything else is done. Accepting one takes a fraction of what serving one takes, so a burst
/// is taken in faster than it can come; were its connections served in between, the system's queue would overflow, and
/// those who are turned away try again a second later.
const IN_A_ROW: u32 = 2 * BACKLOG;
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

/// Takes connections in for ever. Each becomes a task.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>, connections_max: usize, files: OpenFiles) {
    let mut in_a_row = 0;
    loop {
        if in_a_row == IN_A_ROW {
            in_a_row = 0;
            yield_now().await;
        }
        in_a_row += 1;
        // The runtime would have a task that is never without work pause more often than that.
        let stream = unconstrained(next(&listener)).await;
        if !files.are_left_beside(&stream) {
            shared.metrics.refused.inc();
            socket::turn_away(stream);
            continue;
        }
        // Frames are written when they are ready, many in one write; waiting for more would only cost time.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection was gone before it was taken in");
            continue;
        }
        tokio::spawn(socket::serve(stream, shared.clone(), connections_max));
    }
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
                tracing::warn!(%error, "no connection can be taken in right now");
                tokio::time::sleep(EXHAUSTED).await;
            }
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted)
}
