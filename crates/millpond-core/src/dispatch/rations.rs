//! Rations: leased topics cannot leave memory, so a holder of leases is given no more of them while the topics that it
//! holds take as much as is free of the room for topics. A single one may hold half of the room, the next one half of the
//! rest, and whoever holds little is served: however much credit a few consumers give, the others find room.
//!
//! A holder is a session. All receives of a group are one, for nobody knows which of them are of one client, and a client may be
//! gone while its leases last. So that whoever takes very many so leaves something to others, receives are given one message
//! each of a [part of the room](ONE_EACH), and of the [last part](SPARED) only where their group's hold little, or [nothing](FIRST);
//! the [rest](LAST) is not for receives. A session that holds nothing is always given something, unless what heartbeats have left
//! out takes very much, and what ends as it is delivered is not counted. While deliveries are [held](Core::hold_deliveries), nobody
//! is given anything, and while [starts](crate::saving) hold half of the room, nobody of a namespace that has one.
//!
//! Invariant: a consumer with credit is either among the hungry of its scope or rationed, and who is rationed is looked at
//! again after every lease that has ended.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use crate::Core;
use crate::dispatch::consumer::Kind;
use crate::dispatch::{ConsumerSlot, Dispatcher};

/// Consumers that are looked at again in one turn: a tenth of a millisecond.
const LOOK_MAX: usize = 1000;

/// One part in so many of the room is the last that is leased: receives are given one message each of it. Those who ask for
/// very many in a few bytes so leave it to others.
const ONE_EACH: usize = 4;
/// One part in so many, the last of that, is for sessions and for receives of groups whose receives hold less than is free.
const SPARED: usize = 8;
/// One part in so many, the last of that, is for sessions and for the first message of receives of a group.
const FIRST: usize = 16;
/// One part in so many, the last of all, is for sessions alone: there may be very many groups, and where leases take all of the
/// room publishes wait.
const LAST: usize = 32;
/// One part in so many of the room: what heartbeats have left out at most where whoever holds nothing is given something though
/// nothing is free.
const LEFT_OUT: usize = 8;

#[derive(Default)]
pub(crate) struct Rations {
    /// Consumers with credit whose holders hold as much as they may.
    rationed: BTreeSet<ConsumerSlot>,
    /// The first that was not looked at yet, of so many.
    next: ConsumerSlot,
    to_look: usize,
    /// Whether nobody is given anything.
    are_held: bool,
}

impl Core {
    /// How many consumers with credit are given nothing because of what their sessions hold.
    pub fn rationed(&self) -> usize {
        self.dispatcher.rations.rationed.len()
    }

    /// Holds deliveries back, or lets them go on: each leads to an ack, which is a change that has to be written.
    pub fn hold_deliveries(&mut self, on_hold: bool) {
        let were_held = core::mem::replace(&mut self.dispatcher.rations.are_held, on_hold);
        self.state.leased.has_eased |= were_held && !on_hold;
    }

    /// Whether deliveries are held.
    pub fn are_deliveries_held(&self) -> bool {
        self.dispatcher.rations.are_held
    }

