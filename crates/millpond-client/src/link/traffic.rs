//! The two tasks of a link: one reads frames and hands them on, one writes whatever waits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use millpond_protocol::{Decoder, FrameError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::JoinHandle;

use super::{Link, Loss};
use crate::error::Error;

/// Room made in the receive buffer at a time: a read brings in many small frames.
const READ_SIZE: usize = 64 * 1024;
/// Room below which more is made, lest a full buffer be read into in slivers.
const READ_MIN: usize = 4 * 1024;

/// The receive side of a link.
pub(super) struct Incomings {
    pub(super) decoder: Decoder,
    pub(super) buffer: BytesMut,
}

/// The tasks of a link.
pub(crate) struct Tasks {
    reader: JoinHandle<()>,
    writer: JoinHandle<()>,
}

impl Tasks {
    pub(super) fn spawn(link: &Arc<Link>, stream: TcpStream, incomings: Incomings) -> Tasks {
        let (read, write) = stream.into_split();
        let reader = tokio::spawn(read_frames(Arc::clone(link), read, incomings));
        let writer = tokio::spawn(write_frames(Arc::clone(link), write));
        Tasks { reader, writer }
    }

    /// Stops both. After this returns nothing more comes out of the link.
    pub(crate) async fn stop(self) {
        for task in [self.reader, self.writer] {
            task.abort();
            // One that was waited for must not be waited for again. An aborted task ends with an error that says so.
            if !task.is_finished() {
                let _ = task.await;
            }
        }
    }

    /// Waits until all that was submitted is written and the socket is shut down.
    pub(crate) async fn flushed(&mut self) {
        // The writer ends by itself once its link is finished or lost.
        let _ = (&mut self.writer).await;
    }
}

async fn read_frames(link: Arc<Link>, mut socket: OwnedReadHalf, mut incomings: Incomings) {
    let loss = loop {
        match incomings.decoder.next_response(&mut incomings.buffer) {
            Ok(Some(incoming)) => match link.dispatch(incoming) {
                Ok(()) => continue,
                Err(loss) => break loss,
            },
            Ok(None) => {}
            Err(FrameError::Refused { detail, .. } | FrameError::Fatal { detail, .. }) => break Loss::passing(detail),
        }
        if incomings.buffer.capacity() - incomings.buffer.len() < READ_MIN {
            incomings.buffer.reserve(READ_SIZE);
        }
        match socket.read_buf(&mut incomings.buffer).await {
            Ok(0) => break Loss::passing("the broker closed it"),
            Ok(_) => link.heard.store(true, Ordering::Relaxed),
            Err(error) => break read_or_write(&error),
        }
    };
    link.fail(loss);
}

async fn write_frames(link: Arc<Link>, mut socket: OwnedWriteHalf) {
    loop {
        let (pieces, closing) = {
            let mut state = link.state();
            if state.loss.is_some() {
                return;
            }
            state.outgoing_bytes = 0;
            (std::mem::take(&mut state.outgoing), state.closing)
        };
        if pieces.is_empty() {
            if closing {
                // The broker sees the end of the stream; whether it still cares makes no difference.
                let _ = socket.shutdown().await;
                return;
            }
            link.wake.notified().await;
            continue;
        }
        link.room.notify_waiters();
        for piece in pieces {
            if let Err(error) = socket.write_all(&piece).await {
                return link.fail(read_or_write(&error));
            }
        }
    }
}

fn read_or_write(error: &io::Error) -> Loss {
    Loss::passing(error.to_string())
}

impl Loss {
    /// What a call gets to hear whose request was on a link that was lost.
    pub(crate) fn unconfirmed(&self, what: &'static str, server: &str) -> Error {
        Error::Unconfirmed { what, server: server.to_owned(), reason: self.reason.clone() }
    }
}
