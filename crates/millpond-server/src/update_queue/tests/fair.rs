//! Who is served in which turn, where some want more than there is room for. A turn here is one take, by hand.

use std::sync::Mutex;
use std::task::{Context, Wake, Waker};

use super::super::lanes::{Asked, Lanes};
use super::*;

/// Who asks, and what that weighs.
type Ask = (usize, usize);

const CAPACITY: usize = 512;
/// More than is little, of which a part of the lane holds two.
const MUCH: usize = 32;
/// All that is little.
const LITTLE: usize = 16;
/// So many short turns take what another one does.
const SHORT: usize = 8;

struct Rig {
    lanes: Arc<Lanes<Ask, ()>>,
    taken: [Vec<Asked<Ask, ()>>; 1],
    called: Called,
    clients: Vec<Client>,
    /// Whether turns are short.
    short: bool,
}

/// Who was called, in order, and did not come yet.
type Called = Arc<Mutex<VecDeque<usize>>>;

/// One who submits what it can and then waits for room.
struct Client {
    source: Source<Ask, ()>,
    requests: VecDeque<Ask>,
    waker: Waker,
}

struct Call(usize, Called);

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.1.lock().unwrap().push_back(self.0);
    }
}

impl Rig {
    /// Clients that have so many requests each.
    fn new(clients: usize, requests: usize, weight: usize) -> Rig {
        let lanes =
            Arc::new(Lanes::new(&[Lane { capacity: CAPACITY, short: CAPACITY / SHORT }], |(_, weight): &Ask| *weight));
        let called: Called = Arc::default();
        let client = |name| Client {
            source: Submitter::new(lanes.clone()).source(),
            requests: vec![(name, weight); requests].into(),
            waker: Arc::new(Call(name, called.clone())).into(),
        };
        let clients = (0..clients).map(client).collect();
        Rig { clients, lanes, taken: [Vec::new()], called, short: false }
    }

    /// A client submits what it can. Whether anything of it was let in.
    fn come(&mut self, name: usize) -> bool {
        let Client { source, requests, waker } = &mut self.clients[name];
        let told = source.tell_all(0, requests, |(_, weight)| *weight).unwrap();
        if let Some((_, weight)) = requests.front() {
            let room = std::pin::pin!(source.room(0, *weight, requests.len()));
            assert!(room.poll(&mut Context::from_waker(waker)).is_pending());
        }
        told > 0
    }

    fn all_come(&mut self) {
        (0..self.clients.len()).for_each(|name| _ = self.come(name));
    }

    /// Those who were called come, in order.
    fn called_come(&mut self) {
        let called = std::mem::take(&mut *self.called.lock().unwrap());
        called.into_iter().for_each(|name| _ = self.come(name));
    }

    /// Who is served in the next turn.
    fn turn(&mut self) -> Vec<usize> {
        self.lanes.take(&mut self.taken, (Open::ALL, self.short), Some(Duration::ZERO));
        self.taken[0].drain(..).map(|((name, _), _)| name).collect()
    }
}

#[test]
fn who_asks_for_little_is_served_in_the_next_turn_however_many_flood() {
    const QUIET: usize = 100;
    let mut rig = Rig::new(QUIET + 1, 1_000, MUCH);
    rig.clients[QUIET].requests.clear();
    rig.all_come();
    for _ in 0..50 {
        rig.clients[QUIET].requests.push_back((QUIET, 1));
        assert!(rig.come(QUIET), "it need not stand in line");
        let served = rig.turn();
        assert_eq!(served.iter().filter(|name| **name == QUIET).count(), 1);
        assert_eq!(served.len() - 1, CAPACITY / MUCH, "a turn is no longer for a hundred than for one");
        rig.called_come();
    }
}

