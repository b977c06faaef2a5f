//! In which turns of the writer what is short and what is long is decided, where somebody is in haste.

mod by_hand;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use by_hand::{Clock, publish, run};
use millpond_core::command::{
    Attach, Command, DedupMark, Forward, Look, LookWhich, Route, Routed, SessionBegin, Ticket, TopicRef,
};
use millpond_core::output::{Output, Reply};
use millpond_core::{Core, Now};
use millpond_server::manual::{Host, ManualBroker, Rooms};
use millpond_storage::twin::TwinDisk;
use millpond_storage::{OpenOptions, open};
use millpond_types::{Filter, GroupName, Millis, NamespaceName, Priority, SessionId, TopicName};

/// What each turn was asked, by its index.
type Turns = Arc<Mutex<Vec<Vec<usize>>>>;

struct Hasty {
    clock: Clock,
    is_in_haste: bool,
    turns: Turns,
    /// How long it takes to decide a request.
    takes: Arc<Mutex<Duration>>,
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
        self.clock.pass(*self.takes.lock().unwrap());
        command
    }
}

struct Rig {
    broker: ManualBroker<Hasty>,
    clock: Clock,
    turns: Turns,
    takes: Arc<Mutex<Duration>>,
    asked: Vec<&'static str>,
}

impl Rig {
    fn new(is_in_haste: bool) -> Rig {
        Rig::new_with(is_in_haste, OpenOptions::default())
    }

    fn new_with(is_in_haste: bool, options: OpenOptions) -> Rig {
        Rig::on(Arc::new(TwinDisk::new(512)), is_in_haste, options)
    }

    fn on(disk: Arc<TwinDisk>, is_in_haste: bool, options: OpenOptions) -> Rig {
        let (turns, clock) = (Turns::default(), Clock::standing());
        let opened = open::<Core>(disk, &options).unwrap();
        let rooms = Rooms { topics: options.room, layers: 2 * options.young_bytes, ..Rooms::least() };
        let takes = Arc::<Mutex<Duration>>::default();
        let hasty = Hasty { clock: clock.clone(), is_in_haste, turns: turns.clone(), takes: takes.clone() };
        let (mut broker, _) = ManualBroker::start(opened, rooms, hasty).unwrap();
        // A turn says what the next one is like.
        broker.write().unwrap();
        turns.lock().unwrap().clear();
        Rig { broker, clock, turns, takes, asked: Vec::new() }
    }

    /// A connection publishes a message to each of so many topics.
    fn publish(&mut self, connection: u64, what: &'static str, topics: usize) {
        self.ask(connection, what, publish((0..topics).map(|n| run(&format!("{n}"), b"body", 1)).collect()));
    }

    fn ask(&mut self, connection: u64, what: &'static str, command: Command) {
        let ticket = Ticket(connection << Ticket::INDEX_BITS | self.asked.len() as u64);
        self.asked.push(what);
        assert!(self.broker.submit(ticket, command).is_none(), "there is room for it");
    }

    /// Turns until nothing is to be done any more, and what they tell.
    fn rest(&mut self) -> Vec<Output> {
        let mut told = Vec::new();
        for _ in 0..20 {
            self.clock.pass(Duration::from_millis(1));
            self.broker.write().unwrap();
            while self.broker.commit() || self.broker.fetch(0) || self.broker.fetch(1) {}
            while self.broker.housekeeper.step().unwrap() {}
            told.extend(self.broker.take_told());
        }
        told
    }

    /// What the next turn is asked.
    fn turn(&mut self) -> Vec<&'static str> {
        self.broker.write().unwrap();
        let turn = self.turns.lock().unwrap().pop().expect("a turn begins");
        turn.into_iter().map(|index| self.asked[index]).collect()
    }
}

/// The runs of one that takes all that may be short in a turn, and of one that is too long for that.
const SHORT: usize = 65;
const LONG: usize = 66;

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
fn in_haste_a_turn_leases_consumers_a_part_of_what_it_leases_otherwise() {
    for is_in_haste in [false, true] {
        let mut rig = Rig::new(is_in_haste);
        let (session, namespace) = (SessionId(1), NamespaceName::default());
        rig.ask(1, "begin", Command::SessionBegin(SessionBegin { session, resume: Millis::ZERO, held: Vec::new() }));
        let attach = Attach {
            session,
            consumer: 1,
            namespace,
            group: GroupName::default(),
            filter: Filter::All,
            messages: 1000,
            bytes: u64::MAX >> 1,
            lease: None,
            at_most_once: false,
        };
        rig.ask(1, "attach", Command::Attach(attach));
        rig.ask(2, "publish", publish(vec![run("t", b"body", 500)]));
        rig.turn();
        assert_eq!(rig.broker.core().goes_on_at_once(), is_in_haste);
        rig.rest();
        assert!(!rig.broker.core().goes_on_at_once(), "they are leased in the end");
    }
}

