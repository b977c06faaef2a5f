//! A life that does not come to its end.

use std::process::Command;

/// Nobody would wait for so many steps.
const STEPS: &str = "18446744073709551615";

#[test]
fn a_life_without_an_end_is_given_up_and_its_seed_is_told() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millpond-sim"));
    let output = command.args(["--seed", "4711", "--steps", STEPS, "--patience", "1"]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("seed 4711: the life comes to no end"), "{told}");
    let replay = format!("replay: cargo run --release -p millpond-sim -- --steps {STEPS} --seed 4711");
    assert!(told.lines().any(|line| line == replay), "{told}");
}
