//! The two times of the core, and durations.
//!
//! *Run time* continues where the journal left it and stands still while the broker is down: leases, back-off and
//! terms are counted in it. *Wall time* is the clock on the wall, never going back: delays, TTL and dedup windows are
//! counted in it. They are different types so that they cannot be compared with one another.

use core::fmt;

/// A duration in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Millis(pub u64);

/// Milliseconds that the broker has been running over the life of its data directory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RunTime(pub u64);

/// Milliseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallTime(pub u64);

impl WallTime {
    /// Stands for a moment that never comes.
    pub const NEVER: WallTime = WallTime(u64::MAX);
}

impl Millis {
    /// No time at all.
    pub const ZERO: Millis = Millis(0);

    /// So many seconds.
    pub const fn seconds(n: u64) -> Millis {
        Millis(n * 1000)
    }

    /// So many minutes.
    pub const fn minutes(n: u64) -> Millis {
        Millis(n * 60_000)
    }
}

macro_rules! moment {
    ($name:ident) => {
        impl core::ops::Add<Millis> for $name {
            type Output = $name;
            /// Saturates: a time further off than the type can hold never comes.
            fn add(self, d: Millis) -> $name {
                $name(self.0.saturating_add(d.0))
            }
        }

        impl $name {
            /// The time from `earlier` to here, zero where `earlier` is later.
            pub fn since(self, earlier: $name) -> Millis {
                Millis(self.0.saturating_sub(earlier.0))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}ms", self.0)
            }
        }
    };
}

moment!(RunTime);
moment!(WallTime);

impl fmt::Debug for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}
