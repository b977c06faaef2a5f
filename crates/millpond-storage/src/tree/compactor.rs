//! Compaction in the background: a thread that takes step after step, and the part of a step that looks at each entry.
//!
//! A step is as long as the tables that it merges. So that it leaves the other threads most of a core, it pauses after
//! each slice of entries for a time in proportion to what the slice took; not while many runs wait to be merged, for
//! then every read pays for the delay.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lsm_tree::compaction::filter::Context;
use lsm_tree::compaction::{CompactionFilter, Factory, ItemAccessor, Verdict};

use super::expiry::Expiry;
use super::{Tree, TreeError};
use crate::journal::lock;

/// Entries between two pauses: some milliseconds of work.
const SLICE: u32 = 8192;
/// Pause for each unit of work: the thread takes two fifths of a core.
const PAUSE: f64 = 1.5;
/// Runs that wait to be merged from which on there are no pauses.
const RUNS_URGENT: usize = 12;
/// The longest sleep between two steps: that long after the last commit tombstones are looked at.
const IDLE: Duration = Duration::from_secs(1);
/// Sleep after a failed step. What fails for want of space or for damage fails again, and each try costs something.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Takes steps of compaction for as long as it is kept.
pub struct Compactor {
    tree: Arc<dyn Tree>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    closing: bool,
    woken: bool,
    failure: Option<TreeError>,
}

impl Compactor {
    /// Starts a thread that takes steps for a tree, each telling whether there was anything to do. When this is dropped,
    /// the step under way is given up.
    pub fn start(
        tree: Arc<dyn Tree>,
        step: impl Fn() -> Result<bool, TreeError> + Send + 'static,
    ) -> io::Result<Compactor> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("compactor".to_owned()).spawn(move || theirs.run(step))?;
        Ok(Compactor { tree, shared, thread: Some(thread) })
    }

    /// Something was committed.
    pub fn wake(&self) {
        lock(&self.shared.state).woken = true;
        self.shared.changed.notify_one();
    }

    /// The last failure that was not told yet, where the step before did not fail as well. Nothing is lost by one; but the
    /// tree grows until it is mended.
    pub fn take_failure(&self) -> Option<TreeError> {
        lock(&self.shared.state).failure.take()
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.tree.stop();
        lock(&self.shared.state).closing = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("a compactor does not panic");
        }
    }
}

impl Shared {
    fn run(&self, step: impl Fn() -> Result<bool, TreeError>) {
        let mut is_failing = false;
        while !lock(&self.state).closing {
            let done = step();
            let failed_before = std::mem::replace(&mut is_failing, done.is_err());
            match done {
                Ok(true) => {}
                Ok(false) => self.sleep(IDLE, |state| state.woken || state.closing),
                Err(failure) => {
                    if !failed_before {
                        lock(&self.state).failure = Some(failure);
                    }
                    self.sleep(AFTER_FAILURE, |state| state.closing);
                }
            }
        }
    }

    fn sleep(&self, time: Duration, is_over: impl Fn(&State) -> bool) {
        let state = lock(&self.state);
        let waited = self.changed.wait_timeout_while(state, time, |state| !is_over(state));
        waited.unwrap_or_else(PoisonError::into_inner).0.woken = false;
    }
}

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

/// Looks at each entry of a merge: drops what has expired, pauses in time, gives up when it is told to.
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
