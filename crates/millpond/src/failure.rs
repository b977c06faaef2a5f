//! How a command ends when it does not succeed: a text for people and an exit code for scripts.
//!
//! Every text says what happened, why, and what to do. It is printed once, by `main`; nothing else writes errors, but for
//! what a command that goes on with others was refused.

use std::fmt;

/// What scripts see. 0 is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// The broker, or what was found on the disk, says no.
    Refused = 1,
    /// The command line, the configuration or stdin is wrong; nothing was sent.
    Usage = 2,
    /// No broker answered.
    Unreachable = 3,
}

/// Why a command failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What scripts see.
    pub exit: Exit,
    /// What people see.
    pub text: String,
}

impl Failure {
    /// The broker or the disk says no.
    pub fn refused(text: impl fmt::Display) -> Failure {
        Failure { exit: Exit::Refused, text: text.to_string() }
    }

    /// The call is wrong.
    pub fn usage(text: impl fmt::Display) -> Failure {
        Failure { exit: Exit::Usage, text: text.to_string() }
    }

    /// No broker answered.
    pub fn unreachable(text: impl fmt::Display) -> Failure {
        Failure { exit: Exit::Unreachable, text: text.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}
