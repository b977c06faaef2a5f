//! Retention, held against all that the groups have: nothing ends that is to stay, and however long nothing else happens
//! no more stays than is to, but for the part that is allowed.

use std::collections::BTreeMap;

use millpond_core::LevelBounds;
use millpond_core::fact::{Fact, GroupNumber};
use millpond_core::page::{AsideState, Page, RunPage};
use millpond_types::{EndReason, MessageId, Priority, Sequence, TopicNumber};
use proptest::prelude::*;

use crate::history::config;
use crate::script::{Line, Names, command};
use crate::shell::Shell;

/// Messages of a publish: what is published in one moment goes together.
const BATCH: u64 = 5;
/// The retention that is tried: an age in milliseconds, and a count.
const AGE: u64 = 16_000;
const COUNT: u64 = 24;
/// The part that is allowed beyond that, and for how long.
const PART: u64 = 8;
const LOOK: u64 = 1_000;

/// What groups hold: when it was published, and whether it is leased.
type Held = BTreeMap<(GroupNumber, MessageId), (u64, bool)>;

struct Run {
    shell: Shell,
    keeps: (bool, bool),
}

impl Run {
    fn new(keeps: (bool, bool)) -> Run {
        let shell = Shell::with_bounds(LevelBounds { head: 1, tail: 1, piece: 2, resting: 1, ..LevelBounds::WHOLE });
        let mut run = Run { shell, keeps };
        let age = if keeps.0 { format!(" retention_age={AGE}ms") } else { String::new() };
        let count = if keeps.1 { format!(" retention_count={COUNT}") } else { String::new() };
        run.turn(Some(&format!("namespace default lease=3s retry=1s..4s{age}{count}")));
        run.turn(Some("group audit"));
        run
    }

    /// A turn in which nothing ends that is to stay.
    fn turn(&mut self, text: Option<&str>) {
        let (before, facts) = (self.held(), self.shell.journal.facts.len());
        let ticket = self.shell.ticket();
        self.shell
            .turn(text.map(|text| (ticket, command(&Line::new(text), text, &Names::default()))).into_iter().collect());
        let (after, now) = (self.held(), self.shell.now.wall.0);
        for (fact, _) in &self.shell.journal.facts[facts..] {
            let Fact::Ended { topic, group, priority, first, count, reason: EndReason::RetainedOut } = fact else {
                continue;
            };
            for at in 0..u64::from(*count) {
                let id = MessageId { topic: *topic, priority: *priority, sequence: Sequence(first.0 + at) };
                let (published, _) = before[&(*group, id)];
                let is_newer = |of: GroupNumber, at: u64| of == *group && at > published;
                let there = before.iter().filter(|((of, _), (at, _))| is_newer(*of, *at));
                let there = there.filter(|(key, (_, leased))| !leased || after.get(key).is_some_and(|(_, now)| !now));
                let came = after.iter().filter(|(key, (at, _))| is_newer(key.0, *at) && !before.contains_key(key));
                let newer = (there.count() + came.count()) as u64;
                let (old, many) = (published + AGE < now, newer >= COUNT);
                assert!(self.keeps.0 && old || self.keeps.1 && many, "{id} has ended, and {newer} are newer");
            }
        }
    }

    /// Lets time pass until all has ended that is to, and no more: then there is no more than is allowed.
    fn rest(&mut self) {
        self.shell.pass(LOOK, LOOK);
        self.turn(None);
        while self.shell.next_wake() == Some(0) {
            self.turn(None);
        }
        let (held, now) = (self.held(), self.shell.now.wall.0);
        for group in [0, 1] {
            let held = held.iter().filter(|((of, _), (_, leased))| *of == group && !leased);
            let held: Vec<u64> = held.map(|(_, (published, _))| *published).collect();
            let oldest = held.iter().min().map_or(0, |published| now - published);
            assert!(!self.keeps.0 || oldest <= AGE + AGE / PART, "something is {oldest} ms old");
            let most = COUNT + COUNT / PART + BATCH;
            assert!(!self.keeps.1 || held.len() as u64 <= most, "{} are held", held.len());
        }
    }

    fn held(&self) -> Held {
        let mut held = Held::new();
        let mut put = |group, topic: TopicNumber, priority: Priority, run: &RunPage, leased: bool| {
            for at in 0..u64::from(run.count) {
                let id = MessageId { topic, priority, sequence: Sequence(run.first.0 + at) };
                held.insert((group, id), (run.published.0, leased));
            }
        };
        for page in self.shell.core.pages() {
            match page {
                Page::Topic(of) => {
                    for level in &of.levels {
                        level.runs.iter().for_each(|run| put(of.group, of.number, level.priority, run, false));
                        for aside in &level.aside {
                            let leased = matches!(aside.state, AsideState::Leased { .. });
                            put(of.group, of.number, level.priority, &aside.run, leased);
                        }
                    }
                }
                Page::Piece(of) => of.runs().for_each(|run| put(of.group, of.topic, of.priority, run, false)),
                _ => {}
            }
        }
        held
    }
}

#[derive(Clone, Debug)]
enum Step {
    Say(String),
    Rest,
    Room(usize),
    Restart(bool),
}

fn step() -> impl Strategy<Value = Step> {
    let topic = prop_oneof![Just("a"), Just("b/1"), Just("b/2"), Just("c")];
    let publish = (topic.clone(), 1..=BATCH, 3..6u8, prop_oneof![3 => Just(""), 1 => Just(" delay=30s")])
        .prop_map(|(topic, count, priority, delay)| format!("publish {topic} m*{count} prio={priority}{delay}"));
    let receive = (1..9u32, prop_oneof![Just(""), Just(" once=yes"), Just(" group=audit")])
        .prop_map(|(max, how)| format!("receive max={max}{how}"));
    let purge = topic.prop_map(|topic| format!("purge {topic}"));
    prop_oneof![
        12 => publish.prop_map(Step::Say),
        4 => receive.prop_map(Step::Say),
        1 => purge.prop_map(Step::Say),
        6 => Just(Step::Rest),
        1 => prop_oneof![Just(0), Just(usize::MAX)].prop_map(Step::Room),
        1 => any::<bool>().prop_map(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(config(48))]

    #[test]
    fn what_a_group_is_to_keep_stays_and_what_is_too_much_goes(
        keeps in prop_oneof![Just((true, false)), Just((false, true)), Just((true, true))],
        steps in proptest::collection::vec(step(), 1..120),
    ) {
        let mut run = Run::new(keeps);
        for step in steps {
            match step {
                Step::Say(text) => run.turn(Some(&text)),
                Step::Rest => run.rest(),
                Step::Room(room) => run.shell.core.set_room(room),
                Step::Restart(crash) => run.shell.restart(crash),
            }
            run.shell.pass(1, 1);
        }
    }
}
