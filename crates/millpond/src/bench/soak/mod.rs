//! `bench soak`: whether a broker stays as it is over a long time of mixed load.
//!
//! Messages are published at a rate, each to another of very many topics in no order, while the consumers stand still and
//! catch up by turns and leave a few messages behind for good. What that does to rates, latencies, memory and disk is
//! written down every few seconds, drawn, and judged: late in the run it should be as it was early.

mod axis;
mod flat;
mod load;
mod outcome;
mod plot;
mod publisher;
mod receiver;
mod sample;
mod sawtooth;
mod tally;

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use millpond_types::{Millis, Policy};

use self::load::Load;
use self::plot::Plot;
use super::fill::Fill;
use super::hold::MESSAGES_MAX;
use super::order::Order;
use super::publish::check_batch;
use super::report::Report;
use super::spread::{Spread, TENANTS_MAX, TOPICS, TOPICS_MAX};
use super::target::{Costs, Target, TargetArgs};
use super::wire::nanos;
use super::worker::check_stamp;
use crate::cli::Globals;
use crate::failure::Failure;
use crate::quantity;

/// Publish to very many topics for a long time while the consumers pause and catch up: whether the broker stays as it is
#[derive(Args)]
pub struct Soak {
    #[command(flatten)]
    target: TargetArgs,
    /// How long to publish
    #[arg(long = "for", value_name = "TIME", default_value = "30m", value_parser = quantity::duration)]
    duration: Duration,
    /// How many topics, published to in random order; their names have 16 bytes
    #[arg(long, value_name = "N", default_value = "100000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(TOPICS_MAX)))]
    topics: u32,
    /// Tenants that the topics are spread over, each with as many that are next to one another by name
    #[arg(long, value_name = "N", default_value = "1000")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(TENANTS_MAX)))]
    tenants: u32,
    /// Publish a message to each topic first: one that waits, or one that is not due before the run is over
    #[arg(long, value_enum, value_name = "KIND", default_value = "none")]
    fill: Filling,
    /// Messages a second of all producers together
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    rate: u64,
    /// Bytes of a body
    #[arg(long, value_name = "SIZE", default_value = "24", value_parser = quantity::size)]
    size: u64,
    /// Messages in a publish frame, each to another topic
    #[arg(long, value_name = "N", default_value = "10")]
    batch: usize,
    /// Connections that publish
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    producers: u64,
    /// Connections that consume
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    consumers: u64,
    /// How long the consumers take to stand still, catch up and keep up, a third each [default: 1m, or a fifteenth of a
    /// shorter run]
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    period: Option<Duration>,
    /// Messages that are delivered and not acked before the run is over, spread over it
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u64).range(0..=100_000))]
    stragglers: u64,
    /// Write what is seen every 5 s, or twelve times a period, to a file
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw it over time
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// What each topic has from the begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Filling {
    /// Nothing: topics come and go with the load.
    None,
    /// A message that waits, and goes when the consumers first catch up.
    Waiting,
    /// A message that stays for the whole run, so that every topic does.
    Delayed,
}

/// The shortest run. A shorter one has no room for periods and samples.
const SHORTEST: Duration = Duration::from_secs(1);
/// How long a period of the consumers' rhythm lasts at most unless it is said.
const PERIOD: Duration = Duration::from_secs(60);
/// As many periods are in a run at least unless it is said: some in each part that is judged.
const PERIODS: u32 = 15;
/// The shortest period: its thirds still last longer than a consumer waits before it looks at the clock.
const PERIOD_MIN: Duration = Duration::from_millis(60);
/// Between two samples at most, and as many in a period at least, so that some are of its last third alone.
const INTERVAL: Duration = Duration::from_secs(5);
const SAMPLES: u32 = 12;
/// Messages of a frame while filling, and unconfirmed ones of a connection.
const FILL_BATCH: usize = 1000;
const FILL_WINDOW: u64 = 16_000;
/// How long a message is delayed that is not to fall due, beyond the run itself.
const FOR_LONG: Duration = Duration::from_secs(24 * 60 * 60);

