//! The one index of deadlines: a hierarchical timing wheel.
//!
//! Inserting and removing take constant time whatever the number of entries, and advancing costs what falls due plus a
//! bounded number of moves an entry. Seven levels of 64 slots of a millisecond at the lowest reach 139 years ahead;
//! what lies further stays in the last slot and is looked at again when that comes round. Entries that fall due
//! together come out in the order of their deadlines, and those of one deadline in an order that the caller says: not in
//! that of insertion, which depends on what was in memory when. What has fallen due is handed out bit by bit, for a
//! great deal may fall due at one moment, and may still be removed until it is.
//! After Varghese and Lauck, "Hashed and hierarchical timing wheels", 1987.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use slab::Slab;

const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
const LEVELS: usize = 7;
const NONE: u32 = u32::MAX;
/// Stands for the level of an entry that has fallen due, and is in no slot any more.
const DUE: u8 = LEVELS as u8;

/// Names an entry. Of no effect once the entry was removed or handed out.
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
    /// What has fallen due and was not handed out yet, in order.
    due: VecDeque<TimerKey>,
    /// What was in front of that and waits until it is let go, in order.
    held: VecDeque<TimerKey>,
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
        TimeIndex {
            entries: Slab::new(),
            levels: [[NONE; SLOTS]; LEVELS],
            occupied: [0; LEVELS],
            now: 0,
            inserted: 0,
            due: VecDeque::new(),
            held: VecDeque::new(),
        }
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

    /// Takes an entry out before it is handed out; does nothing if it is gone.
    pub(crate) fn remove(&mut self, key: TimerKey) {
        let entry = self.entries.get(key.slot as usize).filter(|entry| entry.order == key.order);
        if let Some(level) = entry.map(|entry| entry.level) {
            if level != DUE {
                self.unlink(key.slot);
            }
            self.entries.remove(key.slot as usize);
        }
    }

    /// When an entry falls due, if it is there.
    pub(crate) fn deadline(&self, key: TimerKey) -> Option<u64> {
        let entry = self.entries.get(key.slot as usize).filter(|entry| entry.order == key.order);
        entry.map(|entry| entry.deadline)
    }

    /// Moves the clock on. All that falls due up to and including `now` can be taken from here on; `place` is where an
    /// entry stands among those of the same deadline.
    pub(crate) fn advance<P: Ord>(&mut self, now: u64, place: impl Fn(&T) -> P) {
        assert!(now >= self.now, "time never goes back");
        let mut found: Vec<(u64, P, TimerKey)> = Vec::new();
        while let Some((tick, level, slot)) = self.first_slot().filter(|(tick, ..)| *tick <= now) {
            self.now = self.now.max(tick);
            let mut key = core::mem::replace(&mut self.levels[level][slot], NONE);
            self.occupied[level] &= !(1 << slot);
            while key != NONE {
                let next = self.entries[key as usize].next;
                let entry = &mut self.entries[key as usize];
                if entry.deadline <= now {
                    entry.level = DUE;
                    found.push((entry.deadline, place(&entry.what), TimerKey { slot: key, order: entry.order }));
                } else {
                    self.link(key);
                }
                key = next;
            }
        }
        self.now = now;
        found.sort_unstable_by(|(a, at, _), (b, bt, _)| (a, at).cmp(&(b, bt)));
        self.due.extend(found.into_iter().map(|(_, _, key)| key));
    }

    /// Takes out the next entry that has fallen due.
    pub(crate) fn take_due(&mut self) -> Option<T> {
        while let Some(key) = self.due.pop_front() {
            if self.entries.get(key.slot as usize).is_some_and(|entry| entry.order == key.order) {
                return Some(self.entries.remove(key.slot as usize).what);
            }
        }
        None
    }

    /// The next entry that has fallen due, which stays where it is.
    pub(crate) fn next_due(&mut self) -> Option<T> {
        while let Some(key) = self.due.front() {
            match self.entries.get(key.slot as usize).filter(|entry| entry.order == key.order) {
                Some(entry) => return Some(entry.what),
                None => _ = self.due.pop_front(),
            }
        }
        None
    }

    /// Holds the next entry that has fallen due: it is not handed out, and nobody is woken for it, until all that are held are
    /// [let go](TimeIndex::let_go). It may still be removed.
    pub(crate) fn hold_next_due(&mut self) {
        self.held.extend(self.due.pop_front());
    }

    /// What was held comes before all that fell due behind it.
    pub(crate) fn let_go(&mut self) {
        while let Some(key) = self.held.pop_back() {
            self.due.push_front(key);
        }
    }

    /// Whether anything is held, or was when it was removed.
    pub(crate) fn any_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// A time before which nothing falls due; `None` if there is nothing at all.
    pub(crate) fn next(&self) -> Option<u64> {
        if self.due.is_empty() { self.first_slot().map(|(tick, ..)| tick) } else { Some(self.now) }
    }

    /// The occupied slot that comes first, with the time at which it begins.
    fn first_slot(&self) -> Option<(u64, usize, usize)> {
        if self.entries.is_empty() {
            return None;
        }
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
    use core::cmp::Reverse;
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
                        keys.push((index.insert(deadline, n), (deadline, Reverse(n))));
                        model.insert((deadline, Reverse(n)), ());
                    }
                    1 if !keys.is_empty() => {
                        let (key, entry) = keys.swap_remove(value as usize % keys.len());
                        index.remove(key);
                        model.remove(&entry);
                    }
                    _ => {
                        now += distance;
                        // The later ones first, among those of one deadline.
                        index.advance(now, |n| Reverse(*n));
                        let later = model.split_off(&(now + 1, Reverse(usize::MAX)));
                        // Some of what has fallen due is removed before it is handed out.
                        let mut ready = core::mem::replace(&mut model, later);
                        for (key, entry) in keys.iter().filter(|(_, entry)| entry.0 <= now && entry.1.0 % 5 == 0) {
                            index.remove(*key);
                            ready.remove(entry);
                        }
                        let due: Vec<usize> = core::iter::from_fn(|| index.take_due()).collect();
                        prop_assert_eq!(due, ready.into_keys().map(|key| key.1.0).collect::<Vec<_>>());
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
