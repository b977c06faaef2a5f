//! The broker, as a library and as a server.
//!
//! ```text
//!  sockets ──► sessions ──► mailbox (lanes) ──► writer (decide → facts → state) ──► journal (write, sync) ──► outputs ──► sessions
//! ```
//!
//! [`Broker`] opens a data directory and runs it in this process; no socket is needed. [`Server`] puts the TCP listener
//! of the protocol and the HTTP listener for health and metrics in front of one, and [`serve`] runs that until a signal
//! asks it to stop. The writer is built on [`update_queue`], which stands on its own.

mod bodies;
mod broker;
mod config;
mod convert;
mod health;
mod lines;
pub mod manual;
mod memory;
mod metrics;
mod moving;
mod server;
mod session;
mod signals;
mod sync;
pub mod update_queue;
mod writer;

pub use broker::{
    Answer, Broker, BrokerOptions, Call, CallError, Forwarded, Handle, Leased, Message, OpenError, Receive, Routed,
    ShutdownError,
};
pub use config::{BODY_MAX_LIMIT, BadConfig, CONNECTIONS_DEFAULT, Config, ValidConfig};
pub use memory::{MEMORY_DEFAULT, MEMORY_MIN};
/// The commands that [`Handle::call`] takes and what they are answered with.
pub use millpond_core::{command, output};
pub use server::{ServeError, Server, serve};
pub use signals::Signals;
