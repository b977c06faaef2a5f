//! Between state and pages: what a checkpoint keeps of a topic, and what one that leaves memory is turned into. The whole
//! state as pages, and all its extents, are for those who inspect it: tests, and `millpond inspect`.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use millpond_types::{Counts, Priority, Sequence};

use crate::Core;
use crate::fact::GroupNumber;
use crate::output::Extent;
use crate::page::{
    AsidePage, AsideState, ExchangePage, GroupPage, LevelPage, NamespacePage, NumbersPage, Page, RunPage, StoredPiece,
    TopicPage,
};
use crate::state::ageing::Age;
use crate::state::bucket::Bucket;
use crate::state::group::Group;
use crate::state::hash::Hashes;
use crate::state::namespace::Namespace;
use crate::state::numbers::Numbers;
use crate::state::policies::Policies;
use crate::state::producer::is_forgotten;
use crate::state::stored::Stored;
use crate::state::topic::{Aside, AsideWhy, Left, Level, Past, Terms, Topic};
use crate::state::{Now, State, Timer, TopicSlot};
use crate::store::{Key, MemoryStore, SHELVES, Shelf};

/// Pages that are no state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadPage(pub &'static str);

impl fmt::Display for BadPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for BadPage {}

impl Core {
    /// The core of a checkpoint.
    pub fn from_pages(pages: impl IntoIterator<Item = Page>) -> Result<Core, BadPage> {
        let mut pages = pages.into_iter();
        let Some(Page::Numbers(numbers)) = pages.next() else {
            return Err(BadPage("a checkpoint begins with the numbers"));
        };
        let mut core = Core::empty(numbers.hash_key, Box::new(MemoryStore::default()));
        let state = &mut core.state;
        state.set_numbers(numbers);
        for page in pages {
            match page {
                Page::Namespace(page) => {
                    // Their topics and dead letters count themselves.
                    let (counts, topics, shelves) = (Counts::default(), 0, [0; SHELVES]);
                    let groups = page.groups.into_iter().map(|group| GroupPage { counts, topics, shelves, ..group });
                    state.add_namespace(NamespacePage { groups: groups.collect(), ..*page });
                }
                Page::Topic(page) => state.add_topic(page)?,
                Page::Exchange(page) if state.namespaces.get(page.namespace).is_none() => {
                    return Err(BadPage("an exchange's namespace comes before it"));
                }
                Page::Exchange(page) => {
                    state
                        .store
                        .put(&Key::of(&Page::Exchange(page.clone()), Shelf::Idle), &Page::Exchange(page.clone()));
                    state.add_exchange(*page);
                }
                Page::Piece(page) => {
                    state.store.put(&page.key(), &Page::Piece(page));
                }
                Page::Dead(page) if state.groups.get(page.group).is_none() => {
                    return Err(BadPage("a dead letter's group comes before it"));
                }
                Page::Dead(page) => state.put_dead(page),
                Page::Dedup(page) => state.remember(page),
                Page::Producer(page) => {
                    state.store.put(&Key::Producer { namespace: page.namespace, id: page.id }, &Page::Producer(page));
                }
                Page::Numbers(_) => return Err(BadPage("a checkpoint has the numbers once")),
                Page::Due(_) => return Err(BadPage("a checkpoint holds what it should not")),
            }
        }
        if state.namespaces.get(0).is_none() {
            return Err(BadPage("a checkpoint holds the namespace `default`"));
        }
        state.settle_touched();
        Ok(core)
    }

