//! Very much that ends at once because its TTL has passed.

use millpond_core::command::{Command, Level, Publish, PublishRun};
use millpond_core::fact::{Fact, Victims};
use millpond_core::{LevelBounds, Now};
use millpond_types::{Millis, NamespaceName, OnExpiry, Policy, Rules};

use crate::bare::Bare;
use crate::history::{Known, publish_run, receive};
use crate::journal::Journal;
use crate::shell::Shell;

/// More deadlines than are decided in one turn.
const MANY: usize = 25_000;
const TTL: Millis = Millis(1000);

struct Mayflies {
    bare: Bare<Journal>,
    known: Known,
}

impl Mayflies {
    fn new(on_expiry: OnExpiry) -> Mayflies {
        let (name, rules) = (NamespaceName::default(), Rules::default());
        let policy = Policy { on_expiry, ttl: Some(TTL), ..Policy::default() };
        let mut bare = Bare::new();
        bare.submit(Command::NamespaceSet { name, policy, rules, based_on: None });
        Mayflies { bare, known: Known::default() }
    }

    fn publish(&mut self, runs: impl Iterator<Item = (String, u32)>) {
        let runs: Vec<PublishRun> =
            runs.map(|(topic, count)| publish_run(&mut self.known, &topic, count, None)).collect();
        let of = Publish { namespace: NamespaceName::default(), producer: None, level: Level::Durable, runs };
        self.bare.submit(Command::Publish(of));
        self.bare.turn();
    }

    fn pass(&mut self) {
        let Now { run, wall } = self.bare.core.now();
        self.bare.core.set_time(Now { run: run + TTL, wall: wall + TTL });
    }

    fn letters(&self) -> u32 {
        letters(&self.bare.journal)
    }
}

/// How many messages have become dead letters.
fn letters(journal: &Journal) -> u32 {
    let died = journal.facts.iter().map(|(fact, _)| match fact {
        Fact::Died { which: Victims::Waiting { count, .. }, .. } => *count,
        _ => 0,
    });
    died.sum()
}

#[test]
fn nothing_is_given_whose_ttl_has_passed_though_time_has_not_come_to_it_yet() {
    for on_expiry in [OnExpiry::Drop, OnExpiry::Dead] {
        // Each in a topic of its own, all in one, and what came back in another.
        let mut all = Mayflies::new(on_expiry);
        for at in 0..MANY {
            let topic = if at % 2 == 0 { "one".into() } else { format!("{at:05}") };
            all.publish([(topic, 1)].into_iter());
        }
        all.pass();
        let mut turns = 0;
        while all.bare.core.next_wake() == Some(Millis::ZERO) || turns == 0 {
            all.bare.submit(receive(100));
            assert!(all.bare.turn().is_empty(), "turn {turns}");
            turns += 1;
        }
        assert!(turns > 1, "one turn does not come to all");
        assert_eq!(all.bare.core.resident_count(), 0);
    }
}

#[test]
fn a_turn_makes_so_many_dead_letters_and_no_more() {
    let mut all = Mayflies::new(OnExpiry::Dead);
    for topic in ["a", "b"] {
        all.publish([(topic.into(), 60_000)].into_iter());
    }
    all.pass();
    let mut before = 0;
    while before < 120_000 {
        all.bare.turn();
        let made = all.letters() - before;
        assert!((1..=10_000).contains(&made), "{made} in one turn");
        before += made;
    }
    all.bare.turn();
    assert_eq!((all.letters(), all.bare.core.resident_count()), (120_000, 0));
}

/// The shell holds them with the jobs, for as long as a disk does not take entries as fast as they are made.
#[test]
fn dead_letters_of_ttls_are_held_with_the_jobs_and_others_pass() {
    let mut all = Mayflies::new(OnExpiry::Dead);
    all.publish([("a".into(), 60_000), ("b/1".into(), 10)].into_iter());
    all.pass();
    all.bare.core.hold_jobs(true);
    all.publish([("b/2".into(), 10)].into_iter());
    assert_eq!(all.letters(), 0);
    assert!(all.bare.core.has_jobs_on_hold(), "the shell looks again whether it holds them");
    assert_ne!(all.bare.core.next_wake(), Some(Millis::ZERO), "and nobody asks for turns meanwhile");
    // Turns pass those that are over, which nobody is given.
    all.bare.submit(receive(100));
    let given = all.bare.turn();
    assert!(given.iter().all(|run| run.topic.as_bytes() == b"b/2"), "{given:?}");
    assert_eq!((given.iter().map(|run| run.count).sum::<u32>(), all.letters()), (10, 0));
    all.bare.core.hold_jobs(false);
    assert_eq!(all.bare.core.next_wake(), Some(Millis::ZERO));
    while all.letters() < 60_010 {
        let before = all.letters();
        all.bare.turn();
        assert!(all.letters() > before);
    }
    assert!(!all.bare.core.has_jobs_on_hold());
}

/// Those of pieces in the store stay there.
#[test]
fn what_is_held_for_its_ttl_is_not_brought_into_memory() {
    let mut shell = Shell::with_bounds(LevelBounds { head: 2, tail: 1, piece: 4, resting: 2, out_of_line: 6 });
    let (name, rules) = (NamespaceName::default(), Rules::default());
    let policy = Policy { on_expiry: OnExpiry::Dead, ttl: Some(TTL), ..Policy::default() };
    let ticket = shell.ticket();
    shell.turn(vec![(ticket, Command::NamespaceSet { name, policy, rules, based_on: None })]);
    let mut known = Known::default();
    for _ in 0..100 {
        let runs = vec![publish_run(&mut known, "a", 1, None)];
        let of = Publish { namespace: NamespaceName::default(), producer: None, level: Level::Durable, runs };
        let ticket = shell.ticket();
        shell.turn(vec![(ticket, Command::Publish(of))]);
        shell.pass(1, 1);
    }
    shell.core.hold_jobs(true);
    shell.pass(TTL.0, TTL.0);
    let before = shell.core.resident_bytes();
    for _ in 0..10 {
        shell.turn(Vec::new());
    }
    assert_eq!((letters(&shell.journal), shell.core.resident_bytes()), (0, before));
    assert_ne!(shell.next_wake(), Some(0));
    shell.core.hold_jobs(false);
    while shell.next_wake() == Some(0) {
        shell.turn(Vec::new());
    }
    assert_eq!(letters(&shell.journal), 100);
}

/// Very many topics have one message each. A deadline is one more timer, and no node of a map.
#[test]
fn the_ttl_of_a_topic_with_one_message_takes_little_memory() {
    let taken = |ttl: Option<Millis>| {
        let mut mayflies = Mayflies::new(OnExpiry::Drop);
        let (name, policy) = (NamespaceName::default(), Policy { ttl, ..Policy::default() });
        let rules = Rules::default();
        mayflies.bare.submit(Command::NamespaceSet { name, policy, rules, based_on: None });
        mayflies.publish((0..1000).map(|topic| (format!("t{topic}"), 1)));
        mayflies.bare.core.resident_bytes() / 1000
    };
    let (with, without) = (taken(Some(TTL)), taken(None));
    assert!(with - without < 128, "{with} bytes with a TTL, and {without} without");
}
