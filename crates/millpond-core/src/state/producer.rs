//! Producer sessions: what makes a publish that is repeated after a lost connection harmless.
//!
//! Those used last are in memory, all others are entries of the store. One that has changed since its entry was put or
//! taken in is captured by a checkpoint, before it changes again, and put when it leaves memory; one that has not leaves
//! without a trace. A forgotten one counts as absent, and the disk drops it when it compacts.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::mem::size_of;

use millpond_types::limits::{PRODUCER_EXPIRY, PRODUCER_WINDOW};
use millpond_types::{ProducerId, WallTime};

use crate::fact::{Epoch, NamespaceNumber};
use crate::outcomes::Outcomes;
use crate::page::{Page, ProducerPage};
use crate::state::State;
use crate::state::stored::Layer;
use crate::store::{Key, Want};

/// Sessions in memory at most: more producers than publish at a time, so that they do not take turns on the disk.
const PRODUCERS_RESIDENT: usize = 4096;
/// Bytes that they take at most where nobody says: 4 KiB each, which is 64 batches of a few dozen topics.
const PRODUCERS_BYTES: usize = PRODUCERS_RESIDENT * 4096;
/// Bytes that a session takes beside its batches, and a batch beside its outcomes.
const SESSION_BYTES: usize = 2 * size_of::<(ProducerKey, Producer)>();
const BATCH_BYTES: usize = size_of::<Outcomes>() + 32;

/// What a session is found by.
pub(crate) type ProducerKey = (NamespaceNumber, ProducerId);

/// The sessions in memory.
pub(crate) struct Producers {
    sessions: BTreeMap<ProducerKey, Producer>,
    /// In the order of their last use.
    order: BTreeMap<u64, ProducerKey>,
    uses: u64,
    bytes: usize,
    /// How many may be here at a turn's end.
    pub(crate) resident_max: usize,
    /// And how many bytes they may take then.
    pub(crate) room: usize,
}

pub(crate) struct Producer {
    pub(crate) instance: u32,
    pub(crate) used: WallTime,
    /// The number of the last batch; zero before the first.
    pub(crate) last: u64,
    /// What was told of the last batches, in order, that of the last one at the end.
    batches: VecDeque<Outcomes>,
    /// The epoch of the last change since the entry was put or taken in; `None` if the entry is as the session is.
    changed: Option<Epoch>,
    /// Its place in the order of use.
    place: u64,
}

impl Default for Producers {
    fn default() -> Producers {
        let (sessions, order) = (BTreeMap::new(), BTreeMap::new());
        Producers { sessions, order, uses: 0, bytes: 0, resident_max: PRODUCERS_RESIDENT, room: PRODUCERS_BYTES }
    }
}

impl Producers {
    pub(crate) fn get(&self, key: &ProducerKey) -> Option<&Producer> {
        self.sessions.get(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&ProducerKey, &Producer)> {
        self.sessions.iter()
    }

    /// How many there are, and about how many bytes they take.
    pub(crate) fn resident(&self) -> (usize, usize) {
        (self.sessions.len(), self.bytes)
    }

    /// Those that a checkpoint has to capture.
    pub(crate) fn changed(&self) -> Vec<ProducerKey> {
        self.sessions.iter().filter(|(_, session)| session.changed.is_some()).map(|(key, _)| *key).collect()
    }

    /// What has changed has done so in this epoch.
    pub(crate) fn change_in(&mut self, epoch: Epoch) {
        self.sessions.values_mut().for_each(|session| session.changed = session.changed.map(|_| epoch));
    }

    /// The session that was not used for longest, if there are more than there should be.
    fn one_too_many(&self) -> Option<ProducerKey> {
        let is_crowded = self.sessions.len() > self.resident_max || self.bytes > self.room;
        self.order.first_key_value().map(|(_, key)| *key).filter(|_| is_crowded)
    }

    fn insert(&mut self, key: ProducerKey, mut session: Producer) {
        session.place = self.uses;
        self.uses += 1;
        self.order.insert(session.place, key);
        self.bytes += session.weight();
        let before = self.sessions.insert(key, session);
        assert!(before.is_none(), "a session is in memory once");
    }

    fn remove(&mut self, key: &ProducerKey) -> Option<Producer> {
        let session = self.sessions.remove(key)?;
        self.order.remove(&session.place);
        self.bytes -= session.weight();
        Some(session)
    }
}

impl Producer {
    fn new(instance: u32) -> Producer {
        Producer { instance, used: WallTime(0), last: 0, batches: VecDeque::new(), changed: None, place: 0 }
    }