/// A publish of nine thousand ids to one topic kept everybody waiting that was decided in its turn.
#[test]
fn in_haste_very_many_dedup_ids_are_long_though_they_are_of_one_topic() {
    let mut rig = Rig::new(true);
    let ids = |count: u32| {
        let mut run = run("0", b"body", count);
        run.dedup = (0..count).map(|index| DedupMark { index, hash: index.into() }).collect();
        publish(vec![run])
    };
    rig.ask(1, "many1", ids(2 * LONG as u32));
    rig.ask(2, "few2", ids(LONG as u32));
    rig.publish(3, "short3", SHORT / 2);
    assert_eq!(rig.turn(), ["few2", "short3"]);
    assert_eq!(rig.turn(), ["many1"]);
}

#[test]
fn what_is_short_is_so_together_with_the_others_of_its_turn() {
    let mut rig = Rig::new(true);
    rig.publish(1, "half1", SHORT / 2 + 1);
    rig.publish(2, "half2", SHORT / 2 + 1);
    rig.publish(3, "two3", 2);
    rig.publish(4, "one4", 1);
    rig.publish(3, "one3", 1);
    assert_eq!(rig.turn(), ["half1", "half2", "one4"]);
    assert_eq!(rig.turn(), ["two3", "one3"]);
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
    // Nor for what comes back from the disk.
    let mut rig = Rig::new(true);
    rig.publish(2, "short2", 1);
    assert_eq!(rig.turn(), ["short2"]);
    assert!(rig.broker.commit());
    rig.publish(1, "long1", LONG);
    assert_eq!(rig.turn(), ["long1"]);
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
    assert_eq!(rig.broker.write().unwrap(), Some(Duration::ZERO), "the next turn is there at once");
    assert!(!rig.broker.commit());
    rig.broker.write().unwrap();
    assert!(rig.broker.commit());
}

#[test]
fn what_is_long_holds_up_no_batch_that_somebody_waits_for_or_that_is_full() {
    let mut rig = Rig::new(true);
    rig.publish(1, "long1", LONG);
    rig.publish(2, "short2", 1);
    assert_eq!(rig.turn(), ["short2"]);
    assert_eq!(rig.turn(), ["long1"]);
    rig.publish(3, "short3", 1);
    rig.publish(4, "long4", LONG);
    assert_eq!(rig.turn(), ["short3"]);
    assert!(rig.broker.commit(), "what went before short3 was on its way until now");
    assert_eq!(rig.turn(), ["long4"]);
    assert!(rig.broker.commit(), "short3 has waited for the disk alone");
    let mut rig = Rig::new_with(true, OpenOptions { batch_bytes: 1024, ..OpenOptions::default() });
    rig.publish(1, "long1", LONG);
    rig.publish(2, "short2", 1);
    assert_eq!(rig.turn(), ["short2"]);
    assert!(rig.broker.commit());
    assert_eq!(rig.turn(), ["long1"]);
    assert!(rig.broker.commit());
}

#[test]
fn forwards_and_routes_are_long_as_well() {
    let mut rig = Rig::new(true);
    let Command::Publish(to_many) = publish((0..LONG).map(|n| run(&format!("{n}"), b"body", 1)).collect()) else {
        unreachable!("it is one")
    };
    let routed = Routed {
        priority: Priority::DEFAULT,
        delay: Millis::ZERO,
        ttl: None,
        block: to_many.runs[0].block.clone(),
        too_large: None,
    };
    let to = ("exchange".try_into().unwrap(), "key".try_into().unwrap());
    let mut route = Route::new(NamespaceName::default(), to, routed, None, to_many.level);
    route.copies.count = LONG;
    rig.ask(1, "forward1", Command::Forward(Forward { receipts: Vec::new(), publish: to_many }));
    rig.ask(2, "route2", Command::Route(route));
    rig.publish(3, "short3", 1);
    rig.publish(1, "behind1", 1);
    assert_eq!(rig.turn(), ["short3"]);
    assert_eq!(rig.turn(), ["forward1", "route2", "behind1"]);
}

