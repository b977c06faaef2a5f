//! In the place of `sync` of the crates: the same, known to the scheduler.

pub(crate) use shuttle::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use shuttle::{sync::atomic, thread};

/// As in the storage.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
