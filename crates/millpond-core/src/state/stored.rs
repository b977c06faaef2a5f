//! Topics and their entries in the store: when an entry is put, captured and removed, and what a topic in memory knows
//! of it.
//!
//! Invariant: a topic that has not changed since its entry was put or loaded is what its entry says. [`State::will_change`]
//! is called before every fact about a topic, so nothing changes a topic behind its entry's back, nor behind that of a
//! checkpoint which has still to capture it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;
use millpond_types::{RunTime, TopicName, TopicNumber, WallTime};

use crate::fact::{Epoch, Fact, GroupNumber, NamespaceNumber};
use crate::page::{AsideState, DuePage, LevelPage, NamespacePage, Page, TopicPage};
use crate::state::hash::{FixedState, Hashes};
use crate::state::producer::ProducerKey;
use crate::state::topic::{AsideWhy, Topic, Touched};
use crate::state::{State, TopicSlot};
use crate::store::{Clock, Key, Moment, Shelf};

/// What a topic in memory knows of its entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Stored {
    /// Where the entry is, stale or not; `None` if the store has none.
    pub(crate) shelf: Option<Shelf>,
    /// The moments of the [`Page::Due`]s that go with the entry.
    pub(crate) due: Dues,
    /// The epoch of the first change since the entry was put or loaded; `None` if the entry is as the topic is.
    pub(crate) changed: Option<Epoch>,
    /// The epoch in which the topic last came into being or was recalled.
    pub(crate) epoch: Epoch,
}

/// The first moments at which time changes a topic, by each clock; [`NEVER`] for none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Dues {
    wall: u64,
    run: u64,
}

const NEVER: u64 = u64::MAX;

/// As one topic more, so many runs count that the store is given.
pub(crate) const RUNS_OF_ONE: usize = 32;

/// A checkpoint that is being captured.
pub(crate) struct Capture {
    /// Topics that had changed when it began. Those that have been captured since are skipped.
    topics: Vec<(TopicSlot, TopicNumber)>,
    /// Producer sessions, likewise.
    producers: Vec<ProducerKey>,
    /// As they were when it began. Where their topics stand is known when all are captured.
    namespaces: BTreeMap<NamespaceNumber, NamespacePage>,
}

/// Where the entry of a topic is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) group: GroupNumber,
    pub(crate) shelf: Shelf,
    pub(crate) name: TopicName,
}

/// Those of the topics of one number.
struct Places {
    one: Place,
    /// Nearly always empty.
    others: Vec<Place>,
}

/// While facts are replayed: what their names stand for.
#[derive(Default)]
pub(crate) struct Replayed {
    /// Where the topics are whose numbers facts may still name.
    places: HashMap<TopicNumber, Places, FixedState>,
    /// Producer sessions that begin in the facts that are about to be applied.
    pub(crate) begun: BTreeSet<ProducerKey>,
    /// Whether an epoch has begun among the facts behind the checkpoint.
    has_passed_epoch: bool,
}

/// The layer of the store that an entry goes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer {
    Young,
    Frozen,
}

impl State {
    /// A topic is about to change. A checkpoint that has not captured it yet does so now.
    pub(crate) fn will_change(&mut self, slot: TopicSlot) {
        let stored = self.topics[slot].stored;
        if stored.changed == Some(self.epoch) {
            return;
        }
        if stored.changed.is_some() {
            self.write_entry(slot, Layer::Frozen);
        }
        let topic = &mut self.topics[slot];
        topic.stored.changed = Some(self.epoch);
        self.changed.push((slot, topic.number));
    }

    /// The fact that has to come before the first one about a topic in an epoch: in one group, or in any of them.
    pub(crate) fn recall(&self, number: TopicNumber, group: Option<GroupNumber>) -> Option<Fact> {
        let is_known = |slot: &TopicSlot| self.topics[*slot].stored.epoch == self.epoch;
        let is_ending = |slot: &TopicSlot| self.groups[self.topics[*slot].group].is_ending;
        let slot = match group {
            Some(group) => Some(self.slot(number, group)).filter(|slot| !is_known(slot)),
            None => self.topics.siblings(number).find(|slot| !is_known(slot) && !is_ending(slot)),
        };
        let topic = &self.topics[slot?];
        // What has changed and is of an earlier epoch is still to be captured, as it is.
        let shelf = topic.stored.shelf.filter(|_| topic.stored.changed.is_none()).unwrap_or_else(|| topic.shelf());
        let Topic { group, namespace, .. } = *topic;
        Some(Fact::TopicRecalled { topic: number, group, namespace, name: topic.name.clone(), shelf })
    }

