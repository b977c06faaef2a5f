//! What a phase of a run costs: time, processor time of both sides, reads and writes of the broker's tree.

use std::time::Duration;

use super::process::Process;
use super::report::Report;
use super::scrape::Scrape;
use super::target::Target;
use super::wire::nanos;

/// Clock, processor time and the broker's counters at the begin of a phase.
pub struct Meter {
    begin: u64,
    used: [(&'static str, Option<Duration>); 3],
    scrape: Scrape,
}

/// The name that the broker gives to its writer's thread.
const WRITER: &str = "writer";

impl Meter {
    /// Begins a phase.
    pub fn start(target: &Target) -> Meter {
        Meter { begin: nanos(), used: used(target), scrape: Scrape::take(target.http()) }
    }

    /// How long the phase has lasted.
    pub fn seconds(&self) -> f64 {
        (nanos() - self.begin) as f64 / 1e9
    }

    /// Reports the processor time that has been used since for each message; what the broker's writer has.
    pub fn processor(&self, target: &Target, report: &mut Report, phase: &str, messages: u64) -> Option<f64> {
        let mut writer = None;
        for ((name, before), (_, now)) in self.used.into_iter().zip(used(target)) {
            if let (Some(before), Some(now)) = (before, now) {
                let used = now.saturating_sub(before).as_secs_f64() * 1e6 / messages as f64;
                report.figure(format!("{phase} {name} cpu per message"), used, "us");
                writer = if name == WRITER { Some(used) } else { writer };
            }
        }
        writer
    }

    /// Reports how often the tree has been read and written since for each message.
    pub fn tree(&self, target: &Target, report: &mut Report, phase: &str, messages: u64) {
        let now = Scrape::take(target.http());
        for (noun, counter) in [("reads", "millpond_tree_reads_total"), ("writes", "millpond_tree_writes_total")] {
            let each = now.growth(&self.scrape, counter).map(|count| count / messages as f64);
            report.figure_or_dash(format!("{phase} tree {noun} per message"), each, "");
        }
    }
}

fn used(target: &Target) -> [(&'static str, Option<Duration>); 3] {
    let process = target.process();
    [
        ("broker", process.and_then(Process::cpu)),
        (WRITER, process.and_then(|process| process.thread_cpu(WRITER))),
        ("generator", Process::own().cpu()),
    ]
}
