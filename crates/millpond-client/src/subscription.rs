//! A subscription: messages of a namespace as they become ready, leased to this client.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use millpond_protocol::Request;
use millpond_types::{Filter, GroupName, NamespaceName, Standing};
use tokio::sync::watch;

use crate::client::{Client, Phase, Repeat};
use crate::delivery::{Deliveries, Delivery};
use crate::error::{Error, Result};
use crate::receipts::Receipts;

/// What to subscribe to, and how much of it at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscribeOptions {
    /// The namespace.
    pub namespace: NamespaceName,
    /// The group; `default` unless set.
    pub group: GroupName,
    /// Which topics; all unless set.
    pub filter: Filter,
    /// The window: messages that this subscription holds leases of at most, handed out and not finished ones included.
    /// 1,000 unless set.
    pub messages: u32,
    /// The same in bytes, overshot by at most one message. 16 MiB unless set.
    pub bytes: u64,
    /// How long a lease lasts once nothing extends it; the policy's where `None`. While the client lives its heartbeats
    /// extend all leases but those that it has [let go](Client::let_go). A client that died loses its leases with its
    /// session, whatever is said here.
    pub lease: Option<Duration>,
    /// Each message ends as it is delivered, so it comes at most once, and there is nothing to finish: what is lost with a
    /// connection, or here before it is handed out, is lost. The window then holds what was not handed out. Off unless set.
    pub at_most_once: bool,
}

impl SubscribeOptions {
    /// All topics of a namespace, for the group `default`.
    pub fn new(namespace: NamespaceName) -> SubscribeOptions {
        SubscribeOptions {
            namespace,
            group: GroupName::default(),
            filter: Filter::All,
            messages: 1_000,
            bytes: 16 * 1024 * 1024,
            lease: None,
            at_most_once: false,
        }
    }
}

/// Messages as they become ready, in the broker's order of dispatch.
///
/// Each is leased to this client until it is finished: [`Client::ack`] and its sisters, with its receipt. Heartbeats in the
/// background keep the leases of all that was delivered, so a delivery that is dropped without being finished stays
/// leased, and keeps its place in the window, until it is finished or [`Client::let_go`], or this client ends.
///
/// A lost connection is taken up again, and the session with it: deliveries go on where they were. If that does not
/// succeed within the session's time the broker gives the messages to others; what was not handed out here is dropped, and
/// [`Client::is_current`], [`Client::lease_lost`] and [`crate::Event::SessionLost`] tell about what was.
///
/// Dropping a subscription releases what was not handed out. What was stays leased and can be finished through the client.
pub struct Subscription {
    client: Client,
    number: u32,
    /// Taken from the session in one go, and handed out without a lock.
    local: Deliveries,
    /// What the session's stamp was when these were taken.
    stamp: u64,
    detached: bool,
    /// Whether the stream has ended with an error.
    over: bool,
}

impl Client {
    /// Subscribes. Deliveries begin at once, up to the window.
    ///
    /// # Errors
    /// `Refused` (a namespace or group that is unknown, a filter too large), or what keeps the connection from coming back.
    pub async fn subscribe(&self, options: SubscribeOptions) -> Result<Subscription> {
        if options.messages == 0 || options.bytes == 0 {
            return Err(Error::Invalid(
                "a subscription needs a window of at least one message and one byte".to_owned(),
            ));
        }
        let session = &self.shared().session;
        let number = session.register(options)?;
        let local = Deliveries::default();
        // From here on dropping it takes it back, at whatever point this is cancelled.
        let subscription = Subscription { client: self.clone(), number, local, stamp: 0, detached: false, over: false };
        let deadline = self.shared().deadline();
        loop {
            let link = self.shared().link(deadline).await?;
            session.sync(&link, self.shared().deadline()).await;
            if session.is_attached(number, &link)? {
                return Ok(subscription);
            }
        }
    }

    /// Lets the leases of a stuck handler run out: heartbeats leave them out from now on, and their place in the window is
    /// free. Work that is still done on them can be finished until they have expired.
    pub fn let_go(&self, receipts: impl Into<Receipts>) {
        let receipts = receipts.into();
        let phase = self.shared().phase.borrow().clone();
        let link = if let Phase::Up(link) = &phase { Some(&**link) } else { None };
        self.shared().session.let_go(receipts.runs(), link);
    }
}

