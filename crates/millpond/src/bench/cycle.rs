//! Producers and consumers at once: every message is published, delivered and acked in each group. Behind the run the
//! backlog is drained, and it is verified that every message arrived exactly once and that the broker has none left.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use millpond_types::GroupName;

use super::consumer::{self, Consumed, consume};
use super::drain::until_received;
use super::producer::{self, Produced, histogram, produce};
use super::progress::Progress;
use super::publish::sleep_while_running;
use super::report::Report;
use super::seen::Seen;
use super::slots::Shape;
use super::target::Target;
use super::wire::nanos;
use crate::failure::Failure;

/// What to run.
pub struct Plan {
    /// What is published.
    pub shape: Shape,
    /// Connections that publish.
    pub producers: u64,
    /// Groups that consume. The first is `default`; the others are made for the run.
    pub groups: u64,
    /// Connections that consume in each group.
    pub consumers: u64,
    /// Messages that a consumer may hold unacked.
    pub credit: u32,
    /// Messages a second of all producers together.
    pub rate: Option<f64>,
    /// How long to publish.
    pub duration: Duration,
}

/// What came of it.
pub struct Outcome {
    /// Messages that arrived, in all groups.
    pub received: u64,
    /// Messages that were confirmed to the producers.
    pub confirmed: u64,
    /// From the first publish to the last confirmation.
    pub publishing: f64,
    /// From the first publish to the last arrival.
    pub seconds: f64,
    /// Messages confirmed but not yet delivered when publishing stopped.
    pub backlog: u64,
    /// From publish sent to delivery received.
    pub latency: Histogram<u64>,
    /// From publish sent to confirmation received.
    pub confirmation: Histogram<u64>,
}

impl Plan {
    /// Runs, drains and verifies.
    pub fn run(&self, target: &Target, report: &mut Report) -> Result<Outcome, Failure> {
        let (stop_producing, stop_consuming) = (AtomicBool::new(false), AtomicBool::new(false));
        let (confirmed, received) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let groups = self.make_groups(target)?;
        let ready = Barrier::new((self.groups * self.consumers) as usize + 1);
        let (begin, published, backlog, produced, consumed) = thread::scope(|scope| {
            let each = groups.iter().flat_map(|group| (0..self.consumers).map(move |_| group.clone()));
            let consumers: Vec<_> = each
                .map(|group| {
                    let (namespace, credit) = (target.namespace.clone(), self.credit);
                    let task = consumer::Task { address: target.address, namespace, group, credit };
                    let (stop, received, ready) = (&stop_consuming, &received, &ready);
                    scope.spawn(move || {
                        consume(&task, stop, received, || {
                            ready.wait();
                        })
                    })
                })
                .collect();
            ready.wait();
            let begin = nanos();
            let producers: Vec<_> = (0..self.producers)
                .map(|index| {
                    let task = producer::Task {
                        address: target.address,
                        shape: self.shape.clone(),
                        index,
                        producers: self.producers,
                        rate: self.rate.map(|rate| rate / self.producers as f64),
                    };
                    let (stop, confirmed) = (&stop_producing, &confirmed);
                    scope.spawn(move || produce(&task, stop, confirmed))
                })
                .collect();
            let progress = Progress::of_time(self.duration, Arc::clone(&received), "received");
            sleep_while_running(self.duration, &producers);
            stop_producing.store(true, Relaxed);
            let backlog = (self.groups * confirmed.load(Relaxed)).saturating_sub(received.load(Relaxed));
            let produced: Vec<_> =
                producers.into_iter().map(|t| t.join().expect("a producer does not panic")).collect();
            let published = nanos();
            drop(progress);
            let expected = self.groups * produced.iter().flatten().map(|p| p.confirmed).sum::<u64>();
            let drained = || consumers.iter().any(thread::ScopedJoinHandle::is_finished);
            until_received(&received, expected, drained);
            stop_consuming.store(true, Relaxed);
            let consumed: Vec<_> =
                consumers.into_iter().map(|t| t.join().expect("a consumer does not panic")).collect();
            (begin, published, backlog, produced, consumed)
        });
        let produced = produced.into_iter().collect::<Result<Vec<_>, _>>()?;
        let consumed = consumed.into_iter().collect::<Result<Vec<_>, _>>()?;
        let last = consumed.iter().map(|c| c.last).max().unwrap_or(0);
        let (mut latency, mut confirmation) = (histogram(), histogram());
        consumed.iter().for_each(|c| latency.add(&c.latency).expect("all histograms have the same bounds"));
        produced.iter().for_each(|p| confirmation.add(&p.latency).expect("all histograms have the same bounds"));
        let outcome = Outcome {
            received: consumed.iter().map(|c| c.received).sum(),
            confirmed: produced.iter().map(|p| p.confirmed).sum(),
            publishing: (published - begin) as f64 / 1e9,
            seconds: last.saturating_sub(begin) as f64 / 1e9,
            backlog,
            latency,
            confirmation,
        };
        self.verify(target, report, &produced, consumed)?;
        Ok(outcome)
    }

    /// Makes the groups that are not there; all of them, in order.
    fn make_groups(&self, target: &Target) -> Result<Vec<GroupName>, Failure> {
        let mut groups = vec![GroupName::default()];
        for number in 1..self.groups {
            let name = format!("group-{}", number + 1);
            let group = GroupName::try_from(name.as_str()).expect("it is a name");
            target.make_group(group.clone())?;
            groups.push(group);
        }
        Ok(groups)
    }

    fn verify(
        &self,
        target: &Target,
        report: &mut Report,
        produced: &[Produced],
        consumed: Vec<Consumed>,
    ) -> Result<(), Failure> {
        for (count, why) in produced.iter().filter_map(|p| p.refused.as_ref()) {
            report.fault(format!("{count} messages were refused: {why}"));
        }
        let lost: u64 = consumed.iter().map(|c| c.lost).sum();
        if lost > 0 {
            report.fault(format!("{lost} acks came too late for their leases"));
        }
        let mut consumed = consumed.into_iter();
        let (mut missing, mut twice) = (0, 0);
        for _ in 0..self.groups {
            let mut seen = Seen::default();
            consumed.by_ref().take(self.consumers as usize).for_each(|c| seen.merge(c.seen));
            missing += produced.iter().enumerate().map(|(index, p)| seen.missing(index, 0..p.sent)).sum::<u64>();
            twice += seen.twice();
        }
        if missing > 0 {
            report.fault(format!("{missing} messages that were published never arrived"));
        }
        if twice > 0 {
            report.fault(format!("{twice} messages arrived more than once"));
        }
        let left: u64 = target.stats()?.groups.iter().map(|group| group.counts.unfinished() + group.counts.dead).sum();
        if left > 0 {
            report.fault(format!("the broker still holds {left} messages although all were acked"));
        }
        let verified = missing == 0 && twice == 0 && left == 0;
        report.figure("every message arrived exactly once", f64::from(u8::from(verified)), "");
        Ok(())
    }
}
