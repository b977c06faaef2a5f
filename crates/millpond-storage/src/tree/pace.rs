//! How the threads that write and merge checkpoints leave the others most of a core: after each slice of entries they pause,
//! in proportion to the processor time that it took.
//!
//! It is no matter for the system. A thread that once has a lower priority than others cannot take it back without a privilege; and
//! where programs of ordinary priority are always busy, publishes that wait for a checkpoint would wait with it, for minutes.

use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Entries between two pauses: a tenth of a millisecond of work. A system may let a thread work for several milliseconds before
/// another one has its turn on the same core, and the other may be the broker's writer.
const SLICE: u32 = 128;
/// Pause for each unit of work: the thread takes two fifths of a core.
const PAUSE: f64 = 1.5;
/// No pause is longer, whatever a slice took: most of it was not spent on entries.
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// The slices of a thread's work, one after the other.
pub(super) struct Slices {
    count: u32,
    /// What the thread had worked when the slice began.
    began: Duration,
}

impl Slices {
    /// Begins the first one.
    pub fn begin() -> Slices {
        Slices { count: 0, began: worked() }
    }

    /// Counts an entry; whether it is the last of its slice.
    pub fn count(&mut self) -> bool {
        self.count += 1;
        self.count == SLICE
    }

    /// Ends a slice, without a pause where others wait for this thread, and begins the next.
    pub fn end(&mut self, is_waited_for: bool) {
        if !is_waited_for {
            thread::sleep(pause(worked().saturating_sub(self.began)));
        }
        *self = Slices::begin();
    }
}

fn pause(worked: Duration) -> Duration {
    worked.mul_f64(PAUSE).min(PAUSE_MAX)
}

/// Processor time of this thread.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).expect("a thread's time is none before it began")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_in_proportion_and_bounded() {
        assert_eq!(pause(Duration::from_micros(100)), Duration::from_micros(150));
        assert_eq!(pause(Duration::from_secs(10)), PAUSE_MAX);
        assert_eq!(pause(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn slices_are_of_one_length() {
        let mut slices = Slices::begin();
        for is_waited_for in [true, false, true] {
            assert_eq!((0..SLICE).filter(|_| slices.count()).count(), 1);
            slices.end(is_waited_for);
        }
    }
}
