//! The two times that the core is handed, made from the clocks of a machine.
//!
//! Neither goes back. Run time goes on where the journal left it and gains at most a second a turn, so a machine that
//! was suspended expires no leases. Wall time follows the system's clock; when that is set back, wall time goes on at
//! half its speed until the two meet.

use std::time::{Duration, Instant};

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
    /// Goes on, as of `now`, from the times that the journal ends with.
    pub(crate) fn starting_from(journal: Now, now: Instant) -> Clock {
        let Now { run: RunTime(run), wall: WallTime(wall) } = journal;
        Clock { last: now, run: Duration::from_millis(run), wall: Duration::from_millis(wall) }
    }

    /// The times of the turn that begins at `now`, with the system's clock at `system`.
    pub(crate) fn tick(&mut self, now: Instant, system: Duration) -> Now {
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

    fn starting_from(run: u64, wall: u64) -> Clock {
        Clock::starting_from(Now { run: RunTime(run), wall: WallTime(wall) }, Instant::now())
    }

    #[test]
    fn run_time_gains_a_second_a_turn_at_most() {
        let mut clock = starting_from(5_000, 0);
        let begin = clock.last;
        assert_eq!(clock.tick(begin + SECOND / 2, SECOND).run, RunTime(5_500));
        assert_eq!(clock.tick(begin + 3600 * SECOND, SECOND).run, RunTime(6_500));
    }

    #[test]
    fn wall_time_never_goes_back() {
        let mut clock = starting_from(0, 100_000);
        let begin = clock.last;
        assert_eq!(clock.tick(begin + 2 * SECOND, 90 * SECOND).wall, WallTime(101_000), "half as fast");
        assert_eq!(clock.tick(begin + 4 * SECOND, 110 * SECOND).wall, WallTime(110_000), "met again");
    }
}
