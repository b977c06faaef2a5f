//! The tokens of a topic whose rate is limited.

use millpond_types::{Rate, RunTime};

/// Parts of a millisecond in which tokens come: nanoseconds.
const PARTS: u64 = 1_000_000;

/// What is missing in a bucket of tokens, as the moment from which nothing is.
#[derive(Clone, Copy, Default)]
pub struct Bucket {
    full: u64,
}

impl Bucket {
    /// How many tokens are in it. The time of each is rounded down here, and the broker may round it up: where what is missing was
    /// missing under another rate, its bucket so has room for a few parts more.
    pub fn tokens(&self, rate: &Rate, now: RunTime) -> u64 {
        let missing = self.missing(rate, now).saturating_sub(rate.burst.into());
        (capacity(rate) - missing) / each(rate)
    }

    /// Whether none is missing.
    pub fn is_full(&self, now: RunTime) -> bool {
        self.full <= now.0 * PARTS
    }

    /// So many are taken. Without a rate none is missing.
    pub(super) fn draw(&mut self, rate: Option<&Rate>, count: u32, now: RunTime) {
        let missing = rate.map_or(0, |rate| self.missing(rate, now) + each(rate) * u64::from(count));
        self.full = now.0 * PARTS + missing;
    }

    /// What is missing is never more than there is room for.
    fn missing(&self, rate: &Rate, now: RunTime) -> u64 {
        self.full.saturating_sub(now.0 * PARTS).min(capacity(rate))
    }
}

/// The time in which one comes.
fn each(rate: &Rate) -> u64 {
    rate.period.0 * PARTS / u64::from(rate.count)
}

fn capacity(rate: &Rate) -> u64 {
    each(rate) * u64::from(rate.burst)
}
