//! The load of a long run: publishers at a rate, receivers in their rhythm, and the sampler beside them. Behind it the
//! backlog is drained and the stragglers are acked, and every message has to have arrived exactly once.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use millpond_types::GroupName;

use super::super::consumer;
use super::super::drain::until_received;
use super::super::progress::Progress;
use super::super::publish::sleep_while_running;
use super::super::report::Report;
use super::super::seen::Seen;
use super::super::spread::Spread;
use super::super::target::Target;
use super::super::wire::nanos;
use super::outcome::Outcome;
use super::publisher::{Published, Task};
use super::receiver::{Received, receive};
use super::sample::Sampler;
use super::sawtooth::Sawtooth;
use super::tally::Tally;
use crate::failure::Failure;

/// What consumers may hold unacked, in seconds of the load: enough to keep up, and little beside what comes together while
/// they stand still.
const CREDIT: f64 = 0.25;
/// The least that a consumer may.
const CREDIT_MIN: u32 = 100;

/// What to run.
pub struct Load {
    /// What is published.
    pub spread: Spread,
    /// Messages that wait from before and are to arrive as well, numbered from 0.
    pub waiting: u64,
    /// The number of the first message.
    pub first: u64,
    /// Messages a second.
    pub rate: f64,
    /// Connections that publish.
    pub producers: u64,
    /// Connections that consume.
    pub consumers: u64,
    /// Messages that are left behind.
    pub stragglers: u64,
    /// How long to publish.
    pub duration: Duration,
    /// How long a period of the consumers' rhythm lasts.
    pub period: Duration,
    /// Between two samples.
    pub interval: Duration,
}

impl Load {
    /// Runs, drains and verifies. What should not have been becomes a fault of the report.
    pub fn run(&self, target: &Target, csv: Option<File>, report: &mut Report) -> Result<Outcome, Failure> {
        let (stop_publishing, stop_receiving) = (AtomicBool::new(false), AtomicBool::new(false));
        let tally = Tally::new();
        let begin = nanos();
        let sawtooth = Sawtooth::new(begin, self.duration, self.period);
        let mut sampler = Sampler::start(target, &tally, csv, begin)?;
        let tasks: Vec<Task> = (0..self.producers).map(|index| self.task(target, index)).collect();
        let (published, publishing, received, sampled) = thread::scope(|scope| {
            let receivers: Vec<_> = (0..self.consumers)
                .map(|index| {
                    let (namespace, group) = (target.namespace.clone(), GroupName::default());
                    let task = consumer::Task { address: target.address, namespace, group, credit: self.credit() };
                    let (stop, tally, stragglers) = (&stop_receiving, &tally, self.stragglers(index, begin));
                    scope.spawn(move || receive(&task, sawtooth, stragglers, stop, tally))
                })
                .collect();
            let publishers: Vec<_> = tasks
                .iter()
                .map(|task| {
                    let (stop, tally) = (&stop_publishing, &tally);
                    scope.spawn(move || task.run(begin, stop, tally))
                })
                .collect();
            let progress = Progress::of_time(self.duration, tally.received.clone(), "received");
            let failed = || receivers.iter().any(thread::ScopedJoinHandle::is_finished);
            let mut sampled = Ok(());
            let mut next = begin;
            while sampled.is_ok() && next < sawtooth.end() {
                next = sawtooth.end().min(next + self.interval.as_nanos() as u64);
                sleep_while_running(Duration::from_nanos(next.saturating_sub(nanos())), &publishers);
                if failed() || nanos() < next {
                    break;
                }
                sampled = sampler.sample();
            }
            drop(progress);
            stop_publishing.store(true, Relaxed);
            let published: Vec<_> =
                publishers.into_iter().map(|t| t.join().expect("a publisher does not panic")).collect();
            let publishing = (nanos() - begin) as f64 / 1e9;
            let expected = self.waiting + published.iter().flatten().map(|p| p.confirmed).sum::<u64>();
            until_received(&tally.received, expected, failed);
            stop_receiving.store(true, Relaxed);
            let received: Vec<_> =
                receivers.into_iter().map(|t| t.join().expect("a receiver does not panic")).collect();
            (published, publishing, received, sampled)
        });
        let published = published.into_iter().collect::<Result<Vec<_>, _>>()?;
        let received = received.into_iter().collect::<Result<Vec<_>, _>>()?;
        sampled?;
        Ok(Outcome {
            samples: sampler.samples,
            confirmed: published.iter().map(|p| p.confirmed).sum(),
            stragglers: received.iter().map(|r| r.stragglers).sum(),
            publishing,
            seconds: (nanos() - begin) as f64 / 1e9,
            confirmation: sampler.confirmation,
            delivery: sampler.delivery,
            verified: self.verify(&tasks, &published, received, report),
        })
    }

    /// Messages that a receiver may hold unacked.
    fn credit(&self) -> u32 {
        ((self.rate * CREDIT / self.consumers as f64) as u32).max(CREDIT_MIN)
    }

    fn task(&self, target: &Target, index: u64) -> Task {
        Task {
            address: target.address,
            spread: self.spread.clone(),
            first: self.first,
            index,
            publishers: self.producers,
            rate: self.rate / self.producers as f64,
        }
    }

    /// When a receiver leaves its stragglers behind: those of all receivers are spread evenly over the run.
    fn stragglers(&self, receiver: u64, begin: u64) -> Vec<u64> {
        let gap = self.duration.as_nanos() as f64 / self.stragglers.max(1) as f64;
        let mine = (0..self.stragglers).filter(|straggler| straggler % self.consumers == receiver);
        mine.map(|straggler| begin + (gap * (straggler as f64 + 0.5)) as u64).collect()
    }

    fn verify(&self, tasks: &[Task], published: &[Published], received: Vec<Received>, report: &mut Report) -> bool {
        for (count, why) in published.iter().filter_map(|p| p.refused.as_ref()) {
            report.fault(format!("{count} messages were refused: {why}"));
        }
        let lost: u64 = received.iter().map(|r| r.lost).sum();
        let mut seen = Seen::default();
        received.into_iter().for_each(|r| seen.merge(r.seen));
        let frames = |(task, published): (&Task, &Published)| -> u64 {
            (0..published.frames).map(|frame| seen.missing(0, task.numbers(frame))).sum()
        };
        let missing = seen.missing(0, 0..self.waiting) + tasks.iter().zip(published).map(frames).sum::<u64>();
        let wrong = [
            (lost, "acks came too late for their leases"),
            (missing, "messages that were published never arrived"),
            (seen.twice(), "messages arrived more than once"),
        ];
        for (count, what) in wrong.into_iter().filter(|(count, _)| *count > 0) {
            report.fault(format!("{count} {what}"));
        }
        wrong.iter().all(|(count, _)| *count == 0)
    }
}
