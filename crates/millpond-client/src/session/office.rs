//! The offices of exclusive groups: what a consumer is told of its own, and what becomes of its leases by that.
//!
//! Invariant: what was delivered in one epoch and not handed out is given back when the office is lost, and what was
//! handed out is forgotten when the broker says that nothing of that epoch is left.

use millpond_types::limits::RECEIPTS_MAX;
use millpond_types::{LeaderEpoch, Role, Standing};
use tokio::sync::watch;

use super::{Session, State, release};
use crate::client::Event;
use crate::delivery::Deliveries;
use crate::leases::Leases;
use crate::link::Link;

impl Session {
    /// A consumer is told what it is from now on.
    pub(crate) fn told_standing(&self, link: &Link, number: u32, standing: Standing) {
        let mut state = self.state();
        // It may have ended meanwhile.
        let Some(consumer) = state.consumers.get_mut(&number) else { return };
        let before = consumer.standing.send_replace(Some(standing));
        let group = consumer.options.group.clone();
        // The loss of an office is not told where the connection was lost, too. What comes at most once is nobody else's.
        let is_of_another = consumer.buffer.epoch().is_some_and(|epoch| Some(epoch) != epoch_held(&standing));
        let unseen = match is_of_another && !consumer.options.at_most_once {
            true => std::mem::take(&mut consumer.buffer),
            false => Deliveries::default(),
        };
        consumer.wake();
        state.release_unseen(link, &unseen);
        let nothing_is_left = match standing.role {
            Role::Candidate => true,
            // Also where it follows itself. It is told so again on another connection, with leases of this epoch.
            Role::Lead => before.is_none_or(|before| (before.role, before.epoch) != (Role::Lead, standing.epoch)),
            Role::Inaugurate | Role::Deposed => false,
        };
        if nothing_is_left {
            state.give_back(link, |held: &mut Leases, freed| held.remove_all(number, freed));
        }
        drop(state);
        self.lost.notify_waiters();
        // Heartbeats may have to come sooner than before.
        self.begun.notify_one();
        // Nobody has to listen.
        let _ = self.events.send(Event::Standing { group, standing });
    }

    /// What a consumer is told of the office of its group.
    pub(crate) fn standing(&self, number: u32) -> watch::Receiver<Option<Standing>> {
        self.state().consumers.get(&number).expect("a subscription is registered until it ends").standing.subscribe()
    }

    /// Gives back what was taken and not handed out, where the office that it came for is lost.
    pub(crate) fn drop_unseen(&self, number: u32, taken: &mut Deliveries, link: Option<&Link>) {
        let mut state = self.state();
        let Some(consumer) = state.consumers.get(&number) else { return };
        let leads = consumer.standing.borrow().as_ref().and_then(epoch_held);
        if taken.epoch() == leads || consumer.options.at_most_once {
            return;
        }
        let unseen = std::mem::take(taken);
        // Without a connection they are named no more when the session is resumed, and that releases them.
        match link {
            Some(link) => state.release_unseen(link, &unseen),
            None => {
                unseen.receipts().runs().iter().for_each(|&(first, count)| state.held.remove(first, count, |_, _| {}))
            }
        }
    }
}

impl State {
    /// Gives back deliveries that nobody here has seen.
    fn release_unseen(&mut self, link: &Link, unseen: &Deliveries) {
        let receipts = unseen.receipts();
        self.give_back(link, |held, freed| {
            receipts.runs().iter().for_each(|&(first, count)| held.remove(first, count, &mut *freed));
        });
        receipts.chunks(RECEIPTS_MAX).into_iter().for_each(|receipts| release(link, receipts));
    }
}

/// The epoch of an office that is held.
pub(crate) fn epoch_held(standing: &Standing) -> Option<LeaderEpoch> {
    matches!(standing.role, Role::Inaugurate | Role::Lead).then_some(standing.epoch)
}
