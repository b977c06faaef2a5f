//! `cargo xtask`: the project's chores, each a subcommand, the same on a developer's machine and in CI.
//!
//! `cargo xtask test` is all of them in one run and what a change has to pass. Nothing here is part of the broker, and
//! nothing here needs more than Rust, git and, for two tests, what [`machine`] fetches.

mod commands;
mod documents;
mod fuzz;
mod machine;
mod no_std;
mod steps;
mod tidy;
mod workspace;

use std::process::ExitCode;

use steps::Steps;
use workspace::Workspace;

/// A chore's end: nothing to say, or what is wrong and what to do about it.
type Outcome = Result<(), String>;

/// A chore: name, what it does, how.
type Chore = (&'static str, &'static str, Run);

/// How a chore is done.
enum Run {
    /// As it is.
    Plain(fn(&Workspace) -> Outcome),
    /// With the words behind its name. It is done when it is asked for, and no part of `test`.
    Worded(fn(&Workspace, &[String]) -> Outcome),
}
use Run::{Plain, Worded};

const CHORES: &[Chore] = &[
    ("test", "everything below but the last, in this order; what a change has to pass", Plain(test)),
    (
        "setup",
        "fetch what the tests need and this machine lacks",
        Plain(|workspace| machine::set_up(workspace).map(drop)),
    ),
    ("fmt", "is the code formatted as rustfmt would?", Plain(fmt)),
    ("tidy", "dependency table, words, documents, lengths: the rules that no compiler holds", Plain(tidy::check)),
    ("clippy", "lints of the whole workspace, warnings denied", Plain(clippy)),
    ("wrappers", "do the wrappers that hand the fuzz targets to libFuzzer compile?", Plain(fuzz::check)),
    ("no-std", "prove that the core and all it depends on do without std", Plain(no_std::check)),
    (
        "build",
        "the programs that tests start",
        Plain(|workspace| workspace.cargo(&["build", "--workspace", "--locked"])),
    ),
    ("commands", "does the program know every command and flag that the documents show?", Plain(commands::check)),
    ("doc", "the documentation of the code, warnings denied", Plain(doc)),
    ("simulate", "a fixed number of simulated lives of a broker, each from a seed", Plain(simulate)),
    ("unit", "cargo test over the workspace, examples in the documentation included", Plain(unit)),
    ("fuzz", "[--for 10m] [--keep] [TARGET]...: the fuzz targets, guided by what inputs reach", Worded(fuzz::fuzz)),
];

/// Seeds of `simulate`: few enough for every run; longer runs are started by hand.
const SIMULATED_SEEDS: &str = "200";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = words.split_first().map_or((None, &words[..]), |(name, rest)| (Some(name.as_str()), rest));
    let run = match CHORES.iter().find(|(chore, _, _)| Some(*chore) == name) {
        Some((_, _, run)) if rest.is_empty() || matches!(run, Worded(_)) => run,
        _ => {
            eprint!("{}", usage());
            let asked = matches!(name, Some("help" | "--help" | "-h"));
            return if asked { ExitCode::SUCCESS } else { ExitCode::from(2) };
        }
    };
    let done = Workspace::find().and_then(|workspace| match run {
        Plain(run) => run(&workspace),
        Worded(run) => run(&workspace, rest),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

fn usage() -> String {
    let chores: String = CHORES.iter().map(|(name, what, _)| format!("  {name:<10} {what}\n")).collect();
    format!("usage: cargo xtask CHORE\n\n{chores}")
}

/// Goes on after a failure, so that one run shows all that is wrong; only without a build there is nothing to test.
fn test(workspace: &Workspace) -> Outcome {
    let mut steps = Steps::default();
    let missing = steps.run("setup", || machine::set_up(workspace)).unwrap_or_default();
    for (name, _, run) in CHORES.iter().filter(|(name, _, _)| !["test", "setup", "unit"].contains(name)) {
        if steps.failed("build") {
            break;
        }
        if let Plain(run) = run {
            steps.run(name, || run(workspace));
        }
    }
    if !steps.failed("build") {
        steps.run("unit", || run_tests(workspace, &missing));
    }
    steps.summary(&missing.skipped_tests())
}

fn fmt(workspace: &Workspace) -> Outcome {
    workspace.cargo(&["fmt", "--all", "--check"])?;
    workspace.cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"])
}

fn clippy(workspace: &Workspace) -> Outcome {
    workspace.cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])
}

fn unit(workspace: &Workspace) -> Outcome {
    let missing = machine::set_up(workspace)?;
    missing.skipped_tests().iter().for_each(|line| println!("{line}"));
    run_tests(workspace, &missing)
}

fn run_tests(workspace: &Workspace, missing: &machine::Missing) -> Outcome {
    let mut cargo = workspace.cargo_command(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    cargo.envs(missing.environment(workspace));
    workspace::run(&mut cargo)
}

fn doc(workspace: &Workspace) -> Outcome {
    let mut cargo = workspace.cargo_command(&["doc", "--workspace", "--no-deps", "--locked"]);
    cargo.env("RUSTDOCFLAGS", "-D warnings");
    workspace::run(&mut cargo)
}

fn simulate(workspace: &Workspace) -> Outcome {
    workspace.cargo(&["run", "--quiet", "--locked", "-p", "millpond-sim", "--", "--seeds", SIMULATED_SEEDS])
}
