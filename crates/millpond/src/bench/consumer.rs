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
use super::wire::{self, Wire, nanos};
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
    /// Credit in messages.
    pub credit: u32,
}

/// What a consumer did.
pub struct Consumed {
    /// Messages that arrived.
    pub received: u64,
    /// Acks that the broker confirmed.
    pub acked: u64,
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
    attached?.run(stop, total)
}

struct Consumer {
    wire: Wire,
    /// Nanoseconds between heartbeats.
    heartbeat: u64,
    outbox: Vec<u8>,
    done: Consumed,
}

impl Consumer {
    fn attach(task: &Task) -> Result<Consumer, Failure> {
        let mut wire = Wire::connect(task.address)?;
        let begin = Request::SessionBegin { session: SessionId(0), resume: Millis::ZERO, held: Vec::new() };
        let heartbeat = match wire.call(&begin)? {
            Response::SessionBegun { heartbeat, .. } => heartbeat.0 * 1_000_000 / 3,
            other => return Err(wire::unexpected(&other)),
        };
        let attach = Attach {
            consumer: CONSUMER,
            namespace: task.namespace.clone(),
            group: GroupName::default(),
            filter: Filter::All,
            messages: task.credit,
            bytes: CREDIT_BYTES,
            lease: None,
        };
        // Deliveries may overtake the answer; `call` would drop them, so the answer is taken where it comes.
        let mut frame = Vec::new();
        encode_request(&Request::Attach(attach), 0, &mut frame);
        wire.send(&frame)?;
        let done = Consumed {
            received: 0,
            acked: 0,
            lost: 0,
            first: None,
            last: 0,
            latency: histogram(),
            seen: Seen::default(),
        };
        Ok(Consumer { wire, heartbeat, outbox: Vec::new(), done })
    }

    fn run(mut self, stop: &AtomicBool, total: &AtomicU64) -> Result<Consumed, Failure> {
        let mut beat = nanos();
        while !(stop.load(Relaxed) && self.done.acked + self.done.lost == self.done.received) {
            self.wire.wait(None)?;
            let now = nanos();
            let (mut receipts, mut messages, mut bytes) = (Vec::new(), 0, 0);
            while let Some(incoming) = self.wire.next()? {
                match incoming.frame {
                    Response::Delivery { leases, .. } => {
                        for run in leases {
                            messages += run.count;
                            bytes += run.block.len() as u64;
                            receipts.push((run.receipt, run.count));
                            self.note(&run.block, now)?;
                        }
                    }
                    Response::Finished(outcomes) => {
                        for run in outcomes {
                            let sum = if run.outcome == FinishOutcome::Done {
                                &mut self.done.acked
                            } else {
                                &mut self.done.lost
                            };
                            *sum += u64::from(run.count);
                        }
                    }
                    Response::Done => {}
                    other => return Err(wire::unexpected(&other)),
                }
            }
            if messages > 0 {
                self.done.received += u64::from(messages);
                self.done.first.get_or_insert(now);
                self.done.last = now;
                total.fetch_add(u64::from(messages), Relaxed);
                self.ack(&receipts, messages, bytes);
            }
            if now - beat > self.heartbeat {
                beat = now;
                encode_request(&Request::Heartbeat { except: Vec::new() }, 0, &mut self.outbox);
            }
            if !self.outbox.is_empty() {
                self.wire.send(&self.outbox)?;
                self.outbox.clear();
            }
        }
        self.wire.call(&Request::SessionEnd)?;
        Ok(self.done)
    }

    fn ack(&mut self, receipts: &[(Receipt, u32)], messages: u32, bytes: u64) {
        for receipts in receipts.chunks(RECEIPTS_MAX) {
            let finish = Finish { verb: FinishVerb::Ack, confirm: true, receipts: receipts.to_vec() };
            encode_request(&Request::Finish(finish), 0, &mut self.outbox);
        }
        encode_request(&Request::Credit { consumer: CONSUMER, messages, bytes }, 0, &mut self.outbox);
    }

    fn note(&mut self, messages: &[u8], now: u64) -> Result<(), Failure> {
        // Messages of one frame share their time: their latency is recorded at once.
        let (mut shared, mut count) = (0, 0);
        for message in block::messages(messages) {
            let parts = message.map_err(|bad| Failure::refused(format!("a delivery is damaged: {bad}")))?;
            let (time, number) = read_stamp(parts.body)
                .ok_or_else(|| Failure::refused("a message that is not of this run was delivered"))?;
            self.done.seen.insert(number);
            if time != shared && count > 0 {
                self.done.latency.saturating_record_n(now.saturating_sub(shared).max(1), count);
                count = 0;
            }
            shared = time;
            count += 1;
        }
        if count > 0 {
            self.done.latency.saturating_record_n(now.saturating_sub(shared).max(1), count);
        }
        Ok(())
    }
}
