//! Whose turn it is does not depend on what is in memory: the same scopes, served from topics that are all in memory and
//! from topics that leave it at any moment and come back only when they are asked for.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::vec::Vec;

use millpond_types::{
    Dispatch, Filter, GroupName, LeaseNumber, NamespaceName, Pause, PausedTopics, Policy, Priority, Rules, Start,
    TopicName, TopicNumber, WallTime,
};
use proptest::prelude::*;

use super::Dispatcher;
use super::domain::Cursor;
use super::reach::{Asker, READ_AHEAD, READ_AHEAD_MIN, Reach};
use super::stretches::Span;
use crate::page::{DuePage, Page};
use crate::state::few::Few;
use crate::state::group::Group;
use crate::state::hash::Hashes;
use crate::state::namespace::Namespace;
use crate::state::policies::Policies;
use crate::state::topic::{Siblings, Topic, Touched};
use crate::state::{State, TopicSlot};
use crate::store::{Clock, Gather, Key, KeyBytes, MemoryStore, Moment, Part, Range, Shelf, Spread, Taken, Want};

const NAMES: [&str; 14] = ["a", "a/1", "a/2", "a/3", "a-b", "b", "b/1", "b/2", "b/22", "b/3", "c", "d/1", "d/1/1", "e"];
const PREFIXES: [&str; 3] = ["b", "b/2", "d/"];
/// And all.
const PAUSES: usize = PREFIXES.len() + 1;

/// Topics that are nothing but a priority and a number of messages.
struct World {
    state: State,
    dispatcher: Dispatcher,
    /// Per topic its priority, its messages and its number.
    topics: BTreeMap<TopicName, (Priority, u32, TopicNumber)>,
    cold: BTreeSet<TopicName>,
    scopes: Vec<u32>,
    created: u64,
    /// How many topics an answer holds.
    limit: usize,
}

impl World {
    fn new(limit: usize) -> World {
        World::with(limit, Dispatch::Priority)
    }

    fn with(limit: usize, dispatch: Dispatch) -> World {
        let mut state = State::new([1, 2], Box::new(MemoryStore::default()));
        let policies = Policies::new(Policy { dispatch, ..Policy::default() }, Rules::default(), 1);
        state.namespaces.insert(0, Namespace::new(NamespaceName::default(), policies));
        state.namespaces[0].groups.push(0);
        state.groups.insert(0, Group::new(0, GroupName::default(), Start::Latest, None));
        let mut dispatcher = Dispatcher::default();
        let names = |of: &[&str]| of.iter().map(|text| name(text)).collect();
        let filters = [
            Filter::All,
            Filter::Prefixes(names(&["b/", "d/1", "a/"])),
            Filter::Topics(names(&["e", "a/2", "a/1", "d/1", "nowhere"])),
        ];
        let mut open = |filter| dispatcher.scopes.open(0, filter, (&state, &dispatcher.reach), usize::MAX).unwrap();
        let scopes = filters.iter().map(&mut open).collect();
        let (topics, cold) = (BTreeMap::new(), BTreeSet::new());
        World { state, dispatcher, topics, cold, scopes, created: 0, limit }
    }

    fn publish(&mut self, name: &TopicName, priority: Priority, count: u32) {
        self.load(name);
        let created = TopicNumber(self.created);
        let known = self.topics.entry(name.clone()).or_insert((priority, 0, created));
        known.1 += count;
        if known.2 == created {
            self.created += 1;
            self.insert(name);
        }
    }

    fn evict(&mut self, name: &TopicName) {
        let Some(slot) = self.state.topics.find(0, name) else { return };
        let is_paused = self.state.namespaces[0].paused.names(name);
        self.dispatcher.evicted(&self.state.topics[slot], Shelf::Ready(self.topics[name].0), is_paused);
        self.state.topics.remove(slot);
        self.cold.insert(name.clone());
    }

    fn load(&mut self, name: &TopicName) {
        if self.cold.remove(name) {
            self.insert(name);
            self.dispatcher.loaded(0, Shelf::Ready(self.topics[name].0), name);
        }
    }

