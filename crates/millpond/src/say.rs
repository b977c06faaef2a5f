//! Printing. Whoever closes stdout, as `head` does, has seen enough: the command goes on to its end, and its exit code
//! says the rest. What cannot be written for another reason is missed by somebody: the command goes on too, and `main` asks
//! [`told`] at the end. (`println!` would panic.)

use std::fmt::Display;
use std::future::pending;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::Interest;
use tokio::net::unix::pipe::Sender;

use crate::failure::Failure;

/// How long the process waits for its last line to be taken.
const LAST: Duration = Duration::from_secs(1);

/// Why something could not be printed; the first reason stays.
static FAULT: OnceLock<io::Error> = OnceLock::new();

/// Prints to stdout.
pub fn print(text: impl Display) {
    note_fault(write!(io::stdout(), "{text}"));
}

/// Prints a line to stdout.
pub fn line(text: impl Display) {
    note_fault(writeln!(io::stdout(), "{text}"));
}

/// Prints a line to stderr.
pub fn note(text: impl Display) {
    let _ = writeln!(io::stderr(), "millpond: {text}");
}

/// Whether all that was printed has been written, as far as anybody reads it.
pub fn told() -> Result<(), Failure> {
    note_fault(io::stdout().flush());
    let fault =
        |why| format!("stdout cannot be written ({why}): what was asked for is done, and not all is told of it");
    FAULT.get().map_or(Ok(()), |why| Err(Failure::refused(fault(why))))
}

/// Whether stdout is a pipe that nobody reads any more.
pub fn is_unread() -> bool {
    let stdout = io::stdout();
    let mut of = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A terminal that is gone is an error and a hangup; a signal tells of it.
    let is_error = |of: &PollFd<'_>| of.revents().contains(PollFlags::ERR) && !of.revents().contains(PollFlags::HUP);
    poll(&mut of, Some(&at_once)).is_ok() && is_error(&of[0])
}

/// Waits until stdout is such a pipe.
pub async fn unread() {
    let stdout = io::stdout().as_fd().try_clone_to_owned().and_then(Sender::from_owned_fd_unchecked);
    match stdout {
        // It waits for an error alone, and takes no notice of what is written.
        Ok(stdout) if stdout.ready(Interest::ERROR).await.is_ok() && is_unread() => {}
        // Nobody can wait for what becomes of a file; and a terminal is none of this.
        _ => pending().await,
    }
}

fn note_fault(written: io::Result<()>) {
    if let Err(why) = written
        && why.kind() != ErrorKind::BrokenPipe
    {
        let _ = FAULT.set(why);
    }
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