    fn of(page: ProducerPage) -> Producer {
        let ProducerPage { namespace: _, id: _, instance, used, last, batches } = page;
        Producer { instance, used, last, batches: batches.into(), changed: None, place: 0 }
    }

    pub(crate) fn page(&self, (namespace, id): ProducerKey) -> ProducerPage {
        let (instance, used, last) = (self.instance, self.used, self.last);
        ProducerPage { namespace, id, instance, used, last, batches: self.batches.iter().cloned().collect() }
    }

    /// What was told of a batch, if that is still known.
    pub(crate) fn outcomes(&self, sequence: u64) -> Option<&Outcomes> {
        let back = usize::try_from(self.last.checked_sub(sequence)?).ok()?;
        self.batches.get(self.batches.len().checked_sub(back + 1)?)
    }

    fn push(&mut self, sequence: u64, outcomes: Outcomes) {
        assert_eq!(sequence, self.last + 1, "batches follow one by one");
        if self.batches.len() == PRODUCER_WINDOW {
            self.batches.pop_front();
        }
        self.last = sequence;
        self.batches.push_back(outcomes);
    }

    pub(crate) fn is_forgotten(&self, now: WallTime) -> bool {
        is_forgotten(self.used, now)
    }

    fn weight(&self) -> usize {
        self.batches.iter().map(|batch| BATCH_BYTES + batch.as_bytes().len()).sum::<usize>() + SESSION_BYTES
    }
}

/// Whether a session that was last used at that time counts as absent.
pub(crate) fn is_forgotten(used: WallTime, now: WallTime) -> bool {
    used + PRODUCER_EXPIRY <= now
}

impl State {
    /// Sees to it that a session is in memory, if there is one; an error tells that it has to be fetched.
    pub(crate) fn bring_producer(&mut self, key: ProducerKey) -> Result<(), Want> {
        if self.producers.get(&key).is_some() {
            return Ok(());
        }
        match self.entry(&entry(key))?.map(|page| *page) {
            Some(Page::Producer(page)) => self.take_in_producer(page),
            Some(other) => panic!("under the key of a producer session stands {other:?}"),
            None => {}
        }
        Ok(())
    }

    /// Takes a session into memory, unless it is there.
    pub(crate) fn take_in_producer(&mut self, page: ProducerPage) {
        let key = (page.namespace, page.id);
        if self.producers.get(&key).is_none() {
            self.producers.insert(key, Producer::of(page));
        }
    }

    /// A batch of a session was decided. The first one begins it, whatever was known of an earlier one.
    pub(crate) fn producer_batch(
        &mut self,
        key: ProducerKey,
        (instance, sequence): (u32, u64),
        at: WallTime,
        outcomes: &Outcomes,
    ) {
        if sequence > 1 {
            self.bring_producer(key).expect("what a fact needs is fetched before it is applied");
        } else if let Some(replayed) = &mut self.replayed {
            replayed.begun.remove(&key);
        }
        self.capture_producer(key);
        let known = self.producers.remove(&key).filter(|_| sequence > 1);
        let mut session = known.unwrap_or_else(|| Producer::new(instance));
        assert_eq!(session.instance, instance, "an instance begins with batch 1");
        (session.used, session.changed) = (at, Some(self.epoch));
        session.push(sequence, outcomes.clone());
        self.producers.insert(key, session);
    }

