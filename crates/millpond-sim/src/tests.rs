//! Lives with and without a canary.

use crate::range::Led;
use crate::verdict::Violation;
use crate::{CANARIES, Canary, Checker, LOOKED_AT, Life, Options, Range, Sights, live};

/// Lives in which a canary has to be caught: each of them meets several crashes. The rarest faults, which show where just the crash
/// comes that takes back what was told, do so in one of some hundred.
const CANARY_LIVES: u64 = 1000;

/// Canaries that another checker may come upon first, for the fault breaks its promise as well. Who stands for what was
/// given back has its delay. By a clock that runs ahead TTLs pass too early. What should have expired stands for what
/// is newer. A batch without its session is stored again. Whoever has given way to an older one, where their ages could
/// not be told, cannot do so again. Only under ageing does who stands in for others inherit how long they have waited,
/// and who has not risen stands behind others, for more than their turn; and whoever goes before a higher priority has
/// more than its turn beside that. An epoch that is one lower may be another leader's. Where one message stands for all, what was
/// saved gives way to what is saved later, and is not there. A pause of what is not paused has no end.
const COMES_FIRST: [(Canary, Checker); 13] = [
    (Canary::Releases, Checker::Coalescing),
    (Canary::Early, Checker::Expiry),
    (Canary::Early, Checker::Retention),
    (Canary::LateExpiry, Checker::Newest),
    (Canary::Sessions, Checker::Back),
    (Canary::Older, Checker::Back),
    (Canary::Ageing, Checker::Coalescing),
    (Canary::Ageing, Checker::Priority),
    (Canary::Ageing, Checker::Fairness),
    (Canary::Priority, Checker::Fairness),
    (Canary::GrowthEpochs, Checker::Offices),
    (Canary::Unsaved, Checker::Back),
    (Canary::Paused, Checker::Places),
];

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
    for seed in 1001..1006 {
        let options = Options::default();
        let life = live(seed, options);
        assert_eq!(life.verdict, Ok(()), "replay: {} --seed {seed}", options.again());
    }
}

#[test]
fn every_canary_is_caught_by_its_checker() {
    // All threads at one canary, for some take far more lives than others.
    let threads = std::thread::available_parallelism().map_or(1, |processors| processors.get());
    for (name, canary, by) in CANARIES {
        let options = Options { canary: Some(canary), steps: 400, hashed: false, ..Options::default() };
        let mut from = 0;
        loop {
            let broken = Range { from, count: CANARY_LIVES - from, threads, options }.lead().broken;
            let (seed, _) = broken.unwrap_or_else(|| panic!("{name} is not caught"));
            let violation = live(seed, options).verdict.expect_err("it was broken");
            if violation.checker == by {
                break;
            }
            assert!(
                COMES_FIRST.contains(&(canary, violation.checker)),
                "{name} is caught by another: {violation:?}\nreplay: {} --seed {seed}",
                options.again()
            );
            from = seed + 1;
        }
    }
}

#[test]
fn every_checker_has_a_canary_and_counts_what_it_looks_at() {
    for checker in Checker::ALL.iter().filter(|checker| **checker != Checker::Sights) {
        assert!(CANARIES.iter().any(|(.., by)| by == checker), "{checker} has no canary");
        let looks = LOOKED_AT.iter().any(|(of, what)| of == checker && !what.is_empty());
        assert!(looks, "nobody knows whether {checker} looks");
    }
}

/// With one life in some thousands that saw too little, no night of lives came to its end.
#[test]
fn a_long_range_bears_few_lives_that_saw_too_little() {
    let life = |verdict| Ok(Life { verdict, hash: None, sights: Sights::default() });
    let led = |poor: &[u64], lives: u64| {
        let mut led = Led::default();
        let verdict = |seed| if poor.contains(&seed) { Sights::default().check_life() } else { Ok(()) };
        assert!((0..lives).rev().all(|seed| led.goes_on(seed, life(verdict(seed)))));
        led.judge();
        led.broken.map(|(seed, _)| seed)
    };
    assert_eq!(led(&[0], 1), Some(0));
    assert_eq!(led(&[7], 99), Some(7), "of few lives each has to prove something");
    assert_eq!([led(&[7], 100), led(&[0, 199], 200)], [None; 2]);
    assert_eq!(led(&[3, 0, 199], 200), Some(0), "these are too many");
    assert!(!Led::default().goes_on(0, life(Err(Violation::lost("a promise".into())))));
}

#[test]
fn what_saw_nothing_proves_nothing() {
    let (nothing, mut all) = (Sights::default(), Sights::default());
    assert_eq!(nothing.check_life().map_err(|violation| violation.checker), Err(Checker::Sights));
    nothing.missing().into_iter().for_each(|what| all.saw(what));
    assert_eq!(all.missing(), [""; 0]);
    for (_, looked_at) in LOOKED_AT {
        looked_at.iter().for_each(|what| assert!(nothing.missing().contains(what), "{what}"));
    }
}

#[test]
fn the_document_names_every_checker_with_its_canaries() {
    let document = include_str!("../../../docs/testing.md");
    for checker in Checker::ALL.iter().filter(|checker| **checker != Checker::Sights) {
        let row = document.lines().find_map(|line| line.strip_prefix(&format!("| {checker} | ")));
        let (_, named) = row.and_then(|row| row.split_once(" | ")).unwrap_or_else(|| panic!("{checker} has no row"));
        let mut named: Vec<&str> = named.split('`').skip(1).step_by(2).collect();
        let of = CANARIES.iter().filter(|(.., by)| by == checker).map(|(name, ..)| *name);
        let mut canaries: Vec<&str> = of.collect();
        named.sort_unstable();
        canaries.sort_unstable();
        assert_eq!(named, canaries, "of {checker}");
    }
}
