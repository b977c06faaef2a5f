//! When a batch goes to the disk, and by whose hand.
//!
//! One batch is on its way at a time, and the next fills meanwhile: so the batches grow with the load, and a sync's time
//! is spread over all that came during the one before. A batch for which somebody waits goes as soon as the committer is
//! free, but for one of long requests, which the next turn may add short ones to ([`super::haste`]). One for which nobody
//! waits (unconfirmed acks, publishes of level `none`) starts no sync of its own: it goes with the next, or after a while.
//! When the batch is small, and the writer has little to do meanwhile, it writes and syncs that itself, which saves two hops
//! between threads.
//!
//! While the disk stands still, what fills meanwhile has a bound: publishes wait where it is a full batch, and everything where
//! it is [overfull](millpond_storage::Appender::is_overfull). Nor does [run time](super::clock) go on for long. An overfull batch
//! that may go does so at the end of the turn, and what the turn had taken besides is decided in the next.

use std::time::{Duration, Instant};

use millpond_core::WATCH_EVERY;
use millpond_core::fact::FactLog;
use millpond_storage::store::Sweep;
use millpond_storage::{Failure, Mark};

use super::clock::TURN_MAX;
use super::journal::{Committed, NotDone};
use super::outgoing::Outgoing;
use super::{Host, Job, Request, Writer};
use crate::update_queue::Open;
use crate::writer::request::{FINISHING, FORWARDING, RETURNING, shut};

/// What nobody waits for is synced after so long, and a quiet journal is marked after so long.
const QUIET: Duration = Duration::from_millis(100);
/// What nobody waits for is synced when there is so much of it.
const UNSYNCED_MAX: u64 = 1024 * 1024;
/// What waits for the writer at most while it writes and syncs itself: a few small requests, which are decided sooner
/// than the two hops between threads take.
const OWN_HAND_WAITING: usize = 4 * 1024;
/// How long until it is looked again whether publishes, or jobs, still have to wait.
const PRESSED_AGAIN: Duration = Duration::from_millis(10);
/// How long until a journal that rests looks again whether it is known when much is over, or was dropped.
const SWEEP_AGAIN: Duration = Duration::from_secs(60);
/// How long until a disk without any space is tried again.
const DISK_FULL_AGAIN: Duration = Duration::from_millis(250);

/// The batch in the making, and what is written and not synced.
pub(super) struct Filling {
    /// Outputs that wait for the batch to be durable.
    pub(super) durable: Outgoing,
    /// Outputs that wait for it to be written.
    pub(super) written: Outgoing,
    /// When its first fact came.
    since: Option<Instant>,
    /// When the oldest bytes that are written and not synced were sealed, and how many there are.
    unsynced: Option<(Instant, u64)>,
    /// When something was sealed last; `None` once a mark stands behind it.
    sealed: Option<Instant>,
    /// When a disk without space is tried again.
    retry: Option<Instant>,
}

impl Filling {
    pub(super) fn new(now: Instant) -> Filling {
        Filling {
            durable: Outgoing::default(),
            written: Outgoing::default(),
            since: None,
            unsynced: None,
            sealed: Some(now),
            retry: None,
        }
    }

    /// Notes that the batch has so many bytes now.
    pub(super) fn note(&mut self, now: Instant, bytes: usize) {
        if bytes > 0 {
            self.since.get_or_insert(now);
        }
    }

    /// Whether somebody waits for it.
    pub(super) fn is_waited_for(&self) -> bool {
        !self.durable.is_empty() || !self.written.is_empty()
    }

    /// Since when the oldest of what is not synced is there.
    fn oldest(&self) -> Option<Instant> {
        self.unsynced.map(|(since, _)| since).or(self.since)
    }

    /// How much is not synced, with a batch of so many bytes.
    fn unsynced(&self, batch: u64) -> u64 {
        batch + self.unsynced.map_or(0, |(_, bytes)| bytes)
    }

    /// Whether a batch of so many bytes has to be synced: somebody waits for that, or nobody does for long enough, or for
    /// enough of it.
    fn is_to_be_synced(&self, now: Instant, batch: u64) -> bool {
        let is_old = self.oldest().is_some_and(|since| now >= since + QUIET);
        !self.durable.is_empty() || is_old || self.unsynced(batch) >= UNSYNCED_MAX
    }
}

