//! Who is connected: which outbox belongs to which connection and session, and how outputs are spread over them.
//!
//! Invariant: a session belongs to one connection at most. A connection that resumes it takes it over *before* it tells
//! the core, which closes the one that had it; and a connection may tell the writer something only while it is not closed,
//! and say that it lost a session only while it still has it. So of one session the core never hears anything from its
//! old connection behind its resumption on the new one; but of what has to wait for room in the writer's lanes, which the
//! resumption overtakes: there the writer asks ([`Registry::speaks_for`]).

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use millpond_core::output::Output;
use millpond_types::{Code, SessionId};

use super::outbox::{Close, Out, Outbox};
use super::ticket::parts;
use crate::lines::may_say;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

#[derive(Default)]
pub(crate) struct Registry {
    entries: RwLock<Entries>,
    /// What answers weigh that are not bytes yet, of all connections.
    unread: Arc<AtomicUsize>,
    /// Where outputs wait that a simulation tells.
    held: Option<Mutex<Vec<Output>>>,
}

#[derive(Default)]
struct Entries {
    last: u64,
    /// Each output is looked up here, by a number that the broker itself gave out.
    connections: HashMap<u64, Arc<Outbox>, RandomState>,
    /// By numbers that clients may choose, so by std's hash, which nobody can make collide.
    sessions: HashMap<SessionId, (u64, Arc<Outbox>)>,
}

impl Registry {
    /// One that keeps what is released until it is taken.
    pub(crate) fn holding() -> Registry {
        Registry { held: Some(Mutex::default()), ..Registry::default() }
    }

