//! The one index of deadlines: a hierarchical timing wheel.
//!
//! Inserting and removing take constant time whatever the number of entries, and advancing costs what falls due plus a
//! bounded number of moves an entry. Seven levels of 64 slots of a millisecond at the lowest reach 139 years ahead;
//! what lies further stays in the last slot and is looked at again when that comes round. Entries that fall due
//! together come out in the order (deadline, insertion), so the order depends on nothing but the history.
//! After Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987.

use alloc::vec::Vec;

use slab::Slab;

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 7;
const NONE: u32 = u32::MAX;

/// Names an entry. Of no effect once the entry was removed or has fallen due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TimerKey {
    slot: u32,
    order: u64,
}

/// Deadlines in milliseconds of one clock, each with something to do.
#[derive(Clone)]
pub(crate) struct TimeIndex<T> {
    entries: Slab<Entry<T>>,
    levels: [[u32; SLOTS]; LEVELS],
    /// One bit per slot that holds anything.
    occupied: [u64; LEVELS],
    now: u64,
    inserted: u64,
}

#[derive(Clone)]
struct Entry<T> {
    deadline: u64,
    order: u64,
    what: T,
    level: u8,
    slot: u8,
    previous: u32,
    next: u32,
}

impl<T: Copy> TimeIndex<T> {
    pub(crate) fn new() -> Self {
        TimeIndex { entries: Slab::new(), levels: [[NONE; SLOTS]; LEVELS], occupied: [0; LEVELS], now: 0, inserted: 0 }
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds an entry. One whose deadline has passed falls due at the next advance.
    pub(crate) fn insert(&mut self, deadline: u64, what: T) -> TimerKey {
        self.inserted += 1;
        let entry = Entry { deadline, order: self.inserted, what, level: 0, slot: 0, previous: NONE, next: NONE };
        let key = u32::try_from(self.entries.insert(entry)).expect("fewer than 2^32 deadlines");
        self.link(key);
        TimerKey { slot: key, order: self.inserted }
    }

    /// Takes an entry out before it falls due; does nothing if it is gone.
    pub(crate) fn remove(&mut self, key: TimerKey) {
        if self.entries.get(key.slot as usize).is_some_and(|entry| entry.order == key.order) {
            self.unlink(key.slot);
            self.entries.remove(key.slot as usize);
        }
    }

    /// Moves the clock on and takes out all that falls due up to and including `now`, in order.
    pub(crate) fn advance(&mut self, now: u64, due: &mut Vec<T>) {
        assert!(now >= self.now, "time never goes back");
        let mut found: Vec<(u64, u64, T)> = Vec::new();
        while let Some((tick, level, slot)) = self.first_slot().filter(|(tick, ..)| *tick <= now) {
            self.now = self.now.max(tick);
            let mut key = core::mem::replace(&mut self.levels[level][slot], NONE);
            self.occupied[level] &= !(1 << slot);
            while key != NONE {
                let next = self.entries[key as usize].next;
                if self.entries[key as usize].deadline <= now {
                    let entry = self.entries.remove(key as usize);
                    found.push((entry.deadline, entry.order, entry.what));
                } else {
                    self.link(key);
                }
                key = next;
            }
        }
        self.now = now;
        found.sort_unstable_by_key(|(deadline, order, _)| (*deadline, *order));
        due.extend(found.into_iter().map(|(_, _, what)| what));
    }

    /// A time before which nothing falls due; `None` if there is nothing at all.
    pub(crate) fn next(&self) -> Option<u64> {
        self.first_slot().map(|(tick, ..)| tick)
    }

    /// The occupied slot that comes first, with the time at which it begins.
    fn first_slot(&self) -> Option<(u64, usize, usize)> {
        (0..LEVELS)
            .filter_map(|level| {
                let shift = SLOT_BITS * level as u32;
                let current = (self.now >> shift) as u32 & (SLOTS as u32 - 1);
                // Slots from the current one on lie ahead in this round, those before it in the next.
                let turned = self.occupied[level].rotate_right(current);
                if turned == 0 {
                    return None;
                }
                let ahead = u64::from(turned.trailing_zeros());
                let tick = ((self.now >> shift) + ahead) << shift;
                Some((tick, level, (current as usize + ahead as usize) % SLOTS))
            })
            .min()
    }

    fn link(&mut self, key: u32) {
        let deadline = self.entries[key as usize].deadline.max(self.now);
        let distance = deadline ^ self.now;
        let level = ((63 - (distance | 1).leading_zeros()) / SLOT_BITS) as usize;
        let (level, slot) = if level < LEVELS {
            (level, (deadline >> (SLOT_BITS * level as u32)) as usize % SLOTS)
        } else {
            // In a later round of the wheel: the slot of the top level where it lies, or the last one if it lies further.
            let top = SLOT_BITS * (LEVELS as u32 - 1);
            let ahead = ((deadline >> top) - (self.now >> top)).min(SLOTS as u64 - 1);
            (LEVELS - 1, (((self.now >> top) + ahead) % SLOTS as u64) as usize)
        };
        let head = self.levels[level][slot];
        let entry = &mut self.entries[key as usize];
        (entry.level, entry.slot, entry.previous, entry.next) = (level as u8, slot as u8, NONE, head);
        if head != NONE {
            self.entries[head as usize].previous = key;
        }
        self.levels[level][slot] = key;
        self.occupied[level] |= 1 << slot;
    }

    fn unlink(&mut self, key: u32) {
        let entry = &self.entries[key as usize];
        let (level, slot, previous, next) = (entry.level as usize, entry.slot as usize, entry.previous, entry.next);
        if previous == NONE {
            self.levels[level][slot] = next;
        } else {
            self.entries[previous as usize].next = next;
        }
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        if self.levels[level][slot] == NONE {
            self.occupied[level] &= !(1 << slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use proptest::prelude::*;

    proptest! {
        /// Against a sorted map: the same entries fall due at the same times in the same order.
        #[test]
        fn agrees_with_a_sorted_map(steps in proptest::collection::vec((0u8..3, any::<u64>(), 0u32..44), 1..200)) {
            let mut index = TimeIndex::new();
            let mut model = BTreeMap::new();
            let mut keys = Vec::new();
            let mut now = 0;
            for (n, (kind, value, shift)) in steps.into_iter().enumerate() {
                let distance = value >> (20 + shift);
                match kind {
                    0 => {
                        let deadline = now + distance;
                        keys.push((index.insert(deadline, n), (deadline, n)));
                        model.insert((deadline, n), ());
                    }
                    1 if !keys.is_empty() => {
                        let (key, entry) = keys.swap_remove(value as usize % keys.len());
                        index.remove(key);
                        model.remove(&entry);
                    }
                    _ => {
                        now += distance;
                        let mut due = Vec::new();
                        index.advance(now, &mut due);
                        let later = model.split_off(&(now + 1, 0));
                        let expected: Vec<usize> = core::mem::replace(&mut model, later).into_keys().map(|k| k.1).collect();
                        prop_assert_eq!(due, expected);
                        keys.retain(|(_, entry)| entry.0 > now);
                    }
                }
                prop_assert_eq!(index.len(), model.len());
                let first = model.first_key_value().map(|((deadline, _), ())| *deadline);
                prop_assert!(index.next().is_some() == first.is_some());
                prop_assert!(index.next().unwrap_or(0) <= first.unwrap_or(0).max(now));
            }
        }
    }
}
