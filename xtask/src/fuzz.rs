//! `cargo xtask fuzz [--for 10m] [--keep] [TARGET]...`: the fuzz targets, guided by what their inputs reach.
//!
//! Each target, or each that is named, gets so much time, one after the other, and at the end a table says how many inputs that
//! were. New inputs go to the target directory; `--keep` puts those that reach something new into `fuzz/corpus`, where those that
//! somebody gave a name stay. An input that finds something goes to `fuzz/artifacts`, and the way to run it again is printed.
//!
//! Beyond Rust this takes a nightly toolchain and cargo-fuzz, which are installed where they are absent, and a C++ compiler
//! for libFuzzer. What could not be got is said; `cargo test -p millpond-fuzz` runs the same targets without any of it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::machine::answers;
use crate::workspace::{Workspace, capture, run};

/// Time for each target unless `--for` says otherwise.
const MINUTE: Duration = Duration::from_secs(60);
/// Seconds after which an input hangs. Nothing that a target does takes a tenth of it.
const HANGS: &str = "-timeout=30";
/// Mebibytes of memory that a target may have, the broker of some of them and libFuzzer's own included.
const MEMORY: &str = "-rss_limit_mb=2048";
/// Bytes of an input: longer ones only repeat what shorter ones do.
const LENGTH: &str = "-max_len=8192";
/// Bytes of an input that is kept in the repository.
const KEPT_MAX: u64 = 4096;

/// The wrappers that hand the targets to libFuzzer, a workspace of their own.
const WRAPPERS: [&str; 2] = ["--manifest-path", "fuzz/Cargo.toml"];
/// A file system in memory, where there is one.
const IN_MEMORY: &str = "/dev/shm";

/// What was asked for.
#[derive(PartialEq, Eq, Debug)]
struct Asked {
    time: Duration,
    keep: bool,
    targets: Vec<String>,
}

/// Runs the targets.
pub fn fuzz(workspace: &Workspace, words: &[String]) -> Outcome {
    let all = targets(workspace)?;
    let asked = parse(words, &all)?;
    let fuzzer = Fuzzer::get(workspace)?;
    fuzzer.build()?;
    let (mut rows, mut found) = (Vec::new(), Vec::new());
    for target in &asked.targets {
        let begun = Instant::now();
        let (executions, outcome) = fuzzer.run(target, asked.time)?;
        rows.push((target, executions, begun.elapsed().as_secs_f64()));
        match outcome {
            Ok(()) if asked.keep => fuzzer.keep(target)?,
            Ok(()) => {}
            Err(what) => found.push(what),
        }
    }
    println!("\ntarget      executions  seconds  a second");
    for (target, executions, seconds) in rows {
        println!("{target:<11} {executions:>10} {seconds:>8.0} {:>9.0}", executions as f64 / seconds);
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n")) }
}

/// Whether the wrappers compile, with the compiler at hand and without libFuzzer itself. Left out where their one crate more could
/// not be got, which [`crate::machine::set_up`] tells.
pub fn check(workspace: &Workspace) -> Outcome {
    if let Err(why) = fetch(workspace) {
        println!("left out: {why}");
        return Ok(());
    }
    let target = workspace.target.display().to_string();
    let args = ["check", "--offline", "--no-default-features", "--target-dir", &target];
    workspace.cargo(&[&args[..], &WRAPPERS].concat())
}

/// Gets what the wrappers are built of beside the workspace's crates. What was got once is not asked for again.
pub fn fetch(workspace: &Workspace) -> Outcome {
    take_versions(&workspace.root)?;
    if capture(workspace.cargo_command(&["fetch", "--offline"]).args(WRAPPERS)).is_ok() {
        return Ok(());
    }
    capture(workspace.cargo_command(&["fetch"]).args(WRAPPERS))
        .map(drop)
        .map_err(|what| format!("the crate libfuzzer-sys could not be fetched: {what}"))
}

/// Has the wrappers built with the versions that everything else is built with.
fn take_versions(root: &Path) -> Outcome {
    let (from, to) = (root.join("Cargo.lock"), root.join("fuzz/Cargo.lock"));
    fs::copy(&from, &to).map(drop).map_err(|e| format!("{} could not be copied: {e}", from.display()))
}

/// The targets that have a wrapper.
fn targets(workspace: &Workspace) -> Result<Vec<String>, String> {
    let folder = workspace.root.join("fuzz/fuzz_targets");
    let entries = fs::read_dir(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let names = entries.flatten().filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}

fn parse(words: &[String], all: &[String]) -> Result<Asked, String> {
    let mut asked = Asked { time: MINUTE, keep: false, targets: Vec::new() };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--for" => asked.time = time(words.next().map_or("", String::as_str))?,
            "--keep" => asked.keep = true,
            target if all.iter().any(|known| known == target) => asked.targets.push(target.to_owned()),
            other => return Err(format!("there is no target `{other}`; there are {}", all.join(", "))),
        }
    }
    if asked.targets.is_empty() {
        asked.targets = all.to_vec();
    }
    Ok(asked)
}