    /// Takes what was released and kept.
    pub(crate) fn take_held(&self) -> Vec<Output> {
        let held = self.held.as_ref().expect("it keeps what is released");
        std::mem::take(&mut held.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes a connection in, unless there are `max` already: its number and its outbox.
    pub(crate) fn connect(&self, max: usize) -> Option<(u64, Arc<Outbox>)> {
        let mut entries = self.write();
        if entries.connections.len() >= max {
            return None;
        }
        entries.last += 1;
        let (number, outbox) = (entries.last, Arc::new(Outbox::new(self.unread.clone())));
        entries.connections.insert(number, outbox.clone());
        Some((number, outbox))
    }

    /// Forgets a connection and those of its sessions that it still has. `lost` is called for the latter while nobody can
    /// take them over.
    pub(crate) fn disconnect(&self, number: u64, mut sessions: Vec<SessionId>, lost: impl FnOnce(Vec<SessionId>)) {
        let mut entries = self.write();
        entries.connections.remove(&number);
        sessions.retain(|session| entries.release(number, *session));
        lost(sessions);
    }

    /// Lets a connection tell the writer something while nobody can take its session over; or why it is closed.
    pub(crate) fn unless_closed<T>(&self, outbox: &Outbox, tell: impl FnOnce() -> T) -> Result<T, Close> {
        let _entries = self.read();
        outbox.closed().map_or_else(|| Ok(tell()), Err)
    }

    /// Whether a connection still speaks for a session: it has the session, or nobody has, and the connection is there.
    pub(crate) fn speaks_for(&self, number: u64, session: SessionId) -> bool {
        let entries = self.read();
        match entries.sessions.get(&session) {
            Some((owner, _)) => *owner == number,
            None => entries.connections.get(&number).is_some_and(|outbox| outbox.closed().is_none()),
        }
    }

    /// One of those requests of a connection was decided, or is not to be, that make dead letters or come behind them.
    pub(crate) fn buried(&self, number: u64) {
        if let Some(outbox) = self.read().connections.get(&number) {
            outbox.buried();
        }
    }

    /// Gives the session to the connection. A connection that had it is closed; its number.
    pub(crate) fn take_session(&self, session: SessionId, number: u64, outbox: &Arc<Outbox>) -> Option<u64> {
        let mut entries = self.write();
        let before = entries.sessions.insert(session, (number, outbox.clone()));
        let (other, outbox) = before.filter(|(other, _)| *other != number)?;
        if let Some(left_out) = may_say("takeover") {
            tracing::info!(connection = other, by = number, left_out, "a session was taken over");
        }
        let detail = "the session was resumed on another connection".to_owned();
        outbox.close(Close { code: Code::SessionUnknown, detail });
        Some(other)
    }

    /// The session is over. Another connection may have it by now.
    pub(crate) fn release_session(&self, session: SessionId, number: u64) {
        self.write().release(number, session);
    }

    /// Whether a connection has the session.
    pub(crate) fn has(&self, session: SessionId) -> bool {
        self.read().sessions.contains_key(&session)
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.read().connections.len()
    }

    /// What answers weigh that are not bytes yet, of all connections.
    pub(crate) fn unread(&self) -> usize {
        self.unread.load(Ordering::Relaxed)
    }

    /// Puts something into every outbox.
    pub(crate) fn tell_all(&self, item: impl Fn() -> Out) {
        self.read().connections.values().for_each(|outbox| outbox.put([item()].into_iter()));
    }

    /// Closes every connection.
    pub(crate) fn close_all(&self, close: &Close) {
        self.read().connections.values().for_each(|outbox| outbox.close(close.clone()));
    }

    /// These outputs were decided. Answers count from here on for those who get them, whenever they may be told.
    pub(crate) fn decided(&self, outputs: &[Output]) {
        let asker = |output: &Output| match output {
            Output::Reply { ticket, .. } => Some(parts(*ticket).0),
            _ => None,
        };
        let entries = self.read();
        for of_one in outputs.chunk_by(|output, next| asker(output) == asker(next)) {
            let outbox = asker(&of_one[0]).and_then(|number| entries.connections.get(&number));
            let Some(outbox) = outbox else { continue };
            outbox.decided(of_one.iter().filter_map(|output| match output {
                Output::Reply { ticket, reply } => Some((parts(*ticket).1, reply)),
                _ => None,
            }));
        }
    }

    /// Outputs may be told.
    pub(crate) fn release(&self, outputs: impl Iterator<Item = Output>) {
        match &self.held {
            None => self.spread(outputs),
            Some(held) => held.lock().unwrap_or_else(PoisonError::into_inner).extend(outputs),
        }
    }

    /// Spreads outputs over the outboxes, each run of neighbours for one connection in one step. What is for a
    /// connection that is gone is dropped.
    pub(crate) fn spread(&self, outputs: impl Iterator<Item = Output>) {
        let mut outputs = outputs.peekable();
        if outputs.peek().is_none() {
            return;
        }
        let entries = self.read();
        while let Some(output) = outputs.next() {
            let Some((number, outbox)) = entries.receiver(&output) else { continue };
            let is_same = |next: &Output| entries.receiver(next).is_some_and(|(other, _)| other == number);
            let rest = std::iter::from_fn(|| outputs.next_if(is_same));
            outbox.put(std::iter::once(output).chain(rest).map(item));
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    fn receiver(&self, output: &Output) -> Option<(u64, &Outbox)> {
        match output {
            Output::Reply { ticket, .. } => {
                let number = parts(*ticket).0;
                self.connections.get(&number).map(|outbox| (number, &**outbox))
            }
            Output::Delivery { session, .. } | Output::Standing { session, .. } | Output::SessionExpired(session) => {
                self.sessions.get(session).map(|(number, outbox)| (*number, &**outbox))
            }
        }
    }

    fn release(&mut self, number: u64, session: SessionId) -> bool {
        let has = self.sessions.get(&session).is_some_and(|(owner, _)| *owner == number);
        if has {
            self.sessions.remove(&session);
        }
        has
    }
}

fn item(output: Output) -> Out {
    match output {
        Output::Reply { ticket, reply } => Out::Reply { index: parts(ticket).1, reply },
        Output::Delivery { consumer, epoch, leases, .. } => Out::Delivery { consumer, epoch, leases },
        Output::Standing { consumer, standing, .. } => Out::Standing { consumer, standing },
        Output::SessionExpired(_) => Out::SessionExpired,
    }
}

#[cfg(test)]
#[path = "registry/tests.rs"]
mod tests;