    /// Begins a checkpoint: what follows belongs to the next epoch.
    pub(crate) fn freeze(&mut self) {
        assert!(self.capture.is_none(), "one checkpoint at a time");
        assert!(self.gone.is_empty(), "the store knows of all that has vanished before");
        self.store.freeze();
        self.epoch += 1;
        self.replayed.iter_mut().for_each(|replayed| replayed.has_passed_epoch = false);
        self.store.capture(&Key::Numbers, &Page::Numbers(self.numbers_page()));
        let namespaces =
            self.namespaces.iter().map(|(number, namespace)| (number, namespace.page(number, &self.groups)));
        let namespaces = namespaces.collect();
        // As many will change again, and a list that grows is copied, with the topics of a turn waiting.
        let as_many = Vec::with_capacity(self.changed.len());
        let (topics, producers) = (core::mem::replace(&mut self.changed, as_many), self.producers.changed());
        self.capture = Some(Capture { topics, producers, namespaces });
    }

    /// The facts are replayed. Where an epoch has begun among them, the next one begins here: whoever replays them again may
    /// begin there, and has to be told anew of each topic that changes from here on.
    pub(crate) fn end_replay(&mut self) {
        let replayed = self.replayed.take();
        if !replayed.is_some_and(|replayed| replayed.has_passed_epoch) {
            return;
        }
        assert!(self.capture.is_none(), "a checkpoint is complete before the replay goes on");
        self.epoch += 1;
        for (slot, number) in &self.changed {
            let topic = self.topics.get_mut(*slot).filter(|topic| topic.number == *number);
            topic.into_iter().for_each(|topic| topic.stored.changed = topic.stored.changed.map(|_| self.epoch));
        }
        self.producers.change_in(self.epoch);
    }

    /// Goes on with a checkpoint for at most so many topics and producer sessions, or fewer topics that hold much. True if
    /// it is complete.
    pub(crate) fn capture(&mut self, topics: usize) -> bool {
        let mut captured = 0;
        while captured < topics {
            captured += 1;
            let capture = self.capture.as_mut().expect("a checkpoint was begun");
            let Some((slot, number)) = capture.topics.pop() else {
                if let Some(key) = capture.producers.pop() {
                    self.capture_producer(key);
                    continue;
                }
                let namespaces = self.capture.take().expect("a checkpoint was begun").namespaces;
                for (number, page) in namespaces {
                    self.store.capture(&Key::Namespace(number), &Page::Namespace(page.into()));
                }
                self.store.seal();
                return true;
            };
            let topic = self.topics.get(slot).filter(|topic| topic.number == number);
            if topic.and_then(|topic| topic.stored.changed).is_some_and(|epoch| epoch < self.epoch) {
                captured += self.write_entry(slot, Layer::Frozen) / RUNS_OF_ONE;
            }
        }
        false
    }

    /// Takes a topic into memory, from its entry on a shelf, unless it is there.
    pub(crate) fn take_in(&mut self, page: TopicPage, shelf: Shelf) -> Option<TopicSlot> {
        let hashes = Hashes::of(self.hash_key, page.group, &page.name);
        if self.topics.find_hashed(hashes.name, page.group, &page.name).is_some() {
            return None;
        }
        let due = page.dues(shelf);
        let stored = Stored { shelf: Some(shelf), due, changed: None, epoch: page.epoch };
        let home = &mut self.groups[page.group];
        home.cold[shelf.index()] -= 1;
        self.cold -= 1;
        let (group, counts) = (page.group, home.counts);
        let slot = self.admit_page(page, hashes, stored);
        // Its messages were counted all the while.
        self.groups[group].counts = counts;
        self.topics[slot].touched = Touched::Came;
        Some(slot)
    }

