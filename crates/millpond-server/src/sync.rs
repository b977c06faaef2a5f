//! What threads of this crate share memory with, and wait for one another on.
//!
//! The modules that depend on how threads follow upon each other take it from here, and `millpond-interleavings` compiles
//! these modules a second time, with primitives in this one's place that try many orders.

pub(crate) use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use std::{sync::atomic, thread};
