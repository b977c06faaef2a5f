//! Which session holds which leases: a doubly linked list through the leases themselves, so that a session's end
//! finds them without a search and an ack takes one out without one.

use alloc::vec::Vec;

use millpond_types::SessionId;

use crate::state::{LeaseSlot, State};

/// The leases of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Holder {
    pub(crate) first: LeaseSlot,
}

impl State {
    /// Puts a lease in front of its holder's list. A lease without a holder is in no list.
    pub(crate) fn hold(&mut self, slot: LeaseSlot) {
        let holder = self.leases[slot as usize].holder;
        if holder == SessionId(0) {
            return;
        }
        let next = self.holders.insert(holder, Holder { first: slot }).map(|list| list.first);
        self.leases[slot as usize].previous = None;
        self.leases[slot as usize].next = next;
        if let Some(next) = next {
            self.leases[next as usize].previous = Some(slot);
        }
    }

    /// Takes a lease out of its holder's list.
    pub(crate) fn let_go(&mut self, slot: LeaseSlot) {
        let lease = &self.leases[slot as usize];
        let (holder, previous, next) = (lease.holder, lease.previous, lease.next);
        if holder == SessionId(0) {
            return;
        }
        if let Some(next) = next {
            self.leases[next as usize].previous = previous;
        }
        match (previous, next) {
            (Some(previous), _) => self.leases[previous as usize].next = next,
            (None, Some(next)) => _ = self.holders.insert(holder, Holder { first: next }),
            (None, None) => _ = self.holders.remove(&holder),
        }
    }

    /// The sessions that hold leases, in the order of their ids.
    #[expect(clippy::disallowed_methods, reason = "sorted at once")]
    pub(crate) fn holders_in_order(&self) -> Vec<SessionId> {
        let mut holders: Vec<SessionId> = self.holders.keys().copied().collect();
        holders.sort_unstable();
        holders
    }

    /// The leases of a session.
    pub(crate) fn held_by(&self, session: SessionId) -> impl Iterator<Item = LeaseSlot> {
        let first = self.holders.get(&session).map(|holder| holder.first);
        core::iter::successors(first, |slot| self.leases[*slot as usize].next)
    }
}
