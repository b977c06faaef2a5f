//! Replies and deliveries of the core as frames, once the messages that they name by their place in the journal are read.

use bytes::Bytes;
use millpond_core::output::{self, Found, Reply};
use millpond_protocol::{LeasedRun, Response};
use millpond_types::{DeadView, MessageView};

/// The frame of a reply that holds no messages.
///
/// # Panics
///
/// If it holds messages, which are read first, or says that a session has begun, which needs the session's id.
pub(crate) fn response(reply: Reply) -> Response {
    match reply {
        Reply::Published { outcomes, topics, .. } if topics.is_empty() => Response::Published(outcomes),
        Reply::Published { outcomes, topics, .. } => Response::Routed { topics, outcomes },
        Reply::Finished(outcomes) => Response::Finished(outcomes),
        Reply::Lost(_) => unreachable!("no client is told"),
        Reply::Forwarded { finished, published, topics } if topics.is_empty() => {
            Response::Forwarded { finished, published }
        }
        Reply::Forwarded { finished, published, topics } => Response::ForwardRouted { topics, finished, published },
        Reply::Done => Response::Done,
        Reply::Count(count) => Response::Count(count),
        Reply::Namespaces { rows, next } => Response::Namespaces { rows, next },
        Reply::Exchanges(rows) => Response::Exchanges(rows),
        Reply::Bindings(rows) => Response::Bindings(rows),
        Reply::Topics(rows) => Response::Topics(rows),
        Reply::Refused { code, detail, .. } => Response::Error { code, detail },
        Reply::Received(_) | Reply::Messages(_) | Reply::Dead { .. } | Reply::SessionBegun { .. } => {
            unreachable!("its connection answers this one")
        }
    }
}

/// A leased run with its messages.
pub(crate) fn leased(run: output::LeasedRun, block: Bytes) -> LeasedRun {
    LeasedRun {
        topic: run.topic,
        receipt: run.receipt,
        priority: run.priority,
        first: run.first,
        count: run.count,
        published: run.published,
        deliveries: run.deliveries,
        failures: run.failures,
        run: run.run,
        block,
    }
}

/// A message that was looked at.
pub(crate) fn message(found: Found<MessageView>, block: Bytes) -> MessageView {
    MessageView { block, ..found.row }
}

/// A dead letter.
pub(crate) fn dead(found: Found<DeadView>, block: Bytes) -> DeadView {
    DeadView { message: MessageView { block, ..found.row.message }, ..found.row }
}
