//! One consuming connection of a long run. It grants no credit while the consumers stand still, so that a backlog grows,
//! and it leaves a straggler behind now and then: a message whose lease is held, and whose body the broker has to keep,
//! until the run is over.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millpond_types::Receipt;

use super::super::consumer::{Consumer, Task, stamps};
use super::super::seen::Seen;
use super::super::wire::nanos;
use super::sawtooth::Sawtooth;
use super::tally::Tally;
use crate::failure::Failure;

/// What a receiver did.
pub struct Received {
    /// Which messages arrived.
    pub seen: Seen,
    /// Acks that came too late.
    pub lost: u64,
    /// Messages that were left behind and acked in the end.
    pub stragglers: u64,
}

/// Consumes until `stop` is set and every ack is confirmed. `stragglers` are the times at which one is left behind, in
/// order.
pub fn receive(
    task: &Task,
    sawtooth: Sawtooth,
    stragglers: Vec<u64>,
    stop: &AtomicBool,
    tally: &Tally,
) -> Result<Received, Failure> {
    let mut consumer = Consumer::attach(task)?;
    let mut seen = Seen::default();
    let mut stragglers = stragglers.into_iter().peekable();
    let mut kept: Vec<(Receipt, u32)> = Vec::new();
    let mut left = 0;
    // Credit that was used and not granted again.
    let (mut messages, mut bytes) = (0, 0);
    while !consumer.is_done(stop)? {
        let arrived = consumer.take(|block, now| {
            stamps(block, |time, number| {
                seen.insert(number);
                if sawtooth.is_steady(time) {
                    tally.delivery.record(now.saturating_sub(time), 1);
                }
            })
        })?;
        tally.received.fetch_add(u64::from(arrived.messages), Relaxed);
        let mut acked = &arrived.receipts[..];
        while let Some((straggler, rest)) = acked.split_first()
            && stragglers.next_if(|due| *due <= arrived.now).is_some()
        {
            left += u64::from(straggler.1);
            kept.push(*straggler);
            acked = rest;
        }
        consumer.ack(acked);
        if stop.load(Relaxed) {
            consumer.ack(&std::mem::take(&mut kept));
        }
        messages += arrived.messages;
        bytes += arrived.bytes;
        if messages > 0 && !sawtooth.is_still(nanos()) {
            consumer.grant(messages, bytes);
            (messages, bytes) = (0, 0);
        }
        consumer.flush()?;
    }
    let lost = consumer.lost();
    consumer.end()?;
    Ok(Received { seen, lost, stragglers: left })
}
