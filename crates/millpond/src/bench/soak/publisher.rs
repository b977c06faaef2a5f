//! One connection that publishes at a rate, each message of a frame to another topic.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millpond_protocol::{PUBLISH_CREDIT, Response};
use millpond_types::PublishOutcome;

use super::super::producer::HELD_UP;
use super::super::spread::{Frame, Spread};
use super::super::wire::{self, PATIENCE, Wire, nanos};
use super::tally::Tally;
use crate::failure::Failure;

/// Unconfirmed messages of a connection: a second's worth and more at any rate that makes sense here, so that a broker
/// that stalls is measured as late and not as idle.
pub const WINDOW: usize = 20_000;

/// What a publisher is to do.
pub struct Task {
    /// The broker.
    pub address: SocketAddr,
    /// The frames.
    pub spread: Spread,
    /// The number of the first message of all publishers.
    pub first: u64,
    /// The publisher's number among all, from 0.
    pub index: u64,
    /// How many publishers there are.
    pub publishers: u64,
    /// Messages a second of this publisher.
    pub rate: f64,
}

/// What a publisher did.
#[derive(Default)]
pub struct Published {
    /// Frames sent.
    pub frames: u64,
    /// Messages confirmed as queued.
    pub confirmed: u64,
    /// Messages refused, and the first reason.
    pub refused: Option<(u64, String)>,
}

impl Task {
    /// The numbers of the messages of its frame of this number: publishers take frames in turn.
    pub fn numbers(&self, frame: u64) -> Range<u64> {
        let batch = self.spread.batch() as u64;
        let first = self.first + (frame * self.publishers + self.index) * batch;
        first..first + batch
    }

    /// Publishes from `begin` until `stop` is set, then waits for what is unconfirmed.
    pub fn run(&self, begin: u64, stop: &AtomicBool, tally: &Tally) -> Result<Published, Failure> {
        Publisher {
            task: self,
            wire: Wire::connect(self.address)?,
            frame: self.spread.frame(),
            outbox: Vec::new(),
            credit: u64::from(PUBLISH_CREDIT),
            open: VecDeque::new(),
            done: Published::default(),
        }
        .run(begin, stop, tally)
    }

    /// When a frame is due. Publishers begin at different points of the interval.
    fn due(&self, begin: u64, frame: u64) -> u64 {
        let gap = self.spread.batch() as f64 / self.rate * 1e9;
        begin + (gap * (frame as f64 + self.index as f64 / self.publishers as f64)) as u64
    }
}

struct Publisher<'a> {
    task: &'a Task,
    wire: Wire,
    frame: Frame,
    outbox: Vec<u8>,
    credit: u64,
    /// Frames in the order of sending, from the oldest that has no answer: when it was sent, `None` if it is answered.
    open: VecDeque<Option<u64>>,
    done: Published,
}

impl Publisher<'_> {
    fn run(mut self, begin: u64, stop: &AtomicBool, tally: &Tally) -> Result<Published, Failure> {
        let mut heard = begin;
        loop {
            let stopping = stop.load(Relaxed);
            if stopping && self.open.is_empty() {
                return Ok(self.done);
            }
            let deadline = if stopping { None } else { self.send(begin)? };
            if self.open.is_empty() {
                // The broker's time for an answer begins with the next frame.
                heard = nanos().max(begin);
            }
            self.wire.wait(deadline)?;
            while let Some(incoming) = self.wire.next()? {
                heard = nanos();
                self.take(incoming.correlation, incoming.frame, tally)?;
            }
            if nanos().saturating_sub(heard) > PATIENCE.as_nanos() as u64 {
                return Err(wire::silent());
            }
        }
    }

    /// Sends all that is due and that window and credit allow. Returns when the next frame is due, unless it is held up.
    fn send(&mut self, begin: u64) -> Result<Option<u64>, Failure> {
        let now = nanos();
        let deadline = loop {
            let due = self.task.due(begin, self.done.frames);
            if due > now {
                break Some(due);
            }
            let full = (self.open.len() + 1) * self.task.spread.batch() > WINDOW;
            if full || self.credit < self.frame.length() as u64 {
                break None;
            }
            let time = if now - due > HELD_UP { due } else { now };
            let first = self.task.numbers(self.done.frames).start;
            self.frame.append(self.done.frames as u32, first, time, &mut self.outbox);
            self.credit -= self.frame.length() as u64;
            self.open.push_back(Some(time));
            self.done.frames += 1;
        };
        if !self.outbox.is_empty() {
            self.wire.send(&self.outbox)?;
            self.outbox.clear();
        }
        Ok(deadline)
    }

    fn take(&mut self, correlation: u32, response: Response, tally: &Tally) -> Result<(), Failure> {
        let outcomes = match response {
            Response::PublishCredit { bytes } => {
                self.credit += u64::from(bytes);
                return Ok(());
            }
            Response::Published(outcomes) => outcomes,
            // A frame that is refused as a whole is the generator's fault or the broker's; the run tells nothing then.
            Response::Error { code, detail } => return Err(Failure::refused(format!("{}: {detail}", code.name()))),
            other => return Err(wire::unexpected(&other)),
        };
        let batch = self.task.spread.batch() as u64;
        let (mut count, mut queued) = (0, 0);
        for run in outcomes {
            count += u64::from(run.count);
            match run.outcome {
                PublishOutcome::Queued { .. } => queued += u64::from(run.count),
                PublishOutcome::Refused { detail, .. } => self.refuse(u64::from(run.count), detail),
                PublishOutcome::Coalesced { .. } => self.refuse(u64::from(run.count), "coalesced".into()),
                PublishOutcome::Duplicate { .. } => self.refuse(u64::from(run.count), "duplicate".into()),
            }
        }
        if count != batch {
            return Err(Failure::refused(format!("{count} outcomes came for a batch of {batch} messages")));
        }
        // Correlations are the low half of frame numbers, and far fewer than that are open.
        let oldest = self.done.frames - self.open.len() as u64;
        let place = correlation.wrapping_sub(oldest as u32) as usize;
        let sent = self.open.get_mut(place).and_then(Option::take);
        let sent = sent.ok_or_else(|| Failure::refused("an answer came twice, or to nothing that was asked"))?;
        while self.open.front() == Some(&None) {
            self.open.pop_front();
        }
        self.done.confirmed += queued;
        tally.confirmed.fetch_add(queued, Relaxed);
        tally.confirmation.record(nanos().saturating_sub(sent), batch);
        Ok(())
    }

    fn refuse(&mut self, count: u64, why: String) {
        self.done.refused.get_or_insert((0, why)).0 += count;
    }
}
