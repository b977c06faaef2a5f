//! What came of a long run, and what the report says of it.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::super::latency::REACHED;
use super::super::report::Report;
use super::flat::{DELIVERY_P99, DISK, Medians, PUBLISH_P99, RESIDENT};
use super::sample::Sample;

/// What came of it.
pub struct Outcome {
    /// The samples.
    pub samples: Vec<Sample>,
    /// Messages confirmed.
    pub confirmed: u64,
    /// Messages that were left behind until the end.
    pub stragglers: u64,
    /// Seconds from the begin to the last confirmation.
    pub publishing: f64,
    /// Seconds from the begin until everything was acked.
    pub seconds: f64,
    /// From publish sent to confirmation received.
    pub confirmation: Histogram<u64>,
    /// From publish sent to delivery received, where that was to be at once.
    pub delivery: Histogram<u64>,
    /// Whether every message arrived exactly once and its ack was in time.
    pub verified: bool,
}

const MIB: f64 = (1 << 20) as f64;

impl Outcome {
    /// Reports the run as a whole.
    pub fn tell(&self, rate: u64, duration: Duration, report: &mut Report) {
        let reached = self.confirmed as f64 / self.publishing.max(duration.as_secs_f64());
        report.figure("rate asked for", rate as f64, "messages/s");
        report.figure("rate reached", reached, "messages/s");
        report.figure("messages", self.confirmed as f64, "");
        report.figure("duration", self.publishing, "s");
        report.figure("time until drained", self.seconds, "s");
        report.figure("stragglers", self.stragglers as f64, "messages");
        report.figure("samples", self.samples.len() as f64, "");
        let most = self.samples.iter().map(|sample| sample.backlog).max().unwrap_or(0);
        report.figure("backlog max", most as f64, "messages");
        let most = self.samples.iter().filter_map(|sample| sample.disk).map(|disk| disk.allocated).max();
        report.figure_or_dash("disk max", most.map(|bytes| bytes as f64 / MIB), "MiB");
        report.latency("publish", &self.confirmation);
        report.latency("delivery", &self.delivery);
        if reached < rate as f64 * REACHED {
            report.fault(format!("{reached:.0} of {rate} messages/s were reached: ask for a lower rate"));
        }
    }

    /// Reports the medians early and late, and whether they are near one another.
    pub fn judge(&self, report: &mut Report) {
        let mut flat = Some(true);
        for quantity in [PUBLISH_P99, DELIVERY_P99, RESIDENT, DISK] {
            let medians = Medians::of(quantity, &self.samples);
            let name = quantity.name;
            report.figure_or_dash(format!("{name} early"), medians.map(|m| m.early), quantity.unit);
            report.figure_or_dash(format!("{name} late"), medians.map(|m| m.late), quantity.unit);
            report.figure_or_dash(format!("{name} late, times early"), medians.map(Medians::ratio), "");
            flat = flat.zip(medians).map(|(flat, medians)| flat & medians.is_flat());
        }
        report.figure_or_dash("flat", flat.map(|flat| f64::from(u8::from(flat))), "");
    }
}
