//! The sessions that a connection has ended, until that is answered. A client that does not take the answers may have ten
//! thousands of them, and may have begun one id again and again: whatever there is, an answer looks at none of the others.

use std::collections::BTreeMap;

use millpond_types::SessionId;

#[derive(Default)]
pub(super) struct Ending {
    /// By which of the connection's they are.
    sessions: BTreeMap<u32, SessionId>,
    /// How many of these have the id.
    ids: BTreeMap<SessionId, u32>,
    /// How many were looked at one after the other.
    #[cfg(test)]
    pub(super) looked_at: std::cell::Cell<usize>,
}

impl Ending {
    pub(super) fn push(&mut self, nth: u32, id: SessionId) {
        assert!(self.sessions.insert(nth, id).is_none(), "a session ends once");
        *self.ids.entry(id).or_default() += 1;
    }

    /// The end of one is answered: its id, and whether others of that id wait for the same.
    pub(super) fn answered(&mut self, nth: u32) -> (SessionId, bool) {
        let id = self.sessions.remove(&nth).expect("an end is answered once");
        let count = self.ids.get_mut(&id).expect("each that ends is counted");
        *count -= 1;
        let has_others = *count > 0;
        if !has_others {
            self.ids.remove(&id);
        }
        (id, has_others)
    }

    /// The ids.
    pub(super) fn ids(&self) -> impl Iterator<Item = SessionId> {
        let looked_at = |_: &SessionId| {
            #[cfg(test)]
            self.looked_at.update(|count| count + 1);
        };
        self.ids.keys().copied().inspect(looked_at)
    }
}
