//! How much one turn of the writer leases. All else waits while it does, so it ends after so many messages though there is
//! more to be had, and goes on at once behind the commands that have come meanwhile.

use crate::Core;
use crate::dispatch::scope::ScopeSlot;
use crate::dispatch::{ConsumerSlot, Dispatcher};

/// Messages leased in a turn, about: a millisecond or two of work, and so few that what was looked at to lease them is still near the
/// processor when they are acked. Half as many cost each message more, for each turn has its sync.
const MOST: u32 = 1024;

pub(crate) struct Measure {
    /// How many are enough.
    most: u32,
    /// How many this turn has leased.
    leased: u32,
    /// Whether these were enough, and somebody was left waiting.
    is_cut: bool,
}

impl Default for Measure {
    fn default() -> Measure {
        Measure { most: MOST, leased: 0, is_cut: false }
    }
}

impl Measure {
    /// A turn begins.
    pub(super) fn begin(&mut self) {
        (self.leased, self.is_cut) = (0, false);
    }

    pub(super) fn add(&mut self, leased: u32) {
        self.leased += leased;
    }

    /// Whether anything was leased in this turn.
    pub(super) fn is_any(&self) -> bool {
        self.leased > 0
    }
}

impl Core {
    /// Whether the next turn has to go on where this one has ended: there is more to be had for those that wait than one leases.
    pub fn goes_on_at_once(&self) -> bool {
        self.dispatcher.measure.is_cut
    }

    /// Sets how many messages a turn leases, about, in place of 1,024. For simulations: few are many then.
    ///
    /// # Panics
    ///
    /// If that is none.
    pub fn set_turn(&mut self, most: u32) {
        assert!(most > 0, "a turn leases something");
        self.dispatcher.measure.most = most;
    }
}

impl Dispatcher {
    /// Takes the consumer that is served next from a scope out of the hungry. Behind the measure those are left that were given
    /// nothing, and attached ones; a receive that was given something is answered at the end of the turn, and has all it asked
    /// for before.
    pub(super) fn next_hungry(&mut self, scope: ScopeSlot) -> Option<ConsumerSlot> {
        let Dispatcher { scopes, consumers, measure, .. } = self;
        let hungry = &mut scopes.slots.get_mut(scope as usize)?.hungry;
        if measure.leased < measure.most {
            return hungry.pop_front();
        }
        // Whoever was given something stands behind all others.
        let mut given = hungry.iter().rev().map(|slot| &consumers[*slot as usize]).take_while(|of| !of.got.is_empty());
        if let Some(from_back) = given.position(|consumer| consumer.is_exact()) {
            return hungry.remove(hungry.len() - 1 - from_back);
        }
        if !hungry.is_empty() {
            measure.is_cut = true;
            scopes.hold(scope);
        }
        None
    }
}
