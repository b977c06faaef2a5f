//! Lines of the log that a client can cause: so many a second of each kind, and the next one says how many were left out.
//! Otherwise a client that does the same wrong thing over and over fills the disk that the log is on.
//!
//! What is said from level info on goes through here. Who turns debug on wants all of it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of a kind in a second: enough to see what goes on, and some 100 MB a day of one kind.
const A_SECOND: u32 = 5;
const SECOND: Duration = Duration::from_secs(1);

/// All brokers of a process write to one log.
static LINES: Lines = Lines(Mutex::new(BTreeMap::new()));

/// Whether a line of this kind may be written now, and how many were left out before it, if any.
pub(crate) fn may_say(kind: &'static str) -> Option<Option<u64>> {
    LINES.may_say(kind, Instant::now())
}

struct Lines(Mutex<BTreeMap<&'static str, Kind>>);

struct Kind {
    /// When the second began that is counted.
    since: Instant,
    said: u32,
    left_out: u64,
}

impl Lines {
    fn may_say(&self, kind: &'static str, now: Instant) -> Option<Option<u64>> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = kinds.entry(kind).or_insert(Kind { since: now, said: 0, left_out: 0 });
        if now.saturating_duration_since(kind.since) >= SECOND {
            (kind.since, kind.said) = (now, 0);
        }
        if kind.said == A_SECOND {
            kind.left_out += 1;
            return None;
        }
        kind.said += 1;
        Some(Some(std::mem::take(&mut kind.left_out)).filter(|lines| *lines > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_so_many_a_second_and_the_rest_is_counted() {
        let lines = Lines(Mutex::default());
        let begin = Instant::now();
        let said = |kind, at| lines.may_say(kind, begin + Duration::from_millis(at));
        let of_many = (0..100).filter(|at| said("often", *at).is_some()).count();
        assert_eq!(of_many, A_SECOND as usize);
        assert_eq!(said("seldom", 100), Some(None), "another kind is said");
        assert_eq!(said("often", 999), None);
        assert_eq!(said("often", 1000), Some(Some(96)));
        assert_eq!(said("often", 1001), Some(None));
    }
}
