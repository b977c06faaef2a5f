//! What may be typed: the commands and what they have in common. `docs/cli.md` is made from here, and a test holds it
//! against these definitions.

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bench;
use crate::command::*;
use crate::failure::Failure;

#[cfg(test)]
mod tests;

/// Where clients look for a broker unless they are told.
pub const SERVER_DEFAULT: &str = "127.0.0.1:7640";

/// Over the options that every command takes.
const EVERYWHERE: &str = "Options of every command";

/// A broker for work: publish to as many topics as there are keys, and lease the messages of all of them.
#[derive(Parser)]
#[command(name = "millpond", version)]
#[command(after_help = "Exit codes: 0 done, 1 refused by the broker, 2 wrong usage, 3 broker unreachable.")]
pub struct Cli {
    #[command(flatten)]
    globals: Globals,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Args, Clone)]
pub struct Globals {
    /// The broker's address
    #[arg(long, global = true, value_name = "HOST:PORT", env = "MILLPOND_SERVER", default_value = SERVER_DEFAULT)]
    #[arg(value_parser = crate::address::server)]
    #[arg(hide_env_values = true, help_heading = EVERYWHERE)]
    pub server: String,
    /// The form of what is printed: tables for people, or one JSON object a line for programs
    #[arg(long, global = true, value_enum, value_name = "FORM", default_value = "table", help_heading = EVERYWHERE)]
    pub output: Output,
}

/// The form of what is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Output {
    /// Plain tables and sentences.
    Table,
    /// One JSON object a line.
    Json,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Serve),
    Publish(publish::Publish),
    Receive(receive::Receive),
    Ack(finish::Ack),
    Release(finish::Release),
    Fail(finish::Fail),
    Reject(finish::Reject),
    Extend(finish::Extend),
    Work(work::Work),
    Look(look::Look),
    Cancel(cancel::Cancel),
    Reschedule(reschedule::Reschedule),
    Pause(pause::Pause),
    Resume(pause::Resume),
    Forget(forget::Forget),
    Purge(purge::Purge),
    #[command(subcommand)]
    Namespace(namespace::Namespace),
    #[command(subcommand)]
    Group(group::Group),
    #[command(subcommand)]
    Exchange(exchange::Exchange),
    Topics(topics::Topics),
    #[command(subcommand)]
    Dead(dead::Dead),
    Stats(stats::Stats),
    Inspect(inspect::Inspect),
    #[command(subcommand)]
    Bench(bench::Bench),
}

impl Cli {
    /// Carries the command out.
    pub fn run(self) -> Result<(), Failure> {
        let globals = &self.globals;
        match self.command {
            Command::Serve(command) => command.run(),
            Command::Publish(command) => command.run(globals),
            Command::Receive(command) => command.run(globals),
            Command::Ack(command) => command.run(globals),
            Command::Release(command) => command.run(globals),
            Command::Fail(command) => command.run(globals),
            Command::Reject(command) => command.run(globals),
            Command::Extend(command) => command.run(globals),
            Command::Work(command) => command.run(globals),
            Command::Look(command) => command.run(globals),
            Command::Cancel(command) => command.run(globals),
            Command::Reschedule(command) => command.run(globals),
            Command::Pause(command) => command.run(globals),
            Command::Resume(command) => command.run(globals),
            Command::Forget(command) => command.run(globals),
            Command::Purge(command) => command.run(globals),
            Command::Namespace(command) => command.run(globals),
            Command::Group(command) => command.run(globals),
            Command::Exchange(command) => command.run(globals),
            Command::Topics(command) => command.run(globals),
            Command::Dead(command) => command.run(globals),
            Command::Stats(command) => command.run(globals),
            Command::Inspect(command) => command.run(globals),
            Command::Bench(command) => command.run(globals),
        }
    }
}
