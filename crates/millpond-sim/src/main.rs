//! `millpond-sim`: leads simulated lives of a broker, and prints for one that goes wrong the command that leads it again.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use millpond_sim::{Canary, Options, STEPS, Sights, live};

const USAGE: &str = "\
usage: millpond-sim [--seed N | --seeds COUNT [--from N] | --forever [--from N]] [--steps N] [--trace] [--canary NAME]

  --seed N         leads one life, twice, and compares
  --seeds COUNT    leads COUNT lives from seed 0 on, or from that of --from
  --forever        goes on until a life goes wrong
  --steps N        steps before a life is brought to its end (1700)
  --trace          prints all that happens
  --canary NAME    puts a fault in, and the run has to fail: lost, back, reigns, stuck, early, halves, moved, order,
                   coalescing, watermark, priority, ageing, fairness, memory, starts, retention, once, repeats, routes,
                   expiry, dedup, sessions or failures
";

/// Lives after which a range has to have seen everything.
const RANGE: u64 = 50;

/// The seed of the life that is being led, for a panic's last words.
static SEED: AtomicU64 = AtomicU64::new(0);

struct Arguments {
    from: u64,
    count: u64,
    options: Options,
    canary: Option<String>,
}

fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(what) => {
            eprint!("{what}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let again = again(&arguments);
    let (last_words, default) = (again.clone(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |panic| {
        default(panic);
        eprintln!("replay: {} --seed {}", last_words, SEED.load(Ordering::Relaxed));
    }));
    match run(&arguments) {
        Ok(sights) => report(&arguments, &sights),
        Err(what) => {
            eprintln!("{what}\nreplay: {again} --seed {}", SEED.load(Ordering::Relaxed));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<Sights, String> {
    let mut sights = Sights::default();
    for seed in arguments.from..arguments.from.saturating_add(arguments.count) {
        SEED.store(seed, Ordering::Relaxed);
        let life = live(seed, arguments.options);
        // The first life is led twice: the same seed has to give the same bytes.
        if seed == arguments.from && !arguments.options.trace {
            let again = live(seed, arguments.options);
            if again.hash != life.hash {
                return Err(format!("seed {seed} led twice gives {:016x} and {:016x}", life.hash, again.hash));
            }
        }
        sights.add(&life.sights);
        life.verdict.map_err(|violation| format!("seed {seed}: {violation}"))?;
        if arguments.count == 1 {
            println!("seed {seed}: {:016x}", life.hash);
        }
    }
    Ok(sights)
}

fn report(arguments: &Arguments, sights: &Sights) -> ExitCode {
    sights.0.iter().for_each(|(what, count)| println!("{count:>10} {what}"));
    let missing = sights.missing();
    if arguments.count >= RANGE && arguments.options.steps >= STEPS && !missing.is_empty() {
        eprintln!("{} lives never saw: {}", arguments.count, missing.join(", "));
        return ExitCode::FAILURE;
    }
    println!("{} lives, no promise broken", arguments.count);
    ExitCode::SUCCESS
}

/// The command that leads a life of these options again, but for its seed.
fn again(arguments: &Arguments) -> String {
    let mut command = "cargo run --release -p millpond-sim --".to_owned();
    if arguments.options.steps != STEPS {
        command += &format!(" --steps {}", arguments.options.steps);
    }
    if let Some(canary) = &arguments.canary {
        command += &format!(" --canary {canary}");
    }
    command
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let (mut from, mut count, mut options, mut canary) = (0, 1, Options::default(), None);
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
            "--steps" => options.steps = number()?,
            "--trace" => options.trace = true,
            "--canary" => {
                let name = words.next().unwrap_or_default();
                options.canary = Some(Canary::named(&name).ok_or_else(|| format!("there is no canary `{name}`"))?);
                canary = Some(name);
            }
            _ => return Err(format!("`{word}` means nothing here")),
        }
    }
    Ok(Arguments { from, count, options, canary })
}
