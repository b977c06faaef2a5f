//! Histories on which the core and the plain model did not agree once, or which the proof itself did not understand: found by
//! guided fuzzing, and written down in words. The inputs that led to them are kept in `fuzz/corpus/model`; but what an input means
//! changes with the operations that are drawn.

use millpond_core::LevelBounds;

use crate::agreement::History;
use crate::history::Op;

/// Levels of which next to nothing is in memory.
const SHORT: LevelBounds = LevelBounds { head: 1, tail: 0, piece: 1, resting: 1, ..LevelBounds::WHOLE };
/// A topic under the base policy alone, and two that rules are for.
const PLAIN: usize = 5;
const RULED: usize = 3;
const OTHER: usize = 4;

/// Leads a history with a weight, turn by turn.
fn lead<const TURNS: usize>(weight: u32, bounds: LevelBounds, turns: [&[Op]; TURNS]) {
    let mut history = History::new(weight, bounds);
    turns.into_iter().for_each(|ops| history.turn(ops));
}

fn publish(topic: usize, count: u32, delay: u64) -> Op {
    Op::Publish { topic, priority: 4, count, delay, ttl: None, dedup: None }
}

fn at_priority(priority: u8, delay: u64) -> Op {
    Op::Publish { topic: RULED, priority, count: 1, delay, ttl: None, dedup: None }
}

fn with_dedup(count: u32, delay: u64) -> Op {
    Op::Publish { topic: RULED, priority: 4, count, delay, ttl: None, dedup: Some(1) }
}

fn receive(group: usize, messages: u32, bytes: u64) -> Op {
    Op::Receive { group, filter: 0, messages, bytes, lease: None, wait: 0, at_most_once: false }
}

/// What is too old ends before anybody is given it, though the last topics of a deleted group have still to vanish.
#[test]
fn a_retention_ends_what_it_should_beside_a_group_that_is_being_deleted() {
    lead(
        2,
        LevelBounds::ENDS,
        [
            &[Op::Policy(17), Op::GroupCreate { group: 2, start: 0 }],
            &[publish(PLAIN, 4, 0)],
            &[Op::GroupDelete(2), Op::Pass { run: 1000, wall: 16_000 }, receive(0, 100, 10_000)],
        ],
    );
}

#[test]
fn one_start_begins_in_a_turn_though_a_job_of_another_kind_ends_in_it() {
    lead(
        3,
        LevelBounds::ENDS,
        [
            &[publish(RULED, 1, 3000)],
            &[Op::GroupCreate { group: 1, start: 1 }, Op::GroupCreate { group: 2, start: 1 }, Op::Policy(18)],
        ],
    );
}

/// A topic with leased and delayed messages alone: the job that settles topics does not come to it, so neither does a look.
#[test]
fn a_look_at_a_topic_whose_rate_was_lifted_is_no_fact() {
    let bounds = LevelBounds { resting: 3, ..SHORT };
    lead(
        3,
        bounds,
        [
            &[at_priority(9, 0), Op::Policy(13), at_priority(0, 1000), at_priority(0, 1000)],
            &[at_priority(0, 1000), at_priority(0, 1000), receive(0, 100, 1)],
            &[Op::Policy(1)],
        ],
    );
}

#[test]
fn a_group_that_starts_is_given_the_last_of_a_moment_though_another_has_leased_it() {
    let bounds = LevelBounds { piece: 2, ..SHORT };
    lead(
        2,
        bounds,
        [
            &[with_dedup(4, 500), publish(OTHER, 4, 1000), Op::Policy(18)],
            &[Op::Reschedule { message: 28, delay: 0 }, receive(0, 5, 25), publish(OTHER, 4, 1000)],
            &[Op::GroupCreate { group: 1, start: 1 }],
        ],
    );
}

#[test]
fn a_dedup_id_stays_with_what_another_group_has_still_to_finish() {
    lead(
        2,
        SHORT,
        [
            &[with_dedup(4, 500), Op::GroupCreate { group: 1, start: 1 }],
            &[Op::Pass { run: 1000, wall: 1500 }, receive(0, 5, 10_000)],
            &[
                Op::Finish { verb: 5, receipts: vec![(0, 2)], delay: 0 },
                Op::Redrive { filter: 0, group: 0, first: Some(1) },
                with_dedup(4, 500),
            ],
        ],
    );
}

#[test]
fn the_proof_knows_of_no_tokens_of_what_is_left_of_a_deleted_group() {
    let bounds = LevelBounds { resting: 3, ..SHORT };
    lead(
        3,
        bounds,
        [
            &[Op::Policy(13), at_priority(0, 1000), at_priority(9, 0)],
            &[Op::GroupCreate { group: 1, start: 1 }],
            &[at_priority(0, 1000), receive(1, 1, 40)],
            &[Op::GroupDelete(1), Op::Policy(1)],
        ],
    );
}
