//! The real program under load from several client processes, killed at random moments and started again on the same
//! directory, over and over.
//!
//! What was confirmed, delivered and ended is in a ledger outside of the broker: files that the clients write before and
//! after each call ([`ledger`]). In the end, when all work is done, the ledger is held against what is promised
//! ([`verdict`]). Clients are killed and stopped as well, the broker also while it starts.
//!
//! `KILLS=200 cargo test -p millpond --test crashes -- --nocapture` is the same at length. `MILLPOND_TEST_SEED` draws other
//! moments; no two runs are the same all the same, for nobody draws what the machine does in between.

#[path = "../broker/mod.rs"]
mod broker;

mod clients;
mod ledger;
mod load;
mod random;
mod siege;
mod verdict;

use std::time::{Duration, Instant};

use random::Random;
use siege::Siege;

/// Kills of the broker in a run of all tests.
const KILLS: u32 = 10;
/// After so many kills comes a calm.
const CALM_AFTER: u32 = 25;
/// Longer than leases outlive a restart at least: only in a calm do those of killed clients end.
const CALM: Duration = Duration::from_secs(13);

#[test]
fn killed_at_random_moments_nothing_is_lost_ended_twice_or_stuck() {
    if clients::run_if_asked() {
        return;
    }
    let kills: u32 = std::env::var("KILLS").map_or(KILLS, |text| text.parse().expect("KILLS is a number"));
    let mut random = Random::from_environment();
    let begun = Instant::now();
    let mut siege = Siege::lay();
    let (mut rounds, mut is_late_there) = (0, false);
    while siege.kills < kills {
        // Every other kill meets it at work for certain, on however slow a machine.
        if rounds % 2 == 0 {
            siege.wait_for_work();
        }
        rounds += 1;
        random.pause(20, 700);
        match random.below(10) {
            0 => siege.kill_a_client(&mut random),
            1 => siege.stop_a_client(&mut random),
            2 => siege.stop_the_broker(&mut random),
            _ => {}
        }
        // The kill comes upon a group that starts.
        if !is_late_there && (siege.kills + 1) * 2 > kills {
            siege.make_the_late_group();
            is_late_there = true;
            random.pause(0, 20);
        }
        siege.kill(&mut random);
        if siege.kills.is_multiple_of(CALM_AFTER) {
            siege.let_all_go_on();
            std::thread::sleep(CALM);
        }
    }
    let (kills, at_work) = (siege.kills, siege.kills_at_work);
    let figures = siege.end();
    eprintln!("{kills} kills in {:.0} s, {at_work} of them at work: {figures}", begun.elapsed().as_secs_f64());
    assert_eq!(figures.lacks(rounds), Vec::<String>::new());
}
