//! The rhythm of a long run. A period has three thirds: the consumers stand still, they catch up, and they keep up. What
//! a third is for follows from the clock alone and not from how the broker does: one that has not caught up in time is
//! told by the latency of the last third, and is not left out of it.

use std::time::Duration;

/// When the consumers stand still and when they have to keep up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sawtooth {
    begin: u64,
    end: u64,
    period: u64,
}

impl Sawtooth {
    /// The rhythm of a run that begins at a time of the run's clock.
    pub fn new(begin: u64, duration: Duration, period: Duration) -> Sawtooth {
        assert!(period.as_nanos() >= 3, "a period has three thirds");
        Sawtooth { begin, end: begin + duration.as_nanos() as u64, period: period.as_nanos() as u64 }
    }

    /// When publishing ends, and with it all standing still.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Whether the consumers stand still.
    pub fn is_still(&self, now: u64) -> bool {
        self.third(now) == Some(0)
    }

    /// Whether a message that is sent now is to be delivered at once.
    pub fn is_steady(&self, now: u64) -> bool {
        self.third(now) == Some(2)
    }

    fn third(&self, now: u64) -> Option<u64> {
        let inside = (self.begin..self.end).contains(&now);
        if inside { Some((now - self.begin) % self.period * 3 / self.period) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_has_three_thirds_and_the_run_an_end() {
        let sawtooth = Sawtooth::new(100, Duration::from_nanos(60), Duration::from_nanos(30));
        let told = |now| (sawtooth.is_still(now), sawtooth.is_steady(now));
        for (now, expected) in [
            (0, (false, false)),
            (100, (true, false)),
            (109, (true, false)),
            (110, (false, false)),
            (120, (false, true)),
            (130, (true, false)),
            (159, (false, true)),
            (160, (false, false)),
        ] {
            assert_eq!(told(now), expected, "{now}");
        }
    }
}
