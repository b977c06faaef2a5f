//! How much one turn of the writer leases. All else waits while it does, so it ends after so many messages though there may be
//! more to be had, and the next one goes on at once, behind the commands that have come meanwhile and with whoever was left.

use millpond_types::limits::RECEIVE_MESSAGES_MAX;

use crate::Core;

/// Messages leased in a turn, about: as many as a receive is given at most. They are so few that what was looked at to lease them is
/// still near the processor when they are acked; what more of them cost is in `docs/figures.md`.
const MOST: u32 = RECEIVE_MESSAGES_MAX;

/// While somebody who asks for little waits, a message that is leased to an attached consumer counts for so many: two shares of
/// consumers fill a turn. One for a receive counts once, for whoever receives is such a one himself; beside consumers he is given
/// what they leave. What it gains and costs is in `docs/figures.md`.
const IN_HASTE: u32 = 16;

pub(crate) struct Measure {
    /// How many are enough.
    most: u32,
    /// How many a message for an attached consumer counts for.
    weight: u32,
    /// How many this turn has leased, by weight.
    leased: u32,
    /// Whether these were enough, and somebody with credit was left.
    pub(super) is_cut: bool,
}

impl Default for Measure {
    fn default() -> Measure {
        Measure { most: MOST, weight: 1, leased: 0, is_cut: false }
    }
}

impl Measure {
    /// A turn begins.
    pub(super) fn begin(&mut self) {
        (self.leased, self.is_cut) = (0, false);
    }

    pub(super) fn add(&mut self, leased: u32, is_attached: bool) {
        let weight = if is_attached { self.weight } else { 1 };
        self.leased = self.leased.saturating_add(leased.saturating_mul(weight));
    }

    /// How many messages this turn has leased, by weight.
    pub(super) fn leased(&self) -> u32 {
        self.leased
    }

    /// Whether this turn has leased enough.
    pub(super) fn is_full(&self) -> bool {
        self.leased >= self.most
    }
}

impl Core {
    /// Sets how many messages a turn leases, about, in place of 1,024. For simulations: few are many then.
    ///
    /// # Panics
    ///
    /// If that is none.
    pub fn set_leases_of_turn(&mut self, most: u32) {
        assert!(most > 0, "a turn leases something");
        self.dispatcher.measure.most = most;
    }

    /// Says whether somebody who asks for little waits for this turn: then it leases a sixteenth to attached consumers.
    pub fn set_in_haste(&mut self, in_haste: bool) {
        self.dispatcher.measure.weight = if in_haste { IN_HASTE } else { 1 };
    }

    /// Whether the next turn has to go on where this one has ended: it has leased enough, and there may be more for those who
    /// have credit.
    pub fn goes_on_at_once(&self) -> bool {
        self.dispatcher.measure.is_cut
    }
}
