//! A broker that was started for a run, as a process of its own on a temporary directory. It can be stopped, killed and
//! started again on the same directory.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use millpond_server::Signals;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::connection::runtime;
use crate::failure::{Exit, Failure};
use crate::say;

/// The broker's process and its directory, which is removed in the end, also where a signal ends the run.
pub struct Spawned {
    child: Arc<Mutex<Option<Child>>>,
    pid: u32,
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
        let child = Arc::default();
        clear_up_on_signal(Arc::clone(&child), directory.path().to_owned())?;
        // An address that nobody listens on, until the broker says its own.
        let http = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut spawned = Spawned { child, pid: 0, http, memory, directory };
        let address = spawned.start_again()?;
        Ok((spawned, address))
    }

    /// Where its metrics are.
    pub fn http(&self) -> SocketAddr {
        self.http
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.pid
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
        let status = self.wait().map_err(|why| Failure::refused(format!("the broker does not end: {why}")))?;
        if let Some(status) = status
            && end == End::Orderly
            && !status.success()
        {
            return Err(Failure::refused(format!("the broker failed when it was to stop ({status}); see above why")));
        }
        Ok(())
    }

    /// Starts it again on the same directory; where it listens now.
    pub fn start_again(&mut self) -> Result<SocketAddr, Failure> {
        let (pid, output) = {
            let mut child = self.child();
            let child = child.insert(serve(self.directory.path(), self.memory)?);
            (child.id(), child.stdout.take().expect("stdout is a pipe"))
        };
        self.pid = pid;
        let Some((address, http)) = listening(output) else {
            // It may hang rather than have ended, and nobody else would end it.
            self.signal(Signal::KILL);
            return Err(Failure::refused("the started broker did not come up; see above why"));
        };
        self.http = http;
        Ok(address)
    }

    /// Signals it unless it is gone already, for then its number may be another process's.
    fn signal(&self, signal: Signal) {
        if let Some(child) = self.child().as_mut()
            && matches!(child.try_wait(), Ok(None))
            && let Some(pid) = Pid::from_raw(child.id() as i32)
        {
            // It may end in this very moment.
            let _ = kill_process(pid, signal);
        }
    }

    /// Waits until it is gone, without keeping it from whoever clears up meanwhile.
    fn wait(&self) -> std::io::Result<Option<ExitStatus>> {
        loop {
            match self.child().as_mut().map(Child::try_wait).transpose()? {
                Some(None) => {}
                ended => return Ok(ended.flatten()),
            }
            thread::sleep(ENDED_SOON);
        }
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().expect("nothing panics while it holds this lock")
    }
}

impl Drop for Spawned {
    fn drop(&mut self) {
        // An orderly stop, so that a fault at the stop shows on stderr.
        self.signal(Signal::TERM);
        let _ = self.wait();
    }
}

/// How often it is looked whether a broker has ended.
const ENDED_SOON: Duration = Duration::from_millis(2);

/// Ends the run with the first signal that asks for it. Its broker is killed, for nobody wants what it holds, and its
/// directory removed.
fn clear_up_on_signal(child: Arc<Mutex<Option<Child>>>, directory: PathBuf) -> Result<(), Failure> {
    let runtime = runtime()?;
    let inside = runtime.enter();
    let mut signals = Signals::new().map_err(why_not)?;
    drop(inside);
    thread::spawn(move || {
        let signal = runtime.block_on(signals.next());
        // Kept until the end of the process, so that no broker is started any more.
        let mut child = child.lock().expect("nothing panics while it holds this lock");
        if let Some(child) = child.as_mut() {
            // It may be gone already.
            let _ = child.kill();
            let _ = child.wait();
        }
        let removed = std::fs::remove_dir_all(&directory);
        say::note(match removed {
            Ok(()) => format!("ended by {signal}: the started broker and its directory are gone"),
            Err(why) => format!("ended by {signal}: {} is left, which cannot be removed: {why}", directory.display()),
        });
        std::process::exit(Exit::Refused as i32)
    });
    Ok(())
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
fn listening(output: ChildStdout) -> Option<(SocketAddr, SocketAddr)> {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).ok()?;
    let (address, http) = line.trim_end().strip_prefix("listening on ")?.split_once(", http ")?;
    Some((address.parse().ok()?, http.parse().ok()?))
}

fn why_not(why: std::io::Error) -> Failure {
    Failure::refused(format!("no broker could be started: {why}"))
}
