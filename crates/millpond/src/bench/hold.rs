//! What `bench topics` and `bench backlog` have in common: a broker is filled, let come to rest, ended, started again over
//! all that it holds, and drained, and what this costs it is measured at every step.
//!
//! Time to ready counts from the command that starts the broker to its word that it listens, time to first delivery from
//! the same command to the first message that arrives. Files that were just written are in the system's cache then. While
//! draining, a message is one dispatch, so that processor time per message is what a dispatch and its ack cost. Disk is
//! told when the broker has come to rest, with what it holds in its journal and beside it.

use std::time::Duration;

use clap::Args;
use millpond_types::{DedupWindow, Millis, Policy};

use super::disk::Usage;
use super::drain::Drain;
use super::fill::{Fill, Filled};
use super::meter::Meter;
use super::process::Process;
use super::publish::check_batch;
use super::report::Report;
use super::scrape::Scrape;
use super::settle::settle;
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
    /// Give each message a dedup id of its own, in a window of an hour, and publish the first of them once more
    #[arg(long)]
    pub dedup: bool,
    /// How long at most the broker may take to come to rest behind publishing and draining; 0s does not wait
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = quantity::duration)]
    settle: Duration,
    /// End the started broker with SIGKILL instead of SIGTERM before it is started again
    #[arg(long, requires = "spawn")]
    kill: bool,
}

/// More would take a bitmap of over a gigabyte in each consumer.
pub const MESSAGES_MAX: u64 = 10_000_000_000;
/// Messages of a comparison of dispatches, unless there are more topics or fewer messages: a minute's worth.
const COMPARED: u64 = 10_000_000;
/// Messages that are published once more under their dedup ids: enough for a rate.
const REPEATED: u64 = 100_000;
/// How long a dedup id is kept: longer than any run.
const DEDUP_WINDOW: DedupWindow = DedupWindow::For(Millis::minutes(60));
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

    /// The policy of the run's namespace.
    pub fn policy(&self) -> Policy {
        let policy = Policy::default();
        if self.dedup { Policy { dedup_window: DEDUP_WINDOW, ..policy } } else { policy }
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
        meter.processor(target, report, "publish", messages);
        memory(target, report, "after publish");
        if self.dedup {
            self.repeat(spread, messages.min(REPEATED), target, report)?;
        }
        self.settle("publish", target, report)?;
        meter.tree(target, report, "publish", messages);
        memory(target, report, "settled");
        held(messages, target, report)?;
        let begin = self.restart(target, report)?;

        let meter = Meter::start(target);
        let drained = self.drain(messages, target).run(report)?;
        if let (Some(begin), Some(first)) = (begin, drained.first) {
            report.figure("time to first delivery", (first - begin) as f64 / 1e9, "s");
        }
        report.figure("drain time", drained.seconds, "s");
        report.figure("drain rate", messages as f64 / drained.seconds, "messages/s");
        meter.processor(target, report, "drain", messages);
        memory(target, report, "after drain");
        self.settle("drain", target, report)?;
        meter.tree(target, report, "drain", messages);
        if let Some(usage) = Usage::of(target)? {
            report.figure("disk after drain", usage.allocated as f64 / MIB, "MiB");
        }
        Ok(drained.verified & is_empty(target, report)?)
    }

    /// Fills and drains over the topics of `spread`, to compare what a dispatch costs. Processor time of the broker's
    /// writer per message, if it is known, and whether all arrived.
    pub fn dispatch(
        &self,
        spread: &Spread,
        messages: u64,
        target: &Target,
        report: &mut Report,
    ) -> Result<(Option<f64>, bool), Failure> {
        let messages = messages.min(COMPARED).max(u64::from(spread.topics));
        // The ids of these messages are known by now.
        let spread = Spread { dedup: false, ..spread.clone() };
        self.fill(&spread, messages, target, report)?;
        settle(target, self.settle)?;
        let meter = Meter::start(target);
        let drained = self.drain(messages, target).run(report)?;
        let phase = format!("{} ready topics", spread.topics);
        report.figure(format!("{phase} drain rate"), messages as f64 / drained.seconds, "messages/s");
        let writer = meter.processor(target, report, &phase, messages);
        Ok((writer, drained.verified & is_empty(target, report)?))
    }

    fn fill(&self, spread: &Spread, messages: u64, target: &Target, report: &mut Report) -> Result<Filled, Failure> {
        let fill = Fill {
            address: target.address,
            spread: spread.clone(),
            messages,
            connections: self.producers,
            window: self.window as u64,
        };
        let filled = fill.run()?;
        if let Some((count, why)) = &filled.refused {
            report.fault(format!("{count} messages were refused: {why}"));
        }
        assert!(filled.confirmed + filled.duplicates <= messages, "an outcome answers a message");
        Ok(filled)
    }

    /// Publishes the first messages once more: each has to be known.
    fn repeat(&self, spread: &Spread, messages: u64, target: &Target, report: &mut Report) -> Result<(), Failure> {
        let meter = Meter::start(target);
        let known = self.fill(spread, messages, target, report)?.duplicates;
        report.figure("repeat rate", messages as f64 / meter.seconds(), "messages/s");
        meter.processor(target, report, "repeat", messages);
        if known < messages {
            report.fault(format!("{} messages were stored again although their dedup ids were", messages - known));
        }
        Ok(())
    }

    /// Waits until the broker has come to rest.
    fn settle(&self, phase: &str, target: &Target, report: &mut Report) -> Result<(), Failure> {
        if target.directory().is_some() {
            report.figure_or_dash(format!("time to rest after {phase}"), settle(target, self.settle)?, "s");
        }
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

    /// Ends the broker and starts it again; when that began.
    fn restart(&self, target: &mut Target, report: &mut Report) -> Result<Option<u64>, Failure> {
        let stopping = nanos();
        if !target.end(if self.kill { End::Killed } else { End::Orderly })? {
            return Ok(None);
        }
        report.figure("time to stop", (nanos() - stopping) as f64 / 1e9, "s");
        let begin = nanos();
        target.start_again()?;
        report.figure("time to ready", (nanos() - begin) as f64 / 1e9, "s");
        memory(target, report, "after restart");
        Ok(Some(begin))
    }
}

