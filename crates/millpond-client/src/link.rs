//! One connection: frames go out coalesced, answers find those who wait for them.
//!
//! Invariant: whoever waits for an answer gets it or learns of the connection's loss, once. A link never comes back; the
//! supervisor makes another. What is to be done about a loss (repeat, give up, say that nobody knows) is left to those
//! who asked.

mod dial;
mod traffic;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use millpond_protocol::{Incoming, PUBLISH_CREDIT, Request, Response, encode_request};
use millpond_types::{Advice, Code, Millis, Receipt};
use tokio::sync::{Notify, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};

pub(crate) use dial::dial;
pub(crate) use traffic::Tasks;

use crate::error::Error;
use crate::producer::Unsettled;
use crate::session::Session;

/// Bytes that may wait to be written before senders are held up: a few full publishes. The publish credit alone would
/// not bound finishing.
const OUTGOING_MAX: usize = 8 * 1024 * 1024;
/// Frames are joined into pieces of this size, so that many small ones are one write and a large one is not copied again.
const COALESCE: usize = 64 * 1024;

/// A connection on which the broker has said welcome.
pub(crate) struct Link {
    /// Counts the connections of a client from 1.
    pub(crate) epoch: u64,
    /// A connection without a frame for so long is closed by the broker.
    pub(crate) idle: Millis,
    /// Bytes of publish frames that may be sent; closed with the link.
    pub(crate) credit: Semaphore,
    session: Arc<Session>,
    state: Mutex<State>,
    correlation: AtomicU32,
    /// Whether anything was read since this was last taken back.
    heard: AtomicBool,
    /// Wakes the writer, the supervisor, and senders who wait for room.
    wake: Notify,
    ended: Notify,
    room: Notify,
}

#[derive(Default)]
struct State {
    /// Pieces to write, in order, and their bytes.
    outgoing: Vec<Vec<u8>>,
    outgoing_bytes: usize,
    /// Who waits for which answer.
    pending: HashMap<u32, Pending>,
    /// No frame is taken any more; the writer shuts the socket down once all is written.
    closing: bool,
    loss: Option<Loss>,
}

/// Someone who waits for an answer.
pub(crate) enum Pending {
    /// A call.
    Call(oneshot::Sender<Result<Response, Loss>>),
    /// A call that is to end leases: the session has to know which of them it did, though nobody waits for it any more.
    End(oneshot::Sender<Result<Response, Loss>>, Vec<(Receipt, u32)>),
    /// A batch of a producer session, which outlives the link.
    Batch(Unsettled),
}

/// A request that was sent and not answered yet.
pub(crate) struct Asked {
    correlation: u32,
    receiver: oneshot::Receiver<Result<Response, Loss>>,
}

/// How a link was lost.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    /// In words, as the end of a sentence.
    pub(crate) reason: String,
    /// Set where another connection would end the same way.
    pub(crate) fatal: Option<Error>,
}

impl Loss {
    pub(crate) fn passing(reason: impl Into<String>) -> Loss {
        Loss { reason: reason.into(), fatal: None }
    }
}

/// Why a call on a link has no answer.
pub(crate) enum Unanswered {
    /// The link was lost before the request was handed to it.
    NotSent,
    /// The link was lost after that.
    Lost(Loss),
    /// The deadline passed.
    TimedOut,
}

impl Link {
    /// Sends a request and waits for its answer.
    pub(crate) async fn ask(&self, request: &Request, deadline: Instant) -> Result<Response, Unanswered> {
        if timeout_at(deadline, self.room()).await.is_err() {
            return Err(Unanswered::TimedOut);
        }
        let asked = self.start(request).map_err(|_| Unanswered::NotSent)?;
        self.answer(asked, deadline).await
    }

    /// Sends a request whose answer [`Link::answer`] waits for.
    pub(crate) fn start(&self, request: &Request) -> Result<Asked, Loss> {
        let (correlation, frame) = self.encode(request);
        let (sender, receiver) = oneshot::channel();
        self.submit(frame, Some((correlation, Pending::Call(sender))))?;
        Ok(Asked { correlation, receiver })
    }

    /// Sends a frame that is to end leases, whose answer [`Link::answer`] waits for.
    pub(crate) fn start_end(
        &self,
        (correlation, frame): (u32, Vec<u8>),
        receipts: &[(Receipt, u32)],
    ) -> Result<Asked, Loss> {
        let (sender, receiver) = oneshot::channel();
        self.submit(frame, Some((correlation, Pending::End(sender, receipts.to_vec()))))?;
        Ok(Asked { correlation, receiver })
    }

    /// Waits for the answer to a request that was sent.
    pub(crate) async fn answer(&self, asked: Asked, deadline: Instant) -> Result<Response, Unanswered> {
        match timeout_at(deadline, asked.receiver).await {
            Ok(Ok(answer)) => answer.map_err(Unanswered::Lost),
            Ok(Err(_)) => unreachable!("whoever waits is answered or told of the loss"),
            Err(_) => {
                let mut state = self.state();
                if let Some(Pending::Call(_)) = state.pending.get(&asked.correlation) {
                    state.pending.remove(&asked.correlation);
                }
                Err(Unanswered::TimedOut)
            }
        }
    }

