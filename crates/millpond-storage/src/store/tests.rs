mod meanwhile;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use millpond_core::page::{DedupPage, NamespacePage, Page, RunPage, TopicPage};
use millpond_core::store::{
    Answer, Found, GONE_MAX, Key, MemoryStore, Name, Part, Range, Shares, Shelf, Spread, Store, Want,
};
use millpond_types::block::Sizes;
use millpond_types::{MessageId, NamespaceName, Policy, Priority, Rules, Sequence, TopicName, TopicNumber, WallTime};
use tempfile::TempDir;

use super::*;
use crate::tree::{LsmTree, MemoryTree, TreeFault, TreeOptions};
use crate::twin::Seed;

const NAMES: u64 = 300;

fn head(position: u64) -> CommitHead {
    CommitHead { position, ..CommitHead::default() }
}

fn shelf(seed: &mut Seed) -> Shelf {
    [Shelf::Ready(Priority::DEFAULT), Shelf::Ready(Priority::HIGHEST), Shelf::Idle][seed.below(3) as usize]
}

/// Of tenants with seven topics each; every fifth has one.
fn name(number: u64) -> String {
    let tenant = number / 7;
    if tenant.is_multiple_of(5) { format!("{number:04}") } else { format!("{:04}/{number:04}", tenant * 7) }
}

fn topic_key(shelf: Shelf, number: u64) -> Key {
    Key::Topic { group: 0, shelf, name: TopicName::try_from(&*name(number)).unwrap() }
}

fn topic(number: u64, floor: u64) -> Page {
    let Key::Topic { group, name, .. } = topic_key(Shelf::Idle, number) else { unreachable!() };
    let run = RunPage {
        first: Sequence(floor),
        position: floor * 60,
        published: WallTime(1_795_000_000_000 + floor),
        expires: WallTime::NEVER,
        sizes: Sizes::Uniform(33),
        marks: None,
        count: 1,
        index: 0,
    };
    Page::Topic(TopicPage::of_line(TopicNumber(number), group, name, floor, vec![run]))
}

fn dedup(hash: u128) -> (Key, Page) {
    dedup_until(hash, WallTime(u64::MAX))
}

fn dedup_until(hash: u128, until: WallTime) -> (Key, Page) {
    let id = MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(1) };
    let page = Page::Dedup(DedupPage { namespace: 0, hash, id, until });
    (Key::of(&page, Shelf::Idle), page)
}

fn namespace() -> (Key, Page) {
    let name = NamespaceName::try_from("default").unwrap();
    let page = NamespacePage {
        number: 0,
        name,
        policy: Policy::default(),
        rules: Rules::default(),
        version: 1,
        paused: Vec::new(),
        groups: Vec::new(),
    };
    (Key::Namespace(0), Page::Namespace(Box::new(page)))
}

fn entry(seed: &mut Seed) -> (Key, Page) {
    let number = seed.below(NAMES);
    match seed.below(5) {
        0 => dedup(u128::from(number)),
        _ => (topic_key(shelf(seed), number), topic(number, 1 + seed.below(1 << 40))),
    }
}

fn want(seed: &mut Seed) -> Want {
    if seed.below(2) == 0 {
        return Want::Entry(entry(seed).0.bytes());
    }
    let shelf = shelf(seed);
    let mut bound = || Key::topic_bound(0, shelf, &Name::bytes(name(seed.below(NAMES)).as_bytes()));
    let (from, until) = (bound(), bound());
    let range = Range { from, until, limit: [0, 1, 5, 40, 1000][seed.below(5) as usize] };
    match seed.below(2) {
        0 => Want::Spread(Spread {
            range: Range { limit: range.limit.max(1), ..range },
            of_tenant: 1 + seed.below(4) as u32,
        }),
        _ => Want::Range(range),
    }
}

/// The store, its model, and what was read and is not resolved.
struct Twins {
    store: LayeredStore,
    model: MemoryStore,
    fetched: VecDeque<(Vec<Want>, Fetched)>,
    frozen: bool,
    position: u64,
}

