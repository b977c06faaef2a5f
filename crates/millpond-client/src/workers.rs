//! A pool of workers: handlers that run side by side over one subscription, each deciding what becomes of its message.
//!
//! Invariant: every delivery that a handler was given is finished as it decided, or counted as unconfirmed; a handler
//! that panics has failed its message.

mod finisher;
mod runs;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use millpond_protocol::FinishVerb;
use millpond_types::Receipt;
use tokio::sync::{Notify, mpsc};
use tokio::task::{Id, JoinError, JoinHandle, JoinSet};

use crate::delivery::Delivery;
use crate::error::{Error, Result};
use crate::message::millis;
use crate::subscription::Subscription;
use finisher::{Decided, Sent, finish_decided};
use runs::{Of, Runs, Turn};

/// What becomes of a message.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Decision {
    /// It is done.
    Ack,
    /// Give it back without fault, ready again after the delay.
    Release {
        /// Zero for at once.
        delay: Duration,
    },
    /// Give it back as a failure.
    Fail {
        /// When it is ready again, zero for at once; as the policy says where `None`.
        delay: Option<Duration>,
        /// What went wrong; at most 1,024 bytes.
        reason: Bytes,
    },
    /// Make it a dead letter.
    Reject {
        /// What is wrong with it; at most 1,024 bytes.
        reason: Bytes,
    },
    /// Nothing is left to do: the handler has finished it by itself, as with [`Client::forward`](crate::Client::forward), or it came at most once.
    Settled,
}

impl Decision {
    /// A failure with this reason.
    pub fn fail(reason: impl Into<Bytes>) -> Decision {
        Decision::Fail { delay: None, reason: reason.into() }
    }

    /// A dead letter with this reason.
    pub fn reject(reason: impl Into<Bytes>) -> Decision {
        Decision::Reject { reason: reason.into() }
    }

    fn verb(self) -> Option<FinishVerb> {
        Some(match self {
            Decision::Ack => FinishVerb::Ack,
            Decision::Release { delay } => FinishVerb::Release { delay: millis(delay) },
            Decision::Fail { delay, reason } => FinishVerb::Fail { delay: delay.map(millis), reason },
            Decision::Reject { reason } => FinishVerb::Reject { reason },
            Decision::Settled => return None,
        })
    }
}

/// What a pool has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Deliveries whose decision was carried out.
    pub finished: u64,
    /// Deliveries whose lease was lost before: others have got them, or will.
    pub lost: u64,
    /// Deliveries of whose decision nobody knows whether it was carried out, and those that were given back because it was
    /// refused: at the worst they are delivered again.
    pub unconfirmed: u64,
}

impl Report {
    fn add(&mut self, more: Report) {
        self.finished += more.finished;
        self.lost += more.lost;
        self.unconfirmed += more.unconfirmed;
    }
}

/// A pool at work. Stop it in an orderly way with [`Workers::stop`]; dropping it lets its handlers go where they are, and
/// their messages stay leased as long as the client lives.
pub struct Workers {
    stop: Arc<Notify>,
    pool: JoinHandle<(Report, Result<()>)>,
}

impl Workers {
    /// Puts `concurrency` handlers to work on a subscription. A window of about twice as many messages keeps them busy and
    /// leaves the rest to other pools.
    ///
    /// The handler is called for each delivery, in a task of its own; for those of a [run](Delivery::run) one after the other, and
    /// when it does not ack one, nor settle it, what comes behind that is given back. One that has to know when its lease is lost watches
    /// [`Client::lease_lost`](crate::Client::lease_lost).
    ///
    /// # Panics
    /// If `concurrency` is zero.
    pub fn start<H, F>(subscription: Subscription, concurrency: usize, handler: H) -> Workers
    where
        H: Fn(Delivery) -> F + Send + 'static,
        F: Future<Output = Decision> + Send + 'static,
    {
        assert!(concurrency > 0, "a pool without workers does nothing");
        let stop = Arc::new(Notify::new());
        let pool = tokio::spawn(work(subscription, concurrency, handler, Arc::clone(&stop)));
        Workers { stop, pool }
    }

    /// Takes no more messages, waits for the handlers that run, finishes what they decided, and releases the rest.
    ///
    /// # Errors
    /// What has ended the subscription before.
    pub async fn stop(mut self) -> Result<Report> {
        self.stop.notify_one();
        self.ended().await
    }

