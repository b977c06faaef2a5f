//! The part of a step of compaction that looks at each entry: drops what has expired, pauses in time, gives up when it is told to.
//!
//! A step is as long as the tables that it merges. So that it leaves the other threads most of a core, it pauses after
//! each slice of entries for a time in proportion to what the slice took; not while many runs wait to be merged, for
//! then every read pays for the delay.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use lsm_tree::compaction::filter::Context;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};

use super::expiry::Expiry;
use crate::sync::lock;

/// Entries between two pauses: a fraction of a millisecond of work. A system may let a thread work for several before
/// another one has its turn on the same core, and the other may be the broker's writer.
const SLICE: u32 = 512;
/// Pause for each unit of work: the thread takes two fifths of a core.
const PAUSE: f64 = 1.5;
/// Runs that wait to be merged from which on there are no pauses.
const RUNS_URGENT: usize = 12;

/// Makes a [`Sweep`] for each merge.
#[derive(Default)]
pub(super) struct Sweeper {
    expiry: Mutex<Arc<Expiry>>,
    pace: Arc<Pace>,
}

#[derive(Default)]
struct Pace {
    runs: AtomicUsize,
    stopped: AtomicBool,
}

impl Sweeper {
    pub fn expiry(&self) -> Expiry {
        Expiry::clone(&lock(&self.expiry))
    }

    pub fn set_expiry(&self, expiry: Expiry) {
        *lock(&self.expiry) = Arc::new(expiry);
    }

    /// So many runs wait to be merged.
    pub fn set_runs(&self, runs: usize) {
        self.pace.runs.store(runs, Ordering::Relaxed);
    }

    pub fn stop(&self) {
        self.pace.stopped.store(true, Ordering::Relaxed);
    }
}

impl Factory for Sweeper {
    fn name(&self) -> &str {
        "sweeper"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        let expiry = lock(&self.expiry).clone();
        Box::new(Sweep { expiry, pace: self.pace.clone(), count: 0, since: Instant::now() })
    }
}

/// Looks at each entry of one merge.
struct Sweep {
    expiry: Arc<Expiry>,
    pace: Arc<Pace>,
    count: u32,
    since: Instant,
}

impl CompactionFilter for Sweep {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        self.count += 1;
        if self.count == SLICE {
            self.pause()?;
        }
        let mut failed = None;
        let value = || item.value().map_err(|error| failed = Some(error)).unwrap_or_default().into();
        let is_gone = self.expiry.is_gone(item.key(), value);
        match failed {
            Some(error) => Err(error),
            // Only what has no older version below may vanish without a trace, and the merge itself knows where that is.
            None if is_gone => Ok(Verdict::Remove),
            None => Ok(Verdict::Keep),
        }
    }
}

impl Sweep {
    fn pause(&mut self) -> lsm_tree::Result<()> {
        if self.pace.stopped.load(Ordering::Relaxed) {
            return Err(io::Error::from(io::ErrorKind::Interrupted).into());
        }
        if self.pace.runs.load(Ordering::Relaxed) < RUNS_URGENT {
            std::thread::sleep(self.since.elapsed().mul_f64(PAUSE));
        }
        (self.count, self.since) = (0, Instant::now());
        Ok(())
    }
}
