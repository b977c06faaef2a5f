//! Runs without an end: of a life that does not come to its own, and of lives that go on until one goes wrong.

use std::process::Command;

/// Nobody would wait for so many steps.
const STEPS: &str = "18446744073709551615";

/// What comes before the arguments in the line that leads a life again.
const REPLAY: &str = "replay: cargo run --release -p millpond-sim -- ";

#[test]
fn a_life_without_an_end_is_given_up_and_its_seed_is_told() {
    let told = fails(&["--seed", "4711", "--steps", STEPS, "--patience", "1"]);
    assert!(told.contains("seed 4711: the life comes to no end"), "{told}");
    let replay = format!("{REPLAY}--steps {STEPS} --seed 4711");
    assert!(told.lines().any(|line| line == replay), "{told}");
}

/// By a fault that was put in, which the line names as well.
#[test]
fn lives_that_go_on_end_with_one_that_goes_wrong_and_its_line_leads_it_again() {
    let told = fails(&["--forever", "--from", "100", "--threads", "2", "--canary", "lost", "--steps", "250"]);
    let found = told.lines().find(|line| line.starts_with("seed ")).unwrap_or_else(|| panic!("{told}"));
    let seed = found["seed ".len()..].split(':').next().unwrap();
    let again = told.lines().find_map(|line| line.strip_prefix(REPLAY)).unwrap_or_else(|| panic!("{told}"));
    assert_eq!(again, format!("--steps 250 --canary lost --seed {seed}"));
    let again = fails(&again.split(' ').collect::<Vec<_>>());
    assert!(again.lines().any(|line| line == found), "{found}, and then: {again}");
}

/// What the program tells, which ends by itself and says that something went wrong.
fn fails(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_millpond-sim")).args(arguments).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    told
}
