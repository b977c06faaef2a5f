//! The window: what deliveries have used up of it comes back as their leases are finished, let go or found lost.
//!
//! Invariant: for each consumer, credit at the broker + what its leases bind + what is not given back yet = its window + what
//! it owes, for leases whose credit was given back with a request that then did not end them.

use std::sync::Arc;

use millpond_protocol::{Request, Response};
use millpond_types::{FinishOutcome, Receipt};

use super::{Consumer, Session, State};
use crate::delivery::Deliveries;
use crate::leases::{Leases, Spent};
use crate::link::{Link, Loss};
use crate::outcomes::paired;

/// Credit goes back once a quarter of the window has come together: few frames, and the broker never runs dry.
const RETURN_PART: u32 = 4;

impl Session {
    /// Sends a request that is to end leases and gives their credit back. The answer says which of them have ended; what
    /// nobody answers is taken for carried out. All of it at once: a session that is resumed says which leases are held, and the
    /// broker must not hear before the finish that these are not.
    pub(crate) fn finish<R>(
        &self,
        link: &Link,
        receipts: &[(Receipt, u32)],
        is_answered: bool,
        send: impl FnOnce() -> std::result::Result<R, Loss>,
    ) -> std::result::Result<R, Loss> {
        let mut state = self.state();
        let sent = send()?;
        state.give_back(link, |held, freed| {
            for &(first, count) in receipts {
                match is_answered {
                    true => held.end(first, count, &mut *freed),
                    false => held.remove(first, count, &mut *freed),
                }
            }
        });
        Ok(sent)
    }

    /// Takes in the answer to such a request: what it ended, or found lost, is forgotten, and the rest is held as before.
    pub(crate) fn finished(&self, link: &Link, receipts: &[(Receipt, u32)], answer: &Response) {
        let outcomes = match answer {
            Response::Finished(outcomes)
            | Response::Forwarded { finished: outcomes, .. }
            | Response::ForwardRouted { finished: outcomes, .. } => paired(receipts, outcomes),
            // Nothing of it was done.
            _ => receipts.iter().map(|receipts| (*receipts, FinishOutcome::Kept)).collect(),
        };
        let is_any_lost = outcomes.iter().any(|(_, outcome)| *outcome == FinishOutcome::LeaseLost);
        let mut state = self.state();
        for ((first, count), outcome) in outcomes {
            match outcome {
                FinishOutcome::Done | FinishOutcome::Dead | FinishOutcome::LeaseLost => {
                    state.give_back(link, |held, freed| held.remove(first, count, freed));
                }
                FinishOutcome::Kept | FinishOutcome::OutOfOrder | FinishOutcome::Deposed => {
                    state.take_back(first, count);
                }
            }
        }
        drop(state);
        if is_any_lost {
            self.lost.notify_waiters();
        }
    }

    /// Forgets leases that were found lost, and gives their credit back.
    pub(crate) fn found_lost(&self, link: &Link, receipts: &[(Receipt, u32)]) {
        self.state().give_back(link, |held, freed| {
            receipts.iter().for_each(|&(first, count)| held.remove(first, count, &mut *freed));
        });
        self.lost.notify_waiters();
    }

    /// Gives back the credit of deliveries that were taken from the buffer, where there is nothing to finish.
    pub(crate) fn taken(&self, number: u32, taken: &Deliveries, link: Option<&Arc<Link>>) {
        let mut state = self.state();
        let consumer = state.consumers.get_mut(&number).filter(|consumer| consumer.options.at_most_once);
        let Some(consumer) = consumer else { return };
        consumer.returned.add(taken.spent());
        // Until it is attached there is nobody to give credit to.
        if let Some(link) = link.filter(|link| link.epoch == consumer.attached_on) {
            consumer.grant(number, link);
        }
    }

    /// Leaves leases out of the heartbeats from now on, and gives their credit back.
    pub(crate) fn let_go(&self, receipts: &[(Receipt, u32)], link: Option<&Link>) {
        let let_go = |held: &mut Leases, freed: &mut dyn FnMut(u32, Spent)| {
            receipts.iter().for_each(|&(first, count)| held.let_go(first, count, &mut *freed));
        };
        match link {
            Some(link) => self.state().give_back(link, let_go),
            // Without a connection there is no credit at the broker; what is free is granted with the next attach.
            None => let_go(&mut self.state().held, &mut |_, _| {}),
        }
    }
}

impl State {
    /// Leases bind again what was given back for them.
    fn take_back(&mut self, first: Receipt, count: u32) {
        let State { held, consumers, .. } = self;
        held.keep(first, count, |number, spent| {
            // A subscription that has ended has no window.
            if let Some(consumer) = consumers.get_mut(&number) {
                consumer.owed.add(spent);
            }
        });
    }

    pub(super) fn give_back(&mut self, link: &Link, change: impl FnOnce(&mut Leases, &mut dyn FnMut(u32, Spent))) {
        let State { held, consumers, .. } = self;
        let mut touched: Vec<u32> = Vec::new();
        change(held, &mut |number, spent| {
            // A subscription that has ended needs no credit.
            let Some(consumer) = consumers.get_mut(&number) else { return };
            consumer.returned.add(spent);
            if touched.last() != Some(&number) {
                touched.push(number);
            }
        });
        for number in touched {
            let consumer = consumers.get_mut(&number).expect("it was touched");
            // Until it is attached there is nobody to give credit to.
            if consumer.attached_on == link.epoch {
                consumer.grant(number, link);
            }
        }
    }
}

impl Consumer {
    /// Gives credit back to the broker once enough has come together.
    pub(super) fn grant(&mut self, number: u32, link: &Link) {
        self.returned.pay(&mut self.owed);
        let Spent { messages, bytes } = self.returned;
        let enough = messages >= (self.options.messages / RETURN_PART).max(1)
            || bytes >= (self.options.bytes / u64::from(RETURN_PART)).max(1);
        if enough {
            self.returned = Spent::default();
            link.tell(&Request::Credit { consumer: number, messages, bytes });
        }
    }
}