impl Twins {
    fn new(tree: Arc<dyn Tree>) -> Twins {
        let (store, model) = (LayeredStore::new(tree, FilterBounds::within(usize::MAX)), MemoryStore::default());
        let mut twins = Twins { store, model, fetched: VecDeque::new(), frozen: false, position: 0 };
        let (key, page) = namespace();
        twins.both(|store| store.put(&key, &page));
        twins
    }

    fn both(&mut self, act: impl Fn(&mut dyn Store)) {
        act(&mut self.store);
        act(&mut self.model);
    }

    fn step(&mut self, seed: &mut Seed) {
        let (key, page) = entry(seed);
        match seed.below(40) {
            0..=9 => self.both(|store| store.put(&key, &page)),
            10..=17 => self.both(|store| store.remove(&key)),
            18..=23 => self.find(&key),
            24..=28 => {
                let wants: Vec<_> = (0..1 + seed.below(4)).map(|_| want(seed)).collect();
                let fetched = self.store.read(wants.clone()).unwrap();
                self.fetched.push_back((wants, fetched));
            }
            29..=32 => self.resolve_one(seed),
            33 => self.remove_many(seed),
            34 if !self.frozen && self.store.sealed().is_none() => {
                self.both(|store| store.freeze());
                self.frozen = true;
            }
            35 if self.frozen => self.both(|store| store.capture(&key, &page)),
            36 if self.frozen => self.both(|store| store.capture_removal(&key)),
            37 if self.frozen => {
                self.both(|store| store.seal());
                self.frozen = false;
            }
            38 => self.commit(),
            39 => _ = self.store.tend_filter().unwrap(),
            _ => {}
        }
    }

    fn find(&mut self, key: &Key) {
        let expected = self.model.find(key);
        match self.store.find(key) {
            Found::OnDisk => {
                assert!(!matches!(expected, Found::Here(_)), "in memory, but not found there");
                self.fetched.push_back((vec![Want::Entry(key.bytes())], self.read(vec![Want::Entry(key.bytes())])));
            }
            found => assert_eq!(found, expected),
        }
    }

    fn read(&self, wants: Vec<Want>) -> Fetched {
        self.store.read(wants).unwrap()
    }

    /// Of what was read, anything may be answered next.
    fn resolve_one(&mut self, seed: &mut Seed) {
        if self.fetched.is_empty() {
            return;
        }
        let at = seed.below(self.fetched.len() as u64) as usize;
        let (wants, fetched) = self.fetched.remove(at).unwrap();
        let answers = self.store.resolve(fetched);
        assert!(answers.iter().map(Answer::want).eq(wants));
        for answer in &answers {
            match answer {
                Answer::Entry(key, _) => assert_eq!(*answer, self.model.fetch(Want::Entry(key.clone()))),
                Answer::Range { .. } => self.check_range(answer),
                Answer::Spread { spread, parts } => self.check_parts(spread, parts),
            }
        }
    }

    /// How far a read goes is its own business: what it tells must be true, and within what was asked for.
    fn check_range(&self, answer: &Answer) {
        let Answer::Range { range, entries, rest } = answer else { unreachable!("a range was asked for") };
        let until = rest.as_ref().unwrap_or(&range.until);
        assert!(until <= &range.until || range.until <= range.from);
        let told = Range { until: until.clone(), limit: u32::MAX, ..range.clone() };
        assert_eq!(*entries, self.model.entries(&told).collect::<Vec<_>>());
        assert!(entries.len() <= range.limit as usize);
        assert!(rest.as_ref().is_none_or(|rest| *rest > range.from || range.limit == 0), "each read comes further");
    }