    /// Puts a topic that is about to leave memory on its shelf, and disarms what time would do to it. What its entry does not
    /// say of it is put there before. Returns how many runs and pieces that tells of, too.
    pub(crate) fn shelve(&mut self, slot: TopicSlot) -> (Shelf, usize) {
        let told = match self.topics[slot].stored.changed {
            None => 0,
            Some(epoch) if epoch == self.epoch => self.write_entry(slot, Layer::Young),
            Some(_) => self.write_entry(slot, Layer::Frozen),
        };
        let topic = &self.topics[slot];
        for level in &topic.levels {
            level.expiries.values().for_each(|expiry| self.wall_timers.remove(expiry.timer));
            level.line.timers().for_each(|timer| self.piece_timers.wall.remove(timer));
            self.piece_timers.disarm_resting(level);
            for aside in level.aside.values() {
                match aside.state {
                    AsideWhy::Delayed { timer, .. } => self.wall_timers.remove(timer),
                    AsideWhy::Retrying { timer, .. } => self.run_timers.remove(timer),
                    AsideWhy::Ready { .. } | AsideWhy::Leased(_) => {}
                }
            }
        }
        let shelf = topic.stored.shelf.expect("a topic that leaves has an entry");
        let group = topic.group;
        self.groups[group].cold[shelf.index()] += 1;
        self.cold += 1;
        if let Some(replayed) = &mut self.replayed {
            replayed.put(topic.number, Place { group, shelf, name: topic.name.clone() });
        }
        (shelf, told)
    }

    /// A topic is gone, and so is its entry.
    pub(crate) fn remove_topic_entry(&mut self, slot: TopicSlot) {
        let topic = &self.topics[slot];
        let Some(shelf) = topic.stored.shelf else { return };
        let (group, name) = (topic.group, topic.name.clone());
        for at in topic.stored.due.moments() {
            self.gone.push(Key::Due { at, group, name: name.clone() });
        }
        self.gone.push(Key::Topic { group, shelf, name });
        self.groups[group].shelves[shelf.index()] -= 1;
    }

    /// Tells the store of the topics that have vanished, before anything else looks for them there.
    pub(crate) fn forget_gone(&mut self) {
        if !self.gone.is_empty() {
            self.store.remove_all(&self.gone);
            self.gone.clear();
        }
    }

    /// Makes the entry of a topic what the topic is. Returns how many runs and pieces it tells of.
    fn write_entry(&mut self, slot: TopicSlot, layer: Layer) -> usize {
        let topic = &self.topics[slot];
        let (before, shelf, group, name) = (topic.stored, topic.shelf(), topic.group, topic.name.clone());
        let page = self.topic_page(slot);
        let told = page.levels.iter().map(LevelPage::runs_and_pieces).sum();
        let due = page.dues(shelf);
        if (before.due, before.shelf) != (due, Some(shelf)) {
            for at in before.due.moments() {
                self.write(layer, &Key::Due { at, group, name: name.clone() }, None);
            }
            for at in due.moments() {
                let page = Page::Due(DuePage { at, group, name: name.clone(), shelf });
                self.write(layer, &Key::Due { at, group, name: name.clone() }, Some(&page));
            }
        }
        if before.shelf != Some(shelf) {
            self.count_entry(layer, group, before.shelf, shelf);
            if let Some(shelf) = before.shelf {
                self.write(layer, &Key::Topic { group, shelf, name: name.clone() }, None);
            }
        }
        self.write(layer, &Key::Topic { group, shelf, name }, Some(&Page::Topic(page)));
        let stored = &mut self.topics[slot].stored;
        *stored = Stored { shelf: Some(shelf), due, changed: None, epoch: stored.epoch };
        told
    }

    fn count_entry(&mut self, layer: Layer, group: GroupNumber, before: Option<Shelf>, after: Shelf) {
        let home = &mut self.groups[group];
        let capture = self.capture.as_mut().filter(|_| layer == Layer::Frozen);
        let captured = capture.map(|capture| {
            let page = capture.namespaces.get_mut(&home.namespace);
            let page = page.and_then(|page| page.groups.iter_mut().find(|page| page.number == group));
            &mut page.expect("a topic was captured with its group").shelves
        });
        for shelves in [Some(&mut home.shelves), captured].into_iter().flatten() {
            if let Some(before) = before {
                shelves[before.index()] -= 1;
            }
            shelves[after.index()] += 1;
        }
    }

    pub(super) fn write(&mut self, layer: Layer, key: &Key, page: Option<&Page>) {
        match (layer, page) {
            (Layer::Young, Some(page)) => self.store.put(key, page),
            (Layer::Young, None) => self.store.remove(key),
            (Layer::Frozen, Some(page)) => self.store.capture(key, page),
            (Layer::Frozen, None) => self.store.capture_removal(key),
        }
    }
}

