//! The consumer session of a client: which leases it holds, what waits to be handed out, what credit is to be given back.
//!
//! Invariants: nothing is handed out while the connection is lost or once the session is, so a stale delivery never
//! reaches a handler from here; and for each consumer, credit at the broker + leases held + credit not given back yet =
//! the window it was attached with. The session outlives connections: [`Session::sync`] brings a new one up to date.

mod sync;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use millpond_protocol::{Finish, FinishVerb, LeasedRun, Request};
use millpond_types::limits::RECEIPTS_MAX;
use millpond_types::{Millis, Receipt, SessionId};
use tokio::sync::{Notify, broadcast};

use crate::client::Event;
use crate::delivery::Deliveries;
use crate::error::{Error, Result};
use crate::leases::{Leases, Spent};
use crate::link::{Link, Loss};
use crate::subscription::SubscribeOptions;

/// Credit goes back once a quarter of the window has come together: few frames, and the broker never runs dry.
const RETURN_PART: u32 = 4;

/// The session and its consumers.
pub(crate) struct Session {
    /// How long the broker is asked to keep the session after a lost connection.
    resume: Millis,
    state: Mutex<State>,
    /// Even while nothing may be handed out, odd while the session is up; a lost session moves it past the next even
    /// number. So what was taken at an odd stamp is good while the stamp is the same, stale once the half of it differs.
    /// Written with the state locked.
    stamp: AtomicU64,
    /// One sync at a time.
    syncing: tokio::sync::Mutex<()>,
    /// Wakes the supervisor when the session has to be begun anew on a connection that is up.
    resync: Notify,
    /// Wakes the supervisor's heart when a session was begun.
    begun: Notify,
    /// Wakes those who wait for the loss of a lease.
    lost: Notify,
    events: broadcast::Sender<Event>,
}

#[derive(Default)]
struct State {
    id: SessionId,
    heartbeat: Millis,
    /// The connection that the session was begun or resumed on; zero if it has to be.
    begun_on: u64,
    consumers: BTreeMap<u32, Consumer>,
    last_consumer: u32,
    held: Leases,
    closed: Option<Error>,
}

/// One subscription.
struct Consumer {
    options: SubscribeOptions,
    /// The connection that it is attached on; zero if it has to be.
    attached_on: u64,
    /// Delivered and not handed out.
    buffer: Deliveries,
    /// Credit to give back.
    returned: Spent,
    waker: Option<Waker>,
    /// Why it was refused.
    refused: Option<Error>,
}

impl Session {
    pub(crate) fn new(resume: Millis, events: broadcast::Sender<Event>) -> Session {
        Session {
            resume,
            state: Mutex::default(),
            stamp: AtomicU64::new(0),
            syncing: tokio::sync::Mutex::default(),
            resync: Notify::new(),
            begun: Notify::new(),
            lost: Notify::new(),
            events,
        }
    }

    /// Makes room for a subscription; [`Session::sync`] attaches it.
    pub(crate) fn register(&self, options: SubscribeOptions) -> Result<u32> {
        let mut state = self.state();
        if let Some(error) = &state.closed {
            return Err(error.clone());
        }
        state.last_consumer += 1;
        let number = state.last_consumer;
        let buffer = Deliveries::default();
        let returned = Spent::default();
        state
            .consumers
            .insert(number, Consumer { options, attached_on: 0, buffer, returned, waker: None, refused: None });
        Ok(number)
    }

    /// Whether a consumer is attached on this connection; an error if the broker has refused it.
    pub(crate) fn is_attached(&self, consumer: u32, link: &Link) -> Result<bool> {
        let state = self.state();
        let found = state.consumers.get(&consumer).expect("a subscription is registered until it ends");
        match &found.refused {
            Some(error) => Err(error.clone()),
            None => Ok(found.attached_on == link.epoch),
        }
    }

