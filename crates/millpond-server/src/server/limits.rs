//! How many files, and so connections, the process may have open.
//!
//! The journal and the tree open files as they grow, and a broker that cannot open one stops. So the last files that the
//! system grants are never given to connections, however many clients knock.

use std::os::fd::AsRawFd;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are kept for everything but connections: the tree holds up to 128, merges of it as many for a moment, and
/// segments of the journal come one by one. Of a small limit it is half.
const KEPT: u64 = 512;

/// The files that the process may have open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OpenFiles {
    /// `None` for no limit.
    pub(super) limit: Option<u64>,
}

impl OpenFiles {
    /// Raises the limit to the most that the system allows this process.
    pub(super) fn raise() -> OpenFiles {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        match setrlimit(Resource::Nofile, raised) {
            Ok(()) => OpenFiles { limit: limit.maximum },
            Err(error) => {
                tracing::warn!(%error, limit = limit.current, "the limit of open files could not be raised");
                OpenFiles { limit: limit.current }
            }
        }
    }

    /// Has the system make room for so many connections and what else is kept. Left to itself, Linux enlarges the table of
    /// a process whenever it is full, and whoever opens a file then waits until no processor looks at the smaller one: at
    /// 10,000 connections at once, twenty milliseconds eight times over, in which its queue of new ones overflows.
    pub(super) fn make_room(self, connections: usize) {
        let all = connections as u64 + KEPT;
        let last = self.limit.map_or(all, |limit| all.min(limit)).saturating_sub(1);
        // Another file of this number is opened, and closed again.
        if let Err(error) = fcntl_dupfd_cloexec(std::io::stderr(), last.min(i32::MAX as u64) as i32) {
            tracing::debug!(%error, last, "the system makes room for files as they come");
        }
    }

    /// Whether a connection that was just taken in may stay. The system gives each file the lowest number that is free, so
    /// all numbers below its own are taken.
    pub(super) fn are_left_beside(self, connection: &impl AsRawFd) -> bool {
        self.may_be(connection.as_raw_fd() as u64)
    }

    fn may_be(self, number: u64) -> bool {
        self.limit.is_none_or(|limit| number < limit - KEPT.min(limit / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_files_are_kept() {
        let most = |limit| (0..30_000).find(|number| !OpenFiles { limit: Some(limit) }.may_be(*number));
        assert_eq!((most(100), most(1024), most(20_000)), (Some(50), Some(512), Some(19_488)));
        assert!(OpenFiles { limit: None }.may_be(1 << 40));
    }
}
