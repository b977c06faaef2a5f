//! Producer sessions: a batch whose confirmation was lost is sent again under the same number, and so is stored once.
//!
//! Invariants: batches of one instance are numbered from 1 without a gap and handed to each connection in that order; a
//! batch is kept until it has its outcome; at most [`PRODUCER_WINDOW`] are kept, as many as the broker remembers. What the
//! broker refuses as a whole leaves a gap in its count, so the next batch begins a new instance.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::{Context, Poll};

use millpond_protocol::{Level, ProducerBatch, Publish, PublishRun, Request, Response};
use millpond_types::limits::PRODUCER_WINDOW;
use millpond_types::{Code, NamespaceName, ProducerId, PublishOutcome};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::batch::{Batch, Part};
use crate::client::{Client, Phase, Shared};
use crate::error::{Error, Result};
use crate::link::{Link, Pending};
use crate::outcomes::Outcomes;
use crate::publish::outcomes;

/// Who a producer is, and how it publishes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducerOptions {
    /// The namespace.
    pub namespace: NamespaceName,
    /// When a batch is confirmed; durable unless set. A producer session has no use for [`Level::None`].
    pub level: Level,
    /// The producer; drawn at random unless set. One that is kept beyond the process, with an instance that grows with
    /// each start, fences a predecessor that is still running somewhere.
    pub id: Option<ProducerId>,
    /// The first instance; 1 unless set. The producer goes on to higher ones by itself.
    pub instance: u32,
}

impl ProducerOptions {
    /// A new producer for a namespace.
    pub fn new(namespace: NamespaceName) -> ProducerOptions {
        ProducerOptions { namespace, level: Level::Durable, id: None, instance: 1 }
    }
}

/// Publishes batches in order, many of them under way at a time, each stored once however often the connection is lost.
///
/// Cheap to clone; the clones share one session. A batch that is under way is sent again on every new connection until it
/// has its outcome, even when its [`Confirmation`] is dropped, for as long as the producer or the confirmation is kept.
#[derive(Clone)]
pub struct Producer {
    client: Client,
    session: Arc<Producing>,
}

/// The producer session.
struct Producing {
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
    /// Set when another instance of the same producer has taken over, or the client is closed.
    over: Option<Error>,
}

struct Sent {
    instance: u32,
    sequence: u64,
    runs: Vec<PublishRun>,
    /// Whether it was handed to an earlier connection too.
    repeated: bool,
    reply: oneshot::Sender<Result<Outcomes<PublishOutcome>>>,
    _window: OwnedSemaphorePermit,
}

/// Names a batch in a link's list of who waits.
pub(crate) struct Unsettled {
    producer: Weak<Producing>,
    instance: u32,
    sequence: u64,
}

/// The outcomes of a batch, once they are there.
///
/// # Errors
/// `Refused` if the broker stored nothing of it; batches that were sent behind a refused one are refused with
/// `sequence_gap`, unstored. `Unconfirmed` if it may have been stored and nobody can tell any more: the client was closed,
/// or the broker has forgotten the session. `Partial` as for [`Client::publish_batch`].
#[must_use = "only the outcome says that the messages are stored"]
pub struct Confirmation {
    parts: VecDeque<oneshot::Receiver<Result<Outcomes<PublishOutcome>>>>,
    outcomes: Outcomes<PublishOutcome>,
    /// Keeps the batch being sent again.
    _session: Arc<Producing>,
}

impl Client {
    /// Begins a producer session. Nothing is sent before its first batch.
    pub fn producer(&self, options: ProducerOptions) -> Result<Producer> {
        let ProducerOptions { namespace, level, id, instance } = options;
        if level == Level::None {
            return Err(Error::Invalid(
                "a producer session lives by confirmations: use durable or buffered".to_owned(),
            ));
        }
        let id = match id {
            Some(id) => id,
            None => draw_id()?,
        };
        let state = State { instance, next: 1, unsettled: VecDeque::new(), link: 0, over: None };
        let session = Arc::new(Producing {
            namespace,
            level,
            id,
            server: self.server().to_owned(),
            window: Arc::new(Semaphore::new(PRODUCER_WINDOW)),
            order: tokio::sync::Mutex::default(),
            state: Mutex::new(state),
            repeater: OnceLock::new(),
        });
        let repeater = tokio::spawn(repeat_lost(Arc::downgrade(&session), Arc::clone(self.shared())));
        session.repeater.get_or_init(|| repeater.abort_handle());
        Ok(Producer { client: self.clone(), session })
    }
}