    /// How far a read goes is its own business: what it tells must be true, and within what was asked for.
    fn check_parts(&self, spread: &Spread, parts: &[Part]) {
        let Spread { range, of_tenant } = spread;
        assert_eq!(parts.first().map(|part| &part.from), (range.from < range.until).then_some(&range.from));
        assert!(parts.iter().all(|part| part.from < part.until && part.until <= range.until));
        assert!(parts.is_sorted_by(|a, b| a.until <= b.from));
        for Part { from, until, entries } in parts {
            let all = Range { from: from.clone(), until: until.clone(), limit: u32::MAX };
            assert_eq!(*entries, self.model.entries(&all).collect::<Vec<_>>());
        }
        let keys: Vec<_> = parts.iter().flat_map(|part| &part.entries).map(|(key, _)| &key[..]).collect();
        assert!(keys.len() <= range.limit as usize);
        let mut shares = Shares::new(*of_tenant);
        assert!(keys.iter().all(|key| shares.exceeded_by(key).is_none()));
    }

    fn remove_many(&mut self, seed: &mut Seed) {
        let (shelf, first) = (shelf(seed), seed.below(NAMES));
        for number in first..first + 80 {
            self.both(|store| store.remove(&topic_key(shelf, number)));
        }
    }

    fn commit(&mut self) {
        if let Some(sealed) = self.store.sealed() {
            self.position += 1;
            self.store.commit(sealed, &head(self.position)).unwrap();
            self.model.write_sealed();
        }
    }

    /// Both end and begin anew over what is on the disk.
    fn crash(&mut self, tree: Arc<dyn Tree>) {
        self.fetched.clear();
        self.store = LayeredStore::new(tree, FilterBounds::within(usize::MAX));
        self.model.crash();
        self.frozen = false;
    }
}

#[test]
fn the_store_does_what_its_model_does() {
    for round in 0..12 {
        let mut seed = Seed::new(round);
        let tree = Arc::new(MemoryTree::default());
        let mut twins = Twins::new(tree.clone());
        assert_eq!(twins.store.dump(), twins.model.dump());
        for _ in 0..6000 {
            twins.step(&mut seed);
            if seed.below(1500) == 0 {
                twins.crash(tree.clone());
            }
        }
        assert!(twins.position > 3, "it was about commits");
    }
}

#[test]
fn over_a_real_tree_too() {
    let directory = TempDir::new().unwrap();
    let open = || Arc::new(LsmTree::open(directory.path(), TreeOptions::default()).unwrap());
    let mut twins = Twins::new(open());
    let mut seed = Seed::new(99);
    for _ in 0..6000 {
        twins.step(&mut seed);
        if seed.below(40) == 0 {
            twins.store.tree().compact_step().unwrap();
        }
        if seed.below(2000) == 0 {
            twins.crash(Arc::new(MemoryTree::default()));
            twins.crash(open());
        }
    }
    assert!(twins.position > 3, "it was about commits");
}

fn filled(tree: Arc<dyn Tree>, count: u64) -> LayeredStore {
    let mut store = LayeredStore::new(tree, FilterBounds::within(usize::MAX));
    let (key, page) = namespace();
    store.put(&key, &page);
    (0..count).for_each(|number| store.put(&topic_key(Shelf::Idle, number), &topic(number, number)));
    store.freeze();
    store.seal();
    store.commit(store.sealed().unwrap(), &head(1)).unwrap();
    store
}

#[test]
fn a_stranger_costs_no_read() {
    let tree = Arc::new(MemoryTree::default());
    let absent = |store: &mut LayeredStore| {
        let found = (0..1000).map(|number| store.find(&topic_key(Shelf::Busy, number)));
        found.filter(|found| *found == Found::Absent).count()
    };
    let mut store = filled(tree.clone(), 1000);
    assert!(absent(&mut store) >= 990);
    let mut store = LayeredStore::new(tree, FilterBounds::within(usize::MAX));
    assert_eq!(absent(&mut store), 0, "what lies on the disk is not known yet");
    assert!(store.tend_filter().unwrap());
    assert!(absent(&mut store) >= 990);
    assert!(!store.tend_filter().unwrap());
    assert_eq!(store.find(&topic_key(Shelf::Idle, 7)), Found::OnDisk);
}