    /// The whole state, in an order that depends on nothing but the state.
    pub fn pages(&self) -> impl Iterator<Item = Page> {
        let state = &self.state;
        let mut topics: Vec<_> =
            state.topics.iter().map(|(slot, topic)| ((topic.number, topic.group), Ok(slot))).collect();
        let (mut pieces, mut dedups, mut dead) = (Vec::new(), Vec::new(), Vec::new());
        let mut producers = BTreeMap::new();
        for page in state.store.dump() {
            match page {
                Page::Topic(page) if self.is_cold(&page) => topics.push(((page.number, page.group), Err(page))),
                Page::Dedup(page) if page.until > state.now.wall => dedups.push(page),
                Page::Producer(page) => _ = producers.insert((page.namespace, page.id), page),
                Page::Piece(page) => pieces.push(Page::Piece(page)),
                Page::Dead(page) => dead.push(Page::Dead(page)),
                _ => {}
            }
        }
        topics.sort_unstable_by_key(|(key, _)| *key);
        let namespaces = state.namespaces.iter();
        let namespaces =
            namespaces.map(|(number, namespace)| Page::Namespace(Box::new(namespace.page(number, &state.groups))));
        let topics = topics.into_iter().map(|(_, topic)| topic.map_or_else(|cold| cold, |slot| state.topic_page(slot)));
        let topics = topics.map(Page::Topic);
        let first = core::iter::once(Page::Numbers(self.numbers()));
        producers.extend(state.producers.iter().map(|(key, session)| (*key, session.page(*key))));
        let is_known = |namespace| state.namespaces.get(namespace).is_some();
        let dedups = dedups.into_iter().filter(move |page| is_known(page.namespace)).map(Page::Dedup);
        let producers = producers.into_values();
        let producers =
            producers.filter(move |page| is_known(page.namespace) && !is_forgotten(page.used, state.now.wall));
        let producers = producers.map(Page::Producer);
        let exchanges: Vec<Page> = state
            .exchanges()
            .map(|(number, name, exchange)| Page::Exchange(Box::new(ExchangePage::of(number, name, exchange))))
            .collect();
        let others = first.chain(namespaces).chain(topics).chain(pieces).chain(dedups).chain(producers).chain(dead);
        others.chain(exchanges)
    }

    /// The topics that are not in memory.
    fn cold_topics(&self) -> impl Iterator<Item = TopicPage> {
        let entries = if self.state.cold == 0 { Vec::new() } else { self.state.store.dump() };
        entries.into_iter().filter_map(|page| match page {
            Page::Topic(page) if self.is_cold(&page) => Some(page),
            _ => None,
        })
    }

    fn is_cold(&self, page: &TopicPage) -> bool {
        self.state.topics.by_number(page.number, page.group).is_none()
    }

    /// The numbers and times.
    pub fn numbers(&self) -> NumbersPage {
        self.state.numbers_page()
    }

    /// Every piece of the journal that a message of the state still needs, for each group that needs it.
    pub fn extents(&self, visit: &mut dyn FnMut(GroupNumber, Extent)) {
        for (_, topic) in self.state.topics.iter() {
            for level in &topic.levels {
                level.line.runs().for_each(|run| visit(topic.group, run.extent()));
                level.aside.values().for_each(|aside| visit(topic.group, aside.run.extent()));
            }
        }
        for page in self.state.store.dump() {
            match page {
                Page::Piece(page) => page.runs().for_each(|run| visit(page.group, run.extent())),
                Page::Dead(page) => visit(page.group, page.run.extent()),
                _ => {}
            }
        }
        for page in self.cold_topics() {
            let aside = page.levels.iter().flat_map(|level| &level.aside).map(|aside| &aside.run);
            page.levels
                .iter()
                .flat_map(|level| &level.runs)
                .chain(aside)
                .for_each(|run| visit(page.group, run.extent()));
        }
    }
}

impl State {
    pub(crate) fn set_numbers(&mut self, page: NumbersPage) {
        let NumbersPage {
            hash_key: _,
            next_topic,
            next_namespace,
            next_group,
            high_water,
            epochs,
            raised,
            run,
            wall,
            epoch,
        } = page;
        (self.now, self.epoch) = (Now { run, wall }, epoch);
        self.numbers = Numbers { next_topic, next_namespace, next_group, high_water, epochs, raised };
    }

