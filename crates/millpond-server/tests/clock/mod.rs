//! The clock of a broker that is moved by hand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use millpond_server::manual::Host;

/// What passes is told, in microseconds.
#[derive(Clone)]
pub struct Clock {
    begin: Instant,
    passed: Arc<AtomicU64>,
}

impl Clock {
    pub fn new() -> Clock {
        Clock { begin: Instant::now(), passed: Arc::default() }
    }

    pub fn pass(&self, time: Duration) {
        self.passed.fetch_add(time.as_micros() as u64, Ordering::Relaxed);
    }
}

impl Host for Clock {
    fn now(&mut self) -> Instant {
        self.begin + Duration::from_micros(self.passed.fetch_add(40, Ordering::Relaxed))
    }

    fn system(&mut self) -> Duration {
        Duration::from_secs(1_700_000_000) + Duration::from_micros(self.passed.load(Ordering::Relaxed))
    }
}
