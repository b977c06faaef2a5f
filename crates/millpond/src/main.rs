//! The one binary of Millpond: the broker, its command line and its load generator.
//!
//! [`cli`] says what may be typed, each file of [`command`] is one command, [`mod@bench`] is the load generator. Everything
//! that fails comes back here as a [`failure::Failure`] and is printed once.

mod address;
mod bench;
mod child;
mod cli;
mod command;
mod connection;
mod destination;
mod failure;
mod files;
mod forward;
mod json;
mod log;
mod policy;
mod quantity;
mod say;
mod settings;
mod shell;
mod table;

use std::process::ExitCode;

use clap::Parser;

/// A broker makes millions of small things that go in another order than they came, and often on another thread. The
/// system's allocator keeps nearly all of the memory that they leave, and mimalloc 3.3 more of it every hour; this one gives
/// it back, so that the resident set follows what is counted. The address sanitizer sees only what its own allocator gives, so
/// a build for it (`--cfg sanitized`, see `docs/testing.md`) does without.
#[cfg(not(sanitized))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    match cli::Cli::parse().run().and_then(|()| say::told()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say::last(failure.to_string());
            ExitCode::from(failure.exit as u8)
        }
    }
}
