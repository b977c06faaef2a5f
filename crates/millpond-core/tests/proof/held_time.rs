//! What time brings waits while the shell holds it, because neither a checkpoint nor a batch can be written: there may be as much
//! of it as there are messages. All of it comes afterwards.

use millpond_core::Now;
use millpond_core::command::*;
use millpond_core::fact::Fact;
use millpond_types::limits::PUBLISH_RUNS_MAX;
use millpond_types::{EndReason, Millis, NamespaceName};

use crate::bare::Bare;
use crate::history::{Known, publish_run, receive};
use crate::journal::Journal;

/// Of each kind.
const TOPICS: u64 = 3000;
/// When the first of what waits is due, or over; the others follow in steps of a millisecond.
const FIRST: Millis = Millis(1000);
/// Turns in which all is over that does not wait for time: some hundreds are enough.
const TURNS_MAX: usize = 20_000;

struct Pond {
    bare: Bare<Journal>,
}

impl Pond {
    /// With delays that end one after the other, TTLs, pauses before a retry, and a lease.
    fn filled() -> Pond {
        let mut pond = Pond { bare: Bare::new() };
        pond.publish("r", None, None);
        pond.bare.submit(receive(TOPICS as u32));
        let receipts = pond.rest();
        let fail = FinishVerb::Fail { delay: Some(FIRST), reason: Default::default() };
        pond.bare.submit(Command::Finish(Finish { verb: fail, receipts, confirm: false, namespace: None }));
        pond.publish("l", None, None);
        pond.bare.submit(receive(1));
        pond.rest();
        pond.publish("d", Some(FIRST), None);
        pond.publish("t", None, Some(FIRST));
        pond
    }

    fn publish(&mut self, prefix: &str, delay: Option<Millis>, ttl: Option<Millis>) {
        let mut known = Known::default();
        let later = |at: Option<Millis>, topic: u64| at.map(|at| Millis(at.0 + topic));
        let runs = (0..if prefix == "l" { 1 } else { TOPICS }).map(|topic| PublishRun {
            delay: later(delay, topic).unwrap_or_default(),
            ttl: later(ttl, topic),
            ..publish_run(&mut known, &format!("{prefix}/{topic:05}"), 1, None)
        });
        for runs in runs.collect::<Vec<_>>().chunks(PUBLISH_RUNS_MAX) {
            let (namespace, level, runs) = (NamespaceName::default(), Level::Durable, runs.into());
            self.bare.submit(Command::Publish(Publish { namespace, producer: None, level, runs }));
        }
        self.rest();
    }

    fn hold(&mut self, on_hold: bool) {
        self.bare.core.hold_jobs(on_hold);
        self.bare.core.hold_time(on_hold);
    }

    fn pass(&mut self, by: Millis) {
        let Now { run, wall } = self.bare.core.now();
        self.bare.core.set_time(Now { run: run + by, wall: wall + by });
    }

    /// A turn, and all that is read for it; the leases that it gives, and whether anything was read.
    fn turn(&mut self) -> (Vec<ReceiptRun>, bool) {
        let given = self.bare.turn();
        let wanted = self.bare.wanted();
        let reads = !wanted.is_empty();
        self.bare.load(wanted);
        (given.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect(), reads)
    }

    /// Turns until nothing more happens by itself.
    fn rest(&mut self) -> Vec<ReceiptRun> {
        let mut all = Vec::new();
        for _ in 0..TURNS_MAX {
            let (given, reads) = self.turn();
            all.extend(given);
            // What leaves for want of room may have to be found again.
            let has_room = !self.bare.core.make_room();
            if !reads && has_room && self.bare.core.next_wake() != Some(Millis::ZERO) {
                return all;
            }
        }
        panic!("it goes on and on, though no time passes");
    }

    /// The topics of what has come, by kind of fact: delays and pauses, TTLs, and leases that ran out.
    fn came(&self, from: usize) -> [Vec<u64>; 3] {
        let facts = || self.bare.journal.facts[from..].iter().map(|(fact, _)| fact);
        let ripened = facts().filter(|fact| matches!(fact, Fact::Ripened { .. }));
        let ended = facts().filter(|fact| matches!(fact, Fact::Ended { reason: EndReason::Expired, .. }));
        let ran_out = facts().filter(|fact| matches!(fact, Fact::Returned { .. }));
        let topics = |facts: &mut dyn Iterator<Item = &Fact>| {
            facts.map(|fact| fact.topic().expect("it is of one").0.0).collect::<Vec<_>>()
        };
        [topics(&mut { ripened }), topics(&mut { ended }), topics(&mut { ran_out })]
    }
}

/// What is read because it falls due before long leaves no more than it finds room for: else it leaves at once, and is read again.
#[test]
fn what_is_read_ahead_ends_whatever_the_room() {
    for room in (0..80).map(|step| (1 << 20) + 4000 - step * 85) {
        let mut pond = Pond::filled();
        pond.bare.core.set_room(room);
        pond.rest();
    }
}

#[test]
fn what_time_brings_waits_while_it_is_held_and_comes_in_order() {
    // In memory, and for the most part not.
    for room in [usize::MAX, 1 << 20] {
        let mut pond = Pond::filled();
        pond.bare.core.set_room(room);
        pond.rest();
        assert_eq!(pond.bare.core.cold_count() > TOPICS, room < usize::MAX);
        pond.hold(true);
        // Leases run out, and what they bring back rests as well: there are no more of them than were given.
        pond.pass(Millis::seconds(40));
        let before = pond.bare.journal.facts.len();
        pond.rest();
        let [ripened, ended, ran_out] = pond.came(before);
        assert_eq!((ripened.len(), ended.len(), ran_out.len()), (0, 0, 1));
        let (facts, bytes) = (pond.bare.journal.facts.len(), pond.bare.core.resident_bytes());
        for _ in 0..1000 {
            pond.pass(Millis(10));
            pond.turn();
            assert_ne!(pond.bare.core.next_wake(), Some(Millis::ZERO), "nobody asks for turns");
        }
        assert_eq!(pond.bare.journal.facts.len(), facts);
        let more = pond.bare.core.resident_bytes();
        assert!(more <= bytes, "nothing is brought into memory for it: {more} bytes after {bytes}");
        assert!(room < usize::MAX || pond.bare.core.has_jobs_on_hold(), "the shell looks again whether it holds it");
        pond.hold(false);
        assert_eq!(pond.bare.core.next_wake(), Some(Millis::ZERO));
        pond.rest();
        assert!(!pond.bare.core.has_jobs_on_hold());
        let [mut ripened, mut ended, _] = pond.came(before);
        if room < usize::MAX {
            // Those that are read come behind those that are there.
            ripened.sort_unstable();
            ended.sort_unstable();
        }
        // Of the pauses before a retry, one is that of the lease that ran out.
        assert_eq!((ripened.len() as u64, ended.len() as u64), (2 * TOPICS + 1, TOPICS));
        assert!(ended.is_sorted(), "{ended:?}");
        let delayed = ripened.iter().filter(|topic| **topic > TOPICS + 1);
        assert!(delayed.is_sorted(), "{ripened:?}");
    }
}