impl<H: Host> Writer<H> {
    /// Which lanes are taken from.
    pub(super) fn open_lanes_now(&self) -> Open {
        // Nothing overtakes what was put off.
        self.put_off.iter().fold(self.lanes_that_go_on(), |open, (lane, _)| shut(open, *lane))
    }

    /// Which lanes may go on: a batch that is full and cannot go holds publishes back, and so does a lack of memory.
    fn lanes_that_go_on(&self) -> Open {
        let open = self.pressure.open_lanes();
        match self.may_go() || !self.appender.is_full() {
            true => open,
            false if self.appender.is_overfull() => shut(open, FINISHING),
            false => shut(open, FORWARDING),
        }
    }

    /// Whether a request of a lane may go on in mid-turn, behind what was decided so far. What there is to come waits for an
    /// overfull batch to go, which it may do at the end of the turn.
    pub(super) fn goes_on(&self, lane: usize) -> bool {
        match lane > RETURNING && self.appender.is_overfull() {
            true => false,
            false if lane <= FINISHING => true,
            false => self.pressure.open_lanes_after(&self.core, &self.store).has(lane),
        }
    }

    /// Whether a batch may be sent on its way.
    fn may_go(&self) -> bool {
        self.committer.is_some() && self.stuck.is_none()
    }

    /// Whether a batch waits for which the disk had no room at all.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    /// Bytes of the batch in the making.
    pub(crate) fn batch_bytes(&self) -> usize {
        self.appender.bytes()
    }

    /// Whether the journal rests, and says so.
    pub(crate) fn is_marked(&self) -> bool {
        self.filling.sealed.is_none()
    }

    /// Sends the batch on its way if it is time and the committer is free.
    pub(super) fn commit(&mut self, now: Instant) -> Result<(), Failure> {
        if self.committer.is_none() {
            return Ok(());
        }
        if self.stuck.is_some() {
            return self.retry(now);
        }
        let bytes = self.appender.bytes() as u64;
        if bytes == 0 && self.filling.unsynced.is_none() {
            // All that was decided is durable.
            std::mem::take(&mut self.filling.written).release(&self.common.registry);
            std::mem::take(&mut self.filling.durable).release(&self.common.registry);
            return self.mark_if_quiet(now);
        }
        let (oldest, unsynced) = (self.filling.oldest(), self.filling.unsynced(bytes));
        let sync = self.filling.is_to_be_synced(now, bytes);
        if !sync && self.filling.written.is_empty() && !self.appender.is_overfull() {
            return Ok(());
        }
        let times = self.core.now();
        let batch = self.appender.seal(times);
        if batch.is_some() {
            self.filling.sealed = Some(now);
        }
        self.filling.since = None;
        self.filling.unsynced = if sync { None } else { Some((oldest.unwrap_or(now), unsynced)) };
        let written = std::mem::take(&mut self.filling.written);
        let durable = if sync { std::mem::take(&mut self.filling.durable) } else { Outgoing::default() };
        self.checkpoint_if_due(false, now);
        self.run(Job { batch, sync, written, durable }, now)
    }

    fn checkpoint_if_due(&mut self, at_rest: bool, now: Instant) {
        let wall = self.core.now().wall;
        let is_due = || {
            let is_over = at_rest && matches!(self.appender.sweep(), Sweep::From(at) if at <= wall);
            is_over || self.appender.checkpoint_due(&self.core, at_rest)
        };
        if !self.core.is_capturing() && is_due() {
            tracing::info!(position = self.appender.position(), "a checkpoint begins");
            self.appender.checkpoint(&mut self.core);
            self.checkpoint = Some(now);
        }
    }

    /// Counts a checkpoint that is on the disk.
    pub(super) fn note_checkpoint(&mut self, now: Instant) {
        if let Some(begin) = self.checkpoint.take_if(|_| !self.appender.is_checkpointing()) {
            self.common.metrics.checkpoints.inc();
            self.common.metrics.checkpoint_seconds.observe(now.saturating_duration_since(begin).as_secs_f64());
        }
    }

