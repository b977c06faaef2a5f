//! What a writer runs in: a machine, or a simulation of one, which sees all that it does and may be mistaken on purpose.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millpond_core::command::{Command, Ticket};
use millpond_core::fact::Fact;
use millpond_core::output::Output;
use millpond_core::{Core, Decision, Now};

use super::haste::SHORT_RUNS;

/// Bytes of the largest batch that the writer writes itself: larger ones take so long that the next should fill meanwhile.
const OWN_HAND_MAX: u64 = 16 * 1024;

/// See the module. All but the clocks has a default, which is what a machine does: nothing.
pub trait Host: Send + 'static {
    /// The time of a clock that never goes back.
    fn now(&mut self) -> Instant;

    /// The time of the system's clock, since the beginning of 1970.
    fn system(&mut self) -> Duration;

    /// Bytes of the largest batch that the writer writes and syncs by its own hand, where it has little else to do.
    fn own_hand_max(&self) -> u64 {
        OWN_HAND_MAX
    }

    /// Whether the next turn is to be short, where somebody who asks for little waits for it or not.
    fn is_in_haste(&mut self, is_somebody_waiting: bool) -> bool {
        is_somebody_waiting
    }

    /// Runs of messages that requests of a turn may add together, the first of each not counted, and be short: what comes behind them is
    /// left to the next turn.
    fn short_runs(&self) -> usize {
        SHORT_RUNS
    }

    /// A turn begins at these times, which the core is told.
    fn begins(&mut self, core: &mut Core, now: Now) {
        core.set_time(now);
    }

    /// A command is about to be decided.
    fn asks(&mut self, _ticket: Ticket, command: Command) -> Command {
        command
    }

    /// It was decided, or has to wait for topics. The core has the outputs of the turn so far.
    fn decided(&mut self, _decision: Decision, _core: &mut Core) {}

    /// A request that a turn has taken is put off, for want of room.
    fn puts_off(&mut self) {}

    /// A request that a turn has taken is left to the next one, because it is long and others are not.
    fn lets_pass(&mut self) {}

    /// A fact was appended, at this position of the journal.
    fn happened(&mut self, _fact: &Fact, _position: u64) {}

    /// Everything was dispatched, and nobody was told yet. `is_fetching` is whether anything is being read.
    fn dispatched(&mut self, _core: &mut Core, _is_fetching: bool) {}

    /// Whether an output that has to wait for the sync, or for the write alone, is told without.
    fn is_told_early(&self, _output: &Output) -> bool {
        false
    }
}

/// This machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine;

impl Host for Machine {
    fn now(&mut self) -> Instant {
        Instant::now()
    }

    fn system(&mut self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}
