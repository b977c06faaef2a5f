//! What wrong receipts and sessions cost: time in which the connection is not read.
//!
//! A receipt that names no current lease is mostly one that comes late. Thousands in one call are no rarity where a
//! consumer stood still, and cost it moments. But somebody may guess, and as each guess takes no more than a few bytes and
//! a look at the state, sixteen connections keep two processors busy with that; nobody gets further in that way, and
//! everybody else waits. So guessing goes at a pace that is no burden, and so does that of sessions: of those a client
//! names one where it comes back, and it may come too late.

use std::time::{Duration, Instant};

/// For each wrong receipt, so that a connection tries 100,000 a second, or a little more where it sends very many at once.
const RECEIPT: Duration = Duration::from_micros(10);
/// For each session that was named and is over or never was. To begin one takes the broker as long as dozens of receipts.
const SESSION: Duration = Duration::from_millis(1);
/// The longest that a connection is not read for it: shorter than any session may be silent
/// ([`super::conversation`]), and so short that a connection whose client has gone is not kept for long.
const LONGEST: Duration = Duration::from_millis(250);

/// What one connection has to pay.
#[derive(Default, Debug)]
pub(crate) struct Toll {
    until: Option<Instant>,
}

/// What it has named that is not there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Wrong {
    pub(crate) receipts: u32,
    pub(crate) sessions: u32,
}

impl Toll {
    /// So much of what it has named was wrong.
    pub(crate) fn charge(&mut self, wrong: Wrong, now: Instant) {
        if wrong != Wrong::default() {
            let from = self.until.map_or(now, |until| until.max(now));
            let time = RECEIPT.saturating_mul(wrong.receipts) + SESSION.saturating_mul(wrong.sessions);
            self.until = Some((from + time).min(now + LONGEST));
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

    fn receipts(receipts: u32) -> Wrong {
        Wrong { receipts, sessions: 0 }
    }

    #[test]
    fn a_connection_tries_a_hundred_thousand_receipts_a_second() {
        let (begin, mut toll) = (Instant::now(), Toll::default());
        toll.charge(receipts(0), begin);
        assert_eq!(toll.until(), None);
        toll.charge(receipts(6_000), begin);
        toll.charge(receipts(4_000), begin);
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
            toll.charge(Wrong { receipts: u32::MAX, sessions: u32::MAX }, now);
            assert_eq!(toll.until(), Some(now + LONGEST));
        }
    }

    #[test]
    fn a_connection_tries_a_thousand_sessions_a_second() {
        let (begin, mut toll) = (Instant::now(), Toll::default());
        toll.charge(Wrong { receipts: 0, sessions: 100 }, begin);
        assert_eq!(toll.until(), Some(begin + Duration::from_millis(100)));
    }
}
