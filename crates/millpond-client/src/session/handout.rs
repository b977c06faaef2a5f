//! What the broker delivers waits here until it is handed out, and is handed out only while its leases are known to be good.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use millpond_protocol::LeasedRun;
use millpond_types::{LeaderEpoch, Receipt};

use super::{Session, State, release};
use crate::delivery::Deliveries;
use crate::error::Result;
use crate::leases::Spent;
use crate::link::{Link, Loss};

impl Session {
    /// Takes in what the broker delivers.
    pub(crate) fn delivered(
        &self,
        link: &Link,
        number: u32,
        epoch: Option<LeaderEpoch>,
        runs: Vec<LeasedRun>,
    ) -> std::result::Result<(), Loss> {
        let deliveries = Deliveries::checked(runs, epoch).map_err(Loss::passing)?;
        let waker = {
            let mut state = self.state();
            let State { held, consumers, .. } = &mut *state;
            let Some(consumer) = consumers.get_mut(&number) else {
                // On its way when the subscription ended. Leases that have ended are released to no effect.
                drop(state);
                release(link, deliveries.receipts().runs().to_vec());
                return Ok(());
            };
            // What comes at most once is leased by nobody.
            for run in deliveries.runs().filter(|_| !consumer.options.at_most_once) {
                let spent = Spent { messages: run.count, bytes: run.block.len() as u64 };
                held.insert(run.receipt, spent, number);
            }
            consumer.buffer.append(deliveries);
            consumer.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// The stamp of now: see [`Deliveries`] taken with another one.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire)
    }

    /// Whether what was taken at this stamp belongs to a session that is lost.
    pub(crate) fn is_stale(&self, stamp: u64) -> bool {
        self.stamp() / 2 != stamp / 2
    }

    /// Takes at most `most` deliveries for a consumer, with the stamp they belong to; waits while nothing is there, or
    /// nothing may be handed out.
    pub(crate) fn poll_take(
        &self,
        number: u32,
        most: usize,
        context: &mut Context<'_>,
    ) -> Poll<Result<(Deliveries, u64)>> {
        let mut state = self.state();
        let State { consumers, closed, begun_on, .. } = &mut *state;
        let consumer = consumers.get_mut(&number).expect("a subscription is registered until it ends");
        if let Some(error) = closed.as_ref().or(consumer.refused.as_ref()) {
            return Poll::Ready(Err(error.clone()));
        }
        if *begun_on == 0 || (consumer.buffer.is_empty() && most > 0) {
            consumer.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(Ok((consumer.buffer.take_front(most), self.stamp())))
    }

    /// Takes back deliveries that were taken and not handed out.
    pub(crate) fn put_back(&self, number: u32, mut deliveries: Deliveries, stamp: u64) {
        let mut state = self.state();
        if self.is_stale(stamp) {
            return;
        }
        let Some(consumer) = state.consumers.get_mut(&number) else { return };
        deliveries.append(std::mem::take(&mut consumer.buffer));
        consumer.buffer = deliveries;
    }

    pub(crate) fn is_current(&self, receipt: &Receipt) -> bool {
        self.state().held.contains(receipt)
    }

    pub(crate) async fn lease_lost(&self, receipt: &Receipt) {
        loop {
            let lost = self.lost.notified();
            if !self.is_current(receipt) {
                return;
            }
            lost.await;
        }
    }
}