    /// What came back from the journal's thread.
    pub(super) fn take_back(&mut self, committed: Committed) -> Result<(), Failure> {
        self.committer = Some(committed.committer);
        self.settle(committed.result)
    }

    /// How long the writer may sleep if nothing comes.
    pub(super) fn sleep(&self, now: Instant) -> Option<Duration> {
        let open = self.lanes_that_go_on();
        let rest = self.rest.left(now).filter(|_| self.in_haste && self.is_only_left());
        let may_go_on = rest.is_none() && self.put_off.iter().any(|(lane, _)| open.has(*lane));
        if self.unfinished || may_go_on || self.goes_with_next {
            return Some(Duration::ZERO);
        }
        // A turn gains no more run time than this, so a longer sleep would be time that no deadline sees.
        let core = self.core.next_wake().map(|wake| Duration::from_millis(wake.0).min(TURN_MAX));
        // Nor does a deadline come nearer while run time stands still, and nobody could be told.
        let core = if self.clock.stands_still(now) { core.map(|core| core.max(QUIET)) } else { core };
        // What makes these wait may end in another thread, which tells nobody.
        let pressed = (self.pressure.is_on() || self.core.has_jobs_on_hold()).then_some(PRESSED_AGAIN);
        let watch = self.core.is_watched().then_some(Duration::from_millis(WATCH_EVERY.0));
        // Nor does a checkpoint that is on the disk, behind which another one may be due.
        let checkpoint = self.checkpoint.map(|_| QUIET);
        let core = core.into_iter().chain(pressed).chain(watch).chain(checkpoint).chain(rest).min();
        if self.committer.is_none() {
            return core;
        }
        let filling = &self.filling;
        let at = match filling.retry {
            Some(at) => Some(at),
            None => filling.oldest().or(filling.sealed).map(|since| since + QUIET),
        };
        // A journal that rests is woken for what is over by then. It may be due while it does not rest yet.
        let over = match self.appender.sweep() {
            _ if at.is_some() => None,
            Sweep::Never => None,
            Sweep::From(at) => Some(Duration::from_millis(at.since(self.core.now().wall).0).max(TURN_MAX)),
            Sweep::Unknown => Some(SWEEP_AGAIN),
        };
        at.map(|at| at.saturating_duration_since(now)).into_iter().chain(over).chain(core).min()
    }

    /// Ends in good order: everything is made durable, what waited for it is told, and a mark says that it was the end.
    /// Gives back what it ran in.
    pub(crate) fn close(mut self) -> Result<H, Failure> {
        // It was accepted, and there is nobody who would take more memory.
        if !self.put_off.is_empty() {
            for (lane, asked) in std::mem::take(&mut self.put_off) {
                self.handle(lane, asked)?;
            }
            self.go_on_from_commands();
        }
        self.appender.hold(self.core.holdings());
        let now = self.host.now();
        self.sort_outputs(now);
        let times = self.core.now();
        let written = std::mem::take(&mut self.filling.written);
        let durable = std::mem::take(&mut self.filling.durable);
        let mut jobs: Vec<Job> = self.stuck.take().into_iter().collect();
        jobs.push(Job { batch: self.appender.seal(times), sync: true, written, durable });
        let stop = self.appender.mark(times, Mark::Stop);
        jobs.push(Job { batch: stop, sync: true, written: Outgoing::default(), durable: Outgoing::default() });
        let committer = self.committer.as_mut().expect("a writer that stops has waited for the journal");
        for job in jobs {
            match job.run(committer, &self.common.registry, &self.common.metrics) {
                Ok(()) => {}
                Err(NotDone::Failed(failure)) => return Err(failure),
                Err(NotDone::DiskFull(_)) => {
                    tracing::error!("the disk is full: the last batch was not stored and nobody was told of it");
                    return Ok(self.host);
                }
            }
        }
        Ok(self.host)
    }

