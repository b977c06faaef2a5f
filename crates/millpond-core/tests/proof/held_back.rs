//! Topics that have messages and may not be served: paused, out of tokens of their rate, at their limit. They cost nothing until
//! their time, however many they are: whoever receives what others have is answered in one turn, with no read for theirs.

use millpond_core::command::{Command, Finish, FinishVerb, Level, Publish, ReceiptRun};
use millpond_types::{Millis, NamespaceName};

use crate::bare::Bare;
use crate::history::{Known, publish_run, receive};
use crate::journal::Journal;
use crate::script::{Line, Names, command};

/// Far more than are looked at in a turn.
const HELD: u32 = 5_000;
/// Topics of one publish.
const BATCH: u32 = 1000;
/// Messages of others, each published when the one before was delivered.
const OTHERS: u32 = 20;
/// A topic of a publish that comes while all are on the disk is looked up, once.
const READS_MAX: usize = 2;

#[test]
fn what_may_not_be_served_costs_nothing_until_its_time() {
    for held_by in ["pause", "rate=1/9h:1", "max_in_flight=1"] {
        // What is leased is in memory anyway.
        let rooms = if held_by == "max_in_flight=1" { &[usize::MAX][..] } else { &[usize::MAX, 0] };
        for room in rooms.iter().copied() {
            let mut broker = Broker { bare: Bare::new(), given: Vec::new() };
            match held_by {
                "pause" => broker.tell("pause held/*"),
                policy => broker.tell(&format!("namespace default lease=9h + held/* {policy}")),
            }
            for first in (0..HELD).step_by(BATCH as usize) {
                broker.publish((first..first + BATCH).map(|at| (format!("held/{at:07}"), 2)));
            }
            if held_by != "pause" {
                // One of each; with the tokens that are gone, or the lease, goes what it has left to offer.
                let each = std::iter::repeat_with(|| broker.receive(BATCH).0);
                assert_eq!(each.take_while(|got| *got > 0).sum::<u32>(), HELD, "{held_by}");
            }
            if held_by != "max_in_flight=1" {
                broker.ack();
            }
            broker.bare.core.set_room(room);
            broker.settle();
            assert_eq!(broker.bare.core.cold_count() > 0, room == 0);
            for _ in 0..OTHERS {
                broker.publish([("others/1".to_owned(), 1)].into_iter());
                let (received, reads) = broker.receive(1);
                assert_eq!(received, 1, "{held_by}");
                assert!(reads <= READS_MAX, "{held_by}: {reads} reads beside {HELD} topics, with room for {room}");
            }
            assert_eq!(broker.receive(1).0, 0, "{held_by}: they were held to the end");
        }
    }
}

struct Broker {
    bare: Bare<Journal>,
    /// What was received and not acked.
    given: Vec<ReceiptRun>,
}

impl Broker {
    fn tell(&mut self, text: &str) {
        self.submit(command(&Line::new(text), text, &Names::default()));
        self.settle();
    }

    fn submit(&mut self, command: Command) {
        self.bare.submit(command);
    }

    /// Turns until nothing is left to do; how many reads they took.
    fn settle(&mut self) -> usize {
        let mut reads = 0;
        loop {
            self.bare.turn();
            let wanted = self.bare.wanted();
            if wanted.is_empty() && self.bare.core.next_wake() != Some(Millis::ZERO) {
                return reads;
            }
            reads += wanted.len();
            self.bare.load(wanted);
            while self.bare.core.make_room() {}
        }
    }

    fn publish(&mut self, runs: impl Iterator<Item = (String, u32)>) {
        let mut known = Known::default();
        let runs = runs.map(|(topic, count)| publish_run(&mut known, &topic, count, None)).collect();
        let namespace = NamespaceName::default();
        self.submit(Command::Publish(Publish { namespace, producer: None, level: Level::Durable, runs }));
        self.settle();
    }

    fn ack(&mut self) {
        for receipts in std::mem::take(&mut self.given).chunks(BATCH as usize).map(<[ReceiptRun]>::to_vec) {
            let ack = Finish { verb: FinishVerb::Ack, receipts, confirm: false, namespace: None };
            self.submit(Command::Finish(ack));
            self.settle();
        }
    }

    /// How many messages come at once, but for what has to be read first, and how many reads that took.
    fn receive(&mut self, messages: u32) -> (u32, usize) {
        self.submit(receive(messages));
        let (mut got, mut reads) = (0, 0);
        loop {
            let runs = self.bare.turn();
            got += runs.iter().map(|run| run.count).sum::<u32>();
            self.given.extend(runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }));
            let wanted = self.bare.wanted();
            if wanted.is_empty() {
                return (got, reads);
            }
            reads += wanted.len();
            self.bare.load(wanted);
        }
    }
}
