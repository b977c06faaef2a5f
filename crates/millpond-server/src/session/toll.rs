//! What wrong receipts cost: time in which the connection is not read.
//!
//! A receipt that names no current lease is mostly one that comes late. Thousands in one call are no rarity where a
//! consumer stood still, and cost it moments. But somebody may guess, and as each guess takes no more than a few bytes and
//! a look at the state, sixteen connections keep two processors busy with that; nobody gets further in that way, and
//! everybody else waits. So guessing goes at a pace that is no burden.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sync::atomic::{AtomicU32, Ordering};

/// For each wrong receipt, so that a connection tries 100,000 a second.
const EACH: Duration = Duration::from_micros(10);
/// The same for each connection that pays now, so that all together try two million a second.
const EACH_OF_ALL: Duration = Duration::from_nanos(500);

/// The connections that pay now.
#[derive(Default, Debug)]
pub(crate) struct Tolls {
    paying: AtomicU32,
}

/// What one connection has to pay.
#[derive(Debug)]
pub(crate) struct Toll {
    all: Arc<Tolls>,
    until: Option<Instant>,
}

impl Toll {
    pub(crate) fn new(all: Arc<Tolls>) -> Toll {
        Toll { all, until: None }
    }

    /// So many of its receipts were wrong.
    pub(crate) fn charge(&mut self, wrong: u32, now: Instant) {
        if wrong == 0 {
            return;
        }
        if self.until.is_none() {
            self.all.paying.fetch_add(1, Ordering::Relaxed);
        }
        let each = EACH.max(EACH_OF_ALL.saturating_mul(self.all.paying.load(Ordering::Relaxed)));
        let from = self.until.map_or(now, |until| until.max(now));
        self.until = Some(from + each.saturating_mul(wrong));
    }

    /// Until when it pays, if it does.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Notes what time it is.
    pub(crate) fn look(&mut self, now: Instant) {
        if self.until.take_if(|until| now >= *until).is_some() {
            self.all.paying.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Toll {
    fn drop(&mut self) {
        if self.until.is_some() {
            self.all.paying.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_tries_a_hundred_thousand_receipts_a_second() {
        let (begin, mut toll) = (Instant::now(), Toll::new(Arc::default()));
        toll.charge(0, begin);
        assert_eq!(toll.until(), None);
        toll.charge(60_000, begin);
        toll.charge(40_000, begin);
        assert_eq!(toll.until(), Some(begin + Duration::from_secs(1)));
        toll.look(begin + Duration::from_millis(999));
        assert!(toll.until().is_some());
        toll.look(begin + Duration::from_secs(1));
        assert_eq!(toll.until(), None);
    }

    #[test]
    fn all_together_try_two_million_a_second() {
        let (begin, all) = (Instant::now(), Arc::new(Tolls::default()));
        let mut tolls: Vec<Toll> = (0..1000).map(|_| Toll::new(all.clone())).collect();
        tolls.iter_mut().for_each(|toll| toll.charge(1, begin));
        let second = begin + Duration::from_secs(1);
        tolls.iter_mut().for_each(|toll| toll.look(second - Duration::from_micros(999_500)));
        assert_eq!(all.paying.load(Ordering::Relaxed), 0);
        tolls.iter_mut().for_each(|toll| toll.charge(1, begin));
        tolls.iter_mut().for_each(|toll| toll.charge(1999, begin));
        assert!(tolls.iter().all(|toll| toll.until() >= Some(begin + Duration::from_millis(999))));
        // Those that have gone are not counted.
        tolls.truncate(1);
        assert_eq!(all.paying.load(Ordering::Relaxed), 1);
    }
}
