//! The journal's thread: the stage behind the writer. It writes a batch, syncs it, and releases what waited for that.
//!
//! The committer travels with the batch and comes back with the answer, so whoever has it may drive the disk: this
//! thread, or at idle the writer itself.

use std::sync::Arc;
use std::time::Instant;

use millpond_storage::{CommitError, Committer, Failure};

use super::outgoing::Outgoing;
use crate::metrics::Metrics;
use crate::session::{Common, Registry};
use crate::update_queue::{Batch, Lane, Next, State};

/// Work for the disk.
pub(crate) struct Job {
    /// What is to be written, if anything.
    pub(crate) batch: Option<millpond_storage::Batch>,
    /// Whether everything written is to be synced then.
    pub(crate) sync: bool,
    /// Told once it is written.
    pub(crate) written: Outgoing,
    /// Told once it is durable; only where it is synced.
    pub(crate) durable: Outgoing,
}

/// Work that was done, or could not be.
pub(crate) struct Committed {
    pub(crate) committer: Committer,
    pub(crate) result: Result<(), NotDone>,
}

/// Why work was not done.
pub(crate) enum NotDone {
    /// There is no space. The same job is to be tried again before any other.
    DiskFull(Box<Job>),
    /// Nothing may be written any more.
    Failed(Failure),
}

impl Job {
    /// Does the work on this thread.
    pub(crate) fn run(mut self, committer: &mut Committer, to: &Registry, metrics: &Metrics) -> Result<(), NotDone> {
        if let Some(batch) = self.batch.take() {
            let bytes = batch.bytes();
            match committer.write(batch) {
                Ok(()) => metrics.batch_bytes.inc_by(bytes),
                Err(CommitError::DiskFull(batch)) => {
                    return Err(NotDone::DiskFull(Box::new(Job { batch: Some(*batch), ..self })));
                }
                Err(CommitError::Failed(failure)) => return Err(NotDone::Failed(failure)),
            };
        }
        self.written.release(to);
        if self.sync {
            let begin = Instant::now();
            committer.sync().map_err(NotDone::Failed)?;
            metrics.sync_seconds.observe(begin.elapsed().as_secs_f64());
            metrics.batches.inc();
        }
        assert!(self.sync || self.durable.is_empty(), "what waits for a sync gets one");
        self.durable.release(to);
        Ok(())
    }
}

/// The thread's state.
pub(crate) struct Journal {
    registry: Arc<Registry>,
    metrics: Arc<Metrics>,
}

impl Journal {
    /// One batch is on its way at a time, and its committer with it.
    pub(crate) const LANES: [Lane; 1] = [Lane::new(1)];

    pub(crate) fn new(common: &Common) -> Journal {
        Journal { registry: common.registry.clone(), metrics: common.metrics.clone() }
    }
}

impl State for Journal {
    type Request = (Committer, Job);
    type Answer = Committed;

    fn update(&mut self, batch: &mut Batch<(Committer, Job), Committed>) -> Next {
        for ((mut committer, job), answer) in batch.drain() {
            let result = job.run(&mut committer, &self.registry, &self.metrics);
            answer.give(Committed { committer, result });
        }
        Next::Sleep(None)
    }
}
