//! The real programs: a broker and crawlers, as processes that are started, killed and started again.

use std::io::Read;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use std::{env, fs, thread};

use millpond_client::Client;
use serde_json::Value;

use crate::world::{profile, target};

/// The namespace of the crawl.
pub const CRAWL: &str = "docs";

/// A `millpond serve` on a data directory, at an address that stays over its lives.
pub struct Broker {
    child: Child,
    program: PathBuf,
    data: PathBuf,
    pub address: String,
}

/// A `crawler crawl`.
pub struct Crawler {
    child: Child,
}

impl Broker {
    pub fn start(data: &Path) -> Broker {
        let program = millpond();
        let address = free_address();
        let child = serve(&program, data, &address);
        Broker { child, program, data: data.to_owned(), address }
    }

    /// Kills the broker and starts it again on the same directory, at the same address.
    pub fn kill_and_restart(&mut self) {
        kill(&mut self.child);
        self.child = serve(&self.program, &self.data, &self.address);
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

impl Crawler {
    pub fn start(broker: &Broker, more: &[&str]) -> Crawler {
        // The pages of a killed crawler go to others soon, and those of one that a busy machine holds up do not.
        let options = ["--concurrency", "12", "--resume", "2s", "--json"];
        let mut command = crawler(&broker.address, "crawl");
        let child = command.args(options).args(more).stdout(Stdio::piped()).spawn().unwrap();
        Crawler { child }
    }

    pub fn kill(mut self) {
        kill(&mut self.child);
    }

    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").arg(format!("-{name}")).arg(self.child.id().to_string()).status();
        assert!(status.unwrap().success(), "no signal could be sent");
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for an end by itself, and reads the report.
    pub fn report(mut self) -> Value {
        let status = self.child.wait().unwrap();
        assert!(status.success(), "a crawler ended with {status}");
        let mut said = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("no report but {said:?}: {error}"))
    }
}

impl Drop for Crawler {
    fn drop(&mut self) {
        kill(&mut self.child);
    }
}

/// Seeds the crawl with addresses and options.
pub fn seed(broker: &Broker, arguments: &[&str]) {
    let status = crawler(&broker.address, "seed").args(arguments).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "seeding ended with {status}");
}

/// The exit code of a crawler, and what it says on stderr.
pub fn refusal(server: &str, verb: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = crawler(server, verb).args(arguments).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn crawler(server: &str, verb: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crawler"));
    command.args([verb, "--server", server, "--namespace", CRAWL]);
    command
}

fn kill(child: &mut Child) {
    // SIGKILL, which nobody can prepare for; one that has ended already is as dead.
    let _ = child.kill();
    child.wait().unwrap();
}

fn serve(program: &Path, data: &Path, address: &str) -> Child {
    let log = fs::OpenOptions::new().create(true).append(true).open(data.with_extension("log")).unwrap();
    let mut child = Command::new(program)
        .args(["serve", "--listen", address, "--http", "127.0.0.1:0", "--data"])
        .arg(data)
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    while let Err(error) = runtime.block_on(Client::connect(address)) {
        if let Some(status) = child.try_wait().unwrap() {
            let log = fs::read_to_string(data.with_extension("log")).unwrap();
            panic!("the broker ended with {status}, and does not answer ({error}):\n{log}");
        }
        thread::sleep(Duration::from_millis(20));
    }
    child
}

/// An address that was free a moment ago: the broker has to come back at it.
pub fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// The broker's program, beside this test's; built if it is not there yet.
fn millpond() -> PathBuf {
    let program = profile().join(format!("millpond{}", env::consts::EXE_SUFFIX));
    if !program.exists() {
        let mut build = Command::new(env!("CARGO"));
        build.args(["build", "-p", "millpond", "--target-dir"]).arg(target());
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        assert!(build.status().unwrap().success(), "the broker does not build");
    }
    program
}
