//! How much is remembered of turns, of all scopes together, and what is forgotten where that is more than there is room for.
//!
//! Remembered are *places*, where tenants go on, and for each priority of a scope that something was served at, who was
//! served last. Nobody asked for them: a scope has as many places as there are tenants, whatever its filter takes. So they
//! have a room of their own. What scopes have left behind that nobody uses goes first, then of all others the places that
//! had no turn for longest. Who was served last stays while that is no more than half of the room: without it a loud tenant
//! would have turn after turn of receives that come one by one.
//!
//! A tenant whose place is forgotten begins with its first topic again, which is told in what order topics are served. So
//! what is forgotten follows from what was asked for and served, and from the room, and from nothing that leaves memory or
//! comes back.
//!
//! Of what is known about topics that are not in memory ([`super::reach`]) as much may be remembered. To forget that costs
//! reads, and nothing else.

use alloc::collections::BinaryHeap;
use core::cmp::Reverse;

use millpond_types::limits::PRIORITIES;

use crate::Core;
use crate::dispatch::Dispatcher;
use crate::dispatch::scope::ScopeSlot;
use crate::dispatch::scopes::Scopes;

/// Where places take too much, one part in so many of the room is made free at a time: to find those that had no turn for
/// longest means to look at all scopes.
const FORGET_SHARE: usize = 8;

/// What turns take, of all scopes.
pub(crate) struct Remembered {
    places: usize,
    /// Who was served last, at each priority.
    lasts: usize,
    room: usize,
    /// How often a place was used, or a scope left.
    uses: u64,
}

impl Default for Remembered {
    fn default() -> Remembered {
        Remembered { places: 0, lasts: 0, room: usize::MAX, uses: 0 }
    }
}

impl Remembered {
    pub(super) fn use_one(&mut self) -> u64 {
        self.uses += 1;
        self.uses
    }

    /// Some places took so many bytes before, and take so many now.
    pub(super) fn places_changed(&mut self, before: usize, now: usize) {
        self.places = self.places - before + now;
    }

    /// Who was served last in some turns took so many bytes before, and takes so many now.
    pub(super) fn last_changed(&mut self, before: usize, now: usize) {
        self.lasts = self.lasts - before + now;
    }

    fn room_for_lasts(&self) -> usize {
        self.room / 2
    }

    fn room_for_places(&self) -> usize {
        self.room - self.lasts.min(self.room_for_lasts())
    }

    /// What places take, and who was served last.
    pub(super) fn weigh(&self) -> (usize, usize) {
        (self.places, self.lasts)
    }
}

impl Core {
    /// Sets how many bytes there are for what dispatch remembers of turns, and of what is not in memory. It tells in what
    /// order topics of very many tenants are served.
    pub fn set_turns_room(&mut self, bytes: usize) {
        self.dispatcher.set_turns_room(bytes);
    }

    /// About how many bytes are remembered of turns, and how many of what is not in memory.
    pub fn turns_bytes(&self) -> (usize, usize) {
        self.dispatcher.turns_bytes()
    }
}

impl Dispatcher {
    pub(super) fn set_turns_room(&mut self, bytes: usize) {
        self.scopes.remembered.room = bytes / 2;
        self.reach.set_known_room(bytes / 2);
    }

    pub(super) fn turns_bytes(&self) -> (usize, usize) {
        let (places, lasts) = self.scopes.remembered.weigh();
        (places + lasts, self.reach.known_bytes())
    }
}

impl Scopes {
    /// Forgets what there is no room for.
    pub(super) fn forget_turns(&mut self) {
        let Remembered { places, lasts, .. } = self.remembered;
        if lasts > self.remembered.room_for_lasts() {
            self.forget_lasts();
        }
        if places > self.remembered.room_for_places() {
            let keep = self.remembered.room_for_places() - self.remembered.room / FORGET_SHARE;
            self.forget_unused_places(keep);
            self.forget_old_places(keep);
        }
    }

    /// Who was served last in scopes that nobody uses, those that were left first.
    fn forget_lasts(&mut self) {
        while self.remembered.lasts > self.remembered.room_for_lasts()
            && let Some((_, slot)) = self.left.pop_first()
        {
            self.slots[slot as usize].forget_turns(&mut self.remembered);
        }
    }

    /// Places in scopes that nobody uses, those that were left first, until they all take no more than so many bytes.
    fn forget_unused_places(&mut self, keep: usize) {
        for (_, slot) in &self.left {
            if self.remembered.places <= keep {
                return;
            }
            self.slots[*slot as usize].forget_places(&mut self.remembered);
        }
    }

    /// The places that had no turn for longest, until all take no more than so many bytes.
    fn forget_old_places(&mut self, keep: usize) {
        let mut oldest = BinaryHeap::new();
        for (slot, scope) in &mut self.slots {
            let levels = (0..PRIORITIES).filter_map(|level| Some((scope.tenants(level)?.oldest()?, level)));
            oldest.extend(levels.map(|(used, level)| Reverse((used, slot as ScopeSlot, level))));
        }
        while self.remembered.places > keep {
            let Reverse((_, slot, level)) = oldest.pop().expect("places have tenants");
            let tenants = self.slots[slot as usize].tenants(level).expect("it has a place");
            tenants.lose_oldest(&mut self.remembered);
            oldest.extend(tenants.oldest().map(|used| Reverse((used, slot, level))));
        }
    }

    pub(super) fn check_remembered(&self) {
        let sums = self.slots.iter().map(|(_, scope)| scope.weigh_turns());
        let (places, lasts) = sums.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        assert_eq!((places, lasts), self.remembered.weigh(), "what turns take is summed up");
        let left = self.slots.iter().filter(|(_, scope)| scope.users == 0 && scope.weigh_turns() != (0, 0));
        assert_eq!(left.count(), self.left.len(), "turns that nobody uses are known");
    }
}
