//! Rings of ready topics: per priority a ring of tenants, per tenant a ring of topics.
//!
//! A topic stands in the ring of the highest priority at which it can deliver, at most once in each. Entries are
//! checked when they are taken, so whatever makes a topic unready need not look for them; an entry that turns out to be
//! of no use takes no turn from its tenant. Every operation takes constant time, whatever the number of topics.

use alloc::collections::VecDeque;

use hashbrown::HashMap;
use millpond_types::limits::PRIORITIES;
use millpond_types::{Priority, TopicNumber};

use crate::state::TopicSlot;
use crate::state::hash::FixedState;

/// Entries of topics that are gone are borne up to this many, and beyond it up to half of all.
const GONE_MIN: usize = 4096;

#[derive(Default)]
pub(crate) struct Rings {
    levels: [Ring; PRIORITIES],
    /// One bit per priority whose ring holds anything.
    occupied: u16,
    /// Per slot of a topic that stands in any ring, one bit per priority. Not an array over all slots: there is one of
    /// these for each list, prefix and namespace in use, and each would be as long as there are topics.
    queued: HashMap<TopicSlot, u16, FixedState>,
    /// Entries in all rings.
    entries: usize,
    /// Those among them whose topics are gone.
    gone: usize,
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

/// What has become of the topic of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// It can deliver, at this priority.
    Ready(Priority),
    /// It cannot deliver now; it is put into the rings again when it can.
    Unready,
    /// It has vanished.
    Gone,
}

impl Rings {
    pub(crate) fn is_empty(&self) -> bool {
        self.occupied == 0
    }

    /// Whether nothing stands in the ring of a priority.
    pub(crate) fn is_empty_at(&self, priority: Priority) -> bool {
        self.occupied & (1 << priority.level()) == 0
    }

