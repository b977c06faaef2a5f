//! Producer sessions that only the disk knows of, and a disk that answers late.

use millpond_core::command::*;
use millpond_types::limits::PRODUCER_EXPIRY;
use millpond_types::{NamespaceName, ProducerId};

use crate::history::publish_run;
use crate::parking::Run;

#[test]
fn a_repeat_gap_or_fenced_batch_is_known_after_the_session_went_to_the_store() {
    let mut run = Run::new(Vec::new());
    let told: Vec<_> = (1..=3).map(|sequence| decided(&mut run, 2, sequence)).collect();
    for is_recovered in [false, true] {
        run.evict_all();
        if is_recovered {
            run.recover(0);
        }
        let (second, next, beside) = (batch(&mut run, 2, 2), batch(&mut run, 2, 5), batch(&mut run, 1, 1));
        let all = [second, next, beside].map(|ticket| run.answer(ticket));
        assert_eq!(all, [None, None, None], "the disk is asked");
        run.bring_everything();
        assert_eq!(run.answer(second).as_ref(), Some(&told[1]), "a repeat is told what the batch was told");
        assert!(run.answer(next).is_some_and(|answer| answer.contains("SequenceGap")));
        assert!(run.answer(beside).is_some_and(|answer| answer.contains("ProducerFenced")));
    }
}

#[test]
fn a_session_goes_on_behind_a_checkpoint_and_a_crash() {
    let mut run = Run::new(Vec::new());
    decided(&mut run, 1, 1);
    run.evict_all();
    let facts = run.journal.facts.len();
    let second = decided(&mut run, 1, 2);
    // Another instance, all of it behind the checkpoint.
    let first = decided(&mut run, 2, 1);
    let last = decided(&mut run, 2, 2);
    run.recover(run.journal.facts.len() - facts);
    assert_eq!((decided(&mut run, 2, 1), decided(&mut run, 2, 2)), (first, last));
    assert!(decided(&mut run, 1, 2).contains("ProducerFenced"), "{second}");
    assert!(decided(&mut run, 2, 3).contains("Queued"));
}

#[test]
fn a_batch_during_a_checkpoint_is_not_in_it() {
    let mut run = Run::new(Vec::new());
    decided(&mut run, 1, 1);
    run.core.freeze();
    let facts = run.journal.facts.len();
    let second = decided(&mut run, 1, 2);
    run.core.set_producers_resident(0);
    while run.core.make_room() {}
    while !run.core.capture(1) {}
    run.store.model().write_sealed();
    let behind = run.journal.facts.len() - facts;
    run.recover(behind);
    assert_eq!(decided(&mut run, 1, 2), second);
    assert!(decided(&mut run, 1, 3).contains("Queued"));
}

#[test]
fn a_session_that_was_idle_too_long_is_unknown_wherever_it_is() {
    let mut run = Run::new(Vec::new());
    decided(&mut run, 1, 1);
    run.evict_all();
    run.now.wall = run.now.wall + PRODUCER_EXPIRY;
    assert!(decided(&mut run, 1, 2).contains("SessionUnknown"));
    assert!(decided(&mut run, 1, 1).contains("Queued"), "and begins anew");
    assert!(decided(&mut run, 1, 2).contains("Queued"));
}

/// What a batch of the producer is told in the end.
fn decided(run: &mut Run, instance: u32, sequence: u64) -> String {
    let ticket = batch(run, instance, sequence);
    run.bring_everything();
    run.answer(ticket).expect("the disk has answered")
}

fn batch(run: &mut Run, instance: u32, sequence: u64) -> Ticket {
    let runs = vec![publish_run(&mut run.known, "of/a/producer", 1, None)];
    let producer = Some(ProducerBatch { id: ProducerId(7), instance, sequence });
    let namespace = NamespaceName::default();
    run.give(Command::Publish(Publish { namespace, producer, level: Level::Durable, runs }))
}
