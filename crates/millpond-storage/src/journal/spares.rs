//! Segments that wait for their use: space that was taken ahead.
//!
//! One is the reserve: when no more space can be had, publishes are refused, and what ends messages still has a whole
//! segment to write into.

use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, lock};

/// Segments kept ready: the next one, and the reserve.
pub const SPARES: usize = 2;
/// Of them, those that are used only when the disk is full.
pub const RESERVE: usize = 1;
const PREFIX: &str = "spare-";
/// No numbering comes so far: at a spare a millisecond, in a hundred million years.
const NUMBER_END: u64 = 1 << 62;

/// See the module.
#[derive(Default)]
pub struct Spares {
    inner: Mutex<Inner>,
    /// Whether the last try to take space found none.
    pub disk_full: AtomicBool,
    /// Whether segments are filled so fast that writing them twice does not pay.
    pub hurried: AtomicBool,
}

#[derive(Default)]
struct Inner {
    /// Names of files of full length, durable, with nothing in them that counts.
    ready: Vec<String>,
    next: u64,
}

impl Spares {
    /// Whether a file of this name is a spare, ready or unfinished.
    pub fn is_spare(name: &str) -> bool {
        name.starts_with(PREFIX)
    }

    /// A name for a new spare.
    pub fn name(&self) -> String {
        let mut inner = lock(&self.inner);
        inner.next += 1;
        format!("{PREFIX}{}", inner.next)
    }

    /// Takes in a file that an earlier start has left as a spare; false where its name is none that this numbering gives, and
    /// may yet come.
    pub fn take_in(&self, name: &str) -> bool {
        let number = name.strip_prefix(PREFIX).and_then(|digits| digits.parse().ok());
        let Some(number) = number.filter(|number| *number < NUMBER_END && format!("{PREFIX}{number}") == name) else {
            return false;
        };
        let mut inner = lock(&self.inner);
        inner.next = inner.next.max(number);
        inner.ready.push(name.to_owned());
        true
    }

    /// Adds a spare.
    pub fn add(&self, name: String) {
        lock(&self.inner).ready.push(name);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.inner).ready.len()
    }

    /// Takes one; the reserve only where the disk is full.
    pub fn take(&self) -> Option<String> {
        let keep = if self.disk_full.load(Ordering::Acquire) { 0 } else { RESERVE };
        let mut inner = lock(&self.inner);
        if inner.ready.len() > keep { inner.ready.pop() } else { None }
    }
}
