//! One publishing connection of the load generator: keeps its window full, or keeps to a rate.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hdrhistogram::Histogram;
use millpond_protocol::{Level, PUBLISH_CREDIT, Response};
use millpond_types::PublishOutcome;

use super::slots::{Shape, Slots};
use super::wire::{self, PATIENCE, Wire, nanos};
use crate::failure::Failure;

/// A sender that keeps to a rate and is later than this has been held up by the broker: its messages then count from
/// when they were due, or the worst moments would hide themselves. Less is the generator's own scheduling.
pub const HELD_UP: u64 = 2_000_000;

/// What a producer is to do.
pub struct Task {
    /// The broker.
    pub address: SocketAddr,
    /// What to send.
    pub shape: Shape,
    /// The producer's number among all, from 0.
    pub index: u64,
    /// How many producers there are.
    pub producers: u64,
    /// Messages a second of this producer; as fast as the window allows where `None`.
    pub rate: Option<f64>,
}

/// What a producer did.
pub struct Produced {
    /// Messages sent.
    pub sent: u64,
    /// Messages confirmed as queued.
    pub confirmed: u64,
    /// Messages refused, and the first reason.
    pub refused: Option<(u64, String)>,
    /// From sending to confirmation, in nanoseconds, a value for each message.
    pub latency: Histogram<u64>,
}

/// The number of a message within a run, as its stamp tells it: the producer above, its count below.
pub const INDEX_BITS: u32 = 40;

/// Sends until `stop` is set, then waits for what is unconfirmed.
pub fn produce(task: &Task, stop: &AtomicBool, total: &AtomicU64) -> Result<Produced, Failure> {
    Producer::connect(task)?.run(stop, total)
}

/// A histogram for latencies in nanoseconds, up to ten minutes, exact to three digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("the bounds are valid")
}

struct Producer<'a> {
    task: &'a Task,
    wire: Wire,
    slots: Slots,
    /// When each slot's frame was sent; `None` if it is free.
    open: Vec<Option<u64>>,
    next_slot: usize,
    unconfirmed: usize,
    credit: u64,
    frames: u64,
    done: Produced,
}

impl Producer<'_> {
    fn connect(task: &Task) -> Result<Producer<'_>, Failure> {
        let slots = Slots::new(&task.shape);
        let done = Produced { sent: 0, confirmed: 0, refused: None, latency: histogram() };
        Ok(Producer {
            task,
            wire: Wire::connect(task.address)?,
            open: vec![None; slots.count()],
            slots,
            next_slot: 0,
            unconfirmed: 0,
            credit: u64::from(PUBLISH_CREDIT),
            frames: 0,
            done,
        })
    }

    fn run(mut self, stop: &AtomicBool, total: &AtomicU64) -> Result<Produced, Failure> {
        let begin = nanos();
        let mut heard = begin;
        loop {
            let mut deadline = None;
            if stop.load(Relaxed) {
                if self.unconfirmed == 0 {
                    break;
                }
            } else {
                deadline = self.send(begin)?;
            }
            let before = self.done.confirmed;
            if deadline.is_some() || self.must_wait(stop) {
                self.wire.wait(deadline)?;
            }
            while let Some(incoming) = self.wire.next()? {
                heard = nanos();
                self.take(incoming.correlation, incoming.frame)?;
            }
            total.fetch_add(self.done.confirmed - before, Relaxed);
            if self.unconfirmed > 0 && nanos() - heard.max(self.oldest()) > PATIENCE.as_nanos() as u64 {
                return Err(wire::silent());
            }
        }
        if self.task.shape.level == Level::None {
            self.wire.call(&millpond_protocol::Request::Ping)?;
        }
        Ok(self.done)
    }

    /// Whether nothing can be sent before something is heard. At level `none` nothing but credit holds a producer.
    fn must_wait(&self, stop: &AtomicBool) -> bool {
        self.task.shape.level != Level::None || self.credit < self.slots.frame_length() as u64 || stop.load(Relaxed)
    }

    /// Sends all that window, credit and rate allow. Returns when the next frame is due, where the rate says so.
    fn send(&mut self, begin: u64) -> Result<Option<u64>, Failure> {
        let now = nanos();
        let mut wait_until = None;
        loop {
            let (first, mut count) = (self.next_slot, 0);
            while first + count < self.slots.count() && self.open[first + count].is_none() {
                if self.credit < self.slots.frame_length() as u64 {
                    break;
                }
                let due = self.due(begin);
                if due > now {
                    wait_until = Some(due);
                    break;
                }
                let time = if now - due > HELD_UP && self.task.rate.is_some() { due } else { now };
                self.stamp(first + count, time);
                count += 1;
            }
            if count == 0 {
                return Ok(wait_until);
            }
            self.wire.send(self.slots.frames(first, count))?;
            self.next_slot = (first + count) % self.slots.count();
        }
    }

    fn stamp(&mut self, slot: usize, time: u64) {
        let Task { shape, index, producers, .. } = self.task;
        // Neighbouring frames of one producer go to different topics, and those of different producers too.
        let topic = (self.frames * producers + index) % u64::from(shape.topics);
        self.slots.stamp(slot, topic as u32, time, (index << INDEX_BITS) | self.done.sent);
        self.frames += 1;
        self.done.sent += shape.batch as u64;
        self.credit -= self.slots.frame_length() as u64;
        if shape.level == Level::None {
            self.done.confirmed += shape.batch as u64;
        } else {
            self.open[slot] = Some(time);
            self.unconfirmed += 1;
        }
    }

    /// When the next frame is due. Producers begin at different points of the interval.
    fn due(&self, begin: u64) -> u64 {
        let Some(rate) = self.task.rate else { return 0 };
        let gap = self.task.shape.batch as f64 / rate * 1e9;
        begin + (gap * (self.frames as f64 + self.task.index as f64 / self.task.producers as f64)) as u64
    }

    fn oldest(&self) -> u64 {
        self.open.iter().flatten().copied().min().unwrap_or(0)
    }

    fn take(&mut self, correlation: u32, response: Response) -> Result<(), Failure> {
        let batch = self.task.shape.batch as u64;
        match response {
            Response::PublishCredit { bytes } => {
                self.credit += u64::from(bytes);
                return Ok(());
            }
            Response::Published(outcomes) => {
                let mut count = 0;
                for run in outcomes {
                    count += u64::from(run.count);
                    match run.outcome {
                        PublishOutcome::Queued { .. } => self.done.confirmed += u64::from(run.count),
                        PublishOutcome::Refused { detail, .. } => self.refuse(u64::from(run.count), detail),
                        PublishOutcome::Coalesced { .. } => self.refuse(u64::from(run.count), "coalesced".into()),
                        PublishOutcome::Duplicate { .. } => self.refuse(u64::from(run.count), "duplicate".into()),
                    }
                }
                if count != batch {
                    return Err(Failure::refused(format!("{count} outcomes came for a batch of {batch} messages")));
                }
            }
            Response::Error { code, detail } => self.refuse(batch, format!("{}: {detail}", code.name())),
            Response::Pong => return Ok(()),
            other => return Err(wire::unexpected(&other)),
        }
        let sent = self.open.get_mut(correlation as usize).and_then(Option::take);
        let sent = sent.ok_or_else(|| Failure::refused("an answer came twice, or to nothing that was asked"))?;
        self.unconfirmed -= 1;
        self.done.latency.saturating_record_n(nanos().saturating_sub(sent).max(1), batch);
        Ok(())
    }

    fn refuse(&mut self, count: u64, why: String) {
        self.done.refused.get_or_insert((0, why)).0 += count;
    }
}
