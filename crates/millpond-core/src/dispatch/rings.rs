//! Rings of ready topics: per priority a ring of tenants, per tenant a ring of topics.
//!
//! A topic stands in the ring of the highest priority at which it can deliver, at most once in each. Entries are
//! checked when they are taken, so whatever makes a topic unready need not look for them. Every operation takes
//! constant time, whatever the number of topics.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashMap;
use millpond_types::limits::PRIORITIES;
use millpond_types::{Priority, TopicNumber};

use crate::state::TopicSlot;
use crate::state::hash::FixedState;

#[derive(Default)]
pub(crate) struct Rings {
    levels: [Ring; PRIORITIES],
    /// One bit per priority whose ring holds anything.
    occupied: u16,
    /// Per topic slot, one bit per priority in whose ring it stands.
    queued: Vec<u16>,
}

#[derive(Default)]
struct Ring {
    /// Tenants that have an entry, in the order of their turns.
    tenants: VecDeque<u64>,
    topics: HashMap<u64, VecDeque<Entry>, FixedState>,
}

/// A topic in a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) slot: TopicSlot,
    /// Tells this topic from a later one in the same slot.
    pub(crate) number: TopicNumber,
    pub(crate) tenant: u64,
    /// Messages left of a turn that was cut short; zero for a whole turn.
    pub(crate) left: u32,
}

impl Rings {
    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Puts a topic at the end of its tenant's ring, unless it stands in that priority already.
    pub(crate) fn push(&mut self, priority: Priority, entry: Entry) {
        if self.mark(priority, entry.slot) {
            let ring = &mut self.levels[priority.level()];
            let topics = ring.topics.entry(entry.tenant).or_default();
            if topics.is_empty() {
                ring.tenants.push_back(entry.tenant);
            }
            topics.push_back(entry);
            self.occupied |= 1 << priority.level();
        }
    }

    /// Puts a topic whose turn was cut short back to the front, where it was taken from.
    pub(crate) fn push_front(&mut self, priority: Priority, entry: Entry) {
        if self.mark(priority, entry.slot) {
            let ring = &mut self.levels[priority.level()];
            let topics = ring.topics.entry(entry.tenant).or_default();
            if !topics.is_empty() {
                let last = ring.tenants.pop_back();
                assert_eq!(last, Some(entry.tenant), "a tenant whose turn was cut short was put last just before");
            }
            ring.tenants.push_front(entry.tenant);
            topics.push_front(entry);
            self.occupied |= 1 << priority.level();
        }
    }

    /// Takes the topic whose turn it is at the highest priority. Its tenant's next turn comes after all other tenants'.
    /// Entries of topics that are gone fall out on the way.
    pub(crate) fn pop(&mut self, is_current: impl Fn(&Entry) -> bool) -> Option<(Priority, Entry)> {
        loop {
            let level = self.occupied.checked_ilog2()? as usize;
            let ring = &mut self.levels[level];
            let tenant = ring.tenants.pop_front().expect("an occupied ring has a tenant");
            let topics = ring.topics.get_mut(&tenant).expect("a tenant in the ring has topics");
            let entry = topics.pop_front().expect("a tenant in the ring has topics");
            if !topics.is_empty() {
                ring.tenants.push_back(tenant);
            }
            if ring.tenants.is_empty() {
                self.occupied &= !(1 << level);
            }
            let priority = Priority::new(level as u8).expect("a level is a priority");
            if is_current(&entry) {
                self.queued[entry.slot as usize] &= !(1 << level);
                return Some((priority, entry));
            }
            self.end_turn(priority, tenant);
        }
    }

    /// Lets go of a tenant that has nothing left in the ring that it was served from.
    pub(crate) fn end_turn(&mut self, priority: Priority, tenant: u64) {
        let ring = &mut self.levels[priority.level()];
        if ring.topics.get(&tenant).is_some_and(|topics| topics.is_empty()) {
            ring.topics.remove(&tenant);
        }
    }

    /// A slot's topic is gone: a later topic in the slot stands nowhere yet.
    pub(crate) fn forget(&mut self, slot: TopicSlot) {
        if let Some(bits) = self.queued.get_mut(slot as usize) {
            *bits = 0;
        }
    }

    fn mark(&mut self, priority: Priority, slot: TopicSlot) -> bool {
        let at = slot as usize;
        if self.queued.len() <= at {
            self.queued.resize((at + 1).next_power_of_two(), 0);
        }
        let bit = 1 << priority.level();
        let is_new = self.queued[at] & bit == 0;
        self.queued[at] |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(slot: TopicSlot, tenant: u64) -> Entry {
        Entry { slot, number: TopicNumber(u64::from(slot)), tenant, left: 0 }
    }

    #[test]
    fn tenants_take_turns_and_then_their_topics() {
        let mut rings = Rings::default();
        for (slot, tenant) in [(1, 7), (2, 7), (3, 7), (4, 8)] {
            rings.push(Priority::DEFAULT, entry(slot, tenant));
        }
        rings.push(Priority::HIGHEST, entry(5, 7));
        rings.push(Priority::HIGHEST, entry(5, 7));
        let order: Vec<_> = core::iter::from_fn(|| rings.pop(|_| true)).map(|(_, entry)| entry.slot).collect();
        assert_eq!(order, [5, 1, 4, 2, 3]);
        assert!(rings.is_empty());
    }

    #[test]
    fn a_turn_cut_short_goes_on_where_it_was() {
        let mut rings = Rings::default();
        rings.push(Priority::DEFAULT, entry(1, 7));
        rings.push(Priority::DEFAULT, entry(2, 7));
        rings.push(Priority::DEFAULT, entry(3, 8));
        let (priority, first) = rings.pop(|_| true).unwrap();
        rings.push_front(priority, Entry { left: 3, ..first });
        let order: Vec<_> =
            core::iter::from_fn(|| rings.pop(|_| true)).map(|(_, entry)| (entry.slot, entry.left)).collect();
        assert_eq!(order, [(1, 3), (3, 0), (2, 0)]);
    }
}
