//! Tells of a life that comes to no verdict how it is led again. One that goes on and on ends the process: some faults make one go
//! round for ever, and whoever leads it would wait without being told of which seed. A thread looks at all lives that are led; the
//! lives know nothing of it, so they are the same with it and without. One that panics says so as it ends.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Write, stderr};
use std::panic;
use std::process::exit;
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Options, STEPS};

/// How long a life of the usual length may last. The slowest takes a few seconds, and some ten times as long where it is
/// compiled for debugging; a machine that is busy otherwise may make it ten times that.
const LASTS: Duration = Duration::from_secs(if cfg!(debug_assertions) { 600 } else { 120 });
/// How often somebody looks.
const LOOK: Duration = Duration::from_millis(500);

static LIVES: Mutex<Lives> = Mutex::new(Lives { begun: 0, led: BTreeMap::new() });
/// How long a life may last, whatever its length, where a program says that.
static SAID: OnceLock<Duration> = OnceLock::new();

thread_local! {
    /// The life that this thread leads.
    static LEADS: Cell<Option<(u64, Options)>> = const { Cell::new(None) };
}

struct Lives {
    begun: u64,
    /// By the order in which they began.
    led: BTreeMap<u64, Watched>,
}

struct Watched {
    seed: u64,
    options: Options,
    /// By when it is over.
    until: Instant,
}

/// Sets how long a life may last. To be called before any life is led.
pub fn set(lasts: Duration) {
    assert!(SAID.set(lasts).is_ok(), "it is set once");
}

/// A life that is led.
pub(crate) struct Led(u64);

/// A life begins; it is over when this is dropped.
pub(crate) fn begins(seed: u64, options: &Options) -> Led {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| {
        have_last_words();
        drop(thread::spawn(watch));
    });
    LEADS.set(Some((seed, *options)));
    // A longer life may take longer. One that is led for ever has no end to be waited for.
    let long = u32::try_from(options.steps.div_ceil(STEPS)).unwrap_or(u32::MAX).max(1);
    let lasts = SAID.get().copied().or(LASTS.checked_mul(long));
    let mut lives = lives();
    lives.begun += 1;
    let nth = lives.begun;
    if let Some(until) = lasts.and_then(|lasts| Instant::now().checked_add(lasts)) {
        lives.led.insert(nth, Watched { seed, options: *options, until });
    }
    Led(nth)
}

impl Drop for Led {
    fn drop(&mut self) {
        lives().led.remove(&self.0);
        LEADS.set(None);
    }
}

/// A panic in a life is told with how that is led again, in its own words: it may be the end of the process.
fn have_last_words() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        before(panic);
        if let Some((seed, options)) = LEADS.get() {
            eprintln!("replay: {} --seed {seed}", options.again());
        }
    }));
}

fn watch() {
    loop {
        thread::sleep(LOOK);
        let now = Instant::now();
        let lives = lives();
        let Some(Watched { seed, options, .. }) = lives.led.values().find(|life| life.until <= now) else { continue };
        // A test's own output is kept back, and would be lost.
        _ = writeln!(stderr(), "seed {seed}: the life comes to no end\nreplay: {} --seed {seed}", options.again());
        exit(1);
    }
}

fn lives() -> MutexGuard<'static, Lives> {
    LIVES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use super::*;
    use crate::Canary;

    /// Who is told that is the process of a test of its own, which panics while it leads a life.
    #[test]
    fn a_panic_in_a_life_tells_how_it_is_led_again() {
        const PANICS: &str = "MILLPOND_TEST_PANICS";
        let options = Options { canary: Some(Canary::Lost), steps: 400, ..Options::default() };
        if env::var_os(PANICS).is_some() {
            let _led = begins(4711, &options);
            panic!("an invariant does not hold");
        }
        let mut command = Command::new(env::current_exe().unwrap());
        let this = "patience::tests::a_panic_in_a_life_tells_how_it_is_led_again";
        let output = command.args(["--exact", this, "--nocapture"]).env(PANICS, "").output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        let replay = "replay: cargo run --release -p millpond-sim -- --steps 400 --canary lost --seed 4711";
        assert!(told.lines().any(|line| line == replay), "{told}");
    }
}
