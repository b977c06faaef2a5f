//! The two times that the core is handed, made from the clocks of this machine.
//!
//! Neither goes back. Run time goes on where the journal left it and gains at most a second a turn, so a machine that
//! was suspended expires no leases. Wall time follows the system's clock; when that is set back, wall time goes on at
//! half its speed until the two meet.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millpond_core::Now;
use millpond_types::{RunTime, WallTime};

/// The most that run time gains in one turn.
pub(super) const TURN_MAX: Duration = Duration::from_secs(1);

pub(crate) struct Clock {
    last: Instant,
    run: Duration,
    wall: Duration,
}

impl Clock {
    /// Goes on from the times that the journal ends with.
    pub(crate) fn starting_from(run: RunTime, wall: WallTime) -> Clock {
        Clock { last: Instant::now(), run: Duration::from_millis(run.0), wall: Duration::from_millis(wall.0) }
    }

    /// The times of the turn that begins at `now`.
    pub(crate) fn tick(&mut self, now: Instant) -> Now {
        let system = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.step(now, system)
    }

    fn step(&mut self, now: Instant, system: Duration) -> Now {
        let gone = now.saturating_duration_since(self.last);
        self.last = now;
        self.run += gone.min(TURN_MAX);
        self.wall = if system >= self.wall { system } else { self.wall + gone / 2 };
        Now { run: RunTime(self.run.as_millis() as u64), wall: WallTime(self.wall.as_millis() as u64) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn run_time_gains_a_second_a_turn_at_most() {
        let mut clock = Clock::starting_from(RunTime(5_000), WallTime(0));
        let begin = clock.last;
        assert_eq!(clock.step(begin + SECOND / 2, SECOND).run, RunTime(5_500));
        assert_eq!(clock.step(begin + 3600 * SECOND, SECOND).run, RunTime(6_500));
    }

    #[test]
    fn wall_time_never_goes_back() {
        let mut clock = Clock::starting_from(RunTime(0), WallTime(100_000));
        let begin = clock.last;
        assert_eq!(clock.step(begin + 2 * SECOND, 90 * SECOND).wall, WallTime(101_000), "half as fast");
        assert_eq!(clock.step(begin + 4 * SECOND, 110 * SECOND).wall, WallTime(110_000), "met again");
    }
}
