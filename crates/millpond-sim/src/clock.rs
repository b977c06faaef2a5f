//! The clocks of the machine that a broker runs on: one that never goes back, and the system's, which is set ahead and back
//! now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What a look at a clock takes, in microseconds: whoever works until its time is up comes to an end.
const LOOK: u64 = 40;
/// Where the system's clock begins: some date.
const DATE: u64 = 1_700_000_000_000;

/// See the module. A clone shows the same times.
#[derive(Clone)]
pub struct Clock(Arc<Times>);

struct Times {
    /// Where the one that never goes back begins.
    begin: Instant,
    /// Microseconds since.
    passed: AtomicU64,
    /// How many milliseconds the system's clock was set ahead.
    ahead: AtomicI64,
    /// How many it was at most.
    furthest: AtomicI64,
}

impl Clock {
    /// Begins.
    pub fn new() -> Clock {
        let (passed, ahead, furthest) = (AtomicU64::new(0), AtomicI64::new(0), AtomicI64::new(0));
        Clock(Arc::new(Times { begin: Instant::now(), passed, ahead, furthest }))
    }

    /// Time passes, in milliseconds.
    pub fn pass(&self, millis: u64) {
        self.0.passed.fetch_add(millis * 1000, Ordering::Relaxed);
    }

    /// The system's clock is set ahead.
    pub fn set_ahead(&self, millis: u64) {
        let ahead = self.0.ahead.fetch_add(millis as i64, Ordering::Relaxed) + millis as i64;
        self.0.furthest.fetch_max(ahead, Ordering::Relaxed);
    }

    /// The system's clock is set ahead of all that it has shown.
    pub fn set_right(&self) {
        self.0.ahead.store(self.0.furthest.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The system's clock is set back.
    pub fn set_back(&self, millis: u64) {
        self.0.ahead.fetch_sub(millis as i64, Ordering::Relaxed);
    }

    /// What the one shows that never goes back.
    pub fn now(&self) -> Instant {
        self.0.begin + Duration::from_micros(self.0.passed.load(Ordering::Relaxed))
    }

    /// The same, and the look takes its time.
    pub fn look(&self) -> Instant {
        self.0.passed.fetch_add(LOOK, Ordering::Relaxed);
        self.now()
    }

    /// What the system's clock shows, since the beginning of 1970.
    pub fn system(&self) -> Duration {
        let passed = self.0.passed.load(Ordering::Relaxed) / 1000;
        Duration::from_millis((DATE + passed).saturating_add_signed(self.0.ahead.load(Ordering::Relaxed)))
    }
}
