//! Sessions of attached consumers. The shell counts heartbeats and sees connections come and go; the core counts the
//! time that a lost session may still be resumed in.

use alloc::vec::Vec;

use millpond_types::{Millis, RunTime, SessionId};

use crate::dispatch::{ConsumerSlot, Dispatcher};
use crate::fact::GroupNumber;
use crate::state::State;

/// The time for resuming where neither the client nor a running session says: also that of sessions known only by the
/// leases that they left in the journal.
pub(crate) const RESUME_DEFAULT: Millis = Millis::seconds(10);

pub(crate) struct Session {
    pub(crate) resume: Millis,
    /// When it expires, while its connection is gone.
    pub(crate) lost: Option<RunTime>,
    /// When its connection went, the last time.
    lost_at: RunTime,
    pub(crate) consumers: Vec<ConsumerSlot>,
    /// When its client gave a sign of life.
    pub(crate) heard: RunTime,
    /// The exclusive groups whose offices it holds.
    pub(crate) leads: Vec<GroupNumber>,
    /// Whether a start has found it, and its client has not come back: nobody has set it up in this broker.
    is_found: bool,
}

impl Session {
    fn new(resume: Millis, lost: Option<RunTime>, heard: RunTime) -> Session {
        Session { resume, lost, lost_at: heard, consumers: Vec::new(), heard, leads: Vec::new(), is_found: false }
    }
}

impl Dispatcher {
    /// Begins or resumes a session; its consumers are to be attached anew. True if it was there.
    pub(crate) fn begin(&mut self, id: SessionId, resume: Millis, now: RunTime) -> bool {
        let is_there = self.sessions.contains_key(&id);
        if is_there {
            self.drop_consumers(id);
        }
        let session = self.sessions.entry(id).or_insert(Session::new(resume, None, now));
        (session.resume, session.heard) = (resume, now);
        self.found -= usize::from(core::mem::take(&mut session.is_found));
        if let Some(at) = session.lost.take() {
            self.losing.remove(&(at, id));
            self.yielding.remove(&(session.lost_at, id));
        }
        is_there
    }

    /// The session's connection is gone: nothing is delivered any more, and its time runs, up to the end of a start's grace
    /// at least.
    pub(crate) fn lose(&mut self, id: SessionId, state: &mut State) {
        self.drop_consumers(id);
        let (now, grace) = (state.now.run, self.grace);
        if let Some(session) = self.sessions.get_mut(&id).filter(|session| session.lost.is_none()) {
            let at = (now + session.resume).max(grace);
            (session.lost, session.lost_at) = (Some(at), now);
            self.losing.insert((at, id));
            self.give_way(id, state);
        }
    }

    /// A lost session that holds neither leases nor an office gives way from here on where others have no room: all that
    /// its client would find is a session without anything. One that holds leases is looked at again when it does not.
    ///
    /// One that a start has found takes no room from anybody, and stays.
    pub(crate) fn give_way(&mut self, id: SessionId, state: &mut State) {
        let session = self.sessions.get(&id).filter(|session| session.lost.is_some() && !session.is_found);
        let Some(session) = session else { return };
        if let Some(holder) = state.holders.get_mut(&id) {
            holder.is_watched = true;
        } else if session.leads.is_empty() {
            self.yielding.insert((session.lost_at, id));
        }
    }

    /// Ends the session that was lost first of those that give way, if there is one.
    pub(super) fn drop_yielding(&mut self) -> bool {
        let Some((_, id)) = self.yielding.first().copied() else { return false };
        self.end(id);
        true
    }

    /// A session known only by leases or an office that it held before a restart.
    pub(crate) fn restore(&mut self, id: SessionId, now: RunTime, until: RunTime) -> &mut Session {
        self.losing.insert((until, id));
        let found = &mut self.found;
        self.sessions.entry(id).or_insert_with(|| {
            *found += 1;
            Session { is_found: true, ..Session::new(RESUME_DEFAULT, Some(until), now) }
        })
    }

    /// The first of the sessions that wait for an office, but for those that were not heard of for a term.
    pub(crate) fn first_present(&self, group: GroupNumber, term: Millis, now: RunTime) -> Option<SessionId> {
        let mut candidates = self.offices.candidates(group);
        candidates.find(|session| self.sessions[session].heard + term > now)
    }

    /// The session is over.
    pub(crate) fn end(&mut self, id: SessionId) {
        self.drop_consumers(id);
        let Some(session) = self.sessions.remove(&id) else { return };
        self.found -= usize::from(session.is_found);
        if let Some(at) = session.lost {
            self.losing.remove(&(at, id));
            self.yielding.remove(&(session.lost_at, id));
        }
    }

    /// Those that a start has found and whose clients have not come back: they are lost.
    pub(super) fn count_found(&self) -> usize {
        self.losing.iter().filter(|(_, id)| self.sessions[id].is_found).count()
    }

    /// All that give way are lost and hold nothing, and all others hold something or are looked at when the next turn begins.
    pub(crate) fn check_yielding(&self, state: &State) {
        for (_, id) in &self.losing {
            let session = &self.sessions[id];
            let holds = session.is_found || !session.leads.is_empty() || state.holders.contains_key(id);
            match self.yielding.contains(&(session.lost_at, *id)) {
                true => assert!(!holds, "who holds something gives way to nobody"),
                false => assert!(holds || state.emptied.contains(id), "a lost session that holds nothing gives way"),
            }
        }
        let is_lost = |id| self.sessions.get(id).is_some_and(|session| session.lost.is_some());
        assert!(self.yielding.iter().all(|(_, id)| is_lost(id)), "who is there gives way to nobody");
    }

    pub(crate) fn drop_consumers(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        for slot in core::mem::take(&mut session.consumers) {
            self.remove(slot);
        }
    }
}
