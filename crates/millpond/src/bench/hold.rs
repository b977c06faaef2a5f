//! What `bench topics` and `bench backlog` have in common: a broker is filled, ended, started again over all that it
//! holds, and drained, and what this costs it is measured at every step.
//!
//! Time to ready counts from the command that starts the broker to its word that it listens, time to first delivery from
//! the same command to the first message that arrives. Files that were just written are in the system's cache then. While
//! draining, a message is one dispatch, so that processor time per message is what a dispatch and its ack cost.

use std::time::Duration;

use clap::Args;

use super::disk::Usage;
use super::drain::Drain;
use super::fill::Fill;
use super::process::Process;
use super::publish::check_batch;
use super::report::Report;
use super::spawned::End;
use super::spread::Spread;
use super::target::Target;
use super::wire::nanos;
use super::worker::check_stamp;
use crate::failure::Failure;
use crate::quantity;

/// How it is filled and drained.
#[derive(Args)]
pub struct HoldArgs {
    /// Bytes of a body
    #[arg(long, value_name = "SIZE", default_value = "24", value_parser = quantity::size)]
    pub size: u64,
    /// Connections that publish
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    producers: u64,
    /// Connections that consume
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    consumers: u64,
    /// Messages that a producer may have unconfirmed
    #[arg(long, value_name = "N", default_value = "16000")]
    window: usize,
    /// Messages in a publish frame
    #[arg(long, value_name = "N", default_value = "1000")]
    pub batch: usize,
    /// Messages that a consumer may hold unacked
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    credit: u32,
    /// End the started broker with SIGKILL instead of SIGTERM before it is started again
    #[arg(long, requires = "spawn")]
    kill: bool,
}

/// More would take a bitmap of over a gigabyte in each consumer.
const MESSAGES_MAX: u64 = 10_000_000_000;
const MIB: f64 = (1 << 20) as f64;

impl HoldArgs {
    /// Refuses what cannot be run, before anything is started.
    pub fn check(&self, spread: &Spread, messages: u64) -> Result<(), Failure> {
        if messages > MESSAGES_MAX {
            return Err(Failure::usage(format!(
                "{messages} messages are too many for one run, {MESSAGES_MAX} the most"
            )));
        }
        check_batch(self.size, self.window, self.batch)?;
        check_stamp(self.size)?;
        let too_large = || Failure::usage(format!("--batch {} makes frames that are too large: lower it", self.batch));
        spread.frame_length().map(drop).ok_or_else(too_large)
    }

    /// Fills, restarts where the broker was started for the run, drains; whether all arrived.
    pub fn run(
        &self,
        spread: &Spread,
        messages: u64,
        target: &mut Target,
        report: &mut Report,
    ) -> Result<bool, Failure> {
        report.figure("size", self.size as f64, "B");
        report.figure("batch", self.batch as f64, "messages");
        let meter = Meter::start(target);
        self.fill(spread, messages, target, report)?;
        let seconds = meter.seconds();
        report.figure("publish time", seconds, "s");
        report.figure("publish rate", messages as f64 / seconds, "messages/s");
        meter.costs(target, report, "publish ", messages);
        memory(target, report, "after publish");
        let begin = self.restart(messages, target, report)?;

        let meter = Meter::start(target);
        let drained = self.drain(messages, target).run(report)?;
        if let (Some(begin), Some(first)) = (begin, drained.first) {
            report.figure("time to first delivery", (first - begin) as f64 / 1e9, "s");
        }
        report.figure("drain time", drained.seconds, "s");
        report.figure("drain rate", messages as f64 / drained.seconds, "messages/s");
        meter.costs(target, report, "drain ", messages);
        memory(target, report, "after drain");
        if let Some(usage) = usage(target, target.stats()?.position)? {
            report.figure("disk after drain", usage.allocated as f64 / MIB, "MiB");
        }
        Ok(drained.verified & is_empty(target, report)?)
    }

    /// Fills and drains over `ready` topics, to compare what a dispatch costs; whether all arrived.
    pub fn dispatch(
        &self,
        spread: &Spread,
        messages: u64,
        target: &Target,
        report: &mut Report,
    ) -> Result<bool, Failure> {
        self.fill(spread, messages, target, report)?;
        let meter = Meter::start(target);
        let drained = self.drain(messages, target).run(report)?;
        let phase = format!("{} ready topics", spread.topics);
        report.figure(format!("{phase} drain rate"), messages as f64 / drained.seconds, "messages/s");
        meter.costs(target, report, &format!("{phase} "), messages);
        Ok(drained.verified & is_empty(target, report)?)
    }

