//! Drains a namespace: consumers take and ack all that waits, and every message has to arrive exactly once.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use millpond_types::{GroupName, NamespaceName};

use super::consumer::{self, Consumed, consume};
use super::progress::Progress;
use super::report::Report;
use super::seen::Seen;
use super::wire::nanos;
use crate::failure::Failure;

/// How long draining may stand still before the rest counts as missing. A broker that has just been started over a
/// great backlog may take some time.
const STANDSTILL: Duration = Duration::from_secs(60);

/// What to drain.
pub struct Drain {
    /// The broker.
    pub address: SocketAddr,
    /// The namespace.
    pub namespace: NamespaceName,
    /// Connections that consume.
    pub consumers: u64,
    /// Messages that a consumer may hold unacked.
    pub credit: u32,
    /// Messages there are, numbered from 0.
    pub messages: u64,
}

/// What came of it.
pub struct Drained {
    /// When the first message arrived.
    pub first: Option<u64>,
    /// From the consumers' begin to the last arrival.
    pub seconds: f64,
    /// Whether every message arrived exactly once and its ack was in time.
    pub verified: bool,
}

impl Drain {
    /// Consumes until all has arrived and is acked. What should not have been becomes a fault of the report.
    pub fn run(&self, report: &mut Report) -> Result<Drained, Failure> {
        let (stop, received) = (AtomicBool::new(false), Arc::new(AtomicU64::new(0)));
        let begin = nanos();
        let consumed: Vec<_> = thread::scope(|scope| {
            let start = |_| {
                let (address, namespace, credit) = (self.address, self.namespace.clone(), self.credit);
                let (stop, received, group) = (&stop, &received, GroupName::default());
                scope.spawn(move || {
                    consume(&consumer::Task { address, namespace, group, credit }, stop, received, || {})
                })
            };
            let threads: Vec<_> = (0..self.consumers).map(start).collect();
            until_received(&received, self.messages, || threads.iter().any(thread::ScopedJoinHandle::is_finished));
            stop.store(true, Relaxed);
            threads.into_iter().map(|thread| thread.join().expect("a consumer does not panic")).collect()
        });
        let consumed = consumed.into_iter().collect::<Result<Vec<_>, _>>()?;
        let first = consumed.iter().filter_map(|c| c.first).min();
        let last = consumed.iter().map(|c| c.last).max().unwrap_or(0);
        let verified = self.verify(consumed, report);
        Ok(Drained { first, seconds: last.saturating_sub(begin) as f64 / 1e9, verified })
    }

    fn verify(&self, consumed: Vec<Consumed>, report: &mut Report) -> bool {
        let lost: u64 = consumed.iter().map(|c| c.lost).sum();
        let received: u64 = consumed.iter().map(|c| c.received).sum();
        let mut seen = Seen::default();
        consumed.into_iter().for_each(|c| seen.merge(c.seen));
        let missing = seen.missing(0, 0..self.messages);
        let strange = received.saturating_sub(self.messages - missing + seen.twice());
        let wrong = [
            (lost, "acks came too late for their leases"),
            (missing, "messages that were published never arrived"),
            (seen.twice(), "messages arrived more than once"),
            (strange, "messages arrived that were not published"),
        ];
        for (count, what) in wrong.into_iter().filter(|(count, _)| *count > 0) {
            report.fault(format!("{count} {what}"));
        }
        wrong.iter().all(|(count, _)| *count == 0)
    }
}

/// Waits until all has arrived, or nothing has for too long, or a consumer has failed.
pub fn until_received(received: &Arc<AtomicU64>, expected: u64, failed: impl Fn() -> bool) {
    let _progress = Progress::of_count(expected, Arc::clone(received), "received");
    let (mut seen, mut moved) = (0, nanos());
    while received.load(Relaxed) < expected && !failed() {
        thread::sleep(Duration::from_millis(10));
        let now = received.load(Relaxed);
        if now != seen {
            (seen, moved) = (now, nanos());
        } else if nanos() - moved > STANDSTILL.as_nanos() as u64 {
            return;
        }
    }
}
