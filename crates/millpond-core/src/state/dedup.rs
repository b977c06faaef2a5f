//! Dedup ids that were seen, by hash. They live apart from topics, and outlive them.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use hashbrown::HashMap;
use millpond_types::{MessageId, Millis, WallTime};

use crate::fact::NamespaceNumber;
use crate::state::hash::FixedState;

/// Remembered for ever.
pub(crate) const FOREVER: WallTime = WallTime::NEVER;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dedup {
    pub(crate) namespace: NamespaceNumber,
    pub(crate) id: MessageId,
    pub(crate) until: WallTime,
}

#[derive(Clone, Default)]
pub(crate) struct Dedups {
    entries: HashMap<u128, Dedup, FixedState>,
    /// Per window, in the order of insertion, which is that of forgetting. Windows are few: one a policy.
    queues: BTreeMap<Millis, VecDeque<(WallTime, u128)>>,
}

impl Dedups {
    pub(crate) fn get(&self, hash: u128, now: WallTime) -> Option<Dedup> {
        self.entries.get(&hash).copied().filter(|entry| entry.until > now)
    }

    /// `window` is how long the entry is remembered in all; entries of one window come in the order of their ends.
    pub(crate) fn insert(&mut self, hash: u128, entry: Dedup, window: Millis) {
        if entry.until != FOREVER {
            self.queues.entry(window).or_default().push_back((entry.until, hash));
        }
        self.entries.insert(hash, entry);
    }

    /// A message has another id: its dedup id follows it, and is forgotten when it would have been.
    pub(crate) fn follow(&mut self, hash: u128, entry: Dedup) {
        let before = self.entries.insert(hash, entry);
        assert!(before.is_some_and(|before| before.until == entry.until), "what is followed is remembered");
    }

    pub(crate) fn remove(&mut self, hash: u128) {
        self.entries.remove(&hash);
    }

    /// The dedup ids of a namespace go with it: one of the same name that is made later has seen nothing.
    pub(crate) fn remove_namespace(&mut self, namespace: NamespaceNumber) {
        self.entries.retain(|_, entry| entry.namespace != namespace);
    }

    /// Lets go of what has passed its time. Changes nothing that can be seen.
    pub(crate) fn sweep(&mut self, now: WallTime) {
        for queue in self.queues.values_mut() {
            while let Some((until, hash)) = queue.front().copied().filter(|(until, _)| *until <= now) {
                queue.pop_front();
                if self.entries.get(&hash).is_some_and(|entry| entry.until == until) {
                    self.entries.remove(&hash);
                }
            }
        }
        self.queues.retain(|_, queue| !queue.is_empty());
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