    /// Captures a session that the checkpoint in progress has still to capture.
    pub(crate) fn capture_producer(&mut self, key: ProducerKey) {
        let session = self.producers.get(&key);
        if session.and_then(|session| session.changed).is_some_and(|epoch| epoch < self.epoch) {
            self.write_producer(key, Layer::Frozen);
        }
    }

    /// Lets the sessions leave memory that were not used for longest, until the others have room.
    pub(crate) fn let_producers_leave(&mut self) {
        while let Some(key) = self.producers.one_too_many() {
            self.capture_producer(key);
            if self.producers.sessions[&key].changed.is_some() {
                self.write_producer(key, Layer::Young);
            }
            self.producers.remove(&key);
        }
    }

    /// The sessions of a namespace go with it, but for those that belong to the checkpoint in progress.
    pub(crate) fn remove_producers(&mut self, namespace: NamespaceNumber) {
        let all = (namespace, ProducerId(0))..=(namespace, ProducerId(u128::MAX));
        let keys: Vec<ProducerKey> = self.producers.sessions.range(all).map(|(key, _)| *key).collect();
        for key in keys {
            self.capture_producer(key);
            self.producers.remove(&key);
        }
    }

    fn write_producer(&mut self, key: ProducerKey, layer: Layer) {
        let session = self.producers.sessions.get_mut(&key).expect("only what is in memory is written");
        session.changed = None;
        let page = Page::Producer(session.page(key));
        self.drop_fetched(&entry(key));
        self.write(layer, &entry(key), Some(&page));
    }
}

fn entry((namespace, id): ProducerKey) -> Key {
    Key::Producer { namespace, id }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::MemoryStore;
    use alloc::boxed::Box;

    #[test]
    fn the_session_that_was_not_used_for_longest_leaves_and_comes_back() {
        let mut state = State::new([0, 0], Box::new(MemoryStore::default()));
        state.producers.resident_max = 2;
        let key = |id| (0, ProducerId(id));
        let batch = |state: &mut State, id, sequence| {
            state.producer_batch(key(id), (1, sequence), WallTime(0), &Outcomes::new(&[]));
            state.let_producers_leave();
        };
        for (id, sequence) in [(1, 1), (2, 1), (1, 2), (3, 1)] {
            batch(&mut state, id, sequence);
        }
        let resident = |state: &State| state.producers.iter().map(|((_, id), _)| id.0).collect::<Vec<_>>();
        assert_eq!(resident(&state), [1, 3]);
        batch(&mut state, 2, 2);
        assert_eq!(resident(&state), [2, 3]);
        assert_eq!(state.producers.get(&key(2)).map(|session| session.last), Some(2));
        state.remove_producers(0);
        assert_eq!((state.producers.order.len(), state.producers.bytes), (0, 0));
    }

    #[test]
    fn sessions_take_no_more_than_their_room_and_all_come_back() {
        let mut state = State::new([0, 0], Box::new(MemoryStore::default()));
        state.producers.room = 64 * 1024;
        let key = |id| (0, ProducerId(id));
        for (id, sequence) in (1..=200).flat_map(|id| (1..=4).map(move |sequence| (id, sequence))) {
            state.producer_batch(key(id), (1, sequence), WallTime(0), &Outcomes::new(&[]));
            state.let_producers_leave();
            assert!(state.producers.bytes <= 64 * 1024, "{} bytes", state.producers.bytes);
        }
        assert!((10..200).contains(&state.producers.sessions.len()), "{} stay", state.producers.sessions.len());
        for id in 1..=200 {
            state.bring_producer(key(id)).unwrap();
            assert_eq!(state.producers.get(&key(id)).map(|session| session.last), Some(4), "{id}");
        }
    }

    #[test]
    fn a_forgotten_session_was_not_used_for_a_week() {
        let week = WallTime(1) + PRODUCER_EXPIRY;
        assert!(is_forgotten(WallTime(1), week) && !is_forgotten(WallTime(2), week));
    }
}
