//! Dedup ids that were seen, by hash. They live apart from topics, and outlive them.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hashbrown::HashMap;
use millpond_types::{MessageId, WallTime};

use crate::state::hash::FixedState;

/// Remembered for ever.
pub(crate) const FOREVER: WallTime = WallTime(u64::MAX);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dedup {
    pub(crate) id: MessageId,
    pub(crate) until: WallTime,
}

#[derive(Clone, Default)]
pub(crate) struct Dedups {
    entries: HashMap<u128, Dedup, FixedState>,
    /// In the order of insertion, which is nearly that of forgetting: an entry waits for those before it, and that
    /// costs memory only, for what has passed its time is not found any more.
    queue: VecDeque<(WallTime, u128)>,
}

impl Dedups {
    pub(crate) fn get(&self, hash: u128, now: WallTime) -> Option<Dedup> {
        self.entries.get(&hash).copied().filter(|entry| entry.until > now)
    }

    pub(crate) fn insert(&mut self, hash: u128, entry: Dedup) {
        if entry.until != FOREVER {
            self.queue.push_back((entry.until, hash));
        }
        self.entries.insert(hash, entry);
    }

    /// A message has another id: its dedup id follows it.
    pub(crate) fn follow(&mut self, hash: u128, from: MessageId, to: MessageId) {
        if let Some(entry) = self.entries.get_mut(&hash).filter(|entry| entry.id == from) {
            entry.id = to;
        }
    }

    pub(crate) fn remove(&mut self, hash: u128) {
        self.entries.remove(&hash);
    }

    /// Lets go of what has passed its time. Changes nothing that can be seen.
    pub(crate) fn sweep(&mut self, now: WallTime) {
        while let Some((until, hash)) = self.queue.front().copied().filter(|(until, _)| *until <= now) {
            self.queue.pop_front();
            if self.entries.get(&hash).is_some_and(|entry| entry.until == until) {
                self.entries.remove(&hash);
            }
        }
    }

    /// All that is remembered, in the order of forgetting.
    #[expect(clippy::disallowed_methods, reason = "sorted at once")]
    pub(crate) fn in_order(&self, now: WallTime) -> Vec<(u128, Dedup)> {
        let known = self.entries.iter().map(|(hash, entry)| (*hash, *entry));
        let mut known: Vec<_> = known.filter(|(_, entry)| entry.until > now).collect();
        known.sort_unstable_by_key(|(hash, entry)| (entry.until, *hash));
        known
    }
}