impl Replayed {
    /// An epoch begins: from here on facts say anew where topics are.
    pub(crate) fn pass_epoch(&mut self) {
        self.places = HashMap::default();
        self.has_passed_epoch = true;
    }

    /// Where the topics of a number are.
    pub(crate) fn places(&self, number: TopicNumber) -> impl Iterator<Item = &Place> {
        let places = self.places.get(&number).into_iter();
        places.flat_map(|places| core::iter::once(&places.one).chain(&places.others))
    }

    /// A group's topic is there.
    pub(crate) fn put(&mut self, number: TopicNumber, place: Place) {
        match self.places.entry(number) {
            Entry::Vacant(entry) => _ = entry.insert(Places { one: place, others: Vec::new() }),
            Entry::Occupied(mut entry) => {
                let Places { one, others } = entry.get_mut();
                let known = core::iter::once(one).chain(&mut *others).find(|known| known.group == place.group);
                match known {
                    Some(known) => *known = place,
                    None => others.push(place),
                }
            }
        }
    }

    /// A group's topic is gone.
    pub(crate) fn remove(&mut self, number: TopicNumber, group: GroupNumber) {
        let Some(places) = self.places.get_mut(&number) else { return };
        places.others.retain(|place| place.group != group);
        if places.one.group == group {
            match places.others.pop() {
                Some(other) => places.one = other,
                None => _ = self.places.remove(&number),
            }
        }
    }
}

impl Default for Dues {
    fn default() -> Self {
        Dues { wall: NEVER, run: NEVER }
    }
}

impl Dues {
    pub(crate) fn moments(self) -> impl Iterator<Item = Moment> {
        let of = [(Clock::Wall, self.wall), (Clock::Run, self.run)];
        of.into_iter().filter(|(_, at)| *at != NEVER).map(|(clock, at)| Moment { clock, at })
    }
}

impl TopicPage {
    /// When time changes the topic on a shelf, if it is looked for then.
    fn dues(&self, shelf: Shelf) -> Dues {
        if shelf == Shelf::Busy {
            // It is loaded by every start, and stays.
            return Dues::default();
        }
        let is_ready = matches!(shelf, Shelf::Ready(_));
        let raise = self.age.and_then(|age| age.raise).filter(|_| is_ready);
        let refill = self.bucket.as_ref().and_then(|bucket| bucket.deadline(self.is_empty()));
        Dues {
            wall: self.levels.iter().filter_map(LevelPage::first_deadline).chain(raise).min().map_or(NEVER, |at| at.0),
            run: self.levels.iter().filter_map(LevelPage::first_retry).chain(refill).min().map_or(NEVER, |at| at.0),
        }
    }

    fn is_empty(&self) -> bool {
        let is_empty = |level: &LevelPage| {
            level.runs.is_empty() && level.stored.is_empty() && level.aside.is_empty() && level.resting.is_empty()
        };
        self.levels.iter().all(is_empty)
    }
}

impl LevelPage {
    fn runs_and_pieces(&self) -> usize {
        self.runs.len() + self.stored.len() + self.aside.len() + self.resting.len()
    }

    /// The first moment at which a delay or a TTL is over.
    fn first_deadline(&self) -> Option<WallTime> {
        let runs = self.runs.iter().filter_map(|run| run.expiry());
        let aside = self.aside.iter().flat_map(|aside| {
            let due = if let AsideState::Delayed { due } = aside.state { Some(due) } else { None };
            [due, aside.run.expiry()].into_iter().flatten()
        });
        let stored = self.stored.iter().filter_map(|piece| piece.expiry());
        let resting = self.resting.iter().map(|piece| piece.due.min(piece.expires));
        runs.chain(stored).chain(aside).chain(resting.filter(|at| *at != WallTime::NEVER)).min()
    }

    /// The first moment at which a back-off is over.
    fn first_retry(&self) -> Option<RunTime> {
        let aside = self.aside.iter().filter_map(|aside| match aside.state {
            AsideState::Retrying { due } => Some(due),
            _ => None,
        });
        aside.chain(self.resting.iter().filter_map(|piece| piece.retry)).min()
    }
}
