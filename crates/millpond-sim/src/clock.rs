//! The two times, as the server makes them from a clock: run time gains at most a second a turn, wall time jumps ahead
//! and, where the machine's clock was set back, goes on at half its speed.

use millpond_core::Now;
use millpond_types::{RunTime, WallTime};

/// The most that run time gains in one turn, in milliseconds.
const TURN_MAX: u64 = 1000;

/// See the module. All in milliseconds.
pub struct Clock {
    run: u64,
    wall: u64,
    /// What has passed since the last turn.
    passed: u64,
    /// How far wall time is ahead of the machine's clock.
    ahead: u64,
}

impl Clock {
    /// Begins at some date.
    pub fn new() -> Clock {
        Clock { run: 0, wall: 1_700_000_000_000, passed: 0, ahead: 0 }
    }

    /// Time passes.
    pub fn pass(&mut self, millis: u64) {
        self.passed += millis;
    }

    /// The machine's clock is set ahead.
    pub fn set_ahead(&mut self, millis: u64) {
        self.wall += millis;
    }

    /// The machine's clock is set back.
    pub fn set_back(&mut self, millis: u64) {
        self.ahead += millis;
    }

    /// The times of the next turn.
    pub fn tick(&mut self) -> Now {
        let passed = std::mem::take(&mut self.passed);
        self.run += passed.min(TURN_MAX);
        let caught_up = (passed / 2).min(self.ahead);
        self.ahead -= caught_up;
        self.wall += passed - caught_up;
        Now { run: RunTime(self.run), wall: WallTime(self.wall) }
    }

    /// The broker starts: run time goes on where the journal left it, and wall time was never behind.
    pub fn restart(&mut self, journal: Now) {
        self.run = journal.run.0;
        self.wall = self.wall.max(journal.wall.0);
    }
}
