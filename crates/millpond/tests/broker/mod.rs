//! The real binary: a broker on a temporary directory and free ports, and calls of the command line against it.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A broker that runs until it is dropped.
pub struct Broker {
    child: Child,
    directory: Option<TempDir>,
    /// Where clients connect.
    pub address: String,
    /// Where HTTP is answered.
    pub http: String,
}

/// A call that is going on; it is killed when dropped, so that a test that fails leaves nothing behind.
pub struct Running(Option<Child>);

/// What a call gave.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// The binary, without any settings of whoever runs the tests.
pub fn millpond() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond"));
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("MILLPOND_")) {
        command.env_remove(name);
    }
    command
}

/// Calls the binary with nothing on stdin.
pub fn call<S: AsRef<OsStr>>(args: &[S]) -> Said {
    Said::of(millpond().args(args).stdin(Stdio::null()).output().expect("the binary runs"))
}

/// The command that serves a directory on free ports.
pub fn serve(directory: &Path) -> Command {
    serve_at(directory, "127.0.0.1:0")
}

/// The command that serves a directory where clients look for it.
pub fn serve_at(directory: &Path, listen: &str) -> Command {
    let mut command = millpond();
    command.args(["serve", "--listen", listen, "--http", "127.0.0.1:0", "--log", "warn", "--data"]).arg(directory);
    command
}

/// A directory for a broker's data: in memory where the system has such a place, for these tests are about what is said
/// and what survives a process, and not about disks.
pub fn fresh_directory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("there is room for a directory")
}

/// SIGHUP, unless it is ignored here (`nohup`), and so by all that is started.
pub fn hangup() -> Option<Signal> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    let is_ignored = u64::from_str_radix(ignored, 16).unwrap() & 1 != 0;
    (!is_ignored).then_some(Signal::HUP)
}

/// Whether the tests were told to do without something that this machine lacks (`cargo xtask test` tells them, and says so
/// at its end). Nothing is left out otherwise.
pub fn is_left_out(thing: &str) -> bool {
    std::env::var("MILLPOND_TEST_WITHOUT").is_ok_and(|without| without.split(',').any(|name| name == thing))
}

impl Broker {
    /// A broker on a fresh directory.
    pub fn start() -> Broker {
        Broker::start_on(fresh_directory())
    }

    /// A broker on a directory that may have served before.
    pub fn start_on(directory: TempDir) -> Broker {
        Broker::run_on(&mut serve(directory.path()), directory)
    }

    /// A broker from a whole command, on a directory that goes with it.
    pub fn run_on(command: &mut Command, directory: TempDir) -> Broker {
        let mut broker = Broker::run(command);
        broker.directory = Some(directory);
        broker
    }

    /// A broker from a whole command, once it listens.
    pub fn run(command: &mut Command) -> Broker {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the binary runs");
        let mut line = String::new();
        let output = child.stdout.as_mut().expect("stdout is a pipe");
        BufReader::new(output).read_line(&mut line).expect("stdout is text");
        let (address, http) = line
            .trim_end()
            .strip_prefix("listening on ")
            .and_then(|rest| rest.split_once(", http "))
            .unwrap_or_else(|| panic!("the broker says {line:?} instead of where it listens"));
        Broker { address: address.to_owned(), http: http.to_owned(), child, directory: None }
    }

    /// Calls the command line against this broker.
    pub fn call(&self, args: &[&str]) -> Said {
        self.call_with(args, b"")
    }

    /// The same with something on stdin.
    pub fn call_with(&self, args: &[&str], input: &[u8]) -> Said {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().expect("the binary runs");
        // A call that fails does not read its stdin to the end.
        let _ = child.stdin.take().expect("stdin is a pipe").write_all(input);
        Said::of(child.wait_with_output().expect("the binary ends"))
    }

    /// A call that is started by the test; its output is captured.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = millpond();
        command.args(args).env("MILLPOND_SERVER", &self.address);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// A call that goes on while the test does.
    pub fn spawn(&self, args: &[&str]) -> Running {
        Running::of(&mut self.command(args))
    }

    /// A call that has to succeed; what it prints.
    pub fn ok(&self, args: &[&str]) -> String {
        self.call(args).ok()
    }

    /// The lines of a call that prints JSON.
    pub fn json(&self, args: &[&str]) -> Vec<Value> {
        let said = self.ok(args);
        said.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"))).collect()
    }

