//! Whether the broker serves requests, and why not.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

#[derive(Default)]
pub(crate) struct Health {
    stopping: AtomicBool,
    failure: OnceLock<String>,
    failed: Notify,
}

impl Health {
    /// The broker has failed, for this reason; the first one stays.
    pub(crate) fn fail(&self, reason: String) {
        let _ = self.failure.set(reason);
        self.failed.notify_waiters();
    }

    /// The broker is stopping in good order.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Why the broker has failed, if it has.
    pub(crate) fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Whether requests are served.
    pub(crate) fn is_ready(&self) -> bool {
        self.failure().is_none() && !self.stopping.load(Ordering::Acquire)
    }

    /// Resolves when the broker has failed.
    pub(crate) async fn failed(&self) {
        loop {
            let notified = self.failed.notified();
            let mut notified = std::pin::pin!(notified);
            // From here on a notice is not missed.
            notified.as_mut().enable();
            if self.failure().is_some() {
                return;
            }
            notified.await;
        }
    }
}