    fn fill(&self, spread: &Spread, messages: u64, target: &Target, report: &mut Report) -> Result<(), Failure> {
        let fill = Fill {
            address: target.address,
            spread: spread.clone(),
            messages,
            connections: self.producers,
            window: self.window as u64,
        };
        let filled = fill.run()?;
        if let Some((count, why)) = filled.refused {
            report.fault(format!("{count} messages were refused: {why}"));
        }
        assert!(filled.confirmed <= messages, "an outcome answers a message");
        Ok(())
    }

    fn drain(&self, messages: u64, target: &Target) -> Drain {
        Drain {
            address: target.address,
            namespace: target.namespace.clone(),
            consumers: self.consumers,
            credit: self.credit,
            messages,
        }
    }

    /// Ends the broker, measures its directory and starts it again; when that began.
    fn restart(&self, messages: u64, target: &mut Target, report: &mut Report) -> Result<Option<u64>, Failure> {
        let position = target.stats()?.position;
        let stopping = nanos();
        if !target.end(if self.kill { End::Killed } else { End::Orderly })? {
            return Ok(None);
        }
        report.figure("time to stop", (nanos() - stopping) as f64 / 1e9, "s");
        if let Some(usage) = usage(target, position)? {
            report.figure("disk per message", usage.allocated as f64 / messages as f64, "B");
            report.figure("disk per message apparent", usage.apparent as f64 / messages as f64, "B");
            report.figure("disk in advance", usage.in_advance as f64 / MIB, "MiB");
        }
        let begin = nanos();
        target.start_again()?;
        report.figure("time to ready", (nanos() - begin) as f64 / 1e9, "s");
        memory(target, report, "after restart");
        Ok(Some(begin))
    }
}

/// Whether the broker has nothing left; what it has is a fault.
fn is_empty(target: &Target, report: &mut Report) -> Result<bool, Failure> {
    let left: u64 = target.stats()?.groups.iter().map(|(_, counts)| counts.unfinished() + counts.dead).sum();
    if left > 0 {
        report.fault(format!("the broker still holds {left} messages although all were acked"));
    }
    Ok(left == 0)
}

fn usage(target: &Target, position: u64) -> Result<Option<Usage>, Failure> {
    let Some(directory) = target.directory() else { return Ok(None) };
    let why_not = |why| Failure::refused(format!("the directory {} cannot be measured: {why}", directory.display()));
    Usage::measure(directory, position).map(Some).map_err(why_not)
}

fn memory(target: &Target, report: &mut Report, when: &str) {
    if let Some((now, most)) = target.process().and_then(Process::resident) {
        report.figure(format!("memory {when}"), now as f64 / MIB, "MiB");
        report.figure(format!("memory max {when}"), most as f64 / MIB, "MiB");
    }
}

/// Processor time and clock at the begin of a phase.
struct Meter {
    begin: u64,
    used: [(&'static str, Option<Duration>); 3],
}

impl Meter {
    fn start(target: &Target) -> Meter {
        Meter { begin: nanos(), used: Meter::used(target) }
    }

    fn used(target: &Target) -> [(&'static str, Option<Duration>); 3] {
        let process = target.process();
        [
            ("broker cpu", process.and_then(Process::cpu)),
            // The broker gives its writer's thread this name.
            ("writer cpu", process.and_then(|process| process.thread_cpu("writer"))),
            ("generator cpu", Process::own().cpu()),
        ]
    }

    fn seconds(&self) -> f64 {
        (nanos() - self.begin) as f64 / 1e9
    }

    /// What has been used since, for each message.
    fn costs(&self, target: &Target, report: &mut Report, phase: &str, messages: u64) {
        for ((name, before), (_, now)) in self.used.into_iter().zip(Meter::used(target)) {
            if let (Some(before), Some(now)) = (before, now) {
                let used = now.saturating_sub(before).as_secs_f64() * 1e6 / messages as f64;
                report.figure(format!("{phase}{name} per message"), used, "us");
            }
        }
    }
}