    /// Ends a subscription: it is detached, unless that was done, and what was delivered and not handed out is released.
    pub(crate) fn unregister(&self, number: u32, link: Option<&Link>, detached: bool) {
        let (unseen, attached) = {
            let mut state = self.state();
            let Some(consumer) = state.consumers.remove(&number) else { return };
            let unseen = consumer.buffer.receipts();
            for &(first, count) in unseen.runs() {
                state.held.remove(first, count, |_, _| {});
            }
            (unseen, consumer.attached_on)
        };
        // On a connection where it is not attached yet, the answer to the attach finds it gone and detaches it. Leases
        // that are not named when the session is resumed are released then.
        let Some(link) = link.filter(|link| link.epoch == attached) else { return };
        if !detached {
            link.tell(&Request::Detach { consumer: number });
        }
        for receipts in unseen.chunks(RECEIPTS_MAX) {
            release(link, receipts);
        }
    }

    /// The stamp of now: see [`Deliveries`] taken with another one.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire)
    }

    /// Whether what was taken at this stamp belongs to a session that is lost.
    pub(crate) fn is_stale(&self, stamp: u64) -> bool {
        self.stamp() / 2 != stamp / 2
    }

    /// Takes at most `most` deliveries for a consumer, with the stamp they belong to; waits while nothing is there, or
    /// nothing may be handed out.
    pub(crate) fn poll_take(
        &self,
        number: u32,
        most: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Deliveries, u64)>> {
        let mut state = self.state();
        let State { consumers, closed, begun_on, .. } = &mut *state;
        let consumer = consumers.get_mut(&number).expect("a subscription is registered until it ends");
        if let Some(error) = closed.as_ref().or(consumer.refused.as_ref()) {
            return Poll::Ready(Err(error.clone()));
        }
        if *begun_on == 0 || (consumer.buffer.is_empty() && most > 0) {
            consumer.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok((consumer.buffer.take_front(most), self.stamp())))
    }

    /// Takes back deliveries that were taken and not handed out.
    pub(crate) fn put_back(&self, number: u32, mut deliveries: Deliveries, stamp: u64) {
        let mut state = self.state();
        if self.is_stale(stamp) {
            return;
        }
        let Some(consumer) = state.consumers.get_mut(&number) else { return };
        deliveries.append(std::mem::take(&mut consumer.buffer));
        consumer.buffer = deliveries;
    }

    pub(crate) fn is_current(&self, receipt: &Receipt) -> bool {
        self.state().held.contains(receipt)
    }

    pub(crate) async fn lease_lost(&self, receipt: &Receipt) {
        loop {
            let lost = self.lost.notified();
            if !self.is_current(receipt) {
                return;
            }
            lost.await;
        }
    }

    /// Sends a request that ends leases, forgets them and gives their credit back. All of it at once: a session that is
    /// resumed says which leases are held, and the broker must hear that either before the finish, with these leases, or
    /// after it, without them.
    pub(crate) fn finish<R>(
        &self,
        link: &Link,
        receipts: &[(Receipt, u32)],
        send: impl FnOnce() -> std::result::Result<R, Loss>,
    ) -> std::result::Result<R, Loss> {
        let mut state = self.state();
        let sent = send()?;
        state.give_back(link, |held, freed| {
            receipts.iter().for_each(|&(first, count)| held.remove(first, count, &mut *freed));
        });
        Ok(sent)
    }

    /// Forgets leases that were found lost, and gives their credit back.
    pub(crate) fn found_lost(&self, link: &Link, receipts: &[(Receipt, u32)]) {
        self.state().give_back(link, |held, freed| {
            receipts.iter().for_each(|&(first, count)| held.remove(first, count, &mut *freed));
        });
        self.lost.notify_waiters();
    }

    /// Leaves leases out of the heartbeats from now on, and gives their credit back.
    pub(crate) fn let_go(&self, receipts: &[(Receipt, u32)], link: Option<&Link>) {
        let let_go = |held: &mut Leases, freed: &mut dyn FnMut(u32, Spent)| {
            receipts.iter().for_each(|&(first, count)| held.let_go(first, count, &mut *freed));
        };
        match link {
            Some(link) => self.state().give_back(link, let_go),
            // Without a connection there is no credit at the broker; what is free is granted with the next attach.
            None => let_go(&mut self.state().held, &mut |_, _| {}),
        }
    }

    /// Takes in what the broker delivers.
    pub(crate) fn delivered(&self, link: &Link, number: u32, runs: Vec<LeasedRun>) -> std::result::Result<(), Loss> {
        let deliveries = Deliveries::checked(runs).map_err(Loss::passing)?;
        let waker = {
            let mut state = self.state();
            let State { held, consumers, .. } = &mut *state;
            let Some(consumer) = consumers.get_mut(&number) else {
                // On its way when the subscription ended.
                drop(state);
                release(link, deliveries.receipts().runs().to_vec());
                return Ok(());
            };
            for run in deliveries.runs() {
                let spent = Spent { messages: run.count, bytes: run.block.len() as u64 };
                held.insert(run.receipt, spent, number);
            }
            consumer.buffer.append(deliveries);
            consumer.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// The broker has let the session go while the connection was up.
    pub(crate) fn expired(&self, epoch: u64) {
        let mut state = self.state();
        if state.begun_on != epoch {
            return;
        }
        self.lose(&mut state);
        drop(state);
        self.resync.notify_one();
    }

    /// The connection is lost: nothing is handed out until the session is resumed or replaced.
    pub(crate) fn suspend(&self) {
        let mut state = self.state();
        state.begun_on = 0;
        state.consumers.values_mut().for_each(|consumer| consumer.attached_on = 0);
        self.stamp.store(self.stamp() & !1, Ordering::Release);
    }

    /// The client is closed: subscriptions end with this error.
    pub(crate) fn close(&self, error: &Error) {
        let mut state = self.state();
        state.closed = Some(error.clone());
        self.lose(&mut state);
    }

    /// All leases are gone.
    fn lose(&self, state: &mut State) {
        state.id = SessionId::default();
        state.begun_on = 0;
        let leases = state.held.clear();
        self.stamp.store((self.stamp() | 1) + 1, Ordering::Release);
        for consumer in state.consumers.values_mut() {
            consumer.attached_on = 0;
            consumer.buffer.clear();
            consumer.returned = Spent::default();
            consumer.wake();
        }
        if leases > 0 {
            // Nobody has to listen.
            let _ = self.events.send(Event::SessionLost { leases });
        }
        self.lost.notify_waiters();
    }

    /// The heartbeat to send, if the session lives on this connection.
    pub(crate) fn heartbeat(&self, link: &Link) -> Option<Request> {
        let state = self.state();
        (state.begun_on == link.epoch).then(|| Request::Heartbeat { except: state.held.excepted(RECEIPTS_MAX) })
    }

    /// How often the broker wants a heartbeat, if there is a session.
    pub(crate) fn heartbeat_time(&self) -> Option<Millis> {
        let state = self.state();
        (state.id != SessionId::default()).then_some(state.heartbeat)
    }

    pub(crate) async fn begun(&self) {
        self.begun.notified().await;
    }

    pub(crate) async fn resync(&self) {
        self.resync.notified().await;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds this lock")
    }
}

impl State {
    fn give_back(&mut self, link: &Link, change: impl FnOnce(&mut Leases, &mut dyn FnMut(u32, Spent))) {
        let State { held, consumers, .. } = self;
        let mut touched: Vec<u32> = Vec::new();
        change(held, &mut |number, spent| {
            // A subscription that has ended needs no credit.
            let Some(consumer) = consumers.get_mut(&number) else { return };
            consumer.returned.add(spent);
            if touched.last() != Some(&number) {
                touched.push(number);
            }
        });
        for number in touched {
            let consumer = consumers.get_mut(&number).expect("it was touched");
            // Until it is attached there is nobody to give credit to.
            if consumer.attached_on == link.epoch {
                consumer.grant(number, link);
            }
        }
    }
}

impl Consumer {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Gives credit back to the broker once enough has come together.
    fn grant(&mut self, number: u32, link: &Link) {
        let Spent { messages, bytes } = self.returned;
        let enough = messages >= (self.options.messages / RETURN_PART).max(1)
            || bytes >= (self.options.bytes / u64::from(RETURN_PART)).max(1);
        if enough {
            self.returned = Spent::default();
            link.tell(&Request::Credit { consumer: number, messages, bytes });
        }
    }
}

/// Gives back leases that nobody here will work on.
fn release(link: &Link, receipts: Vec<(Receipt, u32)>) {
    let verb = FinishVerb::Release { delay: Millis::ZERO };
    link.tell(&Request::Finish(Finish { verb, confirm: false, receipts }));
}
