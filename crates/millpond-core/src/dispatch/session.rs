//! Sessions of attached consumers. The shell counts heartbeats and sees connections come and go; the core counts the
//! time that a lost session may still be resumed in.

use alloc::vec::Vec;

use millpond_types::{Millis, RunTime, SessionId};

use crate::dispatch::{ConsumerSlot, Dispatcher};
use crate::fact::GroupNumber;

/// The time for resuming where neither the client nor a running session says: also that of sessions known only by the
/// leases that they left in the journal.
pub(crate) const RESUME_DEFAULT: Millis = Millis::seconds(10);

pub(crate) struct Session {
    pub(crate) resume: Millis,
    /// When it expires, while its connection is gone.
    pub(crate) lost: Option<RunTime>,
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
        Session { resume, lost, consumers: Vec::new(), heard, leads: Vec::new(), is_found: false }
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
        }
        is_there
    }

    /// The session's connection is gone: nothing is delivered any more, and its time runs, up to the end of a start's grace
    /// at least.
    pub(crate) fn lose(&mut self, id: SessionId, now: RunTime) {
        self.drop_consumers(id);
        let grace = self.grace;
        if let Some(session) = self.sessions.get_mut(&id).filter(|session| session.lost.is_none()) {
            let at = (now + session.resume).max(grace);
            session.lost = Some(at);
            self.losing.insert((at, id));
        }
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
        }
    }

    /// Those that a start has found and whose clients have not come back: they are lost.
    pub(super) fn count_found(&self) -> usize {
        self.losing.iter().filter(|(_, id)| self.sessions[id].is_found).count()
    }

    pub(crate) fn drop_consumers(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        for slot in core::mem::take(&mut session.consumers) {
            self.remove(slot);
        }
    }
}
