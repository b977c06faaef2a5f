//! Old messages do not pin the disk.

use millpond_core::command::{Command, Finish, FinishVerb, ReceiptRun};
use millpond_core::output::{Output, Reply};
use millpond_core::page::Page;

use super::calls::receive;
use super::workload::{Workload, YEAR, check_extents, delay, publish};
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
    assert!(before.total > before.bound + 5 * super::workload::SEGMENT, "{before:?}");
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
