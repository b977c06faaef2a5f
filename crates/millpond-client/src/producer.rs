//! Producer sessions: a batch whose confirmation was lost is sent again under the same number, and so is stored once.
//!
//! This is what the owner of a session sees; numbering, sending and repeating are in `producing`.

mod producing;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use millpond_protocol::Level;
use millpond_types::{NamespaceName, ProducerId, PublishOutcome};
use tokio::sync::oneshot;

use crate::batch::Batch;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::message::Routed;
use crate::outcomes::Outcomes;

pub(crate) use producing::Unsettled;
use producing::{Producing, What};

/// Who a producer is, and how it publishes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProducerOptions {
    /// The namespace.
    pub namespace: NamespaceName,
    /// When a batch is confirmed; durable unless set. A producer session has no use for [`Level::None`].
    pub level: Level,
    /// The producer and its first instance; an id drawn at random and instance 1 unless set. An id that is kept beyond
    /// the process fences a predecessor that is still running somewhere, and needs an instance above all that it ever
    /// had: the producer goes on to higher ones by itself, so take the seconds of the clock at each start and not a
    /// count of starts. Behind a refused batch of the highest instance of all it takes no more. With an instance that was
    /// used before, batches would be taken for repeats.
    pub identity: Option<(ProducerId, u32)>,
}

impl ProducerOptions {
    /// A new producer for a namespace.
    pub fn new(namespace: NamespaceName) -> ProducerOptions {
        ProducerOptions { namespace, level: Level::Durable, identity: None }
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

/// The outcomes of a batch, once they are there.
///
/// # Errors
/// `Refused` if the broker stored nothing of it; batches that were sent behind a refused one are refused with
/// `sequence_gap`, unstored. `Unconfirmed` if it may have been stored and nobody can tell any more: the client was closed,
/// the broker has forgotten the session, or it was sent again on another connection and refused there before the broker
/// looked whether it has it, as with `quota_exceeded` where too many use the namespace. `Partial` as for
/// [`Client::publish_batch`].
#[must_use = "only the outcome says that the messages are stored"]
pub struct Confirmation {
    parts: VecDeque<oneshot::Receiver<Result<Outcomes<PublishOutcome>>>>,
    outcomes: Outcomes<PublishOutcome>,
    /// Keeps the batch being sent again.
    _session: Arc<Producing>,
}

impl Client {
    /// Begins a producer session. Nothing is sent before its first batch.
    ///
    /// # Errors
    /// `Invalid` for a level that confirms nothing.
    pub fn producer(&self, options: ProducerOptions) -> Result<Producer> {
        if options.level == Level::None {
            return Err(Error::Invalid(
                "a producer session lives by confirmations: use durable or buffered".to_owned(),
            ));
        }
        let identity = match options.identity {
            Some(identity) => identity,
            None => (ProducerId(draw("a producer")?), 1),
        };
        Ok(Producer { client: self.clone(), session: Producing::begin(options, identity, self.shared()) })
    }
}

impl Producer {
    /// Hands a batch to the connection, as soon as fewer than 64 are under way and the broker grants credit for it. The
    /// outcomes come with the confirmation; what is sent next need not wait for it.
    ///
    /// # Errors
    /// Nothing was sent: `Unreachable` if there is no connection within `request_timeout`, `Refused` if the producer was
    /// fenced, `Invalid` if it has come to the end of its instances, `Closed`.
    pub async fn send(&self, batch: &Batch) -> Result<Confirmation> {
        let mut confirmation =
            Confirmation { parts: VecDeque::new(), outcomes: Outcomes::default(), _session: Arc::clone(&self.session) };
        for part in batch.parts() {
            match self.session.send(self.client.shared(), What::Runs(part.runs.clone())).await {
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

    /// Hands a message for an exchange to the connection, as [`Producer::send`] does a batch. Each topic that it goes to has its
    /// outcome. A message that is sent again goes where it went the first time, whatever is bound to the exchange by then.
    ///
    /// # Errors
    /// As for [`Producer::send`]; `Invalid` for a message that no publish holds.
    pub async fn route(&self, message: &Routed) -> Result<Confirmation> {
        let what = What::Routed(message.parts()?);
        let receiver = self.session.send(self.client.shared(), what).await?;
        let (parts, outcomes) = (VecDeque::from([receiver]), Outcomes::default());
        Ok(Confirmation { parts, outcomes, _session: Arc::clone(&self.session) })
    }

    /// The producer's id, for those who keep it beyond the process.
    pub fn id(&self) -> ProducerId {
        self.session.id()
    }

    /// The instance that batches are numbered in now.
    pub fn instance(&self) -> u32 {
        self.session.instance()
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

/// A number that nobody else draws.
pub(crate) fn draw(what: &str) -> Result<u128> {
    let mut bytes = [0; 16];
    let no_randomness =
        |error| Error::Invalid(format!("this system gives no random number for the id of {what}: {error}"));
    getrandom::fill(&mut bytes).map_err(no_randomness)?;
    Ok(u128::from_le_bytes(bytes))
}
