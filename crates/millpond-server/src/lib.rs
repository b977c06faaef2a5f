//! The broker as a library and as a server.

pub mod update_queue;
