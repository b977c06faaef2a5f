//! What can go wrong, each with what happened, why, and what to do.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use millpond_types::{Advice, Code, PublishOutcome};

use crate::outcomes::Outcomes;

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection. Nothing was sent.
    #[error(
        "cannot reach the broker at {server}: {source}. Is it running (`millpond serve`), and is the address right?"
    )]
    Unreachable {
        /// The address as it was given.
        server: String,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The broker did nothing of what was asked; but of a receive that is refused as [`Code::Damaged`] or [`Code::Unreadable`] the
    /// leases have ended.
    #[error("refused by the broker ({}): {detail}", code.name())]
    Refused {
        /// Why; [`Code::advice`] says whether to retry, to change the request or to look at the broker.
        code: Code,
        /// In words, with what to do.
        detail: String,
    },
    /// The connection went away between the request and its answer.
    #[error(
        "the connection to {server} was lost before this {what} was confirmed ({reason}): it may or may not have been carried \
         out. Look before repeating it, or publish through a producer session, which repeats without doubling"
    )]
    Unconfirmed {
        /// The verb.
        what: &'static str,
        /// The address as it was given.
        server: String,
        /// How the connection was lost.
        reason: String,
    },
    /// No answer in time. What was asked may still be carried out.
    #[error(
        "no answer from {server} to this {what} within {after:?}: it may or may not have been carried out. Look before \
         repeating it, or give it more time (`request_timeout`)"
    )]
    Timeout {
        /// The verb.
        what: &'static str,
        /// The address as it was given.
        server: String,
        /// How long was waited.
        after: Duration,
    },
    /// The client is closed, by a call or for good by an error.
    #[error("this client is closed: {reason}. Connect a new one")]
    Closed {
        /// Why.
        reason: String,
    },
    /// The other side does not speak the protocol as this client knows it.
    #[error(
        "what answers at {server} breaks the protocol: {detail}. Is it a Millpond broker, of a version that fits this client?"
    )]
    Protocol {
        /// The address as it was given.
        server: String,
        /// What was wrong.
        detail: String,
    },
    /// An argument that no broker would take. Nothing was sent.
    #[error("{0}")]
    Invalid(String),
    /// A batch too large for one publish was cut up, and not all of its parts were confirmed.
    #[error("{} messages of the batch have an outcome, then: {source}", outcomes.len())]
    Partial {
        /// The outcomes of the messages in front.
        outcomes: Outcomes<PublishOutcome>,
        /// What went wrong with the part behind them; the parts behind that one were not sent or have failed like it.
        source: Box<Error>,
    },
}

impl Error {
    /// Whether the same call may succeed later without a change. Says nothing about whether repeating it is harmless:
    /// after [`Error::Unconfirmed`] and [`Error::Timeout`] it may have been carried out already.
    pub fn is_passing(&self) -> bool {
        match self {
            Error::Refused { code, .. } => code.advice() == Advice::Retry,
            Error::Unreachable { .. } | Error::Unconfirmed { .. } | Error::Timeout { .. } => true,
            Error::Partial { source, .. } => source.is_passing(),
            Error::Closed { .. } | Error::Protocol { .. } | Error::Invalid(_) => false,
        }
    }
}

/// The result of a call.
pub type Result<T> = std::result::Result<T, Error>;