/// What nobody asks for any more, and nothing that is committed is merged with.
#[test]
fn what_has_expired_leaves_the_tree_and_the_filter_though_nothing_comes() {
    const EXPIRED: u64 = 70_000;
    let commit = |store: &mut LayeredStore, position, wall| {
        store.freeze();
        store.seal();
        store.commit(store.sealed().unwrap(), &CommitHead { wall: WallTime(wall), ..head(position) }).unwrap();
        while store.tend().unwrap() {}
    };
    let entry = |hash: u64| dedup_until(hash.into(), WallTime(if hash < EXPIRED { 1000 } else { u64::MAX }));
    for restarts in [false, true] {
        let directory = TempDir::new().unwrap();
        let options = TreeOptions { quiet: Duration::ZERO, ..TreeOptions::default() };
        let tree = Arc::new(LsmTree::open(directory.path(), options).unwrap());
        let mut store = filled(tree.clone(), 1000);
        for (key, page) in (0..EXPIRED + 1000).map(entry) {
            store.put(&key, &page);
        }
        commit(&mut store, 2, 999);
        if restarts {
            store = LayeredStore::new(tree.clone(), FilterBounds::within(usize::MAX));
            assert_eq!(store.sweep(), Sweep::Unknown);
            while store.tend().unwrap() {}
        }
        assert!((0..EXPIRED).all(|hash| store.find(&entry(hash).0) == Found::OnDisk), "they count");
        let Sweep::From(at) = store.sweep() else { panic!("{:?}", store.sweep()) };
        assert!(at > WallTime(1000));
        // All that a checkpoint of a broker at rest brings is the time.
        commit(&mut store, 3, at.0);
        assert_eq!(store.sweep(), Sweep::Never);
        assert!(tree.stats().entries < 3000, "{:?}", tree.stats());
        let strangers = (0..EXPIRED).filter(|hash| store.find(&entry(*hash).0) == Found::OnDisk).count();
        assert!(strangers < 700, "{strangers} of those that are gone are taken to be there");
        assert!((EXPIRED..EXPIRED + 1000).all(|hash| store.find(&entry(hash).0) == Found::OnDisk));
    }
}

/// Where they hold much, a few of them are a long read.
#[test]
fn a_read_ends_before_it_takes_very_much_memory_and_the_next_goes_on() {
    const TOPICS: u64 = 60_000;
    let mut store = filled(Arc::new(MemoryTree::default()), TOPICS);
    (0..TOPICS).step_by(30).for_each(|number| store.remove(&topic_key(Shelf::Idle, number)));
    let until = Key::topic_bound(0, Shelf::Idle, &Name::bytes(&[u8::MAX]));
    for spreads in [false, true] {
        let (mut from, mut topics, mut reads) = (Key::topic_bound(0, Shelf::Idle, &[]), 0, 0);
        while from < until {
            let range = Range { from: from.clone(), until: until.clone(), limit: u32::MAX };
            let want = if spreads { Want::Spread(Spread { range, of_tenant: 7 }) } else { Want::Range(range) };
            let answer = store.resolve(store.read(vec![want]).unwrap()).remove(0);
            let (end, found) = match answer {
                Answer::Spread { parts, .. } => {
                    let found = parts.iter().map(|part| part.entries.len()).sum();
                    (parts.last().unwrap().until.clone(), found)
                }
                Answer::Range { entries, rest, .. } => (rest.unwrap_or(until.clone()), entries.len()),
                Answer::Entry(..) => unreachable!("ranges are read"),
            };
            assert!(end > from, "each read comes further");
            (from, topics, reads) = (end, topics + found, reads + 1);
        }
        assert_eq!(topics as u64, TOPICS - TOPICS / 30);
        assert!((3..20).contains(&reads), "{reads} reads");
    }
}

