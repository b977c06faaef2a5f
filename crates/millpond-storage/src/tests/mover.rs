//! Old messages do not pin the disk.

use std::collections::VecDeque;

use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun};
use millpond_core::output::{Output, Reply};
use millpond_core::page::Page;
use millpond_types::{Filter, GroupKind, GroupName, NamespaceName, SessionId, Start, TopicName};

use super::calls::{self, receive, run};
use super::workload::{SEGMENT, Workload, YEAR, check_extents, delay, publish};
use crate::twin::{Seed, TwinDisk};
use crate::{Mark, Opened};

/// The ids and bodies of all messages that are not finished.
fn messages(opened: &Opened) -> Vec<(String, Vec<u8>)> {
    let mut messages = Vec::new();
    let mut note = |what: String, run: &millpond_core::page::RunPage| {
        let block = opened.reader.read(run.extent()).unwrap();
        messages.push((format!("{what} {:?} {}", run.first, run.count), block.to_vec()));
    };
    for page in opened.core.pages() {
        match page {
            Page::Topic(topic) => {
                for level in &topic.levels {
                    level.runs.iter().for_each(|run| note(format!("{:?} in line", topic.name), run));
                    level
                        .aside
                        .iter()
                        .for_each(|aside| note(format!("{:?} {:?}", topic.name, aside.state), &aside.run));
                }
            }
            Page::Piece(piece) => piece.runs().for_each(|run| note(format!("{:?} in a piece", piece.topic), run)),
            Page::Dead(dead) => note(format!("{} dead", dead.topic), &dead.run),
            _ => {}
        }
    }
    messages.sort();
    messages
}

/// A directory with many segments of which each holds a few messages: of each round one run is delayed for a year, one message is
/// leased for ever, one is dead, and the rest is done.
fn pinned() -> (Workload, Opened) {
    let mut work = Workload::new(TwinDisk::new(1), 1);
    let mut opened = work.open().unwrap();
    let mut seed = Seed::new(7);
    for round in 0..60 {
        for run in 0..20 {
            let mut command = publish(&mut seed);
            if run == 0 {
                delay(&mut command, YEAR);
            }
            work.turn(&mut opened, command).unwrap();
        }
        let mut leases = Vec::new();
        for output in work.turn(&mut opened, receive(1000)).unwrap() {
            if let Output::Reply { reply: Reply::Received(runs), .. } = output {
                leases.extend(runs.iter().map(|run| ReceiptRun { first: run.receipt, count: run.count }));
            }
        }
        let finish = |verb, receipts: &[ReceiptRun]| {
            Command::Finish(Finish { verb, receipts: receipts.to_vec(), confirm: true, namespace: None })
        };
        work.turn(&mut opened, finish(FinishVerb::Ack, &leases[2..])).unwrap();
        if round % 4 == 0 {
            work.turn(&mut opened, finish(FinishVerb::Reject { reason: "no".into() }, &leases[..1])).unwrap();
        }
    }
    work.checkpoint(&mut opened);
    (work, opened)
}

/// Moves until that is enough, in four passes at most; in how many.
fn move_all(work: &mut Workload, opened: &mut Opened) -> u32 {
    let mut passes = 0;
    while passes < 4 && opened.mover.space().total > opened.mover.space().bound {
        passes += u32::from(!work.move_some(opened).unwrap());
        work.mark(opened, Mark::Idle).unwrap();
        while opened.housekeeper.step().unwrap() {}
    }
    passes
}

#[test]
fn a_few_old_messages_do_not_pin_the_disk() {
    let (mut work, mut opened) = pinned();
    let (before, expected) = (opened.mover.space(), messages(&opened));
    assert!(before.total > before.bound + 5 * SEGMENT, "{before:?}");
    let passes = move_all(&mut work, &mut opened);
    let after = opened.mover.space();
    assert!(after.total <= after.bound, "{before:?} {after:?}, {passes} passes");
    assert_eq!(messages(&opened), expected, "nothing but their places has changed");
    check_extents(&opened);
    drop(opened);
    let opened = work.open().unwrap();
    assert_eq!(messages(&opened).len(), expected.len(), "nor does a start");
    check_extents(&opened);
}

