//! The part of a step of compaction that looks at each entry: drops what has expired, pauses in time, gives up when it is told to.
//!
//! A step is as long as the tables that it merges, so it pauses in between (see `pace`); not while many runs wait to be merged, for
//! then every read pays for the delay.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lsm_tree::compaction::filter::Context;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};

use super::expiry::Expiry;
use super::pace::{Rest, Slices};
use crate::sync::lock;

/// Runs that wait to be merged from which on there are no pauses.
const RUNS_URGENT: usize = 12;

/// Makes a [`Sweep`] for each merge.
pub(super) struct Sweeper {
    expiry: Mutex<Arc<Expiry>>,
    pace: Arc<Pace>,
    rest: Arc<dyn Rest>,
}

#[derive(Default)]
struct Pace {
    runs: AtomicUsize,
    stopped: AtomicBool,
}

impl Sweeper {
    pub fn new(rest: Arc<dyn Rest>) -> Sweeper {
        Sweeper { expiry: Mutex::default(), pace: Arc::default(), rest }
    }

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
        Box::new(Sweep { expiry, pace: self.pace.clone(), slices: Slices::begin(self.rest.clone()) })
    }
}

/// Looks at each entry of one merge.
struct Sweep {
    expiry: Arc<Expiry>,
    pace: Arc<Pace>,
    slices: Slices,
}

impl CompactionFilter for Sweep {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        if self.slices.count() {
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
        self.slices.end(self.pace.runs.load(Ordering::Relaxed) >= RUNS_URGENT);
        Ok(())
    }
}