#[test]
fn those_who_flood_are_served_in_turns() {
    const MANY: usize = 20;
    let mut rig = Rig::new(MANY + 1, 1_000, MUCH);
    rig.all_come();
    let mut served = Vec::new();
    // The first found nobody in line, and stood there first.
    assert_eq!(rig.turn(), [0; CAPACITY / MUCH]);
    for _ in 0..42 {
        rig.called_come();
        served.push(rig.turn());
        let mut newcomer = Submitter::new(rig.lanes.clone()).source();
        let told = newcomer.tell_all(0, &mut VecDeque::from([(MANY + 1, MUCH)]), |_| 1);
        assert_eq!(told, Ok(0), "a newcomer is not let in before those who stand in line");
    }
    let part = |name: usize| [name; CAPACITY / MUCH / 8];
    let eight = |names: [usize; 8]| names.into_iter().flat_map(part).collect::<Vec<_>>();
    assert_eq!(served[0], eight([0, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!(served[1], eight([8, 9, 10, 11, 12, 13, 14, 15]));
    assert_eq!(served[2], eight([16, 17, 18, 19, 20, 0, 1, 2]));
    for name in 0..=MANY {
        let times = served.iter().flatten().filter(|other| **other == name).count();
        assert_eq!(times, 42 * CAPACITY / MUCH / (MANY + 1), "{name}");
    }
}

#[test]
fn one_alone_has_all_the_room() {
    let mut rig = Rig::new(1, 1_000, MUCH);
    for _ in 0..3 {
        rig.come(0);
        assert_eq!(rig.turn().len(), CAPACITY / MUCH);
    }
}

#[test]
fn those_who_ask_for_little_have_as_much_room_again() {
    for (short, capacity) in [(false, CAPACITY), (true, CAPACITY / SHORT)] {
        let many = capacity / LITTLE;
        let mut rig = Rig { short, ..Rig::new(3 * many + many / 2, 1, LITTLE) };
        assert_eq!(rig.turn(), []);
        rig.all_come();
        assert_eq!(rig.turn().len(), 2 * many);
        rig.called_come();
        assert_eq!(rig.turn().len(), many, "as many were called");
        rig.called_come();
        assert_eq!(rig.turn().len(), many / 2);
    }
}

#[test]
fn one_that_weighs_more_than_a_lane_takes_no_room_from_those_who_ask_for_little() {
    for (short, many) in [(false, CAPACITY / LITTLE), (true, CAPACITY / SHORT / LITTLE)] {
        let mut rig = Rig { short, ..Rig::new(1 + many, 1, LITTLE) };
        assert_eq!(rig.turn(), []);
        rig.clients[0].requests = [(0, 10 * CAPACITY)].into();
        rig.all_come();
        assert_eq!(rig.turn().len(), 1 + many);
    }
}

#[test]
fn a_short_turn_takes_at_once_a_single_request_that_is_little_and_no_more() {
    const QUIET: usize = 20;
    let mut rig = Rig { short: true, ..Rig::new(QUIET + 1, 1_000, MUCH) };
    rig.clients[QUIET].requests.clear();
    assert_eq!(rig.turn(), []);
    rig.all_come();
    for _ in 0..50 {
        rig.clients[QUIET].requests.push_back((QUIET, LITTLE));
        assert!(rig.come(QUIET), "it need not stand in line");
        rig.clients[QUIET].requests.push_back((QUIET, LITTLE));
        assert!(!rig.come(QUIET), "it was let in as one who asks for little");
        let served = rig.turn();
        assert_eq!(served.iter().filter(|name| **name == QUIET).count(), 1);
        assert_eq!(served.len() - 1, CAPACITY / SHORT / MUCH);
        // Its other one has its turn in line.
        while !rig.clients[QUIET].requests.is_empty() {
            rig.called_come();
            rig.turn();
        }
        rig.called_come();
    }
}

#[test]
fn a_short_turn_breaks_no_promise_of_room() {
    const PLACES: usize = 6;
    let lanes = Arc::new(Lanes::new(&[Lane { capacity: 2 * PLACES, short: 1 }], |(_, weight): &Ask| *weight));
    let submitter = Submitter::<Ask, ()>::new(lanes.clone());
    lanes.take(&mut [Vec::new()], (Open::ALL, true), Some(Duration::ZERO));
    for place in 0..PLACES {
        submitter.place(0).expect("there is room for all").put((place, 2));
    }
}

#[test]
fn a_turn_is_short_where_one_is_in_haste_and_not_longer_for_a_hundred() {
    for clients in [1, 100] {
        let mut rig = Rig::new(clients, 1_000, MUCH);
        rig.all_come();
        rig.short = true;
        assert_eq!(rig.turn().len(), CAPACITY / MUCH, "what was let in is taken");
        rig.called_come();
        (0..clients).for_each(|name| _ = rig.come(name));
        assert_eq!(rig.turn().len(), CAPACITY / SHORT / MUCH);
        rig.called_come();
        rig.short = false;
        assert_eq!(rig.turn().len(), CAPACITY / SHORT / MUCH);
        rig.called_come();
        rig.all_come();
        assert_eq!(rig.turn().len(), CAPACITY / MUCH);
    }
}

#[test]
fn a_request_that_weighs_more_than_a_lane_has_its_turn_too() {
    let mut rig = Rig::new(3, 2, 10 * CAPACITY);
    rig.all_come();
    let served = (0..6).map(|_| {
        let served = rig.turn();
        rig.called_come();
        served
    });
    assert_eq!(served.collect::<Vec<_>>(), [[0], [0], [1], [2], [1], [2]]);
}

#[test]
fn who_was_called_and_does_not_come_holds_nobody_up() {
    let mut rig = Rig::new(3, 1, CAPACITY);
    rig.all_come();
    assert_eq!(rig.turn(), [0]);
    assert_eq!(*rig.called.lock().unwrap(), [1]);
    // Nothing waits, yet the worker does not sleep while somebody stands in line.
    rig.lanes.take(&mut rig.taken, (Open::ALL, false), None);
    assert_eq!(*rig.called.lock().unwrap(), [1, 2]);
    rig.called_come();
    assert_eq!(rig.turn(), [1]);
}

#[test]
fn who_is_gone_is_forgotten() {
    let mut rig = Rig::new(3, 1, CAPACITY);
    let before = Arc::strong_count(&rig.called);
    rig.all_come();
    rig.all_come();
    rig.clients.truncate(2);
    assert_eq!(Arc::strong_count(&rig.called), before - 1, "who waits twice is noted once");
    assert_eq!(rig.turn(), [0]);
    assert_eq!(rig.turn(), []);
    assert_eq!(*rig.called.lock().unwrap(), [1], "nobody else stands in line");
}