    /// Sends a request that is not answered, without waiting. Of no effect on a lost link.
    pub(crate) fn tell(&self, request: &Request) {
        let mut frame = Vec::new();
        encode_request(request, 0, &mut frame);
        // A lost link takes its session's business with it, and what is told concerns that alone.
        let _ = self.submit(frame, None);
    }

    /// The bytes of a request and the number that its answer will carry.
    pub(crate) fn encode(&self, request: &Request) -> (u32, Vec<u8>) {
        let mut correlation = 0;
        while correlation == 0 {
            correlation = self.correlation.fetch_add(1, Ordering::Relaxed);
        }
        let mut frame = Vec::new();
        encode_request(request, correlation, &mut frame);
        (correlation, frame)
    }

    /// Waits until there is room for more frames, or the link is lost.
    pub(crate) async fn room(&self) {
        loop {
            let freed = self.room.notified();
            {
                let state = self.state();
                if state.outgoing_bytes < OUTGOING_MAX || state.loss.is_some() {
                    return;
                }
            }
            freed.await;
        }
    }

    /// Puts a frame behind those that wait to be written, and notes who waits for its answer. Frames are written in the
    /// order of these calls.
    pub(crate) fn submit(&self, frame: Vec<u8>, answer: Option<(u32, Pending)>) -> Result<(), Loss> {
        let mut state = self.state();
        if let Some(loss) = &state.loss {
            return Err(loss.clone());
        }
        if state.closing {
            return Err(Loss::passing("the client is being closed"));
        }
        let idle = state.outgoing.is_empty();
        state.outgoing_bytes += frame.len();
        match state.outgoing.last_mut() {
            Some(last) if last.len() + frame.len() <= COALESCE => last.extend_from_slice(&frame),
            _ => state.outgoing.push(frame),
        }
        if let Some((correlation, pending)) = answer {
            state.pending.insert(correlation, pending);
        }
        drop(state);
        // The writer takes everything at once: only the first frame after that has to wake it.
        if idle {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Ends the link: all who wait are told, and all that was not written is dropped. Only the first reason counts.
    pub(crate) fn fail(&self, loss: Loss) {
        let pending = {
            let mut state = self.state();
            if state.loss.is_some() {
                return;
            }
            state.loss = Some(loss.clone());
            state.outgoing.clear();
            state.outgoing_bytes = 0;
            std::mem::take(&mut state.pending)
        };
        self.credit.close();
        for waiting in pending.into_values() {
            match waiting {
                // A caller that has gone away needs no answer.
                Pending::Call(sender) | Pending::End(sender, _) => drop(sender.send(Err(loss.clone()))),
                // The producer sends its batch again on the next link.
                Pending::Batch(_) => {}
            }
        }
        self.room.notify_waiters();
        self.wake.notify_one();
        self.ended.notify_one();
    }

    /// Takes no more frames; what waits is still written, and then the socket is shut down.
    pub(crate) fn finish(&self) {
        self.state().closing = true;
        self.wake.notify_one();
    }

    /// Waits for the link's end. For one waiter.
    pub(crate) async fn ended(&self) -> Loss {
        loop {
            if let Some(loss) = self.loss() {
                return loss;
            }
            self.ended.notified().await;
        }
    }

    pub(crate) fn loss(&self) -> Option<Loss> {
        self.state().loss.clone()
    }

    /// Whether anything came from the broker since the last call.
    pub(crate) fn take_heard(&self) -> bool {
        self.heard.swap(false, Ordering::Relaxed)
    }

    fn dispatch(&self, incoming: Incoming<Response>) -> Result<(), Loss> {
        match incoming.frame {
            Response::Delivery { consumer, epoch, leases } => self.session.delivered(self, consumer, epoch, leases),
            Response::Standing { consumer, standing } => {
                self.session.told_standing(self, consumer, standing);
                Ok(())
            }
            Response::PublishCredit { bytes } => {
                self.credit.add_permits(bytes as usize);
                Ok(())
            }
            Response::SessionExpired => {
                self.session.expired(self.epoch);
                Ok(())
            }
            Response::Closing { code, detail } => {
                let reason = format!("the broker closed it: {}: {detail}", code.name());
                // Silence is closed with these two, and a client that was held up for a while has to come back.
                let was_silent = matches!(code, Code::SessionUnknown | Code::UnexpectedFrame);
                let is_fatal = code.advice() == Advice::Fix && !was_silent;
                let fatal = is_fatal.then_some(Error::Refused { code, detail });
                Err(Loss { reason, fatal })
            }
            answer => {
                // Nobody waits where a call has timed out or a heartbeat's pong comes.
                let waiting = self.state().pending.remove(&incoming.correlation);
                match waiting {
                    Some(Pending::Call(sender)) => drop(sender.send(Ok(answer))),
                    Some(Pending::End(sender, receipts)) => {
                        self.session.finished(self, &receipts, &answer);
                        drop(sender.send(Ok(answer)));
                    }
                    Some(Pending::Batch(batch)) => batch.settle(answer),
                    None => {}
                }
                Ok(())
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

/// Publish credit at the beginning of a link.
fn first_credit() -> Semaphore {
    const { assert!((PUBLISH_CREDIT as usize) < Semaphore::MAX_PERMITS) };
    Semaphore::new(PUBLISH_CREDIT as usize)
}
