//! The consumer session of a client: its consumers and the leases it holds. It outlives connections.
//!
//! Invariant: nothing is handed out while the connection is lost or once the session is, so no stale delivery reaches a
//! handler from here. Handing out is in `handout`, the window in `credit`, the offices of exclusive groups in `office`,
//! and what a new connection has to be told in `sync`.

mod credit;
mod handout;
pub(crate) mod office;
mod sync;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::task::Waker;

use millpond_protocol::{Finish, FinishVerb, Request};
use millpond_types::limits::RECEIPTS_MAX;
use millpond_types::{Millis, Receipt, SessionId, Standing};
use tokio::sync::{Notify, broadcast, watch};

use crate::client::Event;
use crate::delivery::Deliveries;
use crate::error::{Error, Result};
use crate::leases::{Leases, Spent};
use crate::link::Link;
use crate::subscription::SubscribeOptions;

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
    /// Wakes the supervisor's heart when a session was begun, or an office came.
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
    /// Credit that was given back for leases that did not end: so much less of what comes back is given.
    owed: Spent,
    waker: Option<Waker>,
    /// Why it was refused.
    refused: Option<Error>,
    /// What it was told last, in an exclusive group.
    standing: watch::Sender<Option<Standing>>,
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
        let (returned, owed) = (Spent::default(), Spent::default());
        let standing = watch::Sender::new(None);
        let consumer =
            Consumer { options, attached_on: 0, buffer, returned, owed, waker: None, refused: None, standing };
        state.consumers.insert(number, consumer);
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

    /// The connection is lost: nothing is handed out until the session is resumed or replaced. What was being finished on it is
    /// not held any more, for nobody hears what became of it.
    pub(crate) fn suspend(&self) {
        let mut state = self.state();
        state.held.forget_ending();
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
            (consumer.returned, consumer.owed) = (Spent::default(), Spent::default());
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
        let terms = state.consumers.values().filter_map(|consumer| Some(consumer.standing.borrow().as_ref()?.term));
        (state.id != SessionId::default()).then(|| terms.fold(state.heartbeat, Millis::min))
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

impl Consumer {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Gives back leases that nobody here will work on.
fn release(link: &Link, receipts: Vec<(Receipt, u32)>) {
    let verb = FinishVerb::Release { delay: Millis::ZERO };
    link.tell(&Request::Finish(Finish { verb, confirm: false, namespace: None, receipts }));
}
