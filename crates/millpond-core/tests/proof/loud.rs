//! A loud tenant beside a quiet one, in numbers: with very many messages in one topic, or one in each of as many topics,
//! in memory and on the disk alike, it delays the quiet one by one turn.
//!
//! Messages are delivered at most once: of what is leased, nothing would leave memory.
//!
//! `LOUD=1000000 cargo test --release -p millpond-core --test proof loud` has a million of them.

use millpond_core::command::*;
use millpond_core::fact::{Fact, FactLog};
use millpond_types::NamespaceName;

use crate::bare::Bare;
use crate::history::{Known, publish_run, receive};

/// Messages of the loud tenant.
const LOUD: u32 = 20_000;
/// Messages of one publish.
const BATCH: u32 = 1000;
/// Bytes of memory for many topics, where most of them are to be on the disk.
const ROOM: usize = 1024 * 1024;
/// Messages of the quiet tenant, each published when the one before was delivered.
const QUIET: u32 = 50;

#[test]
#[expect(clippy::disallowed_methods, reason = "whoever runs the test says how much is tried")]
fn a_loud_tenant_delays_a_quiet_one_by_one_turn() {
    let loud: u32 = std::env::var("LOUD").map_or(LOUD, |text| text.parse().expect("LOUD is a number"));
    for (each, room) in [(loud, usize::MAX), (loud, 0), (1, usize::MAX), (1, ROOM)] {
        let mut broker = Broker::new(room);
        let topics = loud / each;
        for first in (0..loud).step_by(BATCH as usize) {
            let runs = (first..loud.min(first + BATCH)).step_by(each.min(BATCH) as usize);
            broker.publish(runs.map(|at| (format!("loud/{:07}", at % topics), each.min(BATCH))));
        }
        // Its turn was just now, so nothing but the order of turns lets the quiet one in.
        assert_eq!(broker.next(), "loud");
        for _ in 0..QUIET {
            broker.publish([("quiet/1".to_owned(), 1)].into_iter());
            // One topic leaves where there is room for none, and of many most do.
            let is_cold = broker.0.core.resident_count() == 0 || each == 1 && broker.0.core.cold_count() > 0;
            assert_eq!(is_cold, room < usize::MAX, "{each} in a topic, and {room} bytes");
            let turns = [broker.next(), broker.next()];
            assert!(turns.contains(&"quiet".to_owned()), "of {loud} messages, {each} in a topic: {turns:?}");
            assert!(turns.contains(&"loud".to_owned()), "nor is the loud one left out: {turns:?}");
        }
    }
}

struct Broker(Bare<Nowhere>);

impl Broker {
    fn new(room: usize) -> Broker {
        let mut bare = Bare::new();
        bare.core.set_room(room);
        Broker(bare)
    }

    fn publish(&mut self, runs: impl Iterator<Item = (String, u32)>) {
        let mut known = Known::default();
        let runs = runs.map(|(topic, count)| publish_run(&mut known, &topic, count, None)).collect();
        let (namespace, level) = (NamespaceName::default(), Level::Durable);
        self.0.submit(Command::Publish(Publish { namespace, producer: None, level, runs }));
        assert!(self.0.turn().is_empty(), "nobody receives");
        while self.0.core.make_room() {}
    }

    /// The tenant that the next message is of.
    fn next(&mut self) -> String {
        let Command::Receive(any) = receive(1) else { unreachable!("it is one") };
        self.0.submit(Command::Receive(Receive { at_most_once: true, ..any }));
        loop {
            if let [run] = &self.0.turn()[..] {
                return String::from_utf8(run.topic.tenant().to_vec()).expect("a name is text");
            }
            let wanted = self.0.wanted();
            assert!(!wanted.is_empty(), "there is something to receive, or to be read");
            self.0.load(wanted);
        }
    }
}

/// A journal that keeps nothing.
#[derive(Default)]
struct Nowhere(u64);

impl FactLog for Nowhere {
    fn append(&mut self, fact: &Fact) -> u64 {
        let before = self.0;
        self.0 += 1 + fact.block().map_or(0, |block| block.len() as u64);
        before
    }

    fn position(&self) -> u64 {
        self.0
    }
}
