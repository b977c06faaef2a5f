//! The life of a producer session: batches are numbered, handed to connections, and kept until they have their outcome.
//!
//! Invariants: batches of one instance are numbered from 1 without a gap and handed to each connection in that order; a
//! batch is kept until it has its outcome; at most [`PRODUCER_WINDOW`] are kept, as many as the broker remembers. What the
//! broker refuses as a whole leaves a gap in its count, so the next batch begins a new instance; behind the highest there is none,
//! and a number is never used for another batch.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};

use millpond_protocol::{Level, ProducerBatch, Publish, PublishRun, Request, Response};
use millpond_types::limits::PRODUCER_WINDOW;
use millpond_types::{Code, NamespaceName, ProducerId, PublishOutcome};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::ProducerOptions;
use crate::client::{Phase, Shared};
use crate::error::{Error, Result};
use crate::link::{Link, Pending};
use crate::outcomes::Outcomes;
use crate::publish::copies;
use crate::route::Parts;

/// The producer session.
pub(super) struct Producing {
    namespace: NamespaceName,
    level: Level,
    id: ProducerId,
    server: String,
    window: Arc<Semaphore>,
    /// Held while batches are numbered and handed to a connection, so that both happen in one order.
    order: tokio::sync::Mutex<()>,
    state: Mutex<State>,
    /// Sends again what was lost; ends with the session.
    repeater: OnceLock<AbortHandle>,
}

struct State {
    instance: u32,
    next: u64,
    /// In the order of their instances and numbers.
    unsettled: VecDeque<Sent>,
    /// The connection that all of `unsettled` were handed to.
    link: u64,
    /// Set when another instance of the same producer has taken over, no higher one is left, or the client is closed.
    over: Option<Error>,
}

struct Sent {
    instance: u32,
    sequence: u64,
    what: What,
    /// Whether it was handed to an earlier connection too.
    repeated: bool,
    reply: oneshot::Sender<Result<Outcomes<PublishOutcome>>>,
    _window: OwnedSemaphorePermit,
}

/// What is sent under one number.
#[derive(Clone)]
pub(super) enum What {
    Runs(Vec<PublishRun>),
    Routed(Parts),
}

/// Names a batch in a link's list of who waits.
pub(crate) struct Unsettled {
    producer: Weak<Producing>,
    instance: u32,
    sequence: u64,
}

impl Producing {
    /// A session, and the task that sends again what was lost.
    pub(super) fn begin(
        options: ProducerOptions,
        (id, instance): (ProducerId, u32),
        shared: &Arc<Shared>,
    ) -> Arc<Producing> {
        let ProducerOptions { namespace, level, .. } = options;
        let state = State { instance, next: 1, unsettled: VecDeque::new(), link: 0, over: None };
        let session = Arc::new(Producing {
            namespace,
            level,
            id,
            server: shared.options.server.clone(),
            window: Arc::new(Semaphore::new(PRODUCER_WINDOW)),
            order: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
            repeater: OnceLock::new(),
        });
        let repeater = tokio::spawn(repeat_lost(Arc::downgrade(&session), Arc::clone(shared)));
        session.repeater.get_or_init(|| repeater.abort_handle());
        session
    }

    pub(super) fn id(&self) -> ProducerId {
        self.id
    }

    pub(super) fn instance(&self) -> u32 {
        self.state().instance
    }

    /// Numbers a part of a batch, or a message for an exchange, and hands it to the connection; its outcomes come out of the receiver.
    pub(super) async fn send(
        self: &Arc<Self>,
        shared: &Shared,
        what: What,
    ) -> Result<oneshot::Receiver<Result<Outcomes<PublishOutcome>>>> {
        let window = Arc::clone(&self.window).acquire_owned().await.expect("the window is never closed");
        let _order = self.order.lock().await;
        let deadline = shared.deadline();
        loop {
            let link = shared.link(deadline).await?;
            if !self.repeat(shared, &link, deadline).await? {
                continue;
            }
            let (instance, sequence) = {
                let state = self.state();
                if let Some(error) = &state.over {
                    return Err(error.clone());
                }
                (state.instance, state.next)
            };
            let request = self.publish(instance, sequence, what.clone());
            let (correlation, frame) = link.encode(&request);
            if !shared.granted(&link, frame.len(), deadline).await? {
                continue;
            }
            let mut state = self.state();
            // A refusal that arrived meanwhile has begun another instance, or ended the producer.
            if state.over.is_some() || (state.instance, state.next) != (instance, sequence) {
                drop(state);
                link.credit.add_permits(frame.len());
                continue;
            }
            let (reply, receiver) = oneshot::channel();
            state.next += 1;
            state.unsettled.push_back(Sent { instance, sequence, what, repeated: false, reply, _window: window });
            drop(state);
            // If the link is lost by now, the batch is sent again on the next.
            let _ = link.submit(frame, Some((correlation, Pending::Batch(self.unsettled(instance, sequence)))));
            return Ok(receiver);
        }
    }