    fn pause(&mut self, topics: &PausedTopics, stop: bool) {
        let paused = &mut self.state.namespaces[0].paused;
        _ = match stop {
            true => paused.insert(Pause { topics: topics.clone(), until: WallTime::NEVER }),
            false => paused.remove(topics),
        };
        let slots: Vec<TopicSlot> = self.state.topics.iter().map(|(slot, _)| slot).collect();
        slots.into_iter().for_each(|slot| self.offer(slot));
        if !stop {
            self.dispatcher.resumed(0, topics.topic().as_ref());
        }
    }

    /// Serves one message of the topic whose turn it is, of turns of two.
    fn serve(&mut self, scope: usize) -> Option<(TopicName, Priority, u32, bool)> {
        let scope = self.scopes[scope];
        loop {
            let Dispatcher { scopes, reach, .. } = &mut self.dispatcher;
            match scopes.next_turn(scope, &self.state, reach) {
                Ok(None) => return None,
                Ok(Some(turn)) => {
                    let name = self.state.topics[turn.slot].name.clone();
                    let told = (name.clone(), turn.priority, turn.left, turn.is_only);
                    let left = if turn.left > 0 { turn.left - 1 } else { 1 };
                    let known = self.topics.get_mut(&name).unwrap();
                    known.1 -= 1;
                    let is_last = known.1 == 0;
                    if is_last {
                        self.topics.remove(&name);
                    }
                    self.offer(turn.slot);
                    self.dispatcher.scopes.served(scope, &turn, left, &self.state);
                    if is_last {
                        self.state.topics.remove(turn.slot);
                    }
                    return Some(told);
                }
                Err((priority, unknown)) => {
                    assert!(!unknown.spans.is_empty(), "it is said what has to be read");
                    let asker = Asker { group: 0, priority, places: 1, is_named: false };
                    assert!(unknown.ask(reach, asker), "there is room for all");
                    let wanted = core::mem::take(self.dispatcher.wanted());
                    assert!(!wanted.is_empty(), "what has to be read is not on its way");
                    wanted.into_iter().for_each(|want| self.answer(want));
                }
            }
        }
    }

    fn answer(&mut self, want: Want) {
        match want {
            Want::Range(range) => {
                assert!((READ_AHEAD_MIN..=READ_AHEAD).contains(&range.limit));
                let mut found = self.cold_in(&range);
                let is_all = found.len() <= self.limit;
                found.truncate(self.limit);
                found.iter().for_each(|(_, name)| self.load(name));
                let rest = found.last().map(|(key, _)| [&key[..], &[0]].concat()).filter(|_| !is_all);
                self.dispatcher.range_loaded(&range, rest.as_ref());
            }
            Want::Spread(Spread { range, of_tenant }) => {
                let limit = self.limit as u32;
                let of_tenant = of_tenant.min(limit.div_ceil(2));
                let found = self.cold_in(&range);
                let mut gather = Gather::new(&Spread { range: Range { limit, ..range.clone() }, of_tenant });
                let shelf = Shelf::Idle;
                let page =
                    |name| Page::Due(DuePage { at: Moment { clock: Clock::Wall, at: 0 }, group: 0, name, shelf });
                if found.into_iter().all(|(key, name)| gather.take(key, page(name)) != Taken::Full) {
                    gather.end(&range.until);
                }
                for Part { from, until, entries } in gather.parts() {
                    for (_, page) in entries {
                        let Page::Due(page) = page else { unreachable!("made above") };
                        self.load(&page.name);
                    }
                    self.dispatcher.reach.know(&from, &until);
                }
                self.dispatcher.reach.answered(&range);
            }
            Want::Entry(_) => unreachable!("dispatch wants ranges"),
        }
    }

    fn cold_in(&self, range: &Range) -> Vec<(KeyBytes, TopicName)> {
        let key = |name: &TopicName, shelf| Key::Topic { group: 0, shelf, name: name.clone() }.bytes();
        let keys = self.cold.iter().map(|name| (key(name, Shelf::Ready(self.topics[name].0)), name.clone()));
        let mut found: Vec<_> = keys.filter(|(key, _)| (&range.from..&range.until).contains(&key)).collect();
        found.sort();
        found
    }

