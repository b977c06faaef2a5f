//! How a ticket says whose it is, so that a reply finds its connection without a table of tickets, and
//! the core knows which receives are of one client.
//!
//! | bits | |
//! |---|---|
//! | 24..64 | the connection's number, counted from 1 and never used twice by a process; 0 is the embedding program |
//! | 0..24 | the request's index among those that the connection has open |

use millpond_core::command::Ticket;

const INDEX_BITS: u32 = Ticket::INDEX_BITS;
/// The index of commands that are never answered, and of those whose answer nobody waits for.
pub(crate) const UNANSWERED: u32 = (1 << INDEX_BITS) - 1;
/// The connection number of calls from the program itself.
pub(crate) const EMBEDDED: u64 = 0;

/// The ticket of a connection's request.
pub(crate) fn ticket(connection: u64, index: u32) -> Ticket {
    assert!(index <= UNANSWERED && connection < 1 << (64 - INDEX_BITS));
    Ticket(connection << INDEX_BITS | u64::from(index))
}

/// The connection and the index of a ticket.
pub(crate) fn parts(ticket: Ticket) -> (u64, u32) {
    (ticket.client(), (ticket.0 & u64::from(UNANSWERED)) as u32)
}