impl Producer {
    /// Hands a batch to the connection, as soon as fewer than 64 are under way and the broker grants credit for it. The
    /// outcomes come with the confirmation; what is sent next need not wait for it.
    ///
    /// # Errors
    /// Nothing was sent: `Unreachable` if there is no connection within `request_timeout`, `Refused` if a body is over the
    /// broker's limit or the producer was fenced, `Closed`.
    pub async fn send(&self, batch: &Batch) -> Result<Confirmation> {
        let mut confirmation =
            Confirmation { parts: VecDeque::new(), outcomes: Outcomes::default(), _session: Arc::clone(&self.session) };
        for part in batch.parts() {
            match self.session.send(self.client.shared(), part).await {
                Ok(receiver) => confirmation.parts.push_back(receiver),
                Err(error) if confirmation.parts.is_empty() => return Err(error),
                Err(error) => {
                    // The parts in front are under way: the confirmation tells of this one behind them.
                    let (sender, receiver) = oneshot::channel();
                    drop(sender.send(Err(error)));
                    confirmation.parts.push_back(receiver);
                    break;
                }
            }
        }
        Ok(confirmation)
    }

    /// The producer's id, for those who keep it beyond the process.
    pub fn id(&self) -> ProducerId {
        self.session.id
    }

    /// The instance that batches are numbered in now.
    pub fn instance(&self) -> u32 {
        self.session.state().instance
    }
}

impl Producing {
    async fn send(
        self: &Arc<Self>,
        shared: &Shared,
        part: &Part,
    ) -> Result<oneshot::Receiver<Result<Outcomes<PublishOutcome>>>> {
        let window = Arc::clone(&self.window).acquire_owned().await.expect("the window is never closed");
        let _order = self.order.lock().await;
        let deadline = shared.deadline();
        loop {
            let link = shared.link(deadline).await?;
            part.check(link.body_max)?;
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
            let request = self.publish(instance, sequence, part.runs.clone());
            let (correlation, frame) = link.encode(&request);
            if !shared.granted(&link, frame.len(), deadline).await? {
                continue;
            }
            let mut state = self.state();
            // A refusal that arrived meanwhile has begun another instance.
            if (state.instance, state.next) != (instance, sequence) {
                drop(state);
                link.credit.add_permits(frame.len());
                continue;
            }
            let (reply, receiver) = oneshot::channel();
            state.next += 1;
            let runs = part.runs.clone();
            state.unsettled.push_back(Sent { instance, sequence, runs, repeated: false, reply, _window: window });
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
                self.publish(sent.instance, sent.sequence, sent.runs.clone())
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

    fn publish(&self, instance: u32, sequence: u64, runs: Vec<PublishRun>) -> Request {
        let producer = Some(ProducerBatch { id: self.id, instance, sequence });
        Request::Publish(Publish { namespace: self.namespace.clone(), level: self.level, producer, runs })
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
        let result = match outcomes(answer, &self.server) {
            // An earlier connection may have brought it to where it was stored and then forgotten or fenced off.
            Err(Error::Refused { code: Code::SessionUnknown | Code::ProducerFenced, detail }) if sent.repeated => {
                Err(Error::Unconfirmed { what: "publish", server: self.server.clone(), reason: detail })
            }
            other => other,
        };
        if result.is_err() && sent.instance == state.instance {
            if fenced {
                // Going on under a higher instance would fence the one that has taken over.
                let detail = "another instance of this producer has taken over".to_owned();
                state.over = Some(Error::Refused { code: Code::ProducerFenced, detail });
            } else {
                (state.instance, state.next) = (state.instance.saturating_add(1), 1);
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

impl Future for Confirmation {
    type Output = Result<Outcomes<PublishOutcome>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        while let Some(part) = self.parts.front_mut() {
            let result =
                std::task::ready!(Pin::new(part).poll(context)).expect("a batch is settled before it is dropped");
            self.parts.pop_front();
            match result {
                Ok(more) => self.outcomes.append(more),
                Err(error) => {
                    self.parts.clear();
                    let outcomes = std::mem::take(&mut self.outcomes);
                    let partial = !outcomes.is_empty();
                    let source = Box::new(error);
                    return Poll::Ready(Err(if partial { Error::Partial { outcomes, source } } else { *source }));
                }
            }
        }
        Poll::Ready(Ok(std::mem::take(&mut self.outcomes)))
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

fn draw_id() -> Result<ProducerId> {
    let mut bytes = [0; 16];
    let no_randomness =
        |error| Error::Invalid(format!("this system gives no random number for a producer's id: {error}"));
    getrandom::fill(&mut bytes).map_err(no_randomness)?;
    Ok(ProducerId(u128::from_le_bytes(bytes)))
}