    fn insert(&mut self, name: &TopicName) {
        let topic = Topic {
            number: self.topics[name].2,
            group: 0,
            namespace: 0,
            name: name.clone(),
            siblings: Siblings { is_first: false, next: None },
            ruling: Default::default(),
            hashes: Hashes::of([1, 2], 0, name),
            floor: 0,
            next_lease: LeaseNumber(0),
            levels: crate::state::series::Series::new(),
            leases: Few::new(),
            in_flight: 0,
            set_aside: 0,
            retrying: 0,
            waits_for_retry: false,
            paused: false,
            is_held: false,
            bucket: None,
            age: None,
            offered: None,
            touched: Touched::No,
            stored: Default::default(),
            bounds: self.state.bounds,
            residence: Default::default(),
        };
        let slot = self.state.topics.insert(topic);
        self.offer(slot);
    }

    fn offer(&mut self, slot: TopicSlot) {
        let topic = &self.state.topics[slot];
        let is_paused = self.state.namespaces[0].paused.holds(&topic.name);
        let level = self.topics.get(&topic.name).filter(|_| !is_paused).map(|(priority, ..)| *priority);
        if level != topic.offered {
            self.state.topics.offer(slot, level);
            self.dispatcher.scopes.tell(slot, &self.state);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Publish(usize, bool, u32),
    Evict(usize),
    Serve(usize, usize),
    Pause(usize, bool),
    PauseTopic(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..NAMES.len(), prop::bool::weighted(0.2), 1..4u32).prop_map(|(at, high, n)| Step::Publish(at, high, n)),
        5 => (0..NAMES.len()).prop_map(Step::Evict),
        4 => (0..3usize, 1..5usize).prop_map(|(scope, times)| Step::Serve(scope, times)),
        1 => (0..PAUSES, any::<bool>()).prop_map(|(at, stop)| Step::Pause(at, stop)),
        1 => (0..NAMES.len(), any::<bool>()).prop_map(|(at, stop)| Step::PauseTopic(at, stop)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn turns_do_not_depend_on_what_is_in_memory(
        steps in proptest::collection::vec(step(), 1..80),
        limit in 1..5usize,
        is_fair: bool,
        room in prop_oneof![Just(usize::MAX), 0..8000usize],
    ) {
        let dispatch = if is_fair { Dispatch::Fair } else { Dispatch::Priority };
        let (mut hot, mut cold) = (World::with(limit, dispatch), World::with(limit, dispatch));
        for world in [&mut hot, &mut cold] {
            world.dispatcher.set_turns_room(room);
        }
        for step in steps {
            match step {
                Step::Publish(at, high, count) => {
                    let priority = if high { Priority::HIGHEST } else { Priority::DEFAULT };
                    [&mut hot, &mut cold].into_iter().for_each(|world| world.publish(&name(NAMES[at]), priority, count));
                }
                Step::Evict(at) => cold.evict(&name(NAMES[at])),
                Step::Serve(scope, times) => {
                    for _ in 0..times {
                        prop_assert_eq!(hot.serve(scope), cold.serve(scope));
                        prop_assert_eq!(hot.dispatcher.turns_bytes().0, cold.dispatcher.turns_bytes().0);
                    }
                }
                Step::Pause(at, stop) => {
                    let prefix = PREFIXES.get(at).map(|prefix| PausedTopics::prefix(&name(prefix)));
                    let topics = prefix.unwrap_or_else(PausedTopics::all);
                    [&mut hot, &mut cold].into_iter().for_each(|world| world.pause(&topics, stop));
                }
                Step::PauseTopic(at, stop) => {
                    [&mut hot, &mut cold].into_iter().for_each(|world| world.pause(&PausedTopics::from(&name(NAMES[at])), stop));
                }
            }
        }
    }
}

#[test]
fn what_was_cold_before_the_start_is_found() {
    let mut world = World::new(2);
    let names = ["a/1", "b", "c", "d/1", "e"];
    for at in names {
        world.publish(&name(at), Priority::DEFAULT, 1);
        let slot = world.state.topics.find(0, &name(at)).unwrap();
        world.state.topics.remove(slot);
        world.cold.insert(name(at));
    }
    world.dispatcher = Dispatcher::default();
    world.dispatcher.found_cold(0, Shelf::Ready(Priority::DEFAULT), names.len() as u64);
    let scope = world.dispatcher.scopes.open(0, &Filter::All, (&world.state, &world.dispatcher.reach), usize::MAX);
    world.scopes = Vec::from([scope.unwrap()]);
    let served = core::iter::from_fn(|| world.serve(0)).map(|(name, ..)| name);
    assert_eq!(served.collect::<Vec<_>>(), names.map(name));
}

#[test]
fn what_is_paused_is_not_read() {
    let mut world = World::new(4);
    for at in ["b/1", "b/2", "c"] {
        world.publish(&name(at), Priority::DEFAULT, 1);
        world.evict(&name(at));
    }
    world.pause(&PausedTopics::prefix(&name("b")), true);
    assert_eq!(world.serve(0).map(|served| served.0), Some(name("c")));
    assert_eq!(world.cold.len(), 2, "the others stay where they are");
    assert_eq!(world.serve(0), None);
    world.pause(&PausedTopics::prefix(&name("b")), false);
    assert_eq!(world.serve(0).map(|served| served.0), Some(name("b/1")));
}

#[test]
fn what_is_paused_by_its_name_is_read_once() {
    let mut world = World::new(4);
    for at in ["b/1", "b/2", "c"] {
        world.publish(&name(at), Priority::DEFAULT, 1);
        world.evict(&name(at));
    }
    world.pause(&PausedTopics::from(&name("b/1")), true);
    assert_eq!(world.serve(0).map(|served| served.0), Some(name("b/2")));
    world.evict(&name("b/1"));
    assert_eq!(world.serve(0).map(|served| served.0), Some(name("c")));
    assert_eq!(world.serve(0), None);
    assert!(world.cold.contains(&name("b/1")), "it stays where it is");
    world.pause(&PausedTopics::from(&name("b/1")), false);
    assert_eq!(world.serve(0).map(|served| served.0), Some(name("b/1")));
}

#[test]
fn a_cursor_is_at_its_own_topic_and_not_at_a_sibling_in_its_place() {
    let mut world = World::new(4);
    world.publish(&name("a/1"), Priority::DEFAULT, 1);
    let slot = world.state.topics.find(0, &name("a/1")).unwrap();
    let cursor = Cursor::at(slot, &world.state);
    assert!(cursor.is_there(&world.state));
    let sibling = Topic { group: 1, offered: None, ..world.state.topics[slot].clone() };
    world.state.topics.remove(slot);
    assert_eq!(world.state.topics.insert(sibling), slot, "the place is used again");
    assert!(!cursor.is_there(&world.state), "the topic of another group has the same number");
}

#[test]
fn the_room_for_topics_is_what_is_read_ahead_of_all_tenants() {
    let mut reach = Reach::default();
    reach.add(0, Priority::DEFAULT, 1_000_000);
    reach.set_room(64 << 20);
    let mut limit = |places: usize, is_held_back| {
        reach.hold_back(is_held_back);
        let of = Asker { group: 0, priority: Priority::DEFAULT, places, is_named: false };
        assert!(reach.ask(of, Span::of_prefix(format!("{places}/").as_bytes())));
        let Some(Want::Range(range)) = reach.wanted().pop() else { panic!("dispatch wants ranges") };
        range.limit
    };
    assert_eq!([limit(1, false), limit(100, false), limit(400, false)], [READ_AHEAD, 32_768 / 100, 32_768 / 400]);
    assert_eq!(limit(5, true), READ_AHEAD_MIN, "where there is no room, as few as may be");
}

/// A world of so many tenants with two topics each, and room to remember of about half of them where they go on.
fn crowd(tenants: usize) -> World {
    let mut world = World::new(100);
    world.dispatcher.set_turns_room(tenants * 300);
    for (tenant, topic) in (0..tenants).flat_map(|tenant| [(tenant, 1), (tenant, 2)]) {
        world.publish(&name(&format!("t{tenant:03}/{topic}")), Priority::DEFAULT, 9);
    }
    world
}

impl World {
    fn open(&mut self, filter: &Filter) -> usize {
        let scopes = &mut self.dispatcher.scopes;
        let scope = scopes.open(0, filter, (&self.state, &self.dispatcher.reach), usize::MAX);
        self.scopes.push(scope.unwrap());
        self.scopes.len() - 1
    }

    fn close(&mut self, scope: usize) {
        self.dispatcher.scopes.close(self.scopes[scope], 0, false);
    }

    /// The topics that so many turns belong to.
    fn turns(&mut self, scope: usize, turns: usize) -> Vec<TopicName> {
        let served: Vec<_> = (0..2 * turns).map(|_| self.serve(scope).unwrap().0).collect();
        self.dispatcher.check_living();
        served.into_iter().step_by(2).collect()
    }

    fn places(&self, scope: usize) -> usize {
        self.dispatcher.scopes.slots[self.scopes[scope] as usize].places(Priority::DEFAULT) - 1
    }
}

#[test]
fn where_turns_have_no_room_those_go_first_that_nobody_uses() {
    let mut world = crowd(100);
    let (first, second) = (world.open(&Filter::Prefixes([name("t")].into())), 0);
    world.turns(first, 41);
    world.close(first);
    assert_eq!(world.places(first), 40);
    world.turns(second, 31);
    assert_eq!((world.places(first), world.places(second)), (0, 30), "what nobody uses is gone, all else is there");
    world.open(&Filter::Prefixes([name("t")].into()));
    assert_eq!(world.turns(first, 1), [name("t041/1")], "and who was served last is known");
}

#[test]
fn where_turns_have_no_room_the_places_go_that_had_no_turn_for_longest() {
    let mut world = crowd(100);
    let (few, many) = (world.open(&Filter::Prefixes([name("t00")].into())), 0);
    world.turns(many, 41);
    world.turns(few, 10);
    world.turns(many, 20);
    let (places, (bytes, _)) = (world.places(many), world.dispatcher.turns_bytes());
    assert!((30..50).contains(&places), "{places} of 60 had their turn not long ago");
    assert!(bytes <= 15_000, "{bytes} bytes");
    assert_eq!(world.turns(few, 2), [name("t000/2"), name("t001/2")], "so had these");
    assert_eq!(world.turns(many, 41).last(), Some(&name("t001/1")), "who is forgotten begins with the first topic");
    assert!(world.dispatcher.turns_bytes().0 <= 15_000);
}

#[test]
fn who_was_served_last_is_forgotten_of_very_many_scopes_that_nobody_uses() {
    let mut world = crowd(10);
    for tenant in 0..10 {
        let scope = world.open(&Filter::Topics([name(&format!("t00{tenant}/1"))].into()));
        world.turns(scope, 1);
        world.close(scope);
    }
    let (bytes, _) = world.dispatcher.turns_bytes();
    assert!((400..1_100).contains(&bytes), "{bytes} bytes for three or fewer");
}

#[test]
fn what_is_known_of_all_shelves_shares_a_room() {
    const ROOM: usize = 1_000_000;
    let mut reach = Reach::default();
    reach.set_known_room(ROOM);
    for (group, tenant) in (0..2).flat_map(|group| (0..3_000).map(move |tenant| (group, tenant))) {
        reach.add(group, Priority::DEFAULT, 1);
        let span = Span::of_prefix(format!("{tenant:04}/{}", "x".repeat(100)).as_bytes());
        let bound = |name| Key::topic_bound(group, Shelf::Ready(Priority::DEFAULT), name);
        reach.know(&bound(&span.from), &bound(&span.until));
        reach.check_known_bytes();
        assert!(reach.known_bytes() <= ROOM, "{} bytes", reach.known_bytes());
        assert_eq!(reach.first_unknown(group, Priority::DEFAULT, &span), None, "what came last is known");
    }
    assert!(reach.known_bytes() > ROOM / 5 * 4, "{} bytes", reach.known_bytes());
    let first = Span::of_prefix(format!("0000/{}", "x".repeat(100)).as_bytes());
    assert!(reach.first_unknown(0, Priority::DEFAULT, &first).is_some(), "what was of no use for longest is not");
}

fn name(text: &str) -> TopicName {
    TopicName::try_from(text).unwrap()
}