    /// A namespace, all of whose topics are in the store.
    pub(crate) fn add_namespace(&mut self, page: NamespacePage) {
        let mut namespace = Namespace::new(page.name, Policies::new(page.policy, page.rules, page.version));
        for pause in page.paused {
            self.note_pause_end(page.number, pause.clone());
            namespace.paused.insert(pause);
        }
        for group in page.groups {
            let list = if group.is_ending { &mut namespace.ending } else { &mut namespace.groups };
            list.push(group.number);
            self.cold += group.shelves.iter().sum::<u64>();
            self.groups.insert(group.number, Group::of_page(page.number, group));
        }
        self.namespaces.insert(page.number, namespace);
        self.set_up(self.weigh_setup_of(page.number));
    }

    pub(crate) fn numbers_page(&self) -> NumbersPage {
        let Numbers { next_topic, next_namespace, next_group, high_water, epochs, raised } = self.numbers;
        let (hash_key, epoch, Now { run, wall }) = (self.hash_key, self.epoch, self.now);
        NumbersPage { hash_key, next_topic, next_namespace, next_group, high_water, epochs, raised, run, wall, epoch }
    }

    pub(crate) fn topic_page(&self, slot: TopicSlot) -> TopicPage {
        let topic = &self.topics[slot];
        let levels = topic.levels.iter().map(|level| LevelPage {
            priority: level.priority,
            next: level.next,
            runs: level.line.runs().map(RunPage::compact).collect(),
            stored: level.line.stored_from(Sequence(0)).copied().collect(),
            aside: level.aside.values().map(|aside| self.aside_page(aside)).collect(),
            resting: level.resting_pieces().copied().collect(),
        });
        TopicPage {
            number: topic.number,
            group: topic.group,
            name: topic.name.clone(),
            floor: topic.floor,
            next_lease: topic.next_lease,
            epoch: topic.stored.epoch,
            levels: levels.collect(),
            bucket: topic.bucket.as_ref().map(|bucket| bucket.page()),
            age: topic.age.as_ref().map(|age| age.page()),
            waits_for_retry: topic.waits_for_retry,
        }
    }

    /// Gives a topic without contents those of a page.
    fn fill_topic(&mut self, slot: TopicSlot, page: TopicPage) {
        self.topics[slot].bucket = page.bucket.map(|page| Box::new(Bucket::of_page(page)));
        self.topics[slot].age = page.age.map(|page| Box::new(Age::of_page(page)));
        self.topics[slot].waits_for_retry = page.waits_for_retry;
        for level in page.levels {
            let priority = level.priority;
            let of = (self.topics[slot].bounds, Sequence(self.topics[slot].floor));
            self.topics[slot].levels.push_back(Level::new(priority, level.next, of));
            let mut stored = level.stored.into_iter().peekable();
            for run in level.runs {
                self.arm_expiry(slot, priority, &run);
                while let Some(piece) = stored.next_if(|piece| piece.first < run.first) {
                    self.fill_stored(slot, priority, piece);
                }
                self.topics[slot].level_or_new(priority).line.push_back(run);
            }
            stored.for_each(|piece| self.fill_stored(slot, priority, piece));
            for aside in level.aside {
                self.arm_expiry(slot, priority, &aside.run);
                self.fill_aside(slot, priority, aside);
            }
            for piece in level.resting {
                let topic = &mut self.topics[slot];
                topic.set_aside += piece.messages;
                topic.retrying += piece.retrying;
                self.add_resting(slot, priority, piece);
            }
        }
    }

    fn fill_stored(&mut self, slot: TopicSlot, priority: Priority, piece: StoredPiece) {
        self.topics[slot].level_or_new(priority).line.push_stored(piece);
        self.arm_piece(slot, priority, &piece);
    }

