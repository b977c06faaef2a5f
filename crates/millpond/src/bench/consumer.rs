//! One consuming connection of the load generator: takes what is delivered, notes it, acks it in as few frames as can
//! be for all that arrived together, and gives the credit back.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use hdrhistogram::Histogram;
use millpond_protocol::{Attach, Finish, FinishVerb, Request, Response, encode_request};
use millpond_types::limits::RECEIPTS_MAX;
use millpond_types::{Filter, FinishOutcome, GroupName, Millis, NamespaceName, Receipt, SessionId, block};

use super::producer::histogram;
use super::seen::Seen;
use super::slots::read_stamp;
use super::wire::{self, PATIENCE, Wire, nanos};
use crate::failure::Failure;

/// Bytes of blocks that a consumer may be sent at first: above what the messages of its credit take in most runs.
const CREDIT_BYTES: u64 = 64 * 1024 * 1024;
/// The consumer's number in its session.
const CONSUMER: u32 = 1;

/// What a consumer is to do.
pub struct Task {
    /// The broker.
    pub address: SocketAddr,
    /// Where to consume.
    pub namespace: NamespaceName,
    /// Which group to be of.
    pub group: GroupName,
    /// Credit in messages.
    pub credit: u32,
}

/// What a consumer did.
pub struct Consumed {
    /// Messages that arrived.
    pub received: u64,
    /// Acks that came too late.
    pub lost: u64,
    /// When the first message arrived.
    pub first: Option<u64>,
    /// When the last message arrived.
    pub last: u64,
    /// From sending to arrival, in nanoseconds.
    pub latency: Histogram<u64>,
    /// Which messages arrived.
    pub seen: Seen,
}

/// Consumes until `stop` is set and every ack is confirmed. `ready` is called once when deliveries may come.
pub fn consume(task: &Task, stop: &AtomicBool, total: &AtomicU64, ready: impl FnOnce()) -> Result<Consumed, Failure> {
    let attached = Consumer::attach(task);
    // Whoever waits for the consumers must not wait for one that failed.
    ready();
    let mut consumer = attached?;
    let (mut first, mut last, mut latency, mut seen) = (None, 0, histogram(), Seen::default());
    while !consumer.is_done(stop)? {
        let arrived = consumer.take(|messages, now| note(messages, now, &mut latency, &mut seen))?;
        if arrived.messages > 0 {
            first.get_or_insert(arrived.now);
            last = arrived.now;
            total.fetch_add(u64::from(arrived.messages), Relaxed);
            consumer.ack(&arrived.receipts);
            consumer.grant(arrived.messages, arrived.bytes);
        }
        consumer.flush()?;
    }
    let Consumer { received, lost, .. } = consumer;
    consumer.end()?;
    Ok(Consumed { received, lost, first, last, latency, seen })
}

/// A connection with one consumer attached. Whoever owns it takes, acks, grants credit and flushes, in turn and without
/// end: heartbeats are sent by the way.
pub struct Consumer {
    wire: Wire,
    /// Nanoseconds between heartbeats.
    heartbeat: u64,
    /// When the last was sent.
    beat: u64,
    outbox: Vec<u8>,
    /// Messages that arrived.
    received: u64,
    /// Acks that the broker confirmed.
    acked: u64,
    /// Acks that came too late.
    lost: u64,
    /// When it was seen that the run is to stop.
    stopping: Option<u64>,
}

/// What has arrived together.
#[derive(Default)]
pub struct Arrived {
    /// When.
    pub now: u64,
    /// Receipts, each with how many messages it is of.
    pub receipts: Vec<(Receipt, u32)>,
    /// Messages of all of them.
    pub messages: u32,
    /// Bytes of their blocks.
    pub bytes: u64,
}

impl Consumer {
    /// Connects and attaches.
    pub fn attach(task: &Task) -> Result<Consumer, Failure> {
        let mut wire = Wire::connect(task.address)?;
        let begin = Request::SessionBegin { session: SessionId(0), resume: Millis::ZERO, held: Vec::new() };
        let heartbeat = match wire.call(&begin)? {
            Response::SessionBegun { heartbeat, .. } => heartbeat.0 * 1_000_000 / 3,
            other => return Err(wire::unexpected(&other)),
        };
        let attach = Attach {
            consumer: CONSUMER,
            namespace: task.namespace.clone(),
            group: task.group.clone(),
            filter: Filter::All,
            messages: task.credit,
            bytes: CREDIT_BYTES,
            lease: None,
            at_most_once: false,
        };
        // Deliveries may overtake the answer; `call` would drop them, so the answer is taken where it comes.
        let mut frame = Vec::new();
        encode_request(&Request::Attach(attach), 0, &mut frame);
        wire.send(&frame)?;
        Ok(Consumer {
            wire,
            heartbeat,
            beat: nanos(),
            outbox: Vec::new(),
            received: 0,
            acked: 0,
            lost: 0,
            stopping: None,
        })
    }