/// A time with its unit: `30s`, `10m`, `1h`.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("--for takes a time with its unit, as in 30s, 10m or 1h, and not {text:?}");
    let unit = text.chars().last().ok_or_else(wrong)?;
    let seconds = [('s', 1), ('m', 60), ('h', 3600)].into_iter().find(|(known, _)| *known == unit).ok_or_else(wrong)?.1;
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).filter(|seconds| *seconds > 0).map(Duration::from_secs).ok_or_else(wrong)
}

/// What it takes to be guided, and where things are.
struct Fuzzer {
    root: PathBuf,
    target: PathBuf,
}

impl Fuzzer {
    /// Gets what is absent and can be got.
    fn get(workspace: &Workspace) -> Result<Fuzzer, String> {
        let without = "`cargo test -p millpond-fuzz` runs the same targets without it";
        let absent = |what: &str, why: String| format!("{what} could not be got: {why}\n{without}");
        if !answers("c++", "--version") {
            let why = "there is no C++ compiler on this machine (apt-get install g++)".to_owned();
            return Err(absent("libFuzzer", why));
        }
        if capture(&mut nightly(&["--version"])).is_err() {
            let install = ["toolchain", "install", "nightly", "--profile", "minimal"];
            run(Command::new("rustup").args(install)).map_err(|why| absent("a nightly toolchain", why))?;
        }
        if capture(&mut nightly(&["fuzz", "--version"])).is_err() {
            workspace.cargo(&["install", "cargo-fuzz", "--locked"]).map_err(|why| absent("cargo-fuzz", why))?;
        }
        Ok(Fuzzer { root: workspace.root.clone(), target: workspace.target.join("fuzz") })
    }

    fn build(&self) -> Outcome {
        take_versions(&self.root)?;
        run(&mut self.cargo("build", &[]))
    }

