//! How many files the process may have open: each connection is one.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit as far as the system allows and returns it. Distributions set the soft limit to 1,024 for the sake
/// of programs that use `select`, and leave the raising to the others.
pub fn raise_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        // Refused only where the limit was lowered in between; what is allowed then is read below.
        let _ = setrlimit(Resource::Nofile, limit);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