#[test]
fn behind_what_is_long_the_writer_rests_from_it_twice_as_long_as_it_took() {
    let took = Duration::from_millis(3);
    let mut rig = Rig::new(true);
    *rig.takes.lock().unwrap() = took;
    rig.publish(1, "long1", LONG);
    assert_eq!(rig.turn(), ["long1"]);
    *rig.takes.lock().unwrap() = Duration::ZERO;
    rig.publish(2, "short2", 1);
    assert_eq!(rig.turn(), ["short2"], "what is short goes on meanwhile");
    rig.publish(1, "long1", LONG);
    assert_eq!(rig.turn(), [""; 0]);
    rig.clock.pass(took);
    assert_eq!(rig.broker.write().unwrap(), Some(took), "so long the writer sleeps if nothing comes");
    rig.publish(2, "short2", 1);
    rig.ask(3, "look3", Command::Stats(NamespaceName::default()));
    assert_eq!(rig.turn(), ["look3"], "nothing overtakes what is left, but for what is in lanes before it");
    rig.clock.pass(took);
    assert_eq!(rig.turn(), ["long1"]);
    assert_eq!(rig.turn(), ["short2"]);
    // A turn in which the process was stopped makes it no longer than it may be.
    *rig.takes.lock().unwrap() = Duration::from_secs(3600);
    rig.publish(1, "long1", LONG);
    assert_eq!(rig.turn(), ["long1"]);
    rig.publish(1, "long1", LONG);
    assert_eq!(rig.turn(), [""; 0]);
    rig.clock.pass(Duration::from_millis(20));
    assert_eq!(rig.turn(), ["long1"]);
    // Only where somebody is in haste.
    let mut rig = Rig::new(false);
    *rig.takes.lock().unwrap() = took;
    for _ in 0..2 {
        rig.publish(1, "long1", LONG);
        assert_eq!(rig.turn(), ["long1"]);
    }
}

/// A turn has taken 3 ms for what is long, and the writer rests.
fn resting() -> Rig {
    let mut rig = Rig::new(true);
    *rig.takes.lock().unwrap() = Duration::from_millis(3);
    rig.publish(1, "long1", LONG);
    assert_eq!(rig.turn(), ["long1"]);
    rig
}

#[test]
fn in_a_rest_what_is_long_in_lanes_before_is_left_as_well() {
    let mut rig = resting();
    *rig.takes.lock().unwrap() = Duration::ZERO;
    rig.publish(2, "long2", LONG);
    assert_eq!(rig.turn(), [""; 0]);
    let Command::Publish(to_many) = publish((0..LONG).map(|n| run(&format!("{n}"), b"body", 1)).collect()) else {
        unreachable!("it is one")
    };
    rig.ask(3, "forward3", Command::Forward(Forward { receipts: Vec::new(), publish: to_many }));
    assert_eq!(rig.turn(), [""; 0]);
    rig.clock.pass(Duration::from_millis(6));
    assert_eq!(rig.turn(), ["forward3", "long2"], "lanes go in their order");
}

#[test]
fn a_stop_waits_for_no_rest_and_lets_nothing_overtake_what_is_left() {
    let mut rig = resting();
    rig.publish(1, "long1", LONG);
    assert_eq!(rig.turn(), [""; 0]);
    rig.publish(1, "behind1", 1);
    rig.publish(1, "behind1", 1);
    rig.broker.stop().unwrap();
    let asked: Vec<&str> = rig.turns.lock().unwrap().iter().flatten().map(|index| rig.asked[*index]).collect();
    assert_eq!(asked, ["long1", "behind1", "behind1"]);
}

/// What it is published to is on the disk alone.
#[test]
fn a_stop_decides_what_the_last_turn_has_left() {
    const ROOM: usize = 256 << 10;
    let options = OpenOptions { room: ROOM, young_bytes: ROOM / 2, ..OpenOptions::default() };
    let disk = Arc::new(TwinDisk::new(512));
    let mut rig = Rig::on(disk.clone(), true, options.clone());
    for from in (0..4000).step_by(100) {
        let runs = (from..from + 100).map(|n| run(&format!("{n:0400}"), b"body", 1)).collect();
        rig.ask(0, "one of many", publish(runs));
        rig.rest();
    }
    // Until the journal rests as well.
    (0..10).for_each(|_| drop(rig.rest()));
    assert!(rig.broker.is_marked() && rig.broker.core().cold_count() > LONG as u64);
    let runs = (0..LONG).map(|n| run(&format!("{n:0400}"), b"again", 1)).collect();
    rig.ask(1, "long1", publish(runs));
    // It has nothing come back from the disk, for which a stop would wait.
    rig.ask(2, "short2", Command::Stats(NamespaceName::default()));
    rig.broker.stop().unwrap();
    let mut rig = Rig::on(disk, false, options);
    let topic =
        TopicRef { namespace: NamespaceName::default(), name: TopicName::try_from(&*format!("{:0400}", 0)).unwrap() };
    rig.ask(3, "look", Command::Look(Look { topic, which: LookWhich::First(10), group: None }));
    let told = rig.rest();
    let found = told.iter().find_map(|output| match output {
        Output::Reply { reply: Reply::Messages(messages), .. } => Some(messages.len()),
        _ => None,
    });
    assert_eq!(found, Some(2));
}