    /// How many inputs a target was given in a time, and what it found.
    fn run(&self, target: &str, time: Duration) -> Result<(u64, Outcome), String> {
        let log = self.target.join(format!("{target}.log"));
        let file = fs::File::create(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let fresh = self.fresh(target)?;
        let limit = format!("-max_total_time={}", time.as_secs());
        let mut command = self.cargo("run", &[Path::new(target), &fresh, &self.kept(target)]);
        command.args(["--", &limit, HANGS, MEMORY, LENGTH, "-print_final_stats=1"]);
        println!("{target}: {} s; what it says goes to {}", time.as_secs(), log.display());
        let status = command.stdout(Stdio::null()).stderr(file).status().map_err(|e| format!("cargo fuzz: {e}"))?;
        let said = fs::read(&log).map_err(|e| format!("{}: {e}", log.display()))?;
        let said = String::from_utf8_lossy(&said);
        let outcome = if status.success() { Ok(()) } else { Err(format!("{target} found something:\n{}", end(&said))) };
        Ok((executions(&said), outcome))
    }

    /// Puts the smallest inputs that together reach everything in place of those that are kept, but for those with a name.
    fn keep(&self, target: &str) -> Outcome {
        let (kept, fresh) = (self.kept(target), self.fresh(target)?);
        let merged = self.target.join("merged").join(target);
        let io = |e: io::Error| format!("{}: {e}", merged.display());
        if merged.exists() {
            fs::remove_dir_all(&merged).map_err(io)?;
        }
        fs::create_dir_all(&merged).map_err(io)?;
        // They stay, so nothing else is needed for what they reach.
        copy_all(&kept, &merged, is_named).map_err(io)?;
        let mut command = self.cargo("run", &[Path::new(target), &merged, &kept, &fresh]);
        capture(command.args(["--", "-set_cover_merge=1", "-use_counters=0", HANGS, MEMORY, LENGTH]))?;
        replace(&kept, &merged).map_err(io)
    }

    /// Where the inputs of the repository are.
    fn kept(&self, target: &str) -> PathBuf {
        self.root.join("fuzz/corpus").join(target)
    }

    /// Where new inputs go, over all runs on this machine.
    fn fresh(&self, target: &str) -> Result<PathBuf, String> {
        let folder = self.target.join("corpus").join(target);
        fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(folder)
    }

    /// Without the address sanitizer: all of ours is safe code, and it halves the speed.
    fn cargo(&self, verb: &str, words: &[&Path]) -> Command {
        let mut command = nightly(&["fuzz", verb, "--sanitizer", "none", "--target-dir"]);
        command.arg(&self.target).args(words).current_dir(&self.root);
        // Targets that need real files sync them: in memory that costs nothing.
        if Path::new(IN_MEMORY).is_dir() {
            command.env("TMPDIR", IN_MEMORY);
        }
        command
    }
}

/// Puts the inputs of one folder in place of those of another, where they are small enough. Those with a name stay.
fn replace(kept: &Path, merged: &Path) -> io::Result<()> {
    for input in inputs(kept)?.iter().filter(|input| !is_named(input)) {
        fs::remove_file(input)?;
    }
    copy_all(merged, kept, |input| !is_named(input) && input.metadata().is_ok_and(|of| of.len() <= KEPT_MAX))
}

fn copy_all(from: &Path, to: &Path, is_meant: impl Fn(&Path) -> bool) -> io::Result<()> {
    for input in inputs(from)?.iter().filter(|input| is_meant(input)) {
        fs::copy(input, to.join(input.file_name().expect("an input is a file")))?;
    }
    Ok(())
}

fn inputs(folder: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect()
}

/// Whether a person has named an input, for what it once found: libFuzzer calls it by its SHA-1.
fn is_named(input: &Path) -> bool {
    let name = input.file_name().unwrap_or_default().as_encoded_bytes();
    name.len() != 40 || !name.iter().all(u8::is_ascii_hexdigit)
}

fn nightly(words: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).args(words);
    command
}

/// As libFuzzer tells it at its end.
fn executions(said: &str) -> u64 {
    let told = said.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    told.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
}

/// The last lines: what was found, the file of the input, and how it is run again.
fn end(said: &str) -> String {
    const LINES: usize = 60;
    let lines: Vec<&str> = said.lines().collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_read() {
        let all = ["a".to_owned(), "b".to_owned()];
        let parse = |words: &str| parse(&words.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), &all);
        let all_for_a_minute = Asked { time: MINUTE, keep: false, targets: all.to_vec() };
        assert_eq!(parse(""), Ok(all_for_a_minute));
        let one = Asked { time: Duration::from_secs(600), keep: true, targets: vec!["b".to_owned()] };
        assert_eq!(parse("b --for 10m --keep"), Ok(one));
        for bad in ["c", "--for", "--for 10", "--for m", "--for 0s", "--for 1d", "--for 99999999999999999999h"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn inputs_with_a_name_stay_when_others_take_the_place_of_the_rest() {
        let folder = std::env::temp_dir().join(format!("millpond-inputs-{}", std::process::id()));
        let [kept, merged] = ["kept", "merged"].map(|name| folder.join(name));
        let put = |folder: &Path, name: &str, length: usize| fs::write(folder.join(name), vec![7; length]).unwrap();
        [&kept, &merged].iter().for_each(|folder| fs::create_dir_all(folder).unwrap());
        let hash = |digit: &str| digit.repeat(40);
        put(&kept, "found_by_a_person", 5000);
        put(&kept, &hash("0"), 1);
        put(&kept, &hash("a"), 1);
        put(&merged, "found_by_a_person", 5000);
        put(&merged, &hash("a"), 1);
        put(&merged, &hash("b"), KEPT_MAX as usize);
        put(&merged, &hash("c"), KEPT_MAX as usize + 1);
        let replaced = replace(&kept, &merged);
        let mut left: Vec<String> =
            fs::read_dir(&kept).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        fs::remove_dir_all(&folder).unwrap();
        replaced.unwrap();
        left.sort();
        assert_eq!(left, [hash("a"), hash("b"), "found_by_a_person".to_owned()]);
    }

    #[test]
    fn executions_are_those_that_are_told() {
        assert_eq!(executions("x\nstat::number_of_executed_units: 4711\nstat::y: 1\n"), 4711);
        assert_eq!(executions("==1== ERROR"), 0);
    }
}