    /// The counts of the group `default` of a namespace.
    pub fn counts(&self, namespace: &str) -> Value {
        self.json(&["stats", namespace, "--json"])[0]["groups"]["default"].clone()
    }

    /// Its figures, as they are told to Prometheus.
    pub fn metrics(&self) -> String {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Bytes of its memory that are resident.
    pub fn resident(&self) -> u64 {
        self.status("VmRSS:") * 1024
    }

    /// A number that Linux tells of the process, in its unit.
    pub fn status(&self, key: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).expect("it is running");
        let line = status.lines().find_map(|line| line.strip_prefix(key)).expect("Linux tells it of each process");
        line.trim().trim_end_matches(" kB").parse().expect("it is a number")
    }

    /// Processor time that it has taken, in hundredths of a second.
    pub fn processor(&self) -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).expect("it is running");
        let behind_name = stat.rsplit(')').next().expect("its name stands in brackets");
        let times = behind_name.split_whitespace().skip(11).take(2);
        times.map(|time| time.parse::<u64>().expect("it is a number")).sum()
    }

    /// Sends it a signal.
    pub fn signal(&self, which: Signal) {
        signal(&self.child, which);
    }

    /// As [`Broker::kill`], one that has to be running still.
    pub fn kill_running(mut self) -> TempDir {
        let directory = self.directory.take().expect("the broker has its own directory");
        assert_eq!(kill(&mut self.child), None, "the broker has ended by itself");
        directory
    }

    /// Kills the broker where it stands; its directory stays.
    pub fn kill(mut self) -> TempDir {
        // It may have been killed already.
        let _ = self.child.kill();
        self.child.wait().expect("the broker is gone");
        self.directory.take().expect("the broker has its own directory")
    }

    /// Sends SIGTERM and waits; what the exit code was, and the directory.
    pub fn stop(self) -> (Option<i32>, TempDir) {
        self.stop_by(Signal::TERM)
    }

    /// Sends a signal and waits, likewise.
    pub fn stop_by(mut self, signal: Signal) -> (Option<i32>, TempDir) {
        self.signal(signal);
        let status = self.child.wait().expect("the broker ends");
        (status.code(), self.directory.take().expect("the broker has its own directory"))
    }

    /// The data directory.
    pub fn data(&self) -> &Path {
        self.directory.as_ref().expect("the broker has its own directory").path()
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// A call that goes on while the test does.
    pub fn of(command: &mut Command) -> Running {
        Running(Some(command.spawn().expect("the binary runs")))
    }

    fn child(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is taken at the end alone")
    }

    /// Sends it a signal.
    pub fn signal(&mut self, which: Signal) {
        signal(self.child(), which);
    }

    /// The next line that it prints.
    pub fn next_line(&mut self) -> String {
        let output = self.child().stdout.as_mut().expect("stdout is a pipe");
        let (mut line, mut byte) = (Vec::new(), [0]);
        while output.read(&mut byte).expect("the pipe is open") == 1 && byte[0] != b'\n' {
            line.push(byte[0]);
        }
        String::from_utf8(line).expect("the output is text")
    }

    /// Whether it has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child().try_wait().expect("it is a child of ours").is_some()
    }

    /// Kills it; how it had ended by itself before, if it had.
    pub fn kill(mut self) -> Option<ExitStatus> {
        kill(&mut self.0.take().expect("it is taken at the end alone"))
    }

    /// Waits for its end.
    pub fn wait(mut self) -> Said {
        Said::of(self.0.take().expect("it is taken at the end alone").wait_with_output().expect("the binary ends"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Kills a process; how it had ended by itself before, if it had.
fn kill(child: &mut Child) -> Option<ExitStatus> {
    // Who has ended cannot be killed any more.
    let _ = child.kill();
    let status = child.wait().expect("it is a child of ours");
    (status.signal() != Some(Signal::KILL.as_raw())).then_some(status)
}

fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_raw(child.id() as i32).expect("a process has a number");
    kill_process(pid, signal).expect("the process is ours");
}

impl Said {
    /// What a finished process said.
    pub fn of(output: Output) -> Said {
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("stdout is text"),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// What it printed; it has to have succeeded.
    pub fn ok(self) -> String {
        assert_eq!(self.code, 0, "{self:?}");
        self.out
    }

    /// Asserts that it failed with this exit code and said each of these.
    pub fn failed(self, code: i32, words: &[&str]) -> Said {
        assert_eq!(self.code, code, "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not said: {self:?}");
        }
        self
    }
}
