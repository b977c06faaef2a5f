//! The broker that is measured: one that runs already, or one that is started for the run on a directory of its own.
//!
//! A broker that is started is a process of its own, so that its processor time is told apart from the generator's. A
//! running one is measured in a namespace of its own, which is purged and deleted behind the run.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use millpond_protocol::{Request, Response};
use millpond_types::{Code, Filter, GroupKind, GroupName, NamespaceName, NamespaceView, Policy, Rule, Rules, Start};
use serde_json::{Value, json};

use super::process::Process;
use super::report::Report;
use super::spawned::{End, Spawned};
use super::wire::{PATIENCE, Wire, unexpected};
use crate::cli::{Globals, Output};
use crate::failure::Failure;
use crate::{policy, quantity};

/// Which broker to measure.
#[derive(Args)]
pub struct TargetArgs {
    /// Start a broker for the run, on a temporary directory, and stop it afterwards
    #[arg(long)]
    spawn: bool,
    /// Where the started broker's temporary directory is made; its disk is what is measured [default: the system's]
    #[arg(long, value_name = "DIR", requires = "spawn")]
    dir: Option<PathBuf>,
    /// Memory that the started broker plans with [default: the broker's]
    #[arg(long, value_name = "SIZE", requires = "spawn", value_parser = quantity::size)]
    memory: Option<u64>,
    /// The running broker's process, for its processor time [default: whoever listens on the port, if it is here]
    #[arg(long, value_name = "PID", conflicts_with = "spawn")]
    pid: Option<u32>,
    /// The namespace to use, which must not be there; it is made for the run and deleted afterwards
    #[arg(long, value_name = "NS", default_value = "bench", value_parser = namespace)]
    namespace: NamespaceName,
    /// A rule of that namespace, as in `millpond namespace set`; may be given often, and one of them has to fit the topics of the
    /// run
    #[arg(long = "rule", value_name = "PATTERN KEY=VALUE,...", value_parser = policy::rule)]
    rules: Vec<Rule>,
    /// Print one JSON object; the same as --output json
    #[arg(long)]
    json: bool,
}

fn namespace(text: &str) -> Result<NamespaceName, String> {
    NamespaceName::try_from(text).map_err(|bad| bad.to_string())
}

/// Whether a rule may fit a topic whose name begins in one way.
fn may_fit(rule: &Rule, begin: &[u8]) -> bool {
    let (name, is_prefix) = (rule.pattern.name.as_bytes(), rule.pattern.is_prefix);
    name.starts_with(begin) || is_prefix && begin.starts_with(name)
}

/// A broker, ready to be measured.
pub struct Target {
    /// Where it listens.
    pub address: SocketAddr,
    /// The namespace of the run.
    pub namespace: NamespaceName,
    process: Option<Process>,
    spawned: Option<Spawned>,
    output: Output,
}

impl TargetArgs {
    /// The namespace of the run.
    pub fn namespace(&self) -> NamespaceName {
        self.namespace.clone()
    }

    /// Finds or starts the broker and makes the namespace with a policy, for topics whose names begin with `topics`.
    pub fn open(&self, globals: &Globals, policy: Policy, topics: &str) -> Result<Target, Failure> {
        let rules = Rules::new(self.rules.clone()).map_err(Failure::usage)?;
        rules.validate(&policy).map_err(Failure::usage)?;
        // What was measured of rules that say nothing of the run's topics would be told for the price of rules.
        if !self.rules.is_empty() && !self.rules.iter().any(|rule| may_fit(rule, topics.as_bytes())) {
            let what = format!("no --rule fits a topic of this run: their names begin with `{topics}`");
            return Err(Failure::usage(what));
        }
        let (address, process, spawned) = if self.spawn {
            let (spawned, address) = Spawned::start(self.dir.clone(), self.memory)?;
            (address, Some(Process(spawned.pid())), Some(spawned))
        } else {
            let address = resolve(&globals.server)?;
            let local = || if address.ip().is_loopback() { Process::listening_on(address.port()) } else { None };
            (address, self.pid.map(Process).or_else(local), None)
        };
        let output = if self.json { Output::Json } else { globals.output };
        let target = Target { address, namespace: self.namespace.clone(), process, spawned, output };
        target.make_namespace(policy, rules)?;
        Ok(target)
    }
}

impl Target {
    /// Processor time of the broker so far.
    pub fn cpu(&self) -> Option<Duration> {
        self.process.and_then(Process::cpu)
    }

    /// The broker's process, if it is known and on this machine.
    pub fn process(&self) -> Option<Process> {
        self.process
    }

    /// The data directory of a broker that was started for the run.
    pub fn directory(&self) -> Option<&Path> {
        self.spawned.as_ref().map(Spawned::directory)
    }

    /// Where the metrics are of a broker that was started for the run.
    pub fn http(&self) -> Option<SocketAddr> {
        self.spawned.as_ref().map(Spawned::http)
    }

    /// Ends a broker that was started for the run and waits until it is gone; whether it was.
    pub fn end(&mut self, end: End) -> Result<bool, Failure> {
        let Some(spawned) = &mut self.spawned else { return Ok(false) };
        spawned.end(end)?;
        Ok(true)
    }

    /// Starts the broker again that was ended, and waits until it listens.
    pub fn start_again(&mut self) -> Result<(), Failure> {
        let spawned = self.spawned.as_mut().expect("only a broker that was started for the run is ended");
        self.address = spawned.start_again()?;
        self.process = Some(Process(spawned.pid()));
        Ok(())
    }