    /// Hands everything that has no outcome yet to a new connection, in order; false if that is lost meanwhile. Does
    /// nothing on a connection that has it all. To be called with the order held.
    async fn repeat(self: &Arc<Self>, shared: &Shared, link: &Link, deadline: Instant) -> Result<bool> {
        let mut last = (0, 0);
        loop {
            let request = {
                let mut state = self.state();
                if state.link == link.epoch {
                    return Ok(true);
                }
                let State { unsettled, link: on, .. } = &mut *state;
                let Some(sent) = unsettled.iter_mut().find(|sent| (sent.instance, sent.sequence) > last) else {
                    *on = link.epoch;
                    return Ok(true);
                };
                sent.repeated = true;
                last = (sent.instance, sent.sequence);
                self.publish(sent.instance, sent.sequence, sent.what.clone())
            };
            let (correlation, frame) = link.encode(&request);
            if !shared.granted(link, frame.len(), deadline).await? {
                return Ok(false);
            }
            let pending = Pending::Batch(self.unsettled(last.0, last.1));
            if link.submit(frame, Some((correlation, pending))).is_err() {
                return Ok(false);
            }
        }
    }

    fn publish(&self, instance: u32, sequence: u64, what: What) -> Request {
        let (namespace, level) = (self.namespace.clone(), self.level);
        let producer = Some(ProducerBatch { id: self.id, instance, sequence });
        match what {
            What::Runs(runs) => Request::Publish(Publish { namespace, level, producer, runs }),
            What::Routed(parts) => parts.request(namespace, level, producer),
        }
    }

    fn unsettled(self: &Arc<Self>, instance: u32, sequence: u64) -> Unsettled {
        Unsettled { producer: Arc::downgrade(self), instance, sequence }
    }

    /// Takes the broker's word on a batch.
    fn settle(&self, instance: u32, sequence: u64, answer: Response) {
        // A broker on its way down has stored nothing of it; the next one will.
        if matches!(answer, Response::Error { code: Code::Stopping, .. }) {
            return;
        }
        let mut state = self.state();
        let Some(at) = state.unsettled.iter().position(|sent| (sent.instance, sent.sequence) == (instance, sequence))
        else {
            return;
        };
        let sent = state.unsettled.remove(at).expect("it was found there");
        let fenced = matches!(answer, Response::Error { code: Code::ProducerFenced, .. });
        let result = match copies(answer, &self.server).map(|copies| copies.outcomes) {
            // An earlier connection may have brought it to where it was stored.
            Err(Error::Refused { code, detail }) if sent.repeated && !says_that_nothing_is_stored(code) => {
                let reason = format!("{}: {detail}", code.name());
                Err(Error::Unconfirmed { what: "publish", server: self.server.clone(), reason })
            }
            other => other,
        };
        if result.is_err() && sent.instance == state.instance {
            if fenced {
                // Going on under a higher instance would fence the one that has taken over.
                let detail = "another instance of this producer has taken over".to_owned();
                state.over = Some(Error::Refused { code: Code::ProducerFenced, detail });
            } else if let Some(higher) = state.instance.checked_add(1) {
                (state.instance, state.next) = (higher, 1);
            } else {
                let detail = "a batch of this producer's highest instance was refused, so its numbers do not go on: begin a \
                              producer with another id";
                state.over = Some(Error::Invalid(detail.to_owned()));
            }
        }
        drop(state);
        // Whoever dropped the confirmation does not care.
        drop(sent.reply.send(result));
    }

    /// Nothing will be sent any more: for what is under way nobody can tell.
    fn close(&self, error: &Error) {
        let unsettled = {
            let mut state = self.state();
            state.over.get_or_insert_with(|| error.clone());
            std::mem::take(&mut state.unsettled)
        };
        for sent in unsettled {
            let reason = error.to_string();
            let error = Error::Unconfirmed { what: "publish", server: self.server.clone(), reason };
            drop(sent.reply.send(Err(error)));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

/// Whether a batch that was sent before is known to be stored nowhere by such a refusal: one that comes when the broker has looked
/// for the batch and not found it. Others come before that, as where the namespace is gone or in use by too many, or from a broker
/// that has forgotten the session, or fenced it off.
fn says_that_nothing_is_stored(code: Code) -> bool {
    matches!(code, Code::SequenceGap | Code::DiskFull | Code::ExchangeUnknown)
}

impl Drop for Producing {
    fn drop(&mut self) {
        if let Some(repeater) = self.repeater.get() {
            repeater.abort();
        }
    }
}

impl Unsettled {
    /// The answer to the batch has come.
    pub(crate) fn settle(&self, answer: Response) {
        // Nobody is left to care about a producer that is gone.
        if let Some(producer) = self.producer.upgrade() {
            producer.settle(self.instance, self.sequence, answer);
        }
    }
}

/// Sends what is under way again on each new connection, so that it gets there even if nothing else is sent.
async fn repeat_lost(session: Weak<Producing>, shared: Arc<Shared>) {
    let mut phases = shared.phase.subscribe();
    loop {
        let phase = phases.borrow_and_update().clone();
        let Some(session) = session.upgrade() else { return };
        match phase {
            Phase::Up(link) => {
                let _order = session.order.lock().await;
                // When it is lost again the phase changes; when the broker grants no credit, another attempt asks for it.
                while let Err(error) = session.repeat(&shared, &link, shared.deadline()).await {
                    if !error.is_passing() {
                        return session.close(&error);
                    }
                }
            }
            Phase::Down(_) => {}
            Phase::Closed(error) => return session.close(&error),
        }
        drop(session);
        phases.changed().await.expect("the sender lives in `shared`");
    }
}
