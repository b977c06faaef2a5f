//! Producer sessions: what makes a publish that is repeated after a lost connection harmless.

use alloc::collections::{BTreeMap, VecDeque};

use millpond_types::limits::{PRODUCER_EXPIRY, PRODUCER_WINDOW};
use millpond_types::{ProducerId, WallTime};

use crate::fact::NamespaceNumber;
use crate::outcomes::Outcomes;

/// What a session is found by.
pub(crate) type ProducerKey = (NamespaceNumber, ProducerId);

#[derive(Clone, Default)]
pub(crate) struct Producers {
    sessions: BTreeMap<ProducerKey, Producer>,
    /// Each session once, to be looked at again when it may be forgotten.
    queue: VecDeque<(WallTime, ProducerKey)>,
}

#[derive(Clone)]
pub(crate) struct Producer {
    pub(crate) instance: u32,
    pub(crate) used: WallTime,
    /// The number of the last batch; zero before the first.
    pub(crate) last: u64,
    /// What was told of the last batches, in order, that of the last one at the end.
    pub(crate) batches: VecDeque<Outcomes>,
}

impl Producers {
    pub(crate) fn get(&self, key: &ProducerKey) -> Option<&Producer> {
        self.sessions.get(key)
    }

    /// The session of a key, put there where it is not.
    pub(crate) fn get_or_insert(&mut self, key: ProducerKey, at: WallTime, new: Producer) -> &mut Producer {
        self.sessions.entry(key).or_insert_with(|| {
            self.queue.push_back((at, key));
            new
        })
    }

    /// The sessions of a namespace go with it.
    pub(crate) fn remove_namespace(&mut self, namespace: NamespaceNumber) {
        self.sessions.retain(|(of, _), _| *of != namespace);
    }

    /// Lets go of what is forgotten. Changes nothing that can be seen.
    pub(crate) fn sweep(&mut self, now: WallTime) {
        while let Some((_, key)) = self.queue.front().copied().filter(|(at, _)| *at + PRODUCER_EXPIRY <= now) {
            self.queue.pop_front();
            match self.sessions.get(&key) {
                Some(session) if session.is_forgotten(now) => _ = self.sessions.remove(&key),
                Some(_) => self.queue.push_back((now, key)),
                None => {}
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ProducerKey, &Producer)> {
        self.sessions.iter()
    }
}

impl Producer {
    pub(crate) fn new(instance: u32) -> Producer {
        Producer { instance, used: WallTime(0), last: 0, batches: VecDeque::new() }
    }

    /// What was told of a batch, if that is still known.
    pub(crate) fn outcomes(&self, sequence: u64) -> Option<&Outcomes> {
        let back = usize::try_from(self.last.checked_sub(sequence)?).ok()?;
        self.batches.get(self.batches.len().checked_sub(back + 1)?)
    }

    pub(crate) fn push(&mut self, sequence: u64, outcomes: Outcomes) {
        assert_eq!(sequence, self.last + 1, "batches follow one by one");
        if self.batches.len() == PRODUCER_WINDOW {
            self.batches.pop_front();
        }
        self.last = sequence;
        self.batches.push_back(outcomes);
    }

    pub(crate) fn is_forgotten(&self, now: WallTime) -> bool {
        self.used + PRODUCER_EXPIRY <= now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_sessions_are_let_go_of_and_busy_ones_stay() {
        let key = |id| (0, ProducerId(id));
        let mut producers = Producers::default();
        for id in [1, 2] {
            producers.get_or_insert(key(id), WallTime(0), Producer::new(1));
        }
        let week = WallTime(0) + PRODUCER_EXPIRY;
        producers.get_or_insert(key(2), week, Producer::new(1)).used = WallTime(1);
        producers.sweep(week);
        assert!(producers.get(&key(1)).is_none() && producers.get(&key(2)).is_some());
        producers.sweep(week + PRODUCER_EXPIRY);
        assert_eq!((producers.sessions.len(), producers.queue.len()), (0, 0));
    }
}
