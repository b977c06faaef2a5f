//! Which session holds which leases: a doubly linked list through the leases themselves, so that a session's end
//! finds them without a search and an ack takes one out without one.

use alloc::vec::Vec;

use hashbrown::hash_map::Entry;
use millpond_types::SessionId;

use crate::state::{LeaseSlot, State};

/// The leases of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Holder {
    pub(crate) first: LeaseSlot,
    /// Bytes that they are charged.
    pub(crate) bytes: usize,
    /// Whether dispatch wants to know when it holds nothing any more.
    pub(crate) is_watched: bool,
}

impl State {
    /// Puts a lease in front of its holder's list. A lease without a holder is in no list.
    pub(crate) fn hold(&mut self, slot: LeaseSlot) {
        let bytes = self.charge(slot);
        let lease = &mut self.leases[slot as usize];
        lease.bytes = bytes;
        self.leased.given += bytes as usize;
        if lease.holder == SessionId(0) {
            let (of, is_left_out) = (self.topics[lease.slot].group, lease.is_left_out);
            self.groups[of].held_by_none += bytes as usize;
            self.leased.left_out += if is_left_out { bytes as usize } else { 0 };
            return;
        }
        match self.holders.entry(lease.holder) {
            Entry::Vacant(place) => _ = place.insert(Holder { first: slot, bytes: bytes as usize, is_watched: false }),
            Entry::Occupied(mut place) => {
                let holder = place.get_mut();
                holder.bytes += bytes as usize;
                let next = core::mem::replace(&mut holder.first, slot);
                lease.next = Some(next);
                self.leases[next as usize].previous = Some(slot);
            }
        }
    }

    /// Takes a lease out of its holder's list.
    pub(crate) fn let_go(&mut self, slot: LeaseSlot) {
        let lease = &self.leases[slot as usize];
        let (holder, previous, next, bytes) = (lease.holder, lease.previous, lease.next, lease.bytes as usize);
        let (of, is_left_out) = (self.topics[lease.slot].group, lease.is_left_out);
        self.leased.has_eased = true;
        // Those that end in the turn in which they were given were given at most once.
        self.leased.given = self.leased.given.saturating_sub(bytes);
        if holder == SessionId(0) {
            self.groups[of].held_by_none -= bytes;
            self.leased.left_out -= if is_left_out { bytes } else { 0 };
            return;
        }
        if let Some(next) = next {
            self.leases[next as usize].previous = previous;
        }
        if let Some(previous) = previous {
            self.leases[previous as usize].next = next;
        }
        let of = self.holders.get_mut(&holder).expect("it holds this lease");
        of.bytes -= bytes;
        match (previous, next) {
            (Some(_), _) => {}
            (None, Some(next)) => of.first = next,
            (None, None) => {
                if of.is_watched {
                    self.emptied.push(holder);
                }
                self.holders.remove(&holder);
            }
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
