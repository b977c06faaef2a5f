//! Very much that ends at once because its TTL has passed.

use millpond_core::Now;
use millpond_core::command::{Command, Level, Publish, PublishRun};
use millpond_core::fact::{Fact, Victims};
use millpond_types::{Millis, NamespaceName, OnExpiry, Policy, Rules};

use crate::bare::Bare;
use crate::history::{Known, publish_run, receive};
use crate::journal::Journal;

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

    /// How many messages have become dead letters.
    fn letters(&self) -> u32 {
        let died = self.bare.journal.facts.iter().map(|(fact, _)| match fact {
            Fact::Died { which: Victims::Waiting { count, .. }, .. } => *count,
            _ => 0,
        });
        died.sum()
    }
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
