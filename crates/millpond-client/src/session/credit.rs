//! The window: what deliveries have used up of it comes back as their leases are finished, let go or found lost.
//!
//! Invariant: for each consumer, credit at the broker + what its leases bind + what is not given back yet = its window.

use std::sync::Arc;

use millpond_protocol::Request;
use millpond_types::Receipt;

use super::{Consumer, Session, State};
use crate::delivery::Deliveries;
use crate::leases::{Leases, Spent};
use crate::link::{Link, Loss};

/// Credit goes back once a quarter of the window has come together: few frames, and the broker never runs dry.
const RETURN_PART: u32 = 4;

impl Session {
    /// Sends a request that ends leases, forgets them and gives their credit back. All of it at once: a session that is
    /// resumed says which leases are held, and the broker must hear that either before the finish, with these leases, or
    /// after it, without them.
    pub(crate) fn finish<R>(
        &self,
        link: &Link,
        receipts: &[(Receipt, u32)],
        send: impl FnOnce() -> std::result::Result<R, Loss>,
    ) -> std::result::Result<R, Loss> {
        let mut state = self.state();
        let sent = send()?;
        state.give_back(link, |held, freed| {
            receipts.iter().for_each(|&(first, count)| held.remove(first, count, &mut *freed));
        });
        Ok(sent)
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
        let Spent { messages, bytes } = self.returned;
        let enough = messages >= (self.options.messages / RETURN_PART).max(1)
            || bytes >= (self.options.bytes / u64::from(RETURN_PART)).max(1);
        if enough {
            self.returned = Spent::default();
            link.tell(&Request::Credit { consumer: number, messages, bytes });
        }
    }
}
