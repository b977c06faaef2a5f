//! What is looked at every few seconds of a long run: the sampler that looks, and the rows of the CSV file.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::Ordering::Relaxed;

use hdrhistogram::Histogram;

use super::super::disk::Usage;
use super::super::process::Process;
use super::super::producer::histogram;
use super::super::target::Target;
use super::super::wire::nanos;
use super::tally::Tally;
use crate::failure::Failure;

/// The file's first line. An empty field is a figure that could not be taken.
pub const HEADER: &str = "seconds,published_per_second,delivered_per_second,publish_p50_us,publish_p99_us,\
    delivery_p99_us,resident_bytes,disk_bytes,disk_in_advance_bytes,backlog";

/// An interval of a run, and what the broker held at its end.
#[derive(Clone, Default, Debug)]
pub struct Sample {
    /// When it ended, in seconds since the begin.
    pub at: f64,
    /// Messages confirmed a second.
    pub published: f64,
    /// Messages that arrived a second.
    pub delivered: f64,
    /// Half of the messages were confirmed this fast, in microseconds; `None` if none was.
    pub publish_p50: Option<f64>,
    /// 99 of 100 were.
    pub publish_p99: Option<f64>,
    /// 99 of 100 messages arrived this fast, in microseconds, of those that were to be delivered at once.
    pub delivery_p99: Option<f64>,
    /// Memory that the broker has resident.
    pub resident: Option<u64>,
    /// What its directory takes on the disk.
    pub disk: Option<Usage>,
    /// Messages that wait.
    pub backlog: u64,
}

impl Sample {
    /// Its line in the file.
    pub fn row(&self) -> String {
        let micros = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.0}"));
        let bytes = |value: Option<u64>| value.map_or_else(String::new, |value| value.to_string());
        format!(
            "{:.2},{:.0},{:.0},{},{},{},{},{},{},{}",
            self.at,
            self.published,
            self.delivered,
            micros(self.publish_p50),
            micros(self.publish_p99),
            micros(self.delivery_p99),
            bytes(self.resident),
            bytes(self.disk.map(|disk| disk.allocated)),
            bytes(self.disk.map(|disk| disk.in_advance)),
            self.backlog,
        )
    }
}

/// Takes the samples of a run, one after the other.
pub struct Sampler<'a> {
    target: &'a Target,
    tally: &'a Tally,
    file: Option<File>,
    begin: u64,
    /// When the last was taken, and what was confirmed and had arrived by then.
    last: (u64, u64, u64),
    /// The samples so far.
    pub samples: Vec<Sample>,
    /// Of the whole run: from publish sent to confirmation received.
    pub confirmation: Histogram<u64>,
    /// Of the whole run: from publish sent to delivery received, where that was to be at once.
    pub delivery: Histogram<u64>,
}

impl<'a> Sampler<'a> {
    /// Begins, and writes the first line of `file`.
    pub fn start(target: &'a Target, tally: &'a Tally, file: Option<File>, begin: u64) -> Result<Sampler<'a>, Failure> {
        let mut sampler = Sampler {
            target,
            tally,
            file,
            begin,
            last: (begin, 0, 0),
            samples: Vec::new(),
            confirmation: histogram(),
            delivery: histogram(),
        };
        sampler.write(HEADER)?;
        Ok(sampler)
    }

    /// Takes a sample of the time since the last.
    pub fn sample(&mut self) -> Result<(), Failure> {
        let (confirmed, received) = (self.tally.confirmed.load(Relaxed), self.tally.received.load(Relaxed));
        let now = nanos();
        let (then, confirmed_then, received_then) = std::mem::replace(&mut self.last, (now, confirmed, received));
        let seconds = (now - then).max(1) as f64 / 1e9;
        let publish = self.tally.confirmation.take(&mut self.confirmation);
        let delivery = self.tally.delivery.take(&mut self.delivery);
        let held = self.target.stats()?;
        let sample = Sample {
            at: (now - self.begin) as f64 / 1e9,
            published: (confirmed - confirmed_then) as f64 / seconds,
            delivered: (received - received_then) as f64 / seconds,
            publish_p50: percentile(&publish, 50.0),
            publish_p99: percentile(&publish, 99.0),
            delivery_p99: percentile(&delivery, 99.0),
            resident: self.target.process().and_then(Process::resident).map(|(now, _)| now),
            disk: Usage::of(self.target)?,
            backlog: held.groups.iter().map(|group| group.counts.waiting + group.counts.retrying).sum(),
        };
        // Row by row, so that a run that ends early leaves what it saw.
        self.write(&sample.row())?;
        self.samples.push(sample);
        Ok(())
    }

    fn write(&mut self, line: &str) -> Result<(), Failure> {
        let Some(file) = &mut self.file else { return Ok(()) };
        writeln!(file, "{line}").map_err(|why| Failure::refused(format!("the CSV file cannot be written: {why}")))
    }
}

/// A percentile in microseconds.
fn percentile(latency: &Histogram<u64>, percentile: f64) -> Option<f64> {
    (!latency.is_empty()).then(|| latency.value_at_percentile(percentile) as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_field_for_each_word_of_the_header() {
        let known = Sample {
            at: 5.0,
            published: 100.4,
            delivered: 99.0,
            publish_p50: Some(1.5),
            publish_p99: Some(20.0),
            delivery_p99: None,
            resident: Some(1 << 20),
            disk: Some(Usage { allocated: 4096, apparent: 0, in_advance: 512 }),
            backlog: 7,
        };
        assert_eq!(known.row(), "5.00,100,99,2,20,,1048576,4096,512,7");
        for row in [known.row(), Sample::default().row()] {
            assert_eq!(row.matches(',').count(), HEADER.matches(',').count());
        }
    }
}