impl Subscription {
    /// Waits for the next message. Loses nothing when it is cancelled.
    ///
    /// # Errors
    /// `Refused` if the broker will not take the subscription up again after a lost connection (its namespace is gone),
    /// `Closed` if the client is closed. There is nothing more after either.
    pub async fn next(&mut self) -> Result<Delivery> {
        std::future::poll_fn(|context| self.poll_one(context)).await
    }

    /// Waits until there is a message, and takes all that are there, `most` at most. Loses nothing when it is cancelled.
    ///
    /// # Errors
    /// As for [`Subscription::next`].
    ///
    /// # Panics
    /// If `most` is zero.
    pub async fn next_batch(&mut self, most: usize) -> Result<Deliveries> {
        assert!(most > 0, "a batch of no messages would never come");
        std::future::poll_fn(|context| {
            std::task::ready!(self.poll_fill(context))?;
            Poll::Ready(Ok(self.local.take_front(most)))
        })
        .await
    }

    /// Ends the subscription and waits until the broker knows. What was not handed out is released.
    pub async fn close(mut self) -> Result<()> {
        let detach = Request::Detach { consumer: self.number };
        match self.client.call(detach, Repeat::Never).await {
            Ok(_) => {
                self.detached = true;
                Ok(())
            }
            // The connection went, and nothing will be attached again on the next one.
            Err(Error::Unconfirmed { .. } | Error::Refused { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What this subscription is in its exclusive group, as the broker tells it; `None` before that, and always in a shared
    /// group. See [`Career`](crate::Career) for a leader's life on top of it.
    pub fn standing(&self) -> watch::Receiver<Option<Standing>> {
        self.client.shared().session.standing(self.number)
    }

    /// Gives up the office of the exclusive group, and waits for it again behind all others. What was not handed out is
    /// released; what was may be finished.
    ///
    /// # Errors
    /// `Refused` with `not_leader` if it is not held.
    pub async fn resign(&self) -> Result<()> {
        self.client.done("resignation", Request::Resign { consumer: self.number }, Repeat::Never).await
    }

    /// The client that finishes what this subscription delivers.
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn poll_one(&mut self, context: &mut Context<'_>) -> Poll<Result<Delivery>> {
        std::task::ready!(self.poll_fill(context))?;
        Poll::Ready(Ok(self.local.next().expect("it was filled")))
    }

    /// Gives back what was not handed out of an office that is lost.
    pub(crate) fn drop_unseen(&mut self) {
        if self.local.epoch().is_some() {
            let phase = self.client.shared().phase.borrow().clone();
            let link = if let Phase::Up(link) = &phase { Some(&**link) } else { None };
            self.client.shared().session.drop_unseen(self.number, &mut self.local, link);
        }
    }

    /// Makes sure that there is something to hand out, and that it may be.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.drop_unseen();
        let session = &self.client.shared().session;
        if !self.local.is_empty() {
            if session.stamp() == self.stamp {
                return Poll::Ready(Ok(()));
            }
            if session.is_stale(self.stamp) {
                self.local.clear();
            }
        }
        // With something in hand that may not be handed out now, this only waits until it may.
        let most = if self.local.is_empty() { usize::MAX } else { 0 };
        let (taken, stamp) = std::task::ready!(session.poll_take(self.number, most, context))?;
        let phase = self.client.shared().phase.borrow().clone();
        session.taken(self.number, &taken, if let Phase::Up(link) = &phase { Some(link) } else { None });
        if session.is_stale(self.stamp) {
            self.local.clear();
        }
        self.local.append(taken);
        self.stamp = stamp;
        if self.local.is_empty() {
            // What was in hand went stale just now.
            return self.poll_fill(context);
        }
        Poll::Ready(Ok(()))
    }
}

impl Stream for Subscription {
    type Item = Result<Delivery>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Delivery>>> {
        if self.over {
            return Poll::Ready(None);
        }
        let next = std::task::ready!(self.poll_one(context));
        self.over = next.is_err();
        Poll::Ready(Some(next))
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let shared = self.client.shared();
        shared.session.put_back(self.number, std::mem::take(&mut self.local), self.stamp);
        let phase = shared.phase.borrow().clone();
        let link = if let Phase::Up(link) = &phase { Some(&**link) } else { None };
        shared.session.unregister(self.number, link, self.detached);
    }
}
