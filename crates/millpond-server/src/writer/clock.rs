//! The two times that the core is handed, made from the clocks of a machine.
//!
//! Neither goes back. Run time goes on where the journal left it and gains at most a second a turn, so a machine that
//! was suspended expires no leases. It stands still while a batch is on its way to the disk for longer than [`BATCH_MAX`]: what
//! is decided meanwhile nobody is told, and nobody is to lose a lease, a session or an office that he was not told to have, or
//! could not be told to have kept. Wall time follows the system's clock; when that is set back, wall time goes on at half its
//! speed until the two meet.

use std::time::{Duration, Instant};

use millpond_core::Now;
use millpond_types::{RunTime, WallTime};

/// The most that run time gains in one turn.
pub(super) const TURN_MAX: Duration = Duration::from_secs(1);
/// The most that run time gains while one batch is on its way. What is decided meanwhile goes with the next one, and is told
/// after twice of this: a lease of half a second has not run out by then. Few syncs of any disk that works take as long.
const BATCH_MAX: Duration = Duration::from_millis(250);

pub(crate) struct Clock {
    /// Up to where time has been counted.
    last: Instant,
    run: Duration,
    wall: Duration,
    /// When the batch went that is on its way, or waits for room on the disk.
    went: Option<Instant>,
}

impl Clock {
    /// Goes on, as of `now`, from the times that the journal ends with.
    pub(crate) fn starting_from(journal: Now, now: Instant) -> Clock {
        let Now { run: RunTime(run), wall: WallTime(wall) } = journal;
        Clock { last: now, run: Duration::from_millis(run), wall: Duration::from_millis(wall), went: None }
    }

    /// The times of the turn that begins at `now`, with the system's clock at `system`.
    pub(crate) fn tick(&mut self, now: Instant, system: Duration) -> Now {
        let until = self.went.map_or(now, |went| now.min(went + BATCH_MAX));
        let gone = until.saturating_duration_since(self.last);
        self.last = self.last.max(until);
        self.run += gone.min(TURN_MAX);
        self.wall = if system >= self.wall { system } else { self.wall + gone / 2 };
        Now { run: RunTime(self.run.as_millis() as u64), wall: WallTime(self.wall.as_millis() as u64) }
    }

    /// A batch goes to the disk, or is tried again.
    pub(super) fn batch_goes(&mut self, now: Instant) {
        self.went.get_or_insert(now);
    }

    /// It is there. What it took beyond [`BATCH_MAX`] is not counted.
    pub(super) fn batch_came(&mut self, now: Instant) {
        if let Some(went) = self.went.take() {
            self.last += now.saturating_duration_since(went + BATCH_MAX);
        }
    }

    /// Whether run time stands still.
    pub(super) fn stands_still(&self, now: Instant) -> bool {
        self.went.is_some_and(|went| now >= went + BATCH_MAX)
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

    /// However many turns there are meanwhile, none or some.
    #[test]
    fn run_time_stands_still_while_a_batch_is_long_on_its_way() {
        for turns in [0, 1, 10] {
            let mut clock = starting_from(0, 0);
            let begin = clock.last;
            clock.tick(begin + SECOND / 10, SECOND);
            clock.batch_goes(begin + SECOND / 10);
            assert!(!clock.stands_still(begin + SECOND / 3) && clock.stands_still(begin + SECOND / 2));
            for turn in 1..=turns {
                let now = clock.tick(begin + turn * SECOND, SECOND);
                assert_eq!(now.run, RunTime(350));
                // Tried again, it is the same one.
                clock.batch_goes(begin + turn * SECOND);
            }
            clock.batch_came(begin + 11 * SECOND);
            assert!(!clock.stands_still(begin + 11 * SECOND));
            assert_eq!(clock.tick(begin + 11 * SECOND + SECOND / 10, SECOND).run, RunTime(450), "{turns} turns");
        }
    }

    #[test]
    fn run_time_goes_on_while_batches_are_not_long_on_their_way() {
        let mut clock = starting_from(0, 0);
        let begin = clock.last;
        for at in 0..10 {
            clock.batch_goes(begin + at * SECOND / 5);
            clock.batch_came(begin + at * SECOND / 5 + SECOND / 5);
        }
        clock.batch_goes(begin + 2 * SECOND);
        // A turn at a time counts a second at most.
        assert_eq!(clock.tick(begin + SECOND, SECOND).run, RunTime(1000));
        assert_eq!(clock.tick(begin + 2 * SECOND, SECOND).run, RunTime(2000));
    }

    #[test]
    fn wall_time_never_goes_back() {
        let mut clock = starting_from(0, 100_000);
        let begin = clock.last;
        assert_eq!(clock.tick(begin + 2 * SECOND, 90 * SECOND).wall, WallTime(101_000), "half as fast");
        assert_eq!(clock.tick(begin + 4 * SECOND, 110 * SECOND).wall, WallTime(110_000), "met again");
    }
}