    fn run(&mut self, job: Job, now: Instant) -> Result<(), Failure> {
        let mut committer = self.committer.take().expect("a job is made when the committer is free");
        self.clock.batch_goes(now);
        if self.is_at_leisure(&job) {
            let result = job.run(&mut committer, &self.common.registry, &self.common.metrics);
            self.committer = Some(committer);
            return self.settle(result);
        }
        let sent = self.journal.submit_into(0, (committer, job), &self.own, RETURNING, |committed| {
            Request::Committed(Box::new(committed))
        });
        sent.expect("the journal's queue has room for the one batch on its way");
        Ok(())
    }

    /// Whether the writer has time to write and sync a batch itself: it is small, and there is little else to do meanwhile.
    fn is_at_leisure(&self, job: &Job) -> bool {
        let bytes = job.batch.as_ref().map_or(0, |batch| batch.bytes());
        let is_busy =
            self.core.goes_on_at_once() || self.fetching.is_waiting() || self.own.waiting() > OWN_HAND_WAITING;
        bytes <= self.host.own_hand_max() && !is_busy
    }

    fn settle(&mut self, result: Result<(), NotDone>) -> Result<(), Failure> {
        let now = self.host.now();
        match result {
            Ok(()) => {
                self.clock.batch_came(now);
                if self.filling.retry.take().is_some() {
                    tracing::info!("the disk has space again");
                }
                Ok(())
            }
            Err(NotDone::DiskFull(job)) => {
                if self.filling.retry.is_none() {
                    tracing::error!("the disk is full, the reserve included; make room, the broker goes on by itself");
                }
                self.filling.retry = Some(now + DISK_FULL_AGAIN);
                self.stuck = Some(*job);
                Ok(())
            }
            Err(NotDone::Failed(failure)) => Err(failure),
        }
    }

    fn retry(&mut self, now: Instant) -> Result<(), Failure> {
        if self.filling.retry.is_some_and(|at| now < at) {
            return Ok(());
        }
        let job = self.stuck.take().expect("it was just seen");
        self.run(job, now)
    }

    /// A journal that rests is marked, which tells a torn tail from damage in what stands before.
    fn mark_if_quiet(&mut self, now: Instant) -> Result<(), Failure> {
        let Some(sealed) = self.filling.sealed else {
            self.checkpoint_if_due(true, now);
            return Ok(());
        };
        if now < sealed + QUIET {
            return Ok(());
        }
        self.filling.sealed = None;
        let times = self.core.now();
        let mark = self.appender.mark(times, Mark::Idle);
        // On a full disk, too, what the last batch freed makes one due, and perhaps no further batch can be. Nor may there be
        // one for a long time where a broker was started whose last one came to no checkpoint.
        self.checkpoint_if_due(true, now);
        let Some(batch) = mark else { return Ok(()) };
        self.run(
            Job { batch: Some(batch), sync: true, written: Outgoing::default(), durable: Outgoing::default() },
            now,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is promised of a buffered publish, in figures of its own: 100 ms, 1 MiB.
    #[test]
    fn what_nobody_waits_for_is_synced_in_time() {
        let begin = Instant::now();
        let after = |millis| begin + Duration::from_millis(millis);
        let mut filling = Filling::new(begin);
        assert!(!filling.is_to_be_synced(after(1000), 0), "nothing is there");
        filling.note(begin, 10);
        // What comes later does not put it off, nor that it is written.
        filling.note(after(60), 20);
        assert!(!filling.is_to_be_synced(after(99), 20) && filling.is_to_be_synced(after(100), 20));
        (filling.since, filling.unsynced) = (Some(after(60)), Some((begin, 20)));
        assert!(!filling.is_to_be_synced(after(99), 10) && filling.is_to_be_synced(after(100), 10));
    }

    #[test]
    fn what_nobody_waits_for_is_synced_when_there_is_enough_of_it() {
        let begin = Instant::now();
        let mut filling = Filling::new(begin);
        filling.note(begin, 10);
        assert!(!filling.is_to_be_synced(begin, (1 << 20) - 1) && filling.is_to_be_synced(begin, 1 << 20));
        filling.unsynced = Some((begin, 1 << 19));
        assert!(!filling.is_to_be_synced(begin, (1 << 19) - 1) && filling.is_to_be_synced(begin, 1 << 19));
    }
}