    fn fill_aside(&mut self, slot: TopicSlot, priority: Priority, page: AsidePage) {
        if let AsideState::Leased { lease, run: of_run, holder, duration, deadline } = page.state {
            let AsidePage { run, deliveries, failures, since, .. } = page;
            let (left, is_left_out) = (Left::No, false);
            let terms = Terms { run: of_run, holder, duration, deadline, left, is_left_out };
            return self.begin_lease(slot, priority, run, Past { deliveries, failures, since }, (lease, terms));
        }
        let aside = self.aside_of_page(slot, priority, page);
        let past = aside.past();
        self.set_aside(slot, priority, aside.run, past, aside.state);
    }

    /// Messages aside that are not leased, with their timer.
    pub(crate) fn aside_of_page(&mut self, slot: TopicSlot, priority: Priority, page: AsidePage) -> Aside {
        let AsidePage { run, deliveries, failures, since, state } = page;
        let ripe = Timer::Ripe { slot, priority, first: run.first };
        let state = match state {
            AsideState::Ready { behind } => AsideWhy::Ready { behind },
            AsideState::Delayed { due } => AsideWhy::Delayed { due, timer: self.wall_timers.insert(due.0, ripe) },
            AsideState::Retrying { due } => AsideWhy::Retrying { due, timer: self.run_timers.insert(due.0, ripe) },
            AsideState::Leased { .. } => unreachable!("leases are begun anew"),
        };
        Aside { run, deliveries, failures, since, state }
    }

    pub(crate) fn aside_page(&self, aside: &Aside) -> AsidePage {
        let state = match aside.state {
            AsideWhy::Ready { behind } => AsideState::Ready { behind },
            AsideWhy::Delayed { due, .. } => AsideState::Delayed { due },
            AsideWhy::Retrying { due, .. } => AsideState::Retrying { due },
            AsideWhy::Leased(slot) => {
                let lease = &self.leases[slot as usize];
                let Terms { run, holder, duration, deadline, .. } = lease.terms();
                AsideState::Leased { lease: lease.number, run, holder, duration, deadline }
            }
        };
        let Past { deliveries, failures, since } = aside.past();
        AsidePage { run: aside.run.compact(), deliveries, failures, since, state }
    }

    fn add_topic(&mut self, page: TopicPage) -> Result<(), BadPage> {
        if self.groups.get(page.group).is_none() {
            return Err(BadPage("a topic's group comes before it"));
        }
        if !page.levels.is_sorted_by(|a, b| a.priority < b.priority) {
            return Err(BadPage("a topic's priorities are in order"));
        }
        let home = &mut self.groups[page.group];
        home.topics += 1;
        let waiting: u64 = page.levels.iter().map(LevelPage::waiting).sum();
        home.counts.waiting += waiting;
        for piece in page.levels.iter().flat_map(|level| &level.resting) {
            home.counts.delayed += piece.messages - piece.retrying;
            home.counts.retrying += piece.retrying;
        }
        if self.topics.by_number(page.number, page.group).is_some() {
            return Err(BadPage("a topic is in a checkpoint once"));
        }
        let stored = Stored { epoch: page.epoch, ..Stored::default() };
        let hashes = Hashes::of(self.hash_key, page.group, &page.name);
        let slot = self.admit_page(page, hashes, stored);
        self.will_change(slot);
        Ok(())
    }

    /// Takes the topic of a page into memory.
    pub(crate) fn admit_page(&mut self, page: TopicPage, hashes: Hashes, stored: Stored) -> TopicSlot {
        let (number, group, name) = (page.number, page.group, page.name.detach());
        let home = (group, self.groups[group].namespace);
        let (is_paused, is_held) = (self.pauses(group).holds(&name), self.groups[group].is_before(&name));
        let derived = (hashes, is_paused, is_held, self.bounds_of_page(&page));
        let topic = Topic::new(number, home, name, page.floor, page.next_lease, derived, stored);
        let slot = self.admit(topic);
        // Its group knows when its messages were published, wherever they are.
        let spans = core::mem::take(&mut self.groups[group].spans);
        self.fill_topic(slot, page);
        self.groups[group].spans = spans;
        slot
    }
}
