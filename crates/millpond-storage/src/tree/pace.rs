//! How the threads that write and merge checkpoints leave the others most of a core: after each slice of entries they pause,
//! in proportion to the processor time that it took.
//!
//! It is no matter for the system. A thread that once has a lower priority than others cannot take it back without a privilege; and
//! where programs of ordinary priority are always busy, publishes that wait for a checkpoint would wait with it, for minutes.

use std::panic::RefUnwindSafe;
use std::sync::Arc;
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

/// What work is measured by, and where a pause is taken. A filter of the library's merges holds it, which asks for the last bound.
pub(super) trait Rest: Send + Sync + RefUnwindSafe {
    /// Processor time of this thread.
    fn worked(&self) -> Duration;
    /// Leaves the processor to others for so long.
    fn pause(&self, time: Duration);
}

/// The thread itself.
pub(super) struct OfThread;

impl Rest for OfThread {
    fn worked(&self) -> Duration {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Duration::try_from(time).expect("a thread's time is none before it began")
    }

    fn pause(&self, time: Duration) {
        thread::sleep(time);
    }
}

/// The slices of a thread's work, one after the other.
pub(super) struct Slices {
    rest: Arc<dyn Rest>,
    count: u32,
    /// What the thread had worked when the slice began.
    began: Duration,
}

impl Slices {
    /// Begins the first one.
    pub fn begin(rest: Arc<dyn Rest>) -> Slices {
        let began = rest.worked();
        Slices { rest, count: 0, began }
    }

    /// Counts an entry; whether it is the last of its slice.
    pub fn count(&mut self) -> bool {
        self.count += 1;
        self.count == SLICE
    }

    /// Ends a slice, without a pause where others wait for this thread, and begins the next.
    pub fn end(&mut self, is_waited_for: bool) {
        if !is_waited_for {
            self.rest.pause(pause(self.rest.worked().saturating_sub(self.began)));
        }
        (self.count, self.began) = (0, self.rest.worked());
    }
}

fn pause(worked: Duration) -> Duration {
    worked.mul_f64(PAUSE).min(PAUSE_MAX)
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::sync::lock;

    /// What a slice of work takes here.
    const WORK: Duration = Duration::from_micros(100);

    /// A thread that has worked as much more each time it is asked, and remembers its pauses.
    #[derive(Default)]
    pub(crate) struct Told(Mutex<(Duration, Vec<Duration>)>);

    impl Told {
        /// How many pauses there were since the last time, each of them in proportion to a slice.
        pub(crate) fn pauses(&self) -> usize {
            let pauses = std::mem::take(&mut lock(&self.0).1);
            assert!(pauses.iter().all(|time| *time == pause(WORK)), "{pauses:?}");
            pauses.len()
        }
    }

    impl Rest for Told {
        fn worked(&self) -> Duration {
            let worked = &mut lock(&self.0).0;
            *worked += WORK;
            *worked
        }

        fn pause(&self, time: Duration) {
            lock(&self.0).1.push(time);
        }
    }

    /// How many slices so many entries fill.
    pub(crate) fn slices(entries: usize) -> usize {
        entries / SLICE as usize
    }

    #[test]
    fn a_pause_is_in_proportion_and_bounded() {
        assert_eq!(pause(Duration::from_micros(100)), Duration::from_micros(150));
        assert_eq!(pause(Duration::from_secs(10)), PAUSE_MAX);
        assert_eq!(pause(Duration::ZERO), Duration::ZERO);
    }

    #[test]
    fn slices_are_of_one_length_and_only_who_is_waited_for_takes_no_pause() {
        let told = Arc::new(Told::default());
        let mut slices = Slices::begin(told.clone());
        for is_waited_for in [true, false, true, false, false] {
            assert_eq!((0..SLICE).filter(|_| slices.count()).count(), 1);
            slices.end(is_waited_for);
            assert_eq!(told.pauses(), usize::from(!is_waited_for));
        }
    }

    #[test]
    fn a_thread_that_works_has_worked() {
        let before = OfThread.worked();
        assert!((0..100_000_000).any(|_| OfThread.worked() > before));
    }
}
