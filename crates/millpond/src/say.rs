//! Printing. Whoever closes stdout, as `head` does, has seen enough: the command goes on to its end, and its exit code
//! says the rest. (`println!` would panic.)

use std::fmt::Display;
use std::io::Write;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// How long the process waits for its last line to be taken.
const LAST: Duration = Duration::from_secs(1);

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

/// Prints the last line to stderr. Where its reader has stopped, and a broker's log fills the pipe, the process ends all the
/// same.
pub fn last(text: String) {
    let (done, is_done) = channel();
    thread::spawn(move || {
        note(text);
        done.send(())
    });
    let _ = is_done.recv_timeout(LAST);
}