    /// How much all leased topics may take while a consumer is given more. `None` if it is given nothing now.
    pub(super) fn ration(&self, slot: ConsumerSlot) -> Option<usize> {
        if self.dispatcher.rations.are_held {
            return None;
        }
        let consumer = &self.dispatcher.consumers[slot as usize];
        if self.do_starts_hold_too_much() && self.state.has_a_start_beside(consumer.group) {
            return None;
        }
        let (room, leased) = (self.state.residents.room_for_leases(), self.state.leased.total());
        if consumer.at_most_once || room == usize::MAX {
            return Some(usize::MAX);
        }
        if leased < room / 2 {
            // Whoever it is holds less than is free, and nobody need be looked for.
            return Some(room / 2);
        }
        let free_of = |room: usize| room.saturating_sub(leased);
        // What it is given adds to what it holds as much as it takes from what is free.
        let half_way = |free: usize, held| leased + free.saturating_sub(held).div_ceil(2).max(1);
        let free = free_of(room);
        if let Kind::Attached { session, .. } = consumer.kind {
            let held = self.state.bytes_held_by(session);
            // What a heartbeat leaves out is held by nobody, and its session by that account holds nothing, time and again.
            let is_poor = held == 0 && self.state.leased.left_out < room / LEFT_OUT;
            return (is_poor || held < free).then(|| half_way(free, held));
        }
        let held = self.state.groups[consumer.group].held_by_none;
        let free_for_many = free_of(room - room / ONE_EACH);
        if held < free_for_many {
            return Some(half_way(free_for_many, held));
        }
        let is_first = held == 0 && leased < (room - room / LAST).max(1);
        let is_little = is_first || held < free_of(room - room / FIRST);
        let may_be_one = consumer.got.is_empty() && (is_little || leased < room - room / SPARED);
        may_be_one.then_some(leased + 1)
    }

    /// A consumer is looked at again when a lease has ended.
    pub(super) fn set_on_ration(&mut self, slot: ConsumerSlot) {
        let consumer = &mut self.dispatcher.consumers[slot as usize];
        (consumer.queued, consumer.is_rationed) = (false, true);
        self.dispatcher.rations.rationed.insert(slot);
    }

    /// Looks at who may be given something again, because leases have ended.
    pub(super) fn look_at_rationed(&mut self) {
        let has_eased = core::mem::take(&mut self.state.leased.has_eased);
        let rations = &mut self.dispatcher.rations;
        if has_eased {
            rations.to_look = rations.rationed.len();
        }
        let count = rations.to_look.min(LOOK_MAX);
        rations.to_look -= count;
        for slot in rations.next_ones(count) {
            self.feed_if_it_may_take(slot);
        }
    }

    /// Whether there is somebody to look at again.
    pub(crate) fn has_rationed_to_look_at(&self) -> bool {
        let Rations { rationed, to_look, .. } = &self.dispatcher.rations;
        !rationed.is_empty() && (self.state.leased.has_eased || *to_look > 0)
    }

    /// For the watch: how many of a few were not told that they may be given something.
    pub(super) fn watch_rationed(&mut self, count: usize) -> u64 {
        let rations = &mut self.dispatcher.rations;
        if rations.to_look > 0 {
            return 0;
        }
        let count = count.min(rations.rationed.len());
        let slots = rations.next_ones(count);
        slots.into_iter().map(|slot| u64::from(self.feed_if_it_may_take(slot))).sum()
    }

    /// Who is rationed, and whether that is due to what is held now. For the invariants.
    pub(crate) fn rations(&self) -> impl Iterator<Item = (ConsumerSlot, bool)> {
        let rationed = self.dispatcher.rations.rationed.iter();
        rationed.map(|slot| (*slot, self.ration(*slot).is_none()))
    }

    pub(super) fn forget_rationed(&mut self) {
        self.state.leased.has_eased = false;
        self.dispatcher.rations.to_look = 0;
    }

    fn feed_if_it_may_take(&mut self, slot: ConsumerSlot) -> bool {
        let may_take = self.ration(slot).is_some();
        if may_take {
            self.dispatcher.off_ration(slot);
            self.dispatcher.feed(slot);
        }
        may_take
    }
}

impl Dispatcher {
    pub(super) fn off_ration(&mut self, slot: ConsumerSlot) {
        self.consumers[slot as usize].is_rationed = false;
        self.rations.rationed.remove(&slot);
    }
}

impl Rations {
    /// So many, in turn.
    fn next_ones(&mut self, count: usize) -> Vec<ConsumerSlot> {
        let behind = self.rationed.range(self.next..).chain(self.rationed.range(..self.next));
        let slots: Vec<ConsumerSlot> = behind.copied().take(count).collect();
        if let Some(last) = slots.last() {
            self.next = last + 1;
        }
        slots
    }
}