/// A read that fails ends a pass and no more: what pins the disk is found by the next.
#[test]
fn a_pass_that_cannot_read_the_tree_is_begun_again() {
    let (mut work, mut opened) = pinned();
    let undisturbed = move_all(&mut work, &mut opened);
    let (mut work, mut opened) = pinned();
    work.disk.plan_read(0);
    let has_failed = (0..2).any(|_| opened.mover.step().is_err());
    assert!(has_failed && work.disk.unplan_read(), "a pass begins with a read");
    assert_eq!(move_all(&mut work, &mut opened), undisturbed, "nothing is left out of it");
    let after = opened.mover.space();
    assert!(after.total <= after.bound, "{after:?}");
}

/// A directory in which there are these groups, the first of them as in any.
fn grouped(groups: &[&str]) -> (Workload, Opened) {
    let mut work = Workload::new(TwinDisk::new(1), 1);
    let mut opened = work.open().unwrap();
    for name in &groups[1..] {
        let (namespace, name) = (NamespaceName::default(), GroupName::try_from(*name).unwrap());
        let (start, kind) = (Start::Latest, GroupKind::Shared);
        work.turn(&mut opened, Command::GroupCreate { namespace, name, start, kind }).unwrap();
    }
    (work, opened)
}

/// Publishes so many rounds, in each of which some messages of so many bytes go to each topic, to the last by itself. Of them each
/// group needs those of some topics.
fn fill(
    (work, opened): &mut (Workload, Opened),
    topics: &[(&str, usize)],
    groups: &[&str],
    (rounds, bytes): (u32, usize),
    needs: impl Fn(usize, usize) -> bool,
) {
    let body = vec![7; bytes];
    for _ in 0..rounds {
        let of = |(topic, count): &(&str, usize)| run(topic, &[], std::iter::repeat_n(&body[..], *count));
        for topics in [&topics[..topics.len() - 1], &topics[topics.len() - 1..]] {
            work.turn(opened, calls::publish(topics.iter().map(of).collect())).unwrap();
        }
    }
    for (at, group) in groups.iter().enumerate() {
        let others = topics.iter().enumerate().filter(|(topic, _)| !needs(at, *topic));
        let others = others.map(|(_, (name, _))| TopicName::try_from(*name).unwrap()).collect();
        let (namespace, group) = (NamespaceName::default(), Some(GroupName::try_from(*group).unwrap()));
        work.turn(opened, Command::Purge { namespace, filter: Filter::Topics(others), group }).unwrap();
    }
    // A purge goes on from turn to turn.
    for _ in 0..300 {
        work.turn(opened, Command::SessionLost(SessionId(1))).unwrap();
    }
}

/// A directory in which each group needs messages of another topic, and nobody those of the topics behind these.
fn needed_apart(topics: &[(&str, usize)], groups: &[&str], size: (u32, usize)) -> (Workload, Opened) {
    let mut there = grouped(groups);
    fill(&mut there, topics, groups, size, |group, topic| group == topic);
    there
}

const FIVE: [&str; 5] = ["default", "second", "third", "fourth", "fifth"];

/// Five groups that have each done with other messages need all that there is between them, though none needs more than
/// a fifth of it. What is counted as alive is what one needs: it is moved once, group by group, and then lies so. As nothing
/// is free before the last group's turn, a pass writes no more than the directory may take beyond what is alive.
#[test]
fn what_other_groups_need_is_not_moved_again_and_again() {
    let topics = ["0", "1", "2", "3", "4", "gone"].map(|name| (name, 1));
    let (mut work, mut opened) = needed_apart(&topics, &FIVE, (300, 2000));
    let mut most = 0;
    let mut passes = |work: &mut Workload, opened: &mut Opened, count| {
        for _ in 0..count {
            work.checkpoint(opened);
            while work.move_some(opened).unwrap() {
                most = opened.mover.space().total.max(most);
            }
            work.mark(opened, Mark::Idle).unwrap();
            while opened.housekeeper.step().unwrap() {}
        }
        opened.reader.written()
    };
    let (expected, before) = (messages(&opened), opened.mover.space());
    let emptied = passes(&mut work, &mut opened, 60);
    let space = opened.mover.space();
    assert!(space.total <= space.bound, "{space:?}");
    let later = passes(&mut work, &mut opened, 10);
    assert!(later - emptied < 16 * SEGMENT, "moved once more: {} bytes", later - emptied);
    assert!(most < before.total * 3 / 2, "{most} of {before:?}");
    assert_eq!(messages(&opened), expected);
}

/// What is moved is written to the reserve, which is for what ends messages: a pass that took it all would end in a broker that
/// stands still.
#[test]
fn on_a_full_disk_no_more_is_moved_than_the_reserve_has_room_for() {
    // Each segment holds a few that stay, which are more than one segment together.
    let there = needed_apart(&[("stays", 3), ("goes", 17)], &["default"], (100, 1000));
    let before = there.1.mover.space();
    assert!(before.alive > 10 * SEGMENT, "{before:?}");
    move_on_a_full_disk(there, 2, is_within_bound);
}