    /// Whether so many of the entries are of topics that are gone that the rings are better filled anew.
    pub(crate) fn is_mostly_gone(&self) -> bool {
        self.gone > GONE_MIN && self.gone * 2 > self.entries
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
        }
    }

    /// Takes the topic whose turn it is at the highest priority. Its tenant's next turn comes after all other tenants'.
    /// Entries of no use fall out on the way.
    pub(crate) fn pop(&mut self, standing: impl Fn(&Entry) -> Standing) -> Option<(Priority, Entry)> {
        loop {
            let level = self.occupied.checked_ilog2()? as usize;
            let priority = Priority::new(level as u8).expect("a level is a priority");
            let ring = &mut self.levels[level];
            let tenant = *ring.tenants.front().expect("an occupied ring has a tenant");
            let topics = ring.topics.get_mut(&tenant).expect("a tenant in the ring has topics");
            let entry = topics.pop_front().expect("a tenant in the ring has topics");
            let standing = standing(&entry);
            let is_taken = standing == Standing::Ready(priority);
            let is_last = topics.is_empty();
            // What is left of a turn that was cut short ends with its topic: no other topic of the tenant goes on with it.
            let takes_turn = is_taken || entry.left > 0;
            if is_last || takes_turn {
                ring.tenants.pop_front();
            }
            if takes_turn && !is_last {
                ring.tenants.push_back(tenant);
            }
            if ring.tenants.is_empty() {
                self.occupied &= !(1 << level);
            }
            self.entries -= 1;
            match standing {
                // The slot's bit, if set, is that of a later topic in it.
                Standing::Gone => self.gone -= 1,
                _ => self.unmark(priority, entry.slot),
            }
            match standing {
                Standing::Ready(_) if is_taken => return Some((priority, entry)),
                Standing::Ready(other) => self.push(other, Entry { left: 0, ..entry }),
                Standing::Unready | Standing::Gone => {}
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
        if let Some(bits) = self.queued.remove(&slot) {
            self.gone += bits.count_ones() as usize;
        }
    }

    fn mark(&mut self, priority: Priority, slot: TopicSlot) -> bool {
        let bits = self.queued.entry(slot).or_default();
        let bit = 1 << priority.level();
        let is_new = *bits & bit == 0;
        *bits |= bit;
        self.entries += usize::from(is_new);
        self.occupied |= bit;
        is_new
    }

    fn unmark(&mut self, priority: Priority, slot: TopicSlot) {
        let bits = self.queued.get_mut(&slot).expect("what stands in a ring is marked");
        *bits &= !(1 << priority.level());
        if *bits == 0 {
            self.queued.remove(&slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const READY: fn(&Entry) -> Standing = |_| Standing::Ready(Priority::DEFAULT);

    fn entry(slot: TopicSlot, tenant: u64) -> Entry {
        Entry { slot, number: TopicNumber(u64::from(slot)), tenant, left: 0 }
    }

    fn order(rings: &mut Rings, standing: impl Fn(&Entry) -> Standing) -> Vec<(TopicSlot, u32)> {
        core::iter::from_fn(|| rings.pop(&standing)).map(|(_, entry)| (entry.slot, entry.left)).collect()
    }

    #[test]
    fn tenants_take_turns_and_then_their_topics() {
        let mut rings = Rings::default();
        for (slot, tenant) in [(1, 7), (2, 7), (3, 7), (4, 8)] {
            rings.push(Priority::DEFAULT, entry(slot, tenant));
        }
        rings.push(Priority::HIGHEST, entry(5, 7));
        rings.push(Priority::HIGHEST, entry(5, 7));
        let level = |slot| if slot == 5 { Priority::HIGHEST } else { Priority::DEFAULT };
        let order = order(&mut rings, |entry| Standing::Ready(level(entry.slot)));
        assert_eq!(order, [(5, 0), (1, 0), (4, 0), (2, 0), (3, 0)]);
        assert!(rings.is_empty());
    }

    #[test]
    fn a_turn_cut_short_goes_on_where_it_was() {
        let mut rings = Rings::default();
        rings.push(Priority::DEFAULT, entry(1, 7));
        rings.push(Priority::DEFAULT, entry(2, 7));
        rings.push(Priority::DEFAULT, entry(3, 8));
        let (priority, first) = rings.pop(READY).unwrap();
        rings.push_front(priority, Entry { left: 3, ..first });
        assert_eq!(order(&mut rings, READY), [(1, 3), (3, 0), (2, 0)]);
    }

    #[test]
    fn what_is_of_no_use_takes_no_turn() {
        let mut rings = Rings::default();
        for (slot, tenant) in [(1, 7), (2, 7), (3, 7), (4, 8), (5, 8)] {
            rings.push(Priority::DEFAULT, entry(slot, tenant));
        }
        rings.forget(1);
        let order = order(&mut rings, |entry| match entry.slot {
            1 => Standing::Gone,
            2 => Standing::Unready,
            _ => Standing::Ready(Priority::DEFAULT),
        });
        assert_eq!(order, [(3, 0), (4, 0), (5, 0)]);
        assert_eq!((rings.entries, rings.gone), (0, 0));
    }

    #[test]
    fn what_stands_nowhere_takes_no_memory() {
        let mut rings = Rings::default();
        rings.push(Priority::DEFAULT, entry(10_000_000, 7));
        assert_eq!(rings.queued.len(), 1, "a high slot costs no more than a low one");
        rings.pop(READY).unwrap();
        assert!(rings.queued.is_empty());
        rings.push(Priority::DEFAULT, entry(10_000_000, 7));
        rings.forget(10_000_000);
        assert!(rings.queued.is_empty());
    }

    #[test]
    fn topics_that_come_and_go_are_counted() {
        let mut rings = Rings::default();
        for number in 0..=GONE_MIN as u64 {
            assert!(!rings.is_mostly_gone());
            rings.push(Priority::DEFAULT, Entry { number: TopicNumber(number), ..entry(1, 7) });
            rings.forget(1);
        }
        assert!(rings.is_mostly_gone());
    }
}
