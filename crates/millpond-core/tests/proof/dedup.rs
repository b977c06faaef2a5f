//! Dedup ids that only the disk knows of, and a disk that answers late.

use millpond_core::command::*;
use millpond_core::fact::Fact;
use millpond_types::{Filter, GroupName, MessageId, Millis, NamespaceName, Receipt, WallTime};

use crate::history::{hash, name, publish_run};
use crate::parking::Run;

const TOPIC: &str = "kept/1";
/// The dedup window of a policy that says nothing else.
const WINDOW: u64 = 10 * 60 * 1000;

#[test]
fn a_repeat_is_known_after_a_checkpoint_a_crash_and_the_topics_life() {
    let mut run = Run::new(Vec::new());
    let first = publish(&mut run, TOPIC, 1);
    let id = queued(&run, first);
    purge(&mut run, TOPIC);
    run.evict_all();
    run.recover(0);
    let again = publish(&mut run, TOPIC, 1);
    assert_eq!(run.answer(again), None, "the disk is asked");
    let (other, same) = (publish(&mut run, TOPIC, 0), publish(&mut run, TOPIC, 1));
    assert_eq!((run.answer(other), run.answer(same)), (None, None), "nobody overtakes on one topic");
    let elsewhere = publish(&mut run, "kept/2", 1);
    assert!(run.answer(elsewhere).is_some_and(|answer| answer.contains("Queued")), "others pass");
    run.bring_everything();
    for ticket in [again, same] {
        let answer = run.answer(ticket).expect("the disk has answered");
        assert!(answer.contains("Duplicate") && answer.contains(&format!("{id:?}")), "{answer}");
    }
    queued(&run, other);
}

#[test]
fn an_id_that_comes_again_after_its_window_is_new() {
    let mut run = Run::new(Vec::new());
    publish(&mut run, TOPIC, 1);
    run.evict_all();
    run.now.wall = WallTime(run.now.wall.0 + WINDOW - 1);
    let within = publish(&mut run, TOPIC, 1);
    run.bring_everything();
    assert!(run.answer(within).is_some_and(|answer| answer.contains("Duplicate")));
    run.now.wall = WallTime(run.now.wall.0 + 1);
    let behind = publish(&mut run, TOPIC, 1);
    run.bring_everything();
    queued(&run, behind);
    let repeat = publish(&mut run, TOPIC, 1);
    run.bring_everything();
    assert!(run.answer(repeat).is_some_and(|answer| answer.contains("Duplicate")), "and is remembered anew");
}

#[test]
fn cancelling_the_older_message_of_a_forgotten_id_leaves_the_newer_one_remembered() {
    let mut run = Run::new(Vec::new());
    let older = publish(&mut run, TOPIC, 1);
    let older = queued(&run, older);
    run.evict_all();
    let forget = run.give(Command::Forget { topic: topic(), dedup_hash: hash(TOPIC, 1) });
    assert_eq!(run.answer(forget), None, "the disk is asked whether there is something to forget");
    run.bring_everything();
    assert_eq!(run.answer(forget).as_deref(), Some("Count(1)"));
    let newer = publish(&mut run, TOPIC, 1);
    run.bring_everything();
    let newer = queued(&run, newer);
    run.evict_all();
    let cancel = run.give(Command::Cancel { topic: topic(), which: Which::Id(older) });
    run.bring_everything();
    assert_eq!(run.answer(cancel).as_deref(), Some("Done"));
    let repeat = publish(&mut run, TOPIC, 1);
    run.bring_everything();
    assert!(run.answer(repeat).is_some_and(|answer| answer.contains(&format!("{newer:?}"))));
    let cancel = run.give(Command::Cancel { topic: topic(), which: Which::Dedup(hash(TOPIC, 1)) });
    run.bring_everything();
    assert_eq!(run.answer(cancel).as_deref(), Some("Done"));
    let anew = publish(&mut run, TOPIC, 1);
    run.bring_everything();
    queued(&run, anew);
}

#[test]
fn the_id_of_a_dead_letter_follows_it() {
    let mut run = Run::new(Vec::new());
    publish(&mut run, TOPIC, 1);
    run.give(receive());
    let receipt: Receipt = run.received[0].receipt;
    let verb = FinishVerb::Reject { reason: Default::default() };
    let receipts = vec![ReceiptRun { first: receipt, count: 1 }];
    run.give(Command::Finish(Finish { verb, receipts, confirm: true, namespace: None }));
    run.evict_all();
    let (group, which) = (GroupName::default(), DeadWhich::Filter(Filter::All));
    let redrive = run.give(Command::DeadRedrive { namespace: NamespaceName::default(), group, which });
    assert_eq!(run.answer(redrive), None, "the disk is asked whether the dedup id is still its own");
    run.bring_everything();
    assert_eq!(run.answer(redrive).as_deref(), Some("Count(1)"));
    run.evict_all();
    let repeat = publish(&mut run, TOPIC, 1);
    run.bring_everything();
    let answer = run.answer(repeat).expect("the disk has answered");
    assert!(answer.contains("Duplicate") && answer.contains("Waiting"), "{answer}");
}

#[test]
fn all_ids_of_a_batch_are_asked_for_at_once() {
    let mut run = Run::new(Vec::new());
    publish(&mut run, TOPIC, 1);
    publish(&mut run, TOPIC, 2);
    run.evict_all();
    // The topic comes first.
    let both = batch(&mut run.known, &[(TOPIC, 1), (TOPIC, 2)]);
    let both = run.give(both);
    run.bring_all();
    assert_eq!(run.answer(both), None, "the ids are asked for");
    assert_eq!(run.wanted.len(), 2, "all at once");
    run.bring_one();
    assert_eq!(run.answer(both), None, "one is not enough");
    run.bring_everything();
    assert_eq!(run.answer(both).map(|answer| answer.matches("Duplicate").count()), Some(2));
}

fn publish(run: &mut Run, topic: &str, dedup: u8) -> Ticket {
    let command = batch(&mut run.known, &[(topic, dedup)]);
    run.give(command)
}

fn batch(known: &mut crate::history::Known, ids: &[(&str, u8)]) -> Command {
    let runs = ids.iter().map(|(topic, dedup)| publish_run(known, topic, 1, Some(*dedup))).collect();
    Command::Publish(Publish { namespace: NamespaceName::default(), producer: None, level: Level::Durable, runs })
}

fn topic() -> TopicRef {
    TopicRef { namespace: NamespaceName::default(), name: name(TOPIC) }
}

fn receive() -> Command {
    Command::Receive(Receive {
        namespace: NamespaceName::default(),
        group: GroupName::default(),
        filter: Filter::Topics(vec![name(TOPIC)]),
        messages: 1,
        bytes: 1_000,
        lease: None,
        wait: Millis(0),
        at_most_once: false,
        request: None,
        call: 0,
    })
}

fn purge(run: &mut Run, topic: &str) {
    let filter = Filter::Topics(vec![name(topic)]);
    run.give(Command::Purge { namespace: NamespaceName::default(), filter, group: None });
}

/// The id of the message that was stored last, by this publish.
fn queued(run: &Run, ticket: Ticket) -> MessageId {
    let answer = run.answer(ticket).expect("it is decided");
    assert!(answer.contains("Queued"), "{answer}");
    let published = run.journal.facts.iter().rev().find_map(|(fact, _)| match fact {
        Fact::Published { topic, priority, first, .. } => {
            Some(MessageId { topic: *topic, priority: *priority, sequence: *first })
        }
        _ => None,
    });
    published.expect("it was stored")
}
