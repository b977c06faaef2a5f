//! What the writer is asked: its queue's requests and lanes.

use millpond_core::command::{Command, Ticket};
use millpond_types::SessionId;

use super::journal::Committed;
use crate::update_queue::Lane;

/// The lane of what comes back from the journal.
pub(crate) const RETURNING: usize = 0;
/// The lane of all that finishes work or keeps it alive.
pub(crate) const FINISHING: usize = 1;
/// The lane of publishes, and of management, which stays in order with them.
pub(crate) const PUBLISHING: usize = 2;

/// The lanes. Together with a batch that is full before they are taken, a turn's publishes stay below one of the
/// journal's chunks.
pub(crate) const LANES: [Lane; 3] =
    [Lane { capacity: 16 }, Lane { capacity: 16 * 1024 * 1024 }, Lane { capacity: 6 * 1024 * 1024 }];

/// A request to the writer.
pub(crate) enum Request {
    /// A command of a connection. Its reply goes the way of its ticket.
    Command(Ticket, Command),
    /// A command of the program that embeds the broker; the request's answer is the reply.
    Call(Command),
    /// A connection is gone: its receives are withdrawn, and the session that it had is lost.
    Goodbye { receives: Vec<Ticket>, session: Option<SessionId> },
    /// A batch came back from the journal.
    Committed(Box<Committed>),
}

/// What the smallest request counts: roughly its memory.
const REQUEST_WEIGHT: usize = 256;

impl Request {
    /// Roughly the bytes of memory that the request holds.
    pub(crate) fn weight(&self) -> usize {
        let held = match self {
            Request::Command(_, command) | Request::Call(command) => match command {
                Command::Publish(publish) => publish.runs.iter().map(|run| run.block.len() + 128).sum(),
                Command::Finish(finish) => finish.receipts.len() * 32,
                _ => 0,
            },
            Request::Goodbye { .. } | Request::Committed(_) => 0,
        };
        REQUEST_WEIGHT + held
    }

    /// The lane that a command belongs in.
    pub(crate) fn lane(command: &Command) -> usize {
        match command {
            Command::Receive(_)
            | Command::Withdraw(_)
            | Command::Finish(_)
            | Command::SessionBegin(_)
            | Command::SessionLost(_)
            | Command::Heartbeat { .. }
            | Command::SessionEnd(_)
            | Command::Attach(_)
            | Command::Credit { .. }
            | Command::Detach { .. } => FINISHING,
            _ => PUBLISHING,
        }
    }
}
