//! `millpond-sim`: leads simulated lives of a broker, and prints for one that goes wrong the command that leads it again.

use std::process::ExitCode;
use std::time::Duration;

use millpond_sim::{CANARIES, Canary, Led, Options, Range, STEPS, patience};

const USAGE: &str = "\
usage: millpond-sim [--seed N | --seeds COUNT [--from N] | --forever [--from N]]
                    [--threads N] [--steps N] [--patience N] [--trace] [--canary NAME]

  --seed N         leads one life, twice, and compares
  --seeds COUNT    leads COUNT lives from seed 0 on, or from that of --from
  --forever        goes on until a life goes wrong
  --threads N      threads that lead them (as many as there are processors)
  --steps N        steps before a life is brought to its end (1700)
  --patience N     seconds after which a life counts as one without an end
  --trace          prints all that happens
  --canary NAME    puts a fault in, and the run has to fail; NAME is one of
";

/// Lives after which a range has to have seen everything.
const RANGE: u64 = 50;

struct Arguments {
    range: Range,
    patience: Option<Duration>,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(what) => {
            let canaries = CANARIES.map(|(name, ..)| name).join(" ");
            eprintln!("{what}\n\n{USAGE}                   {canaries}");
            return ExitCode::from(2);
        }
    };
    arguments.patience.into_iter().for_each(patience::set);
    let led = arguments.range.lead();
    if let Some((seed, what)) = &led.broken {
        let again = arguments.range.options.again();
        eprintln!("seed {seed}: {what}\n{} other lives broke no promise\nreplay: {again} --seed {seed}", led.lives);
        return ExitCode::FAILURE;
    }
    report(&arguments.range, &led)
}

fn report(range: &Range, led: &Led) -> ExitCode {
    if let (1, Some(hash)) = (range.count, led.first) {
        println!("seed {}: {hash:016x}", range.from);
    }
    led.sights.0.iter().for_each(|(what, count)| println!("{count:>10} {what}"));
    let missing = led.sights.missing();
    if range.count >= RANGE && range.options.steps >= STEPS && !missing.is_empty() {
        eprintln!("{} lives never saw: {}\nreplay: {}", led.lives, missing.join(", "), range.again());
        return ExitCode::FAILURE;
    }
    led.poor.iter().for_each(|(seed, what)| println!("seed {seed} was of no use: {what}"));
    println!("{} lives, no promise broken", led.lives);
    ExitCode::SUCCESS
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut from, mut count, mut options, mut patience) = (0, 1, Options::default(), None);
    let mut threads = std::thread::available_parallelism().map_or(1, |processors| processors.get());
    while let Some(word) = words.next() {
        let mut number = || {
            let given = words.next().ok_or_else(|| format!("{word} wants a number"))?;
            given.parse::<u64>().map_err(|_| format!("{word} wants a number, not `{given}`"))
        };
        match word.as_str() {
            "--seed" => (from, count) = (number()?, 1),
            "--seeds" => count = number()?,
            "--from" => from = number()?,
            "--forever" => count = u64::MAX,
            "--threads" => threads = number()? as usize,
            "--steps" => options.steps = number()?,
            "--patience" => patience = Some(Duration::from_secs(number()?)),
            "--trace" => options.trace = true,
            "--canary" => {
                let name = words.next().unwrap_or_default();
                options.canary = Some(Canary::named(&name).ok_or_else(|| format!("there is no canary `{name}`"))?);
            }
            _ => return Err(format!("`{word}` means nothing here")),
        }
    }
    // Lines of several lives would tell none.
    let threads = if count == 1 || options.trace { 1 } else { threads };
    Ok(Arguments { range: Range { from, count, threads, options }, patience })
}
