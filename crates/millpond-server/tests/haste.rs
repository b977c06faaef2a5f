//! In which turns of the writer what is short and what is long is decided, where somebody is in haste.

mod by_hand;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use by_hand::{Clock, publish, run};
use millpond_core::command::{Command, Ticket};
use millpond_core::{Core, Now};
use millpond_server::manual::{Host, ManualBroker, Rooms};
use millpond_storage::twin::TwinDisk;
use millpond_storage::{OpenOptions, open};

/// What each turn was asked, by its index.
type Turns = Arc<Mutex<Vec<Vec<usize>>>>;

struct Hasty {
    clock: Clock,
    is_in_haste: bool,
    turns: Turns,
}

impl Host for Hasty {
    fn now(&mut self) -> Instant {
        self.clock.now()
    }

    fn system(&mut self) -> Duration {
        self.clock.system()
    }

    fn own_hand_max(&self) -> u64 {
        self.clock.own_hand_max()
    }

    fn is_in_haste(&mut self, _is_somebody_waiting: bool) -> bool {
        self.is_in_haste
    }

    fn begins(&mut self, core: &mut Core, now: Now) {
        self.turns.lock().unwrap().push(Vec::new());
        core.set_time(now);
    }

    fn asks(&mut self, ticket: Ticket, command: Command) -> Command {
        let index = ticket.0 as usize & ((1 << Ticket::INDEX_BITS) - 1);
        self.turns.lock().unwrap().last_mut().unwrap().push(index);
        command
    }
}

struct Rig {
    broker: ManualBroker<Hasty>,
    turns: Turns,
    asked: Vec<&'static str>,
}

impl Rig {
    fn new(is_in_haste: bool) -> Rig {
        let turns = Turns::default();
        let opened = open::<Core>(Arc::new(TwinDisk::new(512)), &OpenOptions::default()).unwrap();
        let hasty = Hasty { clock: Clock::standing(), is_in_haste, turns: turns.clone() };
        let (mut broker, _) = ManualBroker::start(opened, Rooms::least(), hasty).unwrap();
        // A turn says what the next one is like.
        broker.write().unwrap();
        turns.lock().unwrap().clear();
        Rig { broker, turns, asked: Vec::new() }
    }

    /// A connection publishes a message to each of so many topics.
    fn publish(&mut self, connection: u64, what: &'static str, topics: usize) {
        let ticket = Ticket(connection << Ticket::INDEX_BITS | self.asked.len() as u64);
        self.asked.push(what);
        let runs = (0..topics).map(|n| run(&format!("{n}"), b"body", 1)).collect();
        let left = self.broker.submit(ticket, publish(runs));
        assert!(left.is_none(), "there is room for it");
    }

    /// What the next turn is asked.
    fn turn(&mut self) -> Vec<&'static str> {
        self.broker.write().unwrap();
        let turn = self.turns.lock().unwrap().pop().expect("a turn begins");
        turn.into_iter().map(|index| self.asked[index]).collect()
    }
}

const LONG: usize = 65;
const SHORT: usize = 64;

#[test]
fn in_haste_what_is_short_is_decided_a_turn_before_what_is_long() {
    let mut rig = Rig::new(true);
    rig.publish(1, "long1", LONG);
    rig.publish(2, "long2", LONG);
    rig.publish(1, "behind1", 1);
    rig.publish(3, "short3", SHORT);
    rig.publish(3, "long3", LONG);
    assert_eq!(rig.turn(), ["short3"]);
    rig.publish(4, "short4", 1);
    assert_eq!(rig.turn(), ["long1", "long2", "behind1", "long3"], "and in the order in which it came");
    rig.publish(5, "long5", LONG);
    assert_eq!(rig.turn(), ["short4"]);
    rig.publish(4, "short4", 1);
    assert_eq!(rig.turn(), ["long5"], "nobody's haste holds it up for longer");
    rig.publish(5, "long5", LONG);
    assert_eq!(rig.turn(), ["short4"]);
    assert_eq!(rig.turn(), ["long5"]);
}

#[test]
fn what_is_long_waits_for_nobody_where_nobody_is_in_haste_or_asks_for_little() {
    for is_in_haste in [false, true] {
        let mut rig = Rig::new(is_in_haste);
        rig.publish(1, "long1", LONG);
        rig.publish(1, "behind1", 1);
        rig.publish(2, "long2", LONG);
        assert_eq!(rig.turn(), ["long1", "behind1", "long2"]);
    }
    let mut rig = Rig::new(false);
    rig.publish(1, "long1", LONG);
    rig.publish(2, "short2", 1);
    assert_eq!(rig.turn(), ["long1", "short2"]);
}

#[test]
fn in_haste_what_is_long_goes_to_the_disk_with_what_is_short_behind_it() {
    let mut rig = Rig::new(true);
    rig.publish(1, "long1", LONG);
    rig.publish(2, "short2", 1);
    assert_eq!(rig.turn(), ["short2"]);
    assert!(rig.broker.commit(), "who asks for little is told before what is long is decided");
    rig.publish(2, "short2", 1);
    assert_eq!(rig.turn(), ["long1"]);
    assert!(!rig.broker.commit());
    assert_eq!(rig.turn(), ["short2"]);
    assert!(rig.broker.commit() && !rig.broker.commit(), "one sync is for both");
    // Where nothing comes it waits for nothing.
    rig.publish(1, "long1", LONG);
    rig.publish(2, "short2", 1);
    assert_eq!(rig.turn(), ["short2"]);
    assert!(rig.broker.commit());
    assert_eq!(rig.turn(), ["long1"]);
    assert_eq!((rig.broker.write().unwrap(), rig.broker.commit()), (None, true));
}