/// The same where each of five groups needs others of them.
#[test]
fn on_a_full_disk_no_more_is_moved_for_all_groups_than_the_reserve_has_room_for() {
    let topics = [("0", 1), ("1", 1), ("2", 1), ("3", 1), ("4", 1), ("goes", 28)];
    move_on_a_full_disk(needed_apart(&topics, &FIVE, (100, 600)), 10, is_within_bound);
}

/// Where all of them need the same, what is written is what one needs, and that finds room.
#[test]
fn on_a_full_disk_what_all_groups_need_is_moved_once() {
    let mut there = grouped(&FIVE);
    fill(&mut there, &[("stays", 3), ("goes", 17)], &FIVE, (100, 1000), |_, topic| topic == 0);
    move_on_a_full_disk(there, 1, is_within_bound);
}

/// Of some segments each group needs so much that it finds no room together. That keeps nothing of the others, though of
/// those one group needs more.
#[test]
fn on_a_full_disk_what_finds_no_room_is_passed_over() {
    let mut there = grouped(&FIVE);
    let apart = [("0", 1), ("1", 1), ("2", 1), ("3", 1), ("4", 1), ("goes", 9)];
    fill(&mut there, &apart, &FIVE, (40, 1100), |group, topic| group == topic);
    fill(&mut there, &[("stays", 3), ("gone", 17)], &FIVE, (60, 1000), |_, topic| topic == 0);
    move_on_a_full_disk(there, 5, |opened| !opened.appender.disk_full());
}

/// A step is small beside a segment; those of this test are not, so of each so many moves are taken at a time.
fn move_on_a_full_disk(
    (mut work, mut opened): (Workload, Opened),
    of_step: usize,
    is_enough: impl Fn(&Opened) -> bool,
) {
    work.checkpoint(&mut opened);
    while opened.housekeeper.step().unwrap() {}
    work.disk.set_capacity(Some(work.disk.used()));
    let body = [7; 1000];
    while !opened.appender.disk_full() {
        work.turn(&mut opened, calls::publish(vec![run("more", &[], [&body[..]])])).unwrap();
        opened.housekeeper.step().unwrap();
    }
    let before = opened.mover.space();
    assert!(before.total > before.bound + 30 * SEGMENT, "{before:?}");
    let expected = messages(&opened);
    let (mut of_pass, mut steps_when_full, mut was_full, mut found) = (0, 0, false, VecDeque::new());
    for _ in 0..2000 {
        if is_enough(&opened) {
            break;
        }
        let is_full = opened.appender.disk_full();
        steps_when_full += u32::from(is_full);
        if is_full && !was_full {
            // What was found is more than there is room for.
            found.clear();
            of_pass = 0;
        }
        was_full = is_full;
        if found.is_empty() {
            let moves = opened.mover.step().unwrap();
            if moves.rests {
                of_pass = 0;
            }
            found.extend(moves.commands);
        }
        for command in found.drain(..of_step.min(found.len())) {
            let Command::Move(of) = &command else { panic!("nothing else is there to move: {command:?}") };
            let bytes = of.block.len() as u64;
            let outputs = work.turn(&mut opened, command).expect("there is room for it");
            // Where it has moved before, which the checkpoint does not know, nothing is written.
            let is_moved = |output: &Output| matches!(output, Output::Reply { reply: Reply::Count(1..), .. });
            of_pass += if outputs.iter().any(is_moved) { bytes } else { 0 };
        }
        assert!(!is_full || of_pass <= SEGMENT / 4, "{of_pass} bytes");
        work.mark(&mut opened, Mark::Idle).unwrap();
        if opened.appender.checkpoint_due(&opened.core, found.is_empty()) {
            work.checkpoint(&mut opened);
        }
        opened.housekeeper.second_passed();
        while opened.housekeeper.step().unwrap() {}
    }
    let after = opened.mover.space();
    // What is empty goes with the next checkpoint.
    let is_enough = is_enough(&opened) || after.total <= after.bound + 2 * SEGMENT;
    assert!(is_enough && steps_when_full > 3, "{before:?} {after:?} {steps_when_full}");
    assert_eq!(messages(&opened), expected);
}

/// As much came back as is to come back.
fn is_within_bound(opened: &Opened) -> bool {
    let space = opened.mover.space();
    space.total <= space.bound
}
