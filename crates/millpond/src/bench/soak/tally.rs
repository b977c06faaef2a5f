//! What the connections of a long run count together, and what the sampler takes from it.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use hdrhistogram::Histogram;

use super::super::producer::histogram;

/// The counts of all connections.
pub struct Tally {
    /// Messages confirmed since the begin, those of the filling before it left out.
    pub confirmed: Arc<AtomicU64>,
    /// Messages that arrived since the begin.
    pub received: Arc<AtomicU64>,
    /// From publish sent to confirmation received.
    pub confirmation: Latencies,
    /// From publish sent to delivery received, of messages that were to be delivered at once.
    pub delivery: Latencies,
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Tally {
        Tally {
            confirmed: Arc::default(),
            received: Arc::default(),
            confirmation: Latencies::new(),
            delivery: Latencies::new(),
        }
    }
}

/// Latencies in nanoseconds since somebody last took them.
pub struct Latencies(Mutex<Histogram<u64>>);

impl Latencies {
    fn new() -> Latencies {
        Latencies(Mutex::new(histogram()))
    }

    /// Records a number of messages that took equally long.
    pub fn record(&self, latency: u64, count: u64) {
        self.locked().saturating_record_n(latency.max(1), count);
    }

    /// What was recorded since the last call, which is also added to `all`.
    pub fn take(&self, all: &mut Histogram<u64>) -> Histogram<u64> {
        let taken = std::mem::replace(&mut *self.locked(), histogram());
        all.add(&taken).expect("all histograms have the same bounds");
        taken
    }

    fn locked(&self) -> std::sync::MutexGuard<'_, Histogram<u64>> {
        self.0.lock().expect("nobody panics while recording")
    }
}