    /// What the report says of the broker.
    pub fn describe(&self) -> Value {
        let version = if self.spawned.is_some() { env!("CARGO_PKG_VERSION") } else { "unknown (it runs elsewhere)" };
        json!({
            "address": self.address.to_string(),
            "version": version,
            "protocol": millpond_protocol::VERSION,
            "pid": self.process.map(|process| process.0),
        })
    }

    /// The counts of the run's namespace.
    pub fn stats(&self) -> Result<NamespaceView, Failure> {
        match Wire::connect(self.address)?.call(&Request::Stats { namespace: self.namespace.clone() })? {
            Response::Namespaces { mut rows, .. } if rows.len() == 1 => Ok(rows.remove(0)),
            other => Err(unexpected(&other)),
        }
    }

    /// Adds what the broker used for `messages` messages since `cpu_before` and `own_before` were taken.
    pub fn costs(&self, report: &mut Report, before: Costs, seconds: f64, messages: u64) {
        let Costs { broker, generator } = Costs::now(self).since(before);
        for (name, used) in [("broker", broker), ("generator", generator)] {
            let Some(used) = used.map(|used| used.as_secs_f64()) else { continue };
            report.figure(format!("{name} cpu"), used, "s");
            report.figure(format!("{name} cores"), used / seconds, "");
            if messages > 0 {
                report.figure(format!("{name} cpu per message"), used * 1e6 / messages as f64, "us");
            }
        }
        if let Some((now, most)) = self.process.and_then(Process::resident) {
            report.figure("broker memory", now as f64 / f64::from(1 << 20), "MiB");
            report.figure("broker memory max", most as f64 / f64::from(1 << 20), "MiB");
        }
    }

    /// Cleans up, prints the report, and fails where the run had faults.
    pub fn close(self, report: &Report) -> Result<(), Failure> {
        let cleaned = if self.spawned.is_none() { self.remove_namespace() } else { Ok(()) };
        report.print(self.output);
        match report.faults() {
            [] => cleaned,
            faults => Err(Failure::refused(format!("the run is not valid: {}", faults.join("; ")))),
        }
    }

    /// Makes the namespace of the run. One that is there is somebody's, however little it holds, and the run deletes its own
    /// in the end; so it takes none that it has not made.
    fn make_namespace(&self, policy: Policy, rules: Rules) -> Result<(), Failure> {
        let namespace = self.namespace.clone();
        let make = Request::NamespaceSet { namespace, policy, rules, based_on: Some(0) };
        match Wire::connect(self.address)?.call(&make)? {
            Response::Done => Ok(()),
            Response::Error { code: Code::NamespaceChanged, .. } => Err(self.is_there()),
            other => Err(unexpected(&other)),
        }
    }

    /// Makes a group of the run's namespace, which has all that is published from then on.
    pub fn make_group(&self, group: GroupName) -> Result<(), Failure> {
        let (namespace, start, kind) = (self.namespace.clone(), Start::Latest, GroupKind::Shared);
        match Wire::connect(self.address)?.call(&Request::GroupCreate { namespace, group, start, kind })? {
            Response::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn is_there(&self) -> Failure {
        let namespace = &self.namespace;
        let what = format!(
            "namespace {namespace} is there already, and a run deletes the one that it uses: name another with --namespace"
        );
        if *namespace == NamespaceName::default() {
            return Failure::refused(what);
        }
        Failure::refused(format!(
            "{what}. If it is what an earlier run has left, delete it: `millpond purge {namespace}`, then `millpond namespace \
             delete {namespace}`"
        ))
    }

    /// Removes what the run left. Publishes that nobody waits for (level `none`) may still come in, so what the namespace
    /// holds is purged until nothing has come in between.
    fn remove_namespace(&self) -> Result<(), Failure> {
        let mut wire = Wire::connect(self.address)?;
        let begin = Instant::now();
        loop {
            let purge = Request::Purge { namespace: self.namespace.clone(), filter: Filter::All, group: None };
            match wire.call(&purge)? {
                Response::Count(_) => {}
                other => return Err(unexpected(&other)),
            }
            match wire.call(&Request::NamespaceDelete { namespace: self.namespace.clone() })? {
                Response::Done => return Ok(()),
                Response::Error { code: Code::NamespaceInUse, .. } if begin.elapsed() < PATIENCE => {}
                other => return Err(unexpected(&other)),
            }
        }
    }
}

/// Processor time of the two sides of a run.
#[derive(Clone, Copy)]
pub struct Costs {
    broker: Option<Duration>,
    generator: Option<Duration>,
}

impl Costs {
    /// What both have used so far.
    pub fn now(target: &Target) -> Costs {
        Costs { broker: target.cpu(), generator: Process::own().cpu() }
    }

    fn since(self, before: Costs) -> Costs {
        let difference = |now: Option<Duration>, then: Option<Duration>| Some(now?.saturating_sub(then?));
        Costs {
            broker: difference(self.broker, before.broker),
            generator: difference(self.generator, before.generator),
        }
    }
}

/// An address that may hold a host's name.
pub fn resolve(server: &str) -> Result<SocketAddr, Failure> {
    let found = server.to_socket_addrs().map_err(|why| {
        Failure::usage(format!("--server {server} is no address: {why}; write HOST:PORT, as in 127.0.0.1:7640"))
    });
    found?.next().ok_or_else(|| Failure::unreachable(format!("no address is known for {server}")))
}

/// A broker that is away.
pub fn away(server: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::unreachable(format!(
        "no broker answers at {server}: {why}; start one with `millpond serve`, or name it with --server"
    ))
}
