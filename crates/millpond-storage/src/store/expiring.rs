//! How many dedup ids of the tree go by themselves, and when. Merging drops those whose time is over; but where nothing is
//! committed any more, nothing is merged, and somebody has to say when that is worth it.
//!
//! They are counted by the hour. One that was replaced or removed meanwhile counts until they are counted anew: then the tree is
//! merged a little sooner. Producer sessions are not counted, for those in use are replaced all the time.

use std::collections::BTreeMap;

use millpond_types::{Millis, WallTime};

/// The grain of the count.
const HOUR: Millis = Millis::seconds(60 * 60);
/// What lasts longer than so many hours, about half a year, is counted the next time.
const HOURS_MAX: u64 = 4096;
/// So large a share of all keys has to be over for a merge of everything.
const OVER_SHARE: u64 = 4;

/// When so much of the tree is over that it is to be merged. That goes by the time of the newest checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sweep {
    /// With what is there now, never.
    Never,
    /// From this time on: so a checkpoint is due then.
    From(WallTime),
    /// It is being counted, or is about to be merged. Nobody tells when it is known.
    Unknown,
}

#[derive(Default)]
pub(super) struct Expiring {
    /// Per hour at whose end their time is over, how many.
    by_hour: BTreeMap<u64, u64>,
    /// Those that were over when they were counted, and are in no filter.
    left_out: u64,
}

impl Expiring {
    /// Counts one, as of a time. True if its time is over.
    pub fn note(&mut self, until: WallTime, now: WallTime) -> bool {
        let is_over = until < now;
        let hours = if is_over { 0 } else { until.0 / HOUR.0 + 1 };
        if hours <= now.0 / HOUR.0 + HOURS_MAX {
            *self.by_hour.entry(hours).or_default() += 1;
        }
        self.left_out += u64::from(is_over);
        is_over
    }

    /// How many of those that were not over when they were counted are by now.
    pub fn over_since(&self, now: WallTime) -> u64 {
        let over: u64 = self.by_hour.range(..=now.0 / HOUR.0).map(|(_, count)| count).sum();
        over - self.left_out
    }

    /// From when on so much is over that a merge of so many keys is worth it, and no less than `least`.
    pub fn worth_sweeping(&self, keys: u64, least: u64) -> Option<WallTime> {
        let (enough, mut over) = (least.max(keys / OVER_SHARE), 0);
        let ends = self.by_hour.iter().map(|(hours, count)| {
            over += count;
            (over, WallTime(hours * HOUR.0))
        });
        ends.into_iter().find(|(over, _)| *over >= enough).map(|(_, at)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u64 = 1000;

    #[test]
    fn it_is_known_when_enough_is_over() {
        let (mut expiring, now) = (Expiring::default(), WallTime(10 * HOUR.0));
        let at = |hours: u64| WallTime(hours * HOUR.0);
        for _ in 0..LEAST / 2 {
            assert!(expiring.note(at(9), now));
            assert!(!expiring.note(at(12), now));
            assert!(!expiring.note(WallTime::NEVER, now));
        }
        assert_eq!(expiring.worth_sweeping(0, LEAST), Some(at(13)));
        assert_eq!(expiring.worth_sweeping(LEAST * OVER_SHARE + OVER_SHARE, LEAST), None);
        assert_eq!((expiring.over_since(now), expiring.over_since(at(13))), (0, LEAST / 2));
        assert_eq!(expiring.by_hour.len(), 2, "what lasts for ever is in no hour");
    }
}