impl Soak {
    /// Carries the command out.
    pub fn run(self, globals: &Globals) -> Result<(), Failure> {
        self.check()?;
        let csv = self.csv.as_ref().map(create).transpose()?;
        let svg = self.svg.as_ref().map(create).transpose()?;
        let target = self.target.open(globals, Policy::default(), TOPICS)?;
        let mut report = Report::new(&target);
        report.figure("topics", f64::from(self.topics), "");
        report.figure("stragglers asked for", self.stragglers as f64, "messages");
        report.figure("period", self.period().as_secs_f64(), "s");
        report.figure("size", self.size as f64, "B");
        report.figure("batch", self.batch as f64, "messages");
        let filled = self.fill(&target, &mut report)?;
        let load = Load {
            spread: self.spread(&target),
            waiting: if self.fill == Filling::Waiting { filled } else { 0 },
            first: filled,
            rate: self.rate as f64,
            producers: self.producers,
            consumers: self.consumers,
            stragglers: self.stragglers,
            duration: self.duration,
            period: self.period(),
            interval: INTERVAL.min(self.period() / SAMPLES),
        };
        let before = Costs::now(&target);
        let outcome = load.run(&target, csv, &mut report)?;
        outcome.tell(self.rate, self.duration, &mut report);
        target.costs(&mut report, before, outcome.seconds, outcome.confirmed);
        outcome.judge(&mut report);
        let delayed = if self.fill == Filling::Delayed { filled } else { 0 };
        let verified = outcome.verified & is_left(delayed, &target, &mut report)?;
        report.figure("every message arrived exactly once", f64::from(u8::from(verified)), "");
        if let Some(mut file) = svg {
            let plot = Plot { title: self.title(), samples: &outcome.samples, period: self.period().as_secs_f64() };
            file.write_all(plot.svg().as_bytes())
                .map_err(|why| Failure::refused(format!("the SVG file cannot be written: {why}")))?;
        }
        target.close(&report)
    }

    fn check(&self) -> Result<(), Failure> {
        check_batch(self.size, publisher::WINDOW, self.batch)?;
        check_stamp(self.size)?;
        if self.duration < SHORTEST {
            return Err(Failure::usage(format!("--for {:?} is too short: {SHORTEST:?} at least", self.duration)));
        }
        if self.period() < PERIOD_MIN || self.period() > self.duration {
            return Err(Failure::usage(format!("--period is from {PERIOD_MIN:?} to as long as the run")));
        }
        let messages = (self.rate as f64 * self.duration.as_secs_f64()) as u64 + u64::from(self.topics);
        if messages > MESSAGES_MAX {
            return Err(Failure::usage(format!(
                "{messages} messages are too many for one run, {MESSAGES_MAX} the most"
            )));
        }
        Ok(())
    }

    /// How long a period of the consumers' rhythm lasts.
    fn period(&self) -> Duration {
        self.period.unwrap_or_else(|| PERIOD.min(self.duration / PERIODS))
    }

    fn spread(&self, target: &Target) -> Spread {
        Spread {
            namespace: target.namespace.clone(),
            topics: self.topics,
            tenants: self.tenants.min(self.topics),
            order: Order::Random,
            dedup: false,
            runs: self.batch,
            run: 1,
            size: self.size as usize,
            delay: Millis::ZERO,
        }
    }

    /// Publishes a message to each topic if it is to be; how many.
    fn fill(&self, target: &Target, report: &mut Report) -> Result<u64, Failure> {
        let delay = match self.fill {
            Filling::None => return Ok(0),
            Filling::Waiting => Millis::ZERO,
            Filling::Delayed => Millis((self.duration + FOR_LONG).as_millis() as u64),
        };
        let messages = u64::from(self.topics);
        let spread = Spread { runs: FILL_BATCH, delay, ..self.spread(target) };
        let (address, connections) = (target.address, self.producers);
        let begin = nanos();
        let filled = Fill { address, spread, messages, connections, window: FILL_WINDOW }.run()?;
        let seconds = (nanos() - begin) as f64 / 1e9;
        report.figure("fill time", seconds, "s");
        report.figure("fill rate", messages as f64 / seconds, "messages/s");
        if let Some((count, why)) = &filled.refused {
            report.fault(format!("{count} messages of the filling were refused: {why}"));
        }
        Ok(messages)
    }

    fn title(&self) -> String {
        let filled = match self.fill {
            Filling::None => "",
            Filling::Waiting => ", each with a message at first",
            Filling::Delayed => ", each with a delayed message all along",
        };
        format!("millpond bench soak: {} messages/s over {} topics{filled}", self.rate, self.topics)
    }
}

/// Whether the broker has what is not due and nothing else; all else is a fault.
fn is_left(delayed: u64, target: &Target, report: &mut Report) -> Result<bool, Failure> {
    let stats = target.stats()?;
    let counts = |counted: fn(&millpond_types::Counts) -> u64| -> u64 {
        stats.groups.iter().map(|group| counted(&group.counts)).sum()
    };
    let (unfinished, not_due) = (counts(|c| c.unfinished() + c.dead), counts(|c| c.delayed));
    if (unfinished, not_due) == (delayed, delayed) {
        return Ok(true);
    }
    report
        .fault(format!("the broker holds {unfinished} messages, {not_due} of them delayed, where {delayed} should be"));
    Ok(false)
}

fn create(path: &PathBuf) -> Result<File, Failure> {
    File::create(path).map_err(|why| Failure::usage(format!("{} cannot be written: {why}", path.display())))
}
