//! What wrong receipts cost: time in which the connection is not read.
//!
//! A receipt that names no current lease is mostly one that comes late. Thousands in one call are no rarity where a
//! consumer stood still, and cost it moments. But somebody may guess, and as each guess takes no more than a few bytes and
//! a look at the state, sixteen connections keep two processors busy with that; nobody gets further in that way, and
//! everybody else waits. So guessing goes at a pace that is no burden.

use std::time::{Duration, Instant};

/// For each wrong receipt, so that a connection tries 100,000 a second, or a little more where it sends very many at once.
const EACH: Duration = Duration::from_micros(10);
/// The longest that a connection is not read for it: shorter than any session may be silent
/// ([`super::conversation`]), and so short that a connection whose client has gone is not kept for long.
const LONGEST: Duration = Duration::from_millis(250);

/// What one connection has to pay.
#[derive(Default, Debug)]
pub(crate) struct Toll {
    until: Option<Instant>,
}

impl Toll {
    /// So many of its receipts were wrong.
    pub(crate) fn charge(&mut self, wrong: u32, now: Instant) {
        if wrong > 0 {
            let from = self.until.map_or(now, |until| until.max(now));
            self.until = Some((from + EACH.saturating_mul(wrong)).min(now + LONGEST));
        }
    }

    /// Until when it pays, if it does.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Notes what time it is.
    pub(crate) fn look(&mut self, now: Instant) {
        self.until.take_if(|until| now >= *until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_tries_a_hundred_thousand_receipts_a_second() {
        let (begin, mut toll) = (Instant::now(), Toll::default());
        toll.charge(0, begin);
        assert_eq!(toll.until(), None);
        toll.charge(6_000, begin);
        toll.charge(4_000, begin);
        assert_eq!(toll.until(), Some(begin + Duration::from_millis(100)));
        toll.look(begin + Duration::from_millis(99));
        assert!(toll.until().is_some());
        toll.look(begin + Duration::from_millis(100));
        assert_eq!(toll.until(), None);
    }

    #[test]
    fn whatever_a_connection_has_sent_it_is_read_again_soon() {
        let (begin, mut toll) = (Instant::now(), Toll::default());
        for step in 0..100 {
            let now = begin + step * Duration::from_millis(1);
            toll.charge(u32::MAX, now);
            assert_eq!(toll.until(), Some(now + LONGEST));
        }
    }
}
