//! The signals that a process heeds. SIGTERM, SIGINT and SIGHUP, which the system sends when a terminal goes away, ask it to end
//! in order. Whoever was started with SIGHUP ignored, as by `nohup`, goes on ignoring it.

use std::future::pending;
use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Takes them from when it is made on.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// None where it is ignored.
    hangup: Option<Signal>,
}

impl Signals {
    /// Needs a tokio runtime, with which it ends.
    ///
    /// # Errors
    /// If the system does not let signals be handled.
    pub fn new() -> io::Result<Signals> {
        // To handle it is to heed it, so it is looked at before.
        let hangup = if is_hangup_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Signals { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())?, hangup })
    }

    /// Waits for the next of them; its name. Of several that arrive together one may be all that is seen.
    pub async fn next(&mut self) -> &'static str {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = hangup => "SIGHUP",
        }
    }
}

/// Linux tells which signals a process ignores, as a mask whose lowest bit is SIGHUP's. Elsewhere nobody is asked.
fn is_hangup_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask & 1 != 0)
}

/// A write beyond the process's limit of a file's size (`ulimit -f`) fails from here on, as any other may, and is told. The system
/// would end the process without a word.
pub(crate) fn heed_file_size_limit() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    // Tokio's handler stays, though nobody listens.
    signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())).map(drop)
}
