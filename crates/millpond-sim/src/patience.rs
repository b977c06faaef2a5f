//! Ends the process where a life goes on and on: some faults make one go round for ever, and whoever leads it would wait
//! without being told of which seed. A thread looks at all lives that are led; the lives know nothing of it, so they are the
//! same with it and without.

use std::collections::BTreeMap;
use std::io::{Write, stderr};
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
static SETTINGS: OnceLock<Settings> = OnceLock::new();

struct Lives {
    begun: u64,
    /// By the order in which they began: the seed, and by when it is over.
    led: BTreeMap<u64, (u64, Instant)>,
}

/// What a program says of it.
struct Settings {
    /// How long a life may last, whatever its length.
    lasts: Option<Duration>,
    /// The command that leads a life again, but for its seed.
    again: String,
}

/// Sets how long a life may last, and with what command it is led again. To be called before any life is led.
pub fn set(lasts: Option<Duration>, again: &str) {
    let settings = Settings { lasts, again: again.to_owned() };
    assert!(SETTINGS.set(settings).is_ok(), "it is set once");
}

/// A life that is led.
pub(crate) struct Led(u64);

/// A life begins; it is over when this is dropped.
pub(crate) fn begins(seed: u64, options: &Options) -> Led {
    static WATCH: Once = Once::new();
    WATCH.call_once(|| drop(thread::spawn(watch)));
    // A longer life may take longer. One that is led for ever has no end to be waited for.
    let long = u32::try_from(options.steps.div_ceil(STEPS)).unwrap_or(u32::MAX).max(1);
    let lasts = settings().and_then(|settings| settings.lasts).or(LASTS.checked_mul(long));
    let mut lives = lives();
    lives.begun += 1;
    let nth = lives.begun;
    if let Some(until) = lasts.and_then(|lasts| Instant::now().checked_add(lasts)) {
        lives.led.insert(nth, (seed, until));
    }
    Led(nth)
}

impl Drop for Led {
    fn drop(&mut self) {
        lives().led.remove(&self.0);
    }
}

fn watch() {
    loop {
        thread::sleep(LOOK);
        let now = Instant::now();
        let lives = lives();
        let Some((seed, _)) = lives.led.values().find(|(_, until)| *until <= now) else { continue };
        let again = settings().map_or("cargo run --release -p millpond-sim --", |settings| &settings.again);
        // A test's own output is kept back, and would be lost.
        _ = writeln!(stderr(), "seed {seed}: the life comes to no end\nreplay: {again} --seed {seed}");
        exit(1);
    }
}

fn settings() -> Option<&'static Settings> {
    SETTINGS.get()
}

fn lives() -> MutexGuard<'static, Lives> {
    LIVES.lock().unwrap_or_else(PoisonError::into_inner)
}
