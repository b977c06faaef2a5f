//! What comes behind a drain: very many keys stand in its way that are gone, and it goes over them a slice at a time. A checkpoint
//! drops them. With one or without, the same becomes of everything.

use bytes::Bytes;
use millpond_core::command::*;
use millpond_core::fact::Fact;
use millpond_core::output::Reply;
use millpond_types::limits::TOP_MAX;
use millpond_types::{Filter, GroupName, Millis, NamespaceName, Priority, TopBy};

use super::cold::{Cold, prefix};
use crate::ask::asked;
use crate::history::{name, receive};

const GONE: usize = 5_000;
const LEFT: usize = 300;
/// Reads that it takes at least to go over what is gone.
const READS: usize = 4;

/// What was done.
#[derive(Debug, PartialEq)]
struct Done {
    facts: Vec<Fact>,
    reply: Reply,
}

fn topic(at: usize) -> String {
    format!("t/{at:06}")
}

fn is_left(at: usize) -> bool {
    at >= GONE || at == GONE / 2
}

/// Topics on the disk of which all but the last and one in the middle are gone, with a checkpoint behind that or without.
fn drained(is_written: bool, ttl: fn(usize) -> Option<Millis>) -> Cold {
    let mut cold = Cold::new();
    for at in 0..GONE + LEFT {
        let publish = cold.publish(&[topic(at)], Priority::DEFAULT, ttl(at));
        cold.begin(publish);
        if at % 500 == 0 {
            cold.evict();
        }
    }
    cold.write();
    cold.evict();
    let gone: Vec<_> = (0..GONE).filter(|at| !is_left(*at)).map(|at| name(&topic(at))).collect();
    for names in gone.chunks(1_000) {
        let filter = Filter::Topics(names.to_vec());
        let purge = Command::Purge { namespace: NamespaceName::default(), filter, group: None };
        assert_eq!(cold.answered(purge), Reply::Count(names.len() as u64));
    }
    cold.evict();
    if is_written {
        cold.write();
    }
    cold
}

/// What a command comes to behind a drain, the same with a checkpoint and without, when it takes many reads.
fn all_the_same(command: Command) -> Reply {
    let [(with, reads), (without, more_reads)] = [true, false].map(|is_written| {
        let mut cold = drained(is_written, |_| None);
        let (facts, reads) = (cold.journal.facts.len(), cold.ranges);
        let reply = cold.answered(command.clone());
        cold.rest();
        // What a checkpoint makes it repeat is nothing that was decided, and what is left empty vanishes at the end of a turn.
        let facts = cold.journal.facts[facts..].iter().map(|(fact, _)| fact.clone());
        let of_turns = |fact: &Fact| matches!(fact, Fact::TopicRecalled { .. } | Fact::TopicVanished { .. });
        let facts = facts.filter(|fact| !of_turns(fact)).collect();
        (Done { facts, reply }, cold.ranges - reads)
    });
    assert!(with == without, "{with:?} with a checkpoint, {without:?} without");
    assert!(more_reads >= reads + READS, "{reads} reads with a checkpoint, {more_reads} without");
    with.reply
}

fn names(reply: &Reply) -> Vec<&str> {
    let Reply::Topics(rows) = reply else { panic!("{reply:?}") };
    rows.iter().map(|row| row.name.as_str()).collect()
}

#[test]
fn lists_and_what_stands_out_are_the_same_behind_a_drain() {
    let (namespace, group) = (NamespaceName::default(), GroupName::default());
    let (prefix, after) = (Bytes::from("t/"), Bytes::new());
    let listing = Listing { namespace: namespace.clone(), prefix: prefix.clone(), after, limit: 3 };
    let list = Command::Topics { listing, group: group.clone() };
    let top = Command::Top(Top { namespace, group, prefix, by: TopBy::Depth, limit: TOP_MAX as u32 });
    assert_eq!(names(&all_the_same(list)), [topic(GONE / 2), topic(GONE), topic(GONE + 1)]);
    assert_eq!(names(&all_the_same(top)).len(), TOP_MAX);
}

#[test]
fn a_purge_is_the_same_behind_a_drain() {
    let purge = Command::Purge { namespace: NamespaceName::default(), filter: prefix("t/"), group: None };
    assert_eq!(all_the_same(purge), Reply::Count(LEFT as u64 + 1));
}

#[test]
fn a_group_is_given_the_same_behind_a_drain() {
    all_the_same(asked("group audit start=earliest"));
}

#[test]
fn dispatch_finds_the_same_behind_a_drain() {
    let mut cold = drained(false, |_| None);
    let reads = cold.ranges;
    assert_eq!(cold.drain().len(), LEFT + 1);
    assert!(cold.ranges - reads >= READS, "{} reads", cold.ranges - reads);
}

#[test]
fn what_falls_due_behind_a_drain_is_found() {
    let mut cold = drained(false, |at| Some(Millis::seconds(if is_left(at) { 2_000 } else { 1_000 })));
    let facts = cold.journal.facts.len();
    cold.now.wall.0 += 2_100_000;
    cold.turn(None);
    let reads = cold.ranges;
    cold.rest();
    assert_eq!(
        cold.journal.facts[facts..].iter().filter(|(fact, _)| matches!(fact, Fact::Ended { .. })).count(),
        LEFT + 1
    );
    assert!(cold.ranges - reads >= READS, "{} reads", cold.ranges - reads);
    assert!(!cold.core.is_behind_time());
}

/// Dead letters by the thousand, of which all but the last were thrown away.
#[test]
fn dead_letters_are_the_same_behind_others_that_are_gone() {
    let replies = [true, false].map(|is_written| {
        let mut cold = Cold::new();
        cold.set_room(usize::MAX);
        for at in [0, 1] {
            cold.answered(asked(&format!("publish t/{at} m*{}", [GONE, LEFT][at])));
        }
        let Reply::Received(runs) = cold.answered(receive(u32::MAX)) else { panic!("leases") };
        let receipts = runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }).collect();
        let verb = FinishVerb::Reject { reason: Bytes::new() };
        cold.answered(Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }));
        let (namespace, group) = (NamespaceName::default(), GroupName::default());
        let purge = Command::DeadPurge {
            namespace: namespace.clone(),
            group: group.clone(),
            which: DeadWhich::Filter(prefix("t/0")),
        };
        assert_eq!(cold.answered(purge), Reply::Count(GONE as u64));
        if is_written {
            cold.write();
        }
        let (turns, reads) = (cold.turns, cold.ranges);
        let listing = Listing { namespace, prefix: Bytes::new(), after: Bytes::new(), limit: 1_000 };
        let reply = cold.answered(Command::DeadList { listing, group });
        assert!(is_written || cold.ranges - reads >= READS, "{} reads", cold.ranges - reads);
        assert!(cold.turns - turns >= cold.ranges - reads, "one of them a turn");
        reply
    });
    assert!(matches!(&replies[0], Reply::Dead { rows, .. } if rows.len() == LEFT), "{:?}", replies[0]);
    assert_eq!(replies[0], replies[1]);
}
