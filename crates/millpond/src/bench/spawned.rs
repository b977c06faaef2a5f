//! A broker that was started for a run, as a process of its own on a temporary directory. It can be stopped, killed and
//! started again on the same directory.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::failure::Failure;

/// The broker's process and its directory, which is removed in the end.
pub struct Spawned {
    child: Child,
    /// Where its metrics are.
    http: SocketAddr,
    memory: Option<u64>,
    directory: TempDir,
}

/// How a broker is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// SIGTERM: it stops in order.
    Orderly,
    /// SIGKILL: it stops where it stands.
    Killed,
}

impl Spawned {
    /// Starts a broker on a fresh directory under `parent`; where it listens.
    pub fn start(parent: Option<PathBuf>, memory: Option<u64>) -> Result<(Spawned, SocketAddr), Failure> {
        let parent = parent.unwrap_or_else(std::env::temp_dir);
        let directory = tempfile::Builder::new().prefix("millpond-bench-").tempdir_in(parent).map_err(why_not)?;
        let mut child = serve(directory.path(), memory)?;
        let (address, http) = listening(&mut child)?;
        Ok((Spawned { child, http, memory, directory }, address))
    }

    /// Where its metrics are.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its data directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Ends it and waits until it is gone.
    pub fn end(&mut self, end: End) -> Result<(), Failure> {
        let signal = match end {
            End::Orderly => Signal::TERM,
            End::Killed => Signal::KILL,
        };
        self.signal(signal);
        let status = self.child.wait().map_err(|why| Failure::refused(format!("the broker does not end: {why}")))?;
        if end == End::Orderly && !status.success() {
            return Err(Failure::refused(format!("the broker failed when it was to stop ({status}); see above why")));
        }
        Ok(())
    }

    /// Starts it again on the same directory; where it listens now.
    pub fn start_again(&mut self) -> Result<SocketAddr, Failure> {
        self.child = serve(self.directory.path(), self.memory)?;
        let (address, http) = listening(&mut self.child)?;
        self.http = http;
        Ok(address)
    }

    /// Signals it unless it is gone already, for then its number may be another process's.
    fn signal(&mut self, signal: Signal) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            // It may end in this very moment.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // An orderly stop, so that a fault at the stop shows on stderr.
        self.signal(Signal::TERM);
        let _ = self.child.wait();
    }
}

fn serve(directory: &Path, memory: Option<u64>) -> Result<Child, Failure> {
    let mut command = Command::new(std::env::current_exe().map_err(why_not)?);
    command.args(["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log", "warn", "--data"]);
    command.arg(directory);
    if let Some(memory) = memory {
        command.arg("--memory").arg(memory.to_string());
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(why_not)
}

/// Waits until a broker says where it listens: for clients, and for HTTP.
fn listening(child: &mut Child) -> Result<(SocketAddr, SocketAddr), Failure> {
    let mut line = String::new();
    let output = child.stdout.take().expect("stdout is a pipe");
    BufReader::new(output).read_line(&mut line).map_err(why_not)?;
    let addresses = line.trim_end().strip_prefix("listening on ").and_then(|rest| rest.split_once(", http "));
    let parsed = addresses.and_then(|(address, http)| Some((address.parse().ok()?, http.parse().ok()?)));
    parsed.ok_or_else(|| {
        // It may hang rather than have ended, and nobody else would end it.
        let _ = child.kill();
        let _ = child.wait();
        Failure::refused("the started broker did not come up; see above why")
    })
}

fn why_not(why: std::io::Error) -> Failure {
    Failure::refused(format!("no broker could be started: {why}"))
}
