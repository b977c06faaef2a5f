//! Lives with and without a canary.

use crate::{Canary, Checker, Options, Range, live};

/// Lives in which a canary has to be caught: each of them meets several crashes. The rarest fault, an office that goes to
/// another in just the crash that takes back what was told, shows in one of seventy.
const CANARY_LIVES: u64 = 300;

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    let options = Options { steps: 300, ..Options::default() };
    let hashes = [7, 7, 8].map(|seed| live(seed, options).hash);
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
}

#[test]
fn a_range_tells_the_same_on_any_number_of_threads() {
    let options = Options { steps: 100, ..Options::default() };
    let sights = [1, 3].map(|threads| {
        let led = Range { from: 20, count: 6, threads, options }.lead();
        assert_eq!((led.lives, led.broken), (6, None));
        (led.first, led.sights.0)
    });
    assert_eq!(sights[0], sights[1]);
    let canary = Some(Canary::Lost);
    let broken = [1, 3].map(|threads| {
        let options = Options { canary, steps: 400, ..options };
        Range { from: 0, count: CANARY_LIVES, threads, options }.lead().broken
    });
    assert!(broken[0].is_some(), "a life goes wrong");
    assert_eq!(broken[0], broken[1], "the lowest seed that goes wrong is told");
}

#[test]
fn lives_keep_every_promise() {
    for seed in 1000..1005 {
        let life = live(seed, Options::default());
        assert_eq!(life.verdict, Ok(()), "seed {seed}");
    }
}

#[test]
fn a_confirmation_without_a_sync_is_caught() {
    assert_caught(Canary::Lost, Checker::Lost);
}

#[test]
fn an_ack_without_a_sync_is_caught() {
    assert_caught(Canary::Back, Checker::Back);
}

#[test]
fn a_purge_that_is_answered_without_a_sync_is_caught() {
    assert_caught(Canary::Answered, Checker::Survival);
}

#[test]
fn a_delivery_that_gets_lost_is_caught() {
    assert_caught(Canary::Stuck, Checker::Stuck);
}

#[test]
fn a_move_that_changes_a_message_is_caught() {
    assert_caught(Canary::Moved, Checker::Lost);
}

#[test]
fn a_delay_that_is_cut_short_is_caught() {
    assert_caught(Canary::Early, Checker::Early);
}

#[test]
fn an_ack_that_is_missing_where_its_publish_is_not_is_caught() {
    assert_caught(Canary::Halves, Checker::Halves);
}

#[test]
fn an_office_that_is_told_without_a_sync_is_caught() {
    assert_caught(Canary::Reigns, Checker::Offices);
}

#[test]
fn strict_order_without_its_limit_is_caught() {
    assert_caught(Canary::Order, Checker::Order);
}

#[test]
fn messages_that_count_each_where_one_is_enough_are_caught() {
    assert_caught(Canary::Coalescing, Checker::Coalescing);
}

#[test]
fn a_watermark_that_is_one_too_far_is_caught() {
    assert_caught(Canary::Watermark, Checker::Watermark);
}

#[test]
fn dispatch_by_the_other_rule_is_caught() {
    assert_caught(Canary::Priority, Checker::Priority);
}

#[test]
fn ageing_that_is_forgotten_is_caught() {
    assert_caught(Canary::Ageing, Checker::Order);
}

#[test]
fn turns_that_are_too_long_are_caught() {
    assert_caught(Canary::Fairness, Checker::Fairness);
}

#[test]
fn idle_topics_that_stay_in_memory_are_caught() {
    assert_caught(Canary::Memory, Checker::Memory);
}

#[test]
fn a_group_that_starts_with_too_much_is_caught() {
    assert_caught(Canary::Starts, Checker::Starts);
}

#[test]
fn retention_that_keeps_too_little_is_caught() {
    assert_caught(Canary::Retention, Checker::Retention);
}

#[test]
fn a_message_that_is_given_again_though_at_most_once_is_caught() {
    assert_caught(Canary::Once, Checker::Once);
}

