//! What one crawler process has done since it started. It dies with the process; the report is made from what the broker
//! holds instead.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

#[derive(Default)]
pub struct Tally {
    /// Pages that this process was the one to finish.
    pub finished: Counter,
    /// Attempts that did not succeed; the page is tried again, or has been often enough.
    pub failed: Counter,
    /// Pages whose lease was lost before they were finished.
    pub abandoned: Counter,
    /// Links that were new to the broker.
    pub links_new: Counter,
    /// Links that the broker had been given before.
    pub links_duplicate: Counter,
}

/// A figure that many workers add to.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Tally {
    pub fn json(&self) -> serde_json::Value {
        json!({
            "finished": self.finished.get(),
            "failed": self.failed.get(),
            "abandoned": self.abandoned.get(),
            "links_new": self.links_new.get(),
            "links_duplicate": self.links_duplicate.get(),
        })
    }

    pub fn line(&self) -> String {
        format!(
            "this process: {} pages finished, {} attempts failed, {} pages lost to others, {} links new, {} known before\n",
            self.finished.get(),
            self.failed.get(),
            self.abandoned.get(),
            self.links_new.get(),
            self.links_duplicate.get()
        )
    }
}
