//! The deterministic state machine of Millpond: commands in, facts and outputs out.
#![no_std]

extern crate alloc;

pub mod command;
pub mod fact;
pub mod output;
pub mod page;