    /// Waits until the pool ends by itself, because its subscription does. Loses nothing when it is cancelled, so that it
    /// can be waited for beside whatever makes one stop the pool; once it has returned, the pool is over.
    ///
    /// # Errors
    /// What has ended the subscription.
    pub async fn ended(&mut self) -> Result<Report> {
        let (report, ended) = (&mut self.pool).await.map_err(|error| {
            // The pool itself has no way to fail: its runtime is going down.
            Error::Closed { reason: format!("its runtime has ended ({error})") }
        })?;
        ended.map(|()| report)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.pool.abort();
    }
}

async fn work<H, F>(
    mut subscription: Subscription,
    concurrency: usize,
    handler: H,
    stop: Arc<Notify>,
) -> (Report, Result<()>)
where
    H: Fn(Delivery) -> F,
    F: Future<Output = Decision> + Send + 'static,
{
    // Never full for long: at most `concurrency` decisions are made while a batch is on its way.
    let (decided, decisions) = mpsc::unbounded_channel();
    let (tell_sent, mut sent) = mpsc::unbounded_channel();
    let finisher = tokio::spawn(finish_decided(subscription.client().clone(), decisions, tell_sent));
    let mut running = Running::default();
    let ended = loop {
        tokio::select! {
            biased;
            () = stop.notified() => break Ok(()),
            Some(joined) = running.tasks.join_next_with_id() => running.decided(joined, &decided),
            Some(sent) = sent.recv(), if running.tasks.len() < concurrency => {
                if let Some(next) = running.sent(sent, &decided) {
                    running.begin(next, &handler);
                }
            }
            delivery = subscription.next(), if running.tasks.len() < concurrency => match delivery {
                Ok(delivery) => match running.runs.take(delivery) {
                    Turn::Now(delivery) => running.begin(delivery, &handler),
                    Turn::Later => {}
                    Turn::Never(receipt) => _ = decided.send(Decided::NotBegun(receipt)),
                },
                Err(error) => break Err(error),
            },
        }
    };
    // What was not handed out goes to others at once, before the last handlers are waited for. If the connection does not
    // let it be said, the session's end says it.
    let _ = subscription.close().await;
    // The finisher ends after this sender.
    running.runs.end_all().into_iter().for_each(|receipt| _ = decided.send(Decided::NotBegun(receipt)));
    while let Some(joined) = running.tasks.join_next_with_id().await {
        running.decided(joined, &decided);
    }
    drop(decided);
    let report = finisher.await.unwrap_or_default();
    (report, ended)
}

/// Handlers at work, and whose messages they have.
#[derive(Default)]
struct Running {
    tasks: JoinSet<Decision>,
    begun: HashMap<Id, (Receipt, Option<Of>)>,
    runs: Runs,
}

impl Running {
    fn begin<F>(&mut self, delivery: Delivery, handler: impl Fn(Delivery) -> F)
    where
        F: Future<Output = Decision> + Send + 'static,
    {
        let begun = (delivery.receipt, runs::of(&delivery));
        let task = self.tasks.spawn(handler(delivery));
        self.begun.insert(task.id(), begun);
    }

    /// Passes a decision on. What comes next of a run is begun when it is sent.
    fn decided(
        &mut self,
        joined: std::result::Result<(Id, Decision), JoinError>,
        decided: &mpsc::UnboundedSender<Decided>,
    ) {
        let (id, decision) = match joined {
            Ok((id, decision)) => (id, decision),
            Err(error) => (error.id(), Decision::fail("the handler panicked")),
        };
        let (receipt, of) = self.begun.remove(&id).expect("each task was noted when it was spawned");
        let goes_on = matches!(decision, Decision::Ack | Decision::Settled);
        // The finisher ends after this sender.
        let _ = decided.send(Decided::As(receipt, decision, of.filter(|_| goes_on)));
        if let Some(of) = of.filter(|_| !goes_on) {
            self.end(of, decided);
        }
    }

    /// What comes next of a run of which a decision is sent. Where none could be sent it ends.
    fn sent(&mut self, sent: Sent, decided: &mpsc::UnboundedSender<Decided>) -> Option<Delivery> {
        if sent.is_sent {
            return self.runs.goes_on(sent.of);
        }
        self.end(sent.of, decided);
        None
    }

    fn end(&mut self, of: Of, decided: &mpsc::UnboundedSender<Decided>) {
        self.runs.ends(of).into_iter().for_each(|receipt| _ = decided.send(Decided::NotBegun(receipt)));
    }
}
