//! The load generator.
//!
//! It shares a machine with the broker that it measures, so it is built to cost next to nothing: frames are encoded
//! once and sent over and over ([`slots`]), connections are blocking sockets on threads of their own ([`wire`]), and
//! nothing is counted that is not needed. Every run names its command line, its machine and its broker ([`report`]).

mod backlog;
mod burst;
mod consumer;
mod cycle;
mod disk;
mod drain;
mod fill;
mod hold;
mod latency;
mod loud;
mod meter;
mod order;
mod process;
mod producer;
mod progress;
mod publish;
mod report;
mod reschedule;
mod scrape;
mod seen;
mod settle;
mod slots;
mod soak;
mod spawned;
mod spread;
mod target;
mod topics;
mod wire;
mod worker;

use clap::{Subcommand, ValueEnum};

use crate::cli::Globals;
use crate::failure::Failure;

/// Put load on a broker and measure it
#[derive(Subcommand)]
pub enum Bench {
    Publish(publish::Publish),
    Worker(worker::Worker),
    Burst(burst::Burst),
    Latency(latency::Latency),
    Loud(loud::Loud),
    Topics(topics::Topics),
    Backlog(backlog::Backlog),
    Reschedule(reschedule::Reschedule),
    Soak(soak::Soak),
}

impl Bench {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        match self {
            Bench::Publish(command) => command.run(globals),
            Bench::Worker(command) => command.run(globals),
            Bench::Burst(command) => command.run(globals),
            Bench::Latency(command) => command.run(globals),
            Bench::Loud(command) => command.run(globals),
            Bench::Topics(command) => command.run(globals),
            Bench::Backlog(command) => command.run(globals),
            Bench::Reschedule(command) => command.run(globals),
            Bench::Soak(command) => command.run(globals),
        }
    }
}

/// When a publish is confirmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Level {
    /// When it is synced to the disk.
    Durable,
    /// When it is written to the file.
    Buffered,
    /// Never.
    None,
}

impl From<Level> for millpond_protocol::Level {
    fn from(level: Level) -> Self {
        match level {
            Level::Durable => millpond_protocol::Level::Durable,
            Level::Buffered => millpond_protocol::Level::Buffered,
            Level::None => millpond_protocol::Level::None,
        }
    }
}
