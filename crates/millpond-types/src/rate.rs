//! How many messages of a topic may be leased in a time.

use crate::limits::{RATE_FILL_MAX, RATE_PERIOD_MAX, TOKEN_MIN_NANOS};
use crate::policy::BadPolicy;
use crate::time::Millis;

/// A bucket of tokens per topic and group: it holds up to `burst`, and `count` of them come in each `period`, evenly. Each
/// message that is leased takes one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Messages in a period.
    pub count: u32,
    /// The period.
    pub period: Millis,
    /// Messages at once, where none came for long enough.
    pub burst: u32,
}

impl Rate {
    pub(crate) fn validate(&self) -> Result<(), BadPolicy> {
        let Rate { count, period, burst } = *self;
        if count == 0 {
            return Err(BadPolicy("a rate is of at least one message; to stop deliveries, pause the topics"));
        }
        if period == Millis::ZERO {
            return Err(BadPolicy("the period of a rate is at least 1 ms; where there is no limit, say none"));
        }
        if period > RATE_PERIOD_MAX {
            return Err(BadPolicy("the period of a rate is at most 365 days; say how many come in a shorter one"));
        }
        if burst == 0 {
            return Err(BadPolicy("the burst of a rate is at least one message, or none would ever go"));
        }
        // Compared without a division, in more bits than any of it has.
        let (period, count, burst) = (u128::from(period.0), u128::from(count), u128::from(burst));
        if period * 1_000_000 < count * u128::from(TOKEN_MIN_NANOS) {
            return Err(BadPolicy(
                "a rate is of at most a million messages a second; where there is no limit, say none",
            ));
        }
        if period * burst > count * u128::from(RATE_FILL_MAX.0) {
            return Err(BadPolicy(
                "a whole burst comes back within a day: a rate lets one message a day go at least, and a burst no more than \
                 a day's",
            ));
        }
        Ok(())
    }
}