/// What was drained since the last checkpoint stands in front of all else, whether it had come to the disk before or not.
#[test]
fn a_range_of_which_very_many_are_gone_is_read_a_slice_at_a_time_and_tells_the_same_in_the_end() {
    const GONE: u64 = 20_000;
    const LEFT: u64 = 2000;
    const LIMIT: u32 = 100;
    for on_disk in [true, false] {
        let tree = Arc::new(MemoryTree::default());
        let (mut store, mut model) =
            (filled(tree.clone(), if on_disk { GONE + LEFT } else { 0 }), MemoryStore::default());
        for number in 0..GONE + LEFT {
            let key = topic_key(Shelf::Idle, number);
            let mut both: [&mut dyn Store; 2] = [&mut store, &mut model];
            both.iter_mut().for_each(|store| match number < GONE {
                true => store.remove(&key),
                false => store.put(&key, &topic(number, 1)),
            });
        }
        let bound = |name: &[u8]| Key::topic_bound(0, Shelf::Idle, &Name::bytes(name));
        let range = Range { from: bound(&[]), until: bound(&[u8::MAX]), limit: LIMIT };
        let all: Vec<_> = model.entries(&range).collect();
        assert_eq!(all.len() as u64, LEFT);
        let gone: Vec<_> = (0..GONE).map(|number| topic_key(Shelf::Idle, number).bytes()).collect();
        let in_store = |want: Want| store.resolve(store.read(vec![want]).unwrap()).remove(0);
        let in_model = |want: Want| model.fetch(want);
        let fetches: [&dyn Fn(Want) -> Answer; 2] = [&in_store, &in_model];
        for fetch in fetches {
            let (mut next, mut found, mut reads) = (Some(range.from.clone()), Vec::new(), 0);
            let scanned_before = tree.stats().keys_scanned;
            while let Some(from) = next {
                let before = tree.stats().keys_scanned;
                let want = Want::Range(Range { from: from.clone(), ..range.clone() });
                let Answer::Range { entries, rest, .. } = fetch(want) else { unreachable!("a range was asked for") };
                let scanned = tree.stats().keys_scanned - before;
                assert!(scanned <= u64::from(GONE_MAX + LIMIT + 1), "{scanned} at a time");
                let until = rest.clone().unwrap_or(range.until.clone());
                let keys = gone.iter().filter(|key| (&from..&until).contains(key));
                assert!(keys.count() <= GONE_MAX as usize, "passed over at a time");
                (next, reads) = (rest, reads + 1);
                found.extend(entries);
            }
            let scanned = tree.stats().keys_scanned - scanned_before;
            assert!(scanned <= GONE + LEFT + reads * u64::from(LIMIT), "{scanned} scanned, so some again and again");
            assert!(found == all, "all that is there");
            assert!((15..60).contains(&reads), "{reads} reads");
        }
    }
}

/// Tenants that were drained, and were never on the disk.
#[test]
fn a_spread_over_very_many_that_are_gone_ends_among_them() {
    let mut store = filled(Arc::new(MemoryTree::default()), 10);
    (10..20_000).for_each(|number| store.remove(&topic_key(Shelf::Idle, number)));
    let bound = |name: &[u8]| Key::topic_bound(0, Shelf::Idle, &Name::bytes(name));
    let (mut from, until) = (bound(&[]), bound(&[u8::MAX]));
    let (mut found, mut reads) = (0, 0);
    while from < until {
        let range = Range { from: from.clone(), until: until.clone(), limit: 500 };
        let want = Want::Spread(Spread { range, of_tenant: 7 });
        let Answer::Spread { parts, .. } = store.resolve(store.read(vec![want]).unwrap()).remove(0) else {
            unreachable!("a spread was asked for")
        };
        found += parts.iter().map(|part| part.entries.len()).sum::<usize>();
        from = parts.last().expect("each read comes further").until.clone();
        reads += 1;
    }
    assert_eq!(found, 10);
    assert!(reads >= 15, "{reads} reads");
}