/// What the broker has on disk and in memory for each message that waits.
fn held(messages: u64, target: &Target, report: &mut Report) -> Result<(), Failure> {
    let Some(usage) = Usage::of(target)? else { return Ok(()) };
    let scrape = Scrape::take(target.http());
    report.figure("disk per message", usage.allocated as f64 / messages as f64, "B");
    report.figure("disk per message apparent", usage.apparent as f64 / messages as f64, "B");
    let tree = scrape.value("millpond_tree_bytes").map(|bytes| bytes / messages as f64);
    report.figure_or_dash("tree per message", tree, "B");
    report.figure("disk in advance", usage.in_advance as f64 / MIB, "MiB");
    report.figure_or_dash("topics resident", scrape.value("millpond_resident_topics"), "");
    Ok(())
}

/// Whether the broker has nothing left; what it has is a fault.
fn is_empty(target: &Target, report: &mut Report) -> Result<bool, Failure> {
    let left: u64 = target.stats()?.groups.iter().map(|group| group.counts.unfinished() + group.counts.dead).sum();
    if left > 0 {
        report.fault(format!("the broker still holds {left} messages although all were acked"));
    }
    Ok(left == 0)
}

fn memory(target: &Target, report: &mut Report, when: &str) {
    if let Some((now, most)) = target.process().and_then(Process::resident) {
        report.figure(format!("memory {when}"), now as f64 / MIB, "MiB");
        report.figure(format!("memory max {when}"), most as f64 / MIB, "MiB");
    }
}
