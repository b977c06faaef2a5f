//! Fills a broker with a fixed number of messages, on several connections, each with a window of unconfirmed frames.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use millpond_protocol::{PUBLISH_CREDIT, Response};
use millpond_types::PublishOutcome;

use super::progress::Progress;
use super::spread::{Frame, Spread};
use super::wire::{self, PATIENCE, Wire, nanos};
use crate::failure::Failure;

/// Bytes that are put together for one write: what a socket's buffer takes at once.
const WRITE: usize = 256 * 1024;

/// What to publish.
pub struct Fill {
    /// The broker.
    pub address: SocketAddr,
    /// The frames.
    pub spread: Spread,
    /// How many messages.
    pub messages: u64,
    /// Connections that publish.
    pub connections: u64,
    /// Messages that a connection may have unconfirmed.
    pub window: u64,
}

/// What came of it.
#[derive(Default)]
pub struct Filled {
    /// Messages confirmed.
    pub confirmed: u64,
    /// Messages that the broker knew by their dedup ids.
    pub duplicates: u64,
    /// Messages refused, and the first reason.
    pub refused: Option<(u64, String)>,
}

impl Fill {
    /// Publishes all and waits for the last confirmation.
    pub fn run(&self) -> Result<Filled, Failure> {
        let answered = Arc::new(AtomicU64::new(0));
        let _progress = Progress::of_count(self.messages, Arc::clone(&answered), "published");
        let results: Vec<_> = thread::scope(|scope| {
            let start = |index| {
                let answered = &answered;
                scope.spawn(move || Filling::connect(self, index)?.run(answered))
            };
            let threads: Vec<_> = (0..self.connections).map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("a producer does not panic")).collect()
        });
        let mut sum = Filled::default();
        for result in results {
            let filled = result?;
            sum.confirmed += filled.confirmed;
            sum.duplicates += filled.duplicates;
            if let Some((count, why)) = filled.refused {
                sum.refused.get_or_insert((0, why)).0 += count;
            }
        }
        Ok(sum)
    }
}

/// One connection. It sends every frame whose number is its own modulo the connections.
struct Filling<'a> {
    fill: &'a Fill,
    wire: Wire,
    frame: Frame,
    /// The number of the next frame.
    next: u64,
    outbox: Vec<u8>,
    credit: u64,
    /// Messages.
    unconfirmed: u64,
    done: Filled,
}

impl Filling<'_> {
    fn connect(fill: &Fill, index: u64) -> Result<Filling<'_>, Failure> {
        Ok(Filling {
            fill,
            wire: Wire::connect(fill.address)?,
            frame: fill.spread.frame(),
            next: index,
            outbox: Vec::new(),
            credit: u64::from(PUBLISH_CREDIT),
            unconfirmed: 0,
            done: Filled::default(),
        })
    }

    fn run(mut self, total: &AtomicU64) -> Result<Filled, Failure> {
        let mut heard = nanos();
        loop {
            while self.put_next() && self.outbox.len() < WRITE {}
            if !self.outbox.is_empty() {
                self.wire.send(&self.outbox)?;
                self.outbox.clear();
            }
            if self.unconfirmed == 0 && self.left() == 0 {
                return Ok(self.done);
            }
            let before = self.done.confirmed + self.done.duplicates;
            self.wire.wait(None)?;
            while let Some(incoming) = self.wire.next()? {
                heard = nanos();
                self.take(incoming.frame)?;
            }
            total.fetch_add(self.done.confirmed + self.done.duplicates - before, Relaxed);
            if nanos() - heard > PATIENCE.as_nanos() as u64 {
                return Err(wire::silent());
            }
        }
    }

    /// Messages from the next frame's first to the last of all.
    fn left(&self) -> u64 {
        self.fill.messages.saturating_sub(self.next * self.fill.spread.batch() as u64)
    }

    /// Puts the next frame into the outbox if there is one and window and credit allow.
    fn put_next(&mut self) -> bool {
        let spread = &self.fill.spread;
        let batch = spread.batch() as u64;
        let count = self.left().min(batch);
        if count == 0 || self.unconfirmed + count > self.fill.window || self.credit < self.frame.length() as u64 {
            return false;
        }
        if count < batch {
            // The last frame of all is a shorter one, and nothing follows it.
            let count = count as usize;
            let (runs, run) = if spread.run == 1 { (count, 1) } else { (1, count) };
            assert!(spread.run == 1 || spread.runs == 1, "either a frame's runs are of one message, or it has but one");
            self.frame = Spread { runs, run, ..spread.clone() }.frame();
        }
        let before = self.outbox.len();
        // The time of sending tells nothing of a message that waits for long.
        self.frame.append(self.next as u32, self.next * batch, 0, &mut self.outbox);
        self.credit -= (self.outbox.len() - before) as u64;
        self.unconfirmed += count;
        self.next += self.fill.connections;
        true
    }

    fn take(&mut self, response: Response) -> Result<(), Failure> {
        match response {
            Response::PublishCredit { bytes } => self.credit += u64::from(bytes),
            Response::Published(outcomes) => {
                for run in outcomes {
                    let count = u64::from(run.count);
                    self.unconfirmed = self.unconfirmed.checked_sub(count).ok_or_else(too_many)?;
                    match run.outcome {
                        PublishOutcome::Queued { .. } => self.done.confirmed += count,
                        PublishOutcome::Refused { detail, .. } => self.refuse(count, detail),
                        PublishOutcome::Coalesced { .. } => self.refuse(count, "coalesced".into()),
                        PublishOutcome::Duplicate { .. } => self.done.duplicates += count,
                    }
                }
            }
            // A frame that is refused as a whole is the generator's fault or the broker's; the run tells nothing then.
            Response::Error { code, detail } => return Err(Failure::refused(format!("{}: {detail}", code.name()))),
            other => return Err(wire::unexpected(&other)),
        }
        Ok(())
    }

    fn refuse(&mut self, count: u64, why: String) {
        self.done.refused.get_or_insert((0, why)).0 += count;
    }
}

fn too_many() -> Failure {
    Failure::refused("the broker told outcomes of more messages than it was sent")
}
