//! A range of lives on several threads: each life on one, whatever the others do, and what all have seen summed up.
//!
//! Seeds are taken in their order, and no more are taken once a life has gone wrong; those that were begun are led to their
//! end. So the one that is told is the lowest of the range, on any number of threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::sights::Sights;
use crate::verdict::Checker;
use crate::{Life, Options, live};

/// Lives after which a long range says that it goes on.
const SIGN_OF_LIFE: u64 = 1000;
/// One life in so many of a range may see too little: a seed that draws one client on a network that is cut all the time does, and
/// breaks no promise. Of some thousands it is one.
const OF_NO_USE: u64 = 100;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The first seed.
    pub from: u64,
    /// How many.
    pub count: u64,
    /// Threads that lead them.
    pub threads: usize,
    /// How each is led. Only the first one is hashed.
    pub options: Options,
}

/// How a range went.
#[derive(Default)]
pub struct Led {
    /// Lives that kept every promise.
    pub lives: u64,
    /// Those of them that saw too little to prove it, and what.
    pub poor: BTreeMap<u64, String>,
    /// What was seen in all lives.
    pub sights: Sights,
    /// The hash of the first life.
    pub first: Option<u64>,
    /// The lowest seed whose life went wrong, and what was found.
    pub broken: Option<(u64, String)>,
}

impl Range {
    /// The command that leads all of them again.
    pub fn again(&self) -> String {
        format!("{} --from {} --seeds {}", self.options.again(), self.from, self.count)
    }

    /// Leads them all, or up to one that goes wrong.
    ///
    /// # Panics
    /// If an assertion of the core or the storage fails; the other threads end their lives before.
    pub fn lead(&self) -> Led {
        let (next, over, led) = (AtomicU64::new(self.from), AtomicBool::new(false), Mutex::default());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| self.lead_some(&next, &over, &led));
            }
        });
        let mut led = led.into_inner().unwrap_or_else(PoisonError::into_inner);
        led.judge();
        led
    }

    fn lead_some(&self, next: &AtomicU64, over: &AtomicBool, led: &Mutex<Led>) {
        // A thread that ends, of whatever, has no more to begin, and neither have the others.
        let _ends = Ends(over);
        let end = self.from.saturating_add(self.count);
        while !over.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let life = self.live(seed);
            let mut led = led.lock().unwrap_or_else(PoisonError::into_inner);
            if !led.goes_on(seed, life) {
                return;
            }
            if led.lives.is_multiple_of(SIGN_OF_LIFE) && self.count > SIGN_OF_LIFE {
                eprintln!("{} lives, no promise broken so far", led.lives);
            }
        }
    }

    /// The first life is led twice: the same seed has to give the same bytes.
    fn live(&self, seed: u64) -> Result<Life, String> {
        let is_first = seed == self.from;
        let options = Options { hashed: is_first, ..self.options };
        let life = live(seed, options);
        if is_first && !self.options.trace {
            let again = live(seed, options);
            if again.hash != life.hash {
                return Err(format!("led twice it gives {:016x?} and {:016x?}", life.hash, again.hash));
            }
        }
        Ok(life)
    }
}

impl Led {
    /// Takes note of a life. Whether others may follow: it broke no promise.
    pub(crate) fn goes_on(&mut self, seed: u64, life: Result<Life, String>) -> bool {
        let broken = match life {
            Ok(life) => {
                self.sights.add(&life.sights);
                self.first = self.first.or(life.hash);
                match life.verdict {
                    Err(violation) if violation.checker == Checker::Sights => {
                        self.poor.insert(seed, violation.to_string());
                        None
                    }
                    verdict => verdict.err().map(|violation| violation.to_string()),
                }
            }
            Err(what) => Some(what),
        };
        let Some(what) = broken else {
            self.lives += 1;
            return true;
        };
        if self.broken.as_ref().is_none_or(|(other, _)| seed < *other) {
            self.broken = Some((seed, what));
        }
        false
    }

    /// The range is over: too many lives that saw too little are as bad as one that broke a promise.
    pub(crate) fn judge(&mut self) {
        let poor = self.poor.len() as u64;
        if self.broken.is_none()
            && poor > self.lives / OF_NO_USE
            && let Some((seed, what)) = self.poor.first_key_value()
        {
            let more = if poor > 1 { format!(", and so did {} others", poor - 1) } else { String::new() };
            self.broken = Some((*seed, format!("{what}{more}")));
        }
    }
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