#[test]
fn a_receive_that_is_not_known_again_is_caught() {
    assert_caught(Canary::Repeats, Checker::Repeats);
}

#[test]
fn a_copy_that_gets_lost_is_caught() {
    assert_caught(Canary::Routes, Checker::Routes);
}

#[test]
fn a_ttl_that_is_cut_short_is_caught() {
    assert_caught(Canary::Expiry, Checker::Expiry);
}

#[test]
fn a_dedup_id_that_gets_lost_is_caught() {
    assert_caught(Canary::Dedup, Checker::Dedup);
}

#[test]
fn a_batch_that_is_decided_twice_is_caught() {
    assert_caught(Canary::Sessions, Checker::Sessions);
}

#[test]
fn a_failure_too_many_is_caught() {
    assert_caught(Canary::Failures, Checker::Failures);
}

#[test]
fn a_byte_that_changes_on_its_way_to_a_client_is_caught() {
    assert_caught(Canary::Frames, Checker::Lost);
}

#[test]
fn an_answer_that_gets_lost_is_caught() {
    assert_caught(Canary::Answers, Checker::Stuck);
}

#[test]
fn a_receive_that_outlives_its_connection_is_caught() {
    assert_caught(Canary::Connections, Checker::Connections);
}

#[test]
fn a_lease_that_is_cut_short_is_caught() {
    assert_caught(Canary::Leases, Checker::Leases);
}

#[test]
fn a_lease_that_is_let_go_and_lasts_is_caught() {
    assert_caught(Canary::Exceptions, Checker::Leases);
}

#[test]
fn a_session_that_is_given_up_too_soon_is_caught() {
    assert_caught(Canary::Resumption, Checker::Leases);
}

#[test]
fn a_receipt_that_is_taken_too_late_is_caught() {
    assert_caught(Canary::Receipts, Checker::Leases);
}

#[test]
fn run_time_that_goes_on_while_the_broker_is_down_is_caught() {
    assert_caught(Canary::Grace, Checker::Grace);
}

#[test]
fn frames_that_ask_for_too_much_credit_are_caught() {
    assert_caught(Canary::Overdrawn, Checker::Credit);
}

#[test]
fn a_delivery_to_a_consumer_of_somebody_else_is_caught() {
    assert_caught(Canary::Strangers, Checker::Connections);
}

#[test]
fn a_delivery_beyond_its_credit_is_caught() {
    assert_caught(Canary::Credit, Checker::Credit);
}

#[test]
fn a_receive_of_too_much_is_caught() {
    assert_caught(Canary::Receives, Checker::Credit);
}

#[test]
fn a_receive_that_waits_and_is_forgotten_is_caught() {
    assert_caught(Canary::Waits, Checker::Stuck);
}

#[test]
fn a_paused_topic_that_is_delivered_is_caught() {
    assert_caught(Canary::Paused, Checker::Order);
}

#[test]
fn a_delivery_behind_one_of_the_next_epoch_is_caught() {
    assert_caught(Canary::Mixed, Checker::Offices);
}

#[test]
fn leaders_beside_one_another_are_caught() {
    assert_caught(Canary::Exclusive, Checker::Offices);
}

#[test]
fn failures_that_are_not_inherited_are_caught() {
    assert_caught(Canary::HeirFailures, Checker::Coalescing);
}

#[test]
fn a_back_off_that_is_not_inherited_is_caught() {
    assert_caught(Canary::HeirPause, Checker::Coalescing);
}

#[test]
fn a_priority_that_gets_lost_with_a_place_is_caught() {
    assert_caught(Canary::HeirPriority, Checker::Coalescing);
}

fn assert_caught(canary: Canary, by: Checker) {
    let options = Options { canary: Some(canary), steps: 400, ..Options::default() };
    let caught = (0..CANARY_LIVES).find_map(|seed| live(seed, options).verdict.err());
    assert_eq!(caught.map(|violation| violation.checker), Some(by));
}