/// They are in memory still: what a tenant has beyond its share is not looked at one by one.
#[test]
fn a_spread_passes_over_what_a_tenant_has_in_memory_as_on_the_disk() {
    let mut store = filled(Arc::new(MemoryTree::default()), 0);
    let key = |tenant: u32, number: u32| {
        let name = TopicName::try_from(&*format!("{tenant}/{number:05}")).unwrap();
        Key::Topic { group: 0, shelf: Shelf::Idle, name }
    };
    for (tenant, number) in (0..9).flat_map(|tenant| (0..3000).map(move |number| (tenant, number))) {
        store.put(&key(tenant, number), &topic(u64::from(number), 1));
    }
    let bound = |name: &[u8]| Key::topic_bound(0, Shelf::Idle, &Name::bytes(name));
    let range = Range { from: bound(&[]), until: bound(&[u8::MAX]), limit: 500 };
    let fetched = store.read(vec![Want::Spread(Spread { range, of_tenant: 2 })]).unwrap();
    let [Answer::Spread { parts, .. }] = &store.resolve(fetched)[..] else { unreachable!("a spread was asked for") };
    let found = parts.iter().flat_map(|part| part.entries.iter().map(|(key, _)| key.clone()));
    assert!(found.eq((0..9).flat_map(|tenant| [key(tenant, 0).bytes(), key(tenant, 1).bytes()])));
}

#[test]
fn a_failed_commit_loses_nothing() {
    let tree = Arc::new(MemoryTree::default());
    let mut store = filled(tree.clone(), 10);
    let key = topic_key(Shelf::Idle, 3);
    store.remove(&key);
    let (id, page) = dedup_until(7, WallTime(1000));
    store.put(&id, &page);
    store.freeze();
    store.seal();
    let counted = |store: &LayeredStore| {
        let state = lock(&store.0.state);
        state.filter.as_ref().unwrap().counted(WallTime(u64::MAX - 1))
    };
    // Once, however often it is tried.
    for _ in 0..3 {
        tree.plan(0, TreeFault::Full);
        assert!(matches!(store.commit(store.sealed().unwrap(), &head(2)), Err(TreeError::Full(_))));
        assert_eq!(counted(&store), (1, 1));
    }
    assert_eq!(store.find(&key), Found::Absent);
    assert_eq!(tree.head(), Some(head(1)));
    store.commit(store.sealed().unwrap(), &head(2)).unwrap();
    assert_eq!(tree.get_many(&[key.bytes()]).unwrap(), [None]);
    assert!(store.sealed().is_none());
}

#[test]
fn memory_is_given_back_when_nobody_reads_any_more() {
    let tree = Arc::new(MemoryTree::default());
    let mut store = filled(tree, 1000);
    let bytes = |store: &LayeredStore| {
        let StoreMemory { young, frozen, filter } = store.memory();
        young + frozen + filter
    };
    let empty = bytes(&store);
    (0..1000).for_each(|number| store.remove(&topic_key(Shelf::Idle, number)));
    let full = bytes(&store);
    assert!((full - empty) / 1000 < 100, "{}", full - empty);
    let fetched = store.read(vec![Want::Entry(topic_key(Shelf::Idle, 5).bytes())]).unwrap();
    store.freeze();
    store.seal();
    store.commit(store.sealed().unwrap(), &head(2)).unwrap();
    assert_eq!(bytes(&store), full, "kept for the one who reads");
    assert_eq!(store.resolve(fetched), [Answer::Entry(topic_key(Shelf::Idle, 5).bytes(), None)]);
    store.let_go();
    assert_eq!(bytes(&store), empty, "nobody has to read or to write a checkpoint for that");
}

#[test]
fn a_damaged_entry_is_told_as_damage() {
    let tree = Arc::new(MemoryTree::default());
    let key = topic_key(Shelf::Idle, 1).bytes();
    tree.commit(&head(1), &mut [(&key[..], Some(&b"\x01\xff"[..]))].into_iter()).unwrap();
    let store = LayeredStore::new(tree, FilterBounds::within(usize::MAX));
    assert!(matches!(store.read(vec![Want::Entry(key)]), Err(TreeError::Damaged(_))));
}
