//! Printing. Whoever closes stdout, as `head` does, has seen enough: the command goes on to its end, and its exit code
//! says the rest. (`println!` would panic.)

use std::fmt::Display;
use std::io::Write;

/// Prints to stdout.
pub fn print(text: impl Display) {
    let _ = write!(std::io::stdout(), "{text}");
}

/// Prints a line to stdout.
pub fn line(text: impl Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints a line to stderr.
pub fn note(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "millpond: {text}");
}
