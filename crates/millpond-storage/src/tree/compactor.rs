//! Compaction in the background: a thread that takes step after step, and sleeps when there is none to take.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{Tree, TreeError};
use crate::sync::thread::{Builder, JoinHandle};
use crate::sync::{Condvar, Mutex, PoisonError, lock};

/// The longest sleep between two steps: that long after the last commit tombstones are looked at.
const IDLE: Duration = Duration::from_secs(1);
/// Sleep after a failed step, twice as long after each further one, up to the longest. What fails for want of space or for
/// damage fails again, and each try costs something: the space, for as long as it takes, if nothing else. Where it was for want
/// of space, the sleep is over when there is known to be some.
const AFTER_FAILURE: Duration = Duration::from_secs(10);
const AFTER_FAILURES: Duration = Duration::from_secs(5 * 60);

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
    /// There is space again, as somebody has found since the last sleep.
    has_space: bool,
    /// How many steps in a row have failed.
    failing: u32,
    failure: Option<TreeError>,
}

impl State {
    /// Takes note of how a step ended: of failures in a row the first is told.
    fn ended(&mut self, failure: Option<TreeError>) {
        let failing = if failure.is_some() { self.failing.saturating_add(1) } else { 0 };
        if std::mem::replace(&mut self.failing, failing) == 0 && failing > 0 {
            self.failure = failure;
        }
    }

    /// How long to sleep after a step that failed.
    fn pause(&self) -> Duration {
        let before = self.failing.saturating_sub(1);
        AFTER_FAILURE.saturating_mul(2u32.saturating_pow(before)).min(AFTER_FAILURES)
    }
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
        let thread = Builder::new().name("compactor".to_owned()).spawn(move || theirs.run(step))?;
        Ok(Compactor { tree, shared, thread: Some(thread) })
    }

    /// Something was committed.
    pub fn wake(&self) {
        lock(&self.shared.state).woken = true;
        self.shared.changed.notify_one();
    }

    /// There is space on the disk again.
    pub fn found_space(&self) {
        lock(&self.shared.state).has_space = true;
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
        while !lock(&self.state).closing {
            let done = step();
            let wants_space = matches!(done, Err(TreeError::Full(_)));
            let did_any = done.as_ref().ok().copied();
            lock(&self.state).ended(done.err());
            match did_any {
                Some(true) => {}
                Some(false) => self.sleep(IDLE, |state| state.woken || state.closing),
                None => {
                    let pause = lock(&self.state).pause();
                    self.sleep(pause, |state| wants_space && state.has_space || state.closing);
                }
            }
        }
    }

    fn sleep(&self, time: Duration, is_over: impl Fn(&State) -> bool) {
        let state = lock(&self.state);
        let waited = self.changed.wait_timeout_while(state, time, |state| !is_over(state));
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        (state.woken, state.has_space) = (false, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_failures_in_a_row_the_first_is_told() {
        let mut state = State::default();
        let mut ended = |failure: Option<TreeError>| {
            state.ended(failure);
            state.failure.take().is_some()
        };
        assert!(!ended(None));
        assert!(ended(Some(TreeError::Poisoned)));
        assert!(!ended(Some(TreeError::Poisoned)), "it was told");
        let pauses = (0..8).map(|failing| State { failing, ..State::default() }.pause().as_secs());
        assert_eq!(pauses.collect::<Vec<_>>(), [10, 10, 20, 40, 80, 160, 300, 300]);
        assert!(!ended(None));
        assert!(ended(Some(TreeError::Poisoned)), "it had been mended in between");
    }
}
