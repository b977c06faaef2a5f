//! A bell for the one thread that does what others leave to it: it sleeps until somebody rings, or for a while.
//!
//! Invariant: a ring that comes while the thread is at work is heard when it sleeps next, and that the bell is being closed is
//! seen by whoever heard the last ring.

use std::time::Duration;

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, PoisonError, lock};

/// See the module.
#[derive(Default)]
pub struct Bell {
    rung: Mutex<bool>,
    rings: Condvar,
    closing: AtomicBool,
}

impl Bell {
    /// Tells the thread that there is something to do.
    pub fn ring(&self) {
        *lock(&self.rung) = true;
        self.rings.notify_one();
    }

    /// Waits until someone rings, or for so long.
    pub fn wait(&self, longest: Duration) {
        let mut rung = lock(&self.rung);
        if !*rung {
            rung = self.rings.wait_timeout(rung, longest).unwrap_or_else(PoisonError::into_inner).0;
        }
        *rung = false;
    }

    /// Tells the thread to end.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Release);
        self.ring();
    }

    /// Whether the thread is to end.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}
