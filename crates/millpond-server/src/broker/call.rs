//! A call on its way: a future, and something to wait for from a thread.

use std::pin::Pin;
use std::task::{Context, Poll};

use millpond_core::command::Command;
use millpond_core::output::Reply;
use millpond_types::Code;

use crate::bodies::{Bodies, Read, Unread};
use crate::update_queue::{Gone, Pending, Submitter};
use crate::writer::{FINISHING, Request};

/// An answer that is to come: await it, or [`Call::wait`] for it. Dropping it does not take the command back, unless it is
/// a receive.
#[must_use = "a call's outcome is in its answer"]
pub struct Call<T> {
    stage: Stage,
    bodies: Bodies,
    turn: fn(Answered) -> Result<T, CallError>,
    /// What takes the command back, where the call is dropped before it has its answer.
    withdrawal: Option<(Submitter<Request, Reply>, Command)>,
}

enum Stage {
    Refused(CallError),
    Asked(Pending<Reply>),
    Reading(Pending<Read>),
    Over,
}

/// What a call is answered with.
pub(super) enum Answered {
    Reply(Reply),
    Read(Read),
}

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CallError {
    /// The broker refused it as a whole, and nothing was done; but of a receive that is refused as [`Code::Damaged`] or
    /// [`Code::Unreadable`] the leases have ended.
    #[error("{}: {detail}", code.name())]
    Refused {
        /// Why.
        code: Code,
        /// In words, with what to do.
        detail: String,
    },
    /// The broker is shut down. Nothing was done.
    #[error("the broker is shut down")]
    Stopped,
    /// The broker failed or was shut down before it answered: whether the command was carried out is not known.
    #[error("the broker ended before it answered; whether the command was carried out is not known")]
    Unknown,
}

impl<T> Call<T> {
    pub(super) fn new(pending: Pending<Reply>, bodies: Bodies, turn: fn(Answered) -> Result<T, CallError>) -> Call<T> {
        Call { stage: Stage::Asked(pending), bodies, turn, withdrawal: None }
    }

    pub(super) fn refused(error: CallError, bodies: Bodies, turn: fn(Answered) -> Result<T, CallError>) -> Call<T> {
        Call { stage: Stage::Refused(error), bodies, turn, withdrawal: None }
    }

    /// The same, taken back by a command when it is dropped before it has its answer.
    pub(super) fn withdrawn_by(mut self, writer: Submitter<Request, Reply>, command: Command) -> Call<T> {
        self.withdrawal = Some((writer, command));
        self
    }

    /// Blocks the thread until the answer is there.
    pub fn wait(mut self) -> Result<T, CallError> {
        loop {
            self.stage = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Refused(error) => return Err(error),
                Stage::Asked(pending) => match self.answered(pending.wait()) {
                    Ok(outcome) => return outcome,
                    Err(reading) => Stage::Reading(reading),
                },
                Stage::Reading(pending) => return self.read(pending.wait()),
                Stage::Over => unreachable!("a call is waited for once"),
            };
        }
    }

    /// The outcome, or the messages that have to be read for it.
    fn answered(&self, reply: Result<Reply, Gone>) -> Result<Result<T, CallError>, Pending<Read>> {
        let unread = match reply {
            Err(Gone) => return Ok(Err(CallError::Unknown)),
            Ok(Reply::Refused { code, detail, .. }) => return Ok(Err(CallError::Refused { code, detail })),
            Ok(Reply::Received(runs)) => Unread::Leases(runs),
            Ok(Reply::Messages(rows)) => Unread::Messages(rows),
            Ok(Reply::Dead { rows, next }) => Unread::Dead(rows, next),
            Ok(reply) => return Ok((self.turn)(Answered::Reply(reply))),
        };
        self.bodies.read(0, unread).map(|read| (self.turn)(Answered::Read(read)))
    }

    fn read(&self, read: Result<Read, Gone>) -> Result<T, CallError> {
        (self.turn)(Answered::Read(read.map_err(|Gone| CallError::Unknown)?))
    }
}

impl<T> Future for Call<T> {
    type Output = Result<T, CallError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let call = self.get_mut();
        loop {
            match &mut call.stage {
                Stage::Refused(_) => {
                    let Stage::Refused(error) = std::mem::replace(&mut call.stage, Stage::Over) else { continue };
                    return Poll::Ready(Err(error));
                }
                Stage::Asked(pending) => {
                    let Poll::Ready(reply) = Pin::new(pending).poll(context) else { return Poll::Pending };
                    match call.answered(reply) {
                        Ok(outcome) => {
                            call.stage = Stage::Over;
                            return Poll::Ready(outcome);
                        }
                        Err(reading) => call.stage = Stage::Reading(reading),
                    }
                }
                Stage::Reading(pending) => {
                    let Poll::Ready(read) = Pin::new(pending).poll(context) else { return Poll::Pending };
                    call.stage = Stage::Over;
                    return Poll::Ready(call.read(read));
                }
                Stage::Over => panic!("a call is polled until it is ready and not after"),
            }
        }
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if matches!(self.stage, Stage::Asked(_) | Stage::Reading(_))
            && let Some((writer, command)) = self.withdrawal.take()
        {
            // A broker that is shut down has nobody waiting. What it leased runs out.
            drop(writer.submit_unasked(FINISHING, Request::Call(command)));
        }
    }
}

impl<T> std::fmt::Debug for Call<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Call")
    }
}