    /// Takes what has come, or waits a moment for it. `note` is told of each block of messages and of the time.
    pub fn take(&mut self, mut note: impl FnMut(&[u8], u64) -> Result<(), Failure>) -> Result<Arrived, Failure> {
        self.wire.wait(None)?;
        let mut arrived = Arrived { now: nanos(), ..Arrived::default() };
        while let Some(incoming) = self.wire.next()? {
            match incoming.frame {
                Response::Delivery { leases, .. } => {
                    for run in leases {
                        arrived.messages += run.count;
                        arrived.bytes += run.block.len() as u64;
                        arrived.receipts.push((run.receipt, run.count));
                        note(&run.block, arrived.now)?;
                    }
                }
                Response::Finished(outcomes) => {
                    for run in outcomes {
                        let sum = if run.outcome == FinishOutcome::Done { &mut self.acked } else { &mut self.lost };
                        *sum += u64::from(run.count);
                    }
                }
                Response::Done => {}
                other => return Err(wire::unexpected(&other)),
            }
        }
        self.received += u64::from(arrived.messages);
        Ok(arrived)
    }

    /// Puts acks into the outbox.
    pub fn ack(&mut self, receipts: &[(Receipt, u32)]) {
        for receipts in receipts.chunks(RECEIPTS_MAX) {
            let finish = Finish { verb: FinishVerb::Ack, confirm: true, namespace: None, receipts: receipts.to_vec() };
            encode_request(&Request::Finish(finish), 0, &mut self.outbox);
        }
    }

    /// Puts credit into the outbox.
    pub fn grant(&mut self, messages: u32, bytes: u64) {
        encode_request(&Request::Credit { consumer: CONSUMER, messages, bytes }, 0, &mut self.outbox);
    }

    /// Sends the outbox, and a heartbeat where one is due.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let now = nanos();
        if now - self.beat > self.heartbeat {
            self.beat = now;
            encode_request(&Request::Heartbeat { except: Vec::new() }, 0, &mut self.outbox);
        }
        if !self.outbox.is_empty() {
            self.wire.send(&self.outbox)?;
            self.outbox.clear();
        }
        Ok(())
    }

    /// Whether `stop` is set, each message that arrived has been acked, and the broker has answered; a broker that does not
    /// is a failure.
    pub fn is_done(&mut self, stop: &AtomicBool) -> Result<bool, Failure> {
        if !stop.load(Relaxed) {
            return Ok(false);
        }
        let since = *self.stopping.get_or_insert_with(nanos);
        let settled = self.acked + self.lost == self.received;
        if !settled && nanos() - since > PATIENCE.as_nanos() as u64 {
            return Err(wire::silent());
        }
        Ok(settled)
    }

    /// Acks that came too late.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Ends the session.
    pub fn end(mut self) -> Result<(), Failure> {
        self.wire.call(&Request::SessionEnd).map(drop)
    }
}

/// Notes which messages have arrived and how long each was under way.
fn note(messages: &[u8], now: u64, latency: &mut Histogram<u64>, seen: &mut Seen) -> Result<(), Failure> {
    // Messages of one frame share their time: their latency is recorded at once.
    let (mut shared, mut count) = (0, 0);
    stamps(messages, |time, number| {
        seen.insert(number);
        if time != shared && count > 0 {
            latency.saturating_record_n(now.saturating_sub(shared).max(1), count);
            count = 0;
        }
        shared = time;
        count += 1;
    })?;
    if count > 0 {
        latency.saturating_record_n(now.saturating_sub(shared).max(1), count);
    }
    Ok(())
}

/// Tells when each message of a block was sent, and its number.
pub fn stamps(messages: &[u8], mut note: impl FnMut(u64, u64)) -> Result<(), Failure> {
    for message in block::messages(messages) {
        let parts = message.map_err(|bad| Failure::refused(format!("a delivery is damaged: {bad}")))?;
        let (time, number) = read_stamp(parts.body)
            .ok_or_else(|| Failure::refused("a message that is not of this run was delivered"))?;
        note(time, number);
    }
    Ok(())
}
