//! The lanes themselves: what submitters and the worker share, behind one mutex.
//!
//! Invariant: `asleep` is true only while the worker waits on `work`, and whoever puts a request into an open lane then
//! sets it to false and notifies, so that one sleep costs at most one wake-up. Who may submit and how the worker
//! behaves is left to the neighbours.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::answer::Answer;

/// A lane of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// The weight ([`super::State::weight`]) at which the lane is full. A request is accepted as long as the lane is below it, so
    /// that no request is too heavy for ever.
    pub capacity: usize,
}

pub(super) type Asked<Q, A> = (Q, Answer<A>);

pub(super) struct Lanes<Q, A> {
    inner: Mutex<Inner<Q, A>>,
    work: Condvar,
    room: Condvar,
    pub(super) weight: fn(&Q) -> usize,
}

pub(super) struct Inner<Q, A> {
    pub(super) lanes: Vec<LaneState<Q, A>>,
    pub(super) phase: Phase,
    /// Lanes from this one on are left waiting.
    open: usize,
    asleep: bool,
    /// Threads that wait for room, and tasks that do.
    blocked: usize,
    /// Of each task, under a number of its own, so that thousands that wait cost nothing to one another.
    wakers: BTreeMap<u64, Waker>,
    last_waker: u64,
}

pub(super) struct LaneState<Q, A> {
    waiting: Vec<Asked<Q, A>>,
    weight: usize,
    capacity: usize,
    /// Places reserved and not used yet; each weighs one.
    places: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// Nothing new is accepted; what was promised a place still is.
    Stopping,
    /// The worker is gone.
    Ended,
}

impl<Q, A> Lanes<Q, A> {
    pub(super) fn new(lanes: &[Lane], weight: fn(&Q) -> usize) -> Lanes<Q, A> {
        assert!(!lanes.is_empty(), "a queue has at least one lane");
        assert!(lanes.iter().all(|lane| lane.capacity > 0), "a lane of no capacity is always full");
        let lanes =
            lanes.iter().map(|lane| LaneState { waiting: Vec::new(), weight: 0, capacity: lane.capacity, places: 0 });
        let inner = Inner {
            lanes: lanes.collect(),
            phase: Phase::Running,
            open: usize::MAX,
            asleep: false,
            blocked: 0,
            wakers: BTreeMap::new(),
            last_waker: 0,
        };
        Lanes { inner: Mutex::new(inner), work: Condvar::new(), room: Condvar::new(), weight }
    }

    /// No code of others runs under this lock, so a panic cannot leave it half changed.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner<Q, A>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the work under the lock, and wakes the worker if what was put in concerns it.
    pub(super) fn unlock_and_wake(&self, mut inner: MutexGuard<'_, Inner<Q, A>>) {
        if inner.asleep && inner.has_work() {
            inner.asleep = false;
            drop(inner);
            self.work.notify_one();
        }
    }

    /// Blocks until `ready` is true, which is asked again whenever room was made or the phase changed.
    pub(super) fn wait_for_room<'a>(
        &self,
        mut inner: MutexGuard<'a, Inner<Q, A>>,
        ready: impl Fn(&Inner<Q, A>) -> bool,
    ) -> MutexGuard<'a, Inner<Q, A>> {
        while !ready(&inner) {
            inner.blocked += 1;
            inner = self.room.wait(inner).unwrap_or_else(PoisonError::into_inner);
            inner.blocked -= 1;
        }
        inner
    }

    /// Swaps all that waits in the open lanes for the empty vectors of `taken`, after sleeping at most `sleep` (for ever
    /// if `None`) for something to come. Returns early when the queue is told to stop and nothing will come any more. Once
    /// it is, all lanes are open: what was accepted is handled, and nothing that would open a lane may ever come.
    pub(super) fn take(&self, taken: &mut [Vec<Asked<Q, A>>], open: usize, sleep: Option<Duration>) {
        assert!(open > 0, "the first lane is never left waiting");
        let mut inner = self.lock();
        inner.open = open;
        inner.open_all_if_stopped();
        if !inner.has_work() && !inner.is_finished() && sleep != Some(Duration::ZERO) {
            inner.asleep = true;
            // A stop may have opened a lane in which something waits.
            let asleep = |inner: &mut Inner<Q, A>| inner.asleep && !inner.is_finished() && !inner.has_work();
            inner = match sleep {
                None => self.work.wait_while(inner, asleep).unwrap_or_else(PoisonError::into_inner),
                Some(time) => self.work.wait_timeout_while(inner, time, asleep).unwrap_or_else(|e| e.into_inner()).0,
            };
            inner.asleep = false;
        }
        let (mut made_room, open) = (false, inner.open);
        for (lane, taken) in inner.lanes.iter_mut().zip(taken).take(open) {
            assert!(taken.is_empty(), "what was taken before is handled");
            made_room |= lane.is_full();
            lane.weight = 0;
            std::mem::swap(&mut lane.waiting, taken);
        }
        if made_room {
            self.announce_room(inner);
        }
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        let mut inner = self.lock();
        if inner.phase != Phase::Ended {
            inner.phase = phase;
        }
        inner.open_all_if_stopped();
        // What is dropped here answers `Gone`, which may run code of others: not under the lock.
        let waiting: Vec<_> = match phase {
            Phase::Ended => inner.lanes.iter_mut().map(|lane| std::mem::take(&mut lane.waiting)).collect(),
            _ => Vec::new(),
        };
        self.announce_room(inner);
        self.work.notify_one();
        drop(waiting);
    }

    /// Ends a queue that is told to stop and has nothing left to come; false if there is.
    pub(super) fn end_if_finished(&self) -> bool {
        let mut inner = self.lock();
        let finished = inner.is_finished();
        if finished {
            inner.phase = Phase::Ended;
        }
        finished
    }

    /// A place was given up, which may be what a stopping worker waits for.
    pub(super) fn wake_if_finished(&self, inner: MutexGuard<'_, Inner<Q, A>>) {
        if inner.is_finished() {
            drop(inner);
            self.work.notify_one();
        }
    }

    fn announce_room(&self, mut inner: MutexGuard<'_, Inner<Q, A>>) {
        let wakers = std::mem::take(&mut inner.wakers);
        let blocked = inner.blocked > 0;
        drop(inner);
        if blocked {
            self.room.notify_all();
        }
        wakers.into_values().for_each(Waker::wake);
    }
}

impl<Q, A> Inner<Q, A> {
    /// Notes whom to wake when there is room, in place of what was noted under a number before. Returns the number.
    #[must_use]
    pub(super) fn wake_on_room(&mut self, number: Option<u64>, waker: &Waker) -> u64 {
        let number = number.unwrap_or_else(|| {
            self.last_waker += 1;
            self.last_waker
        });
        self.wakers.insert(number, waker.clone());
        number
    }

    /// Whoever waited under the number does no longer.
    #[must_use = "a waker is code of others and is dropped outside of the lock"]
    pub(super) fn forget_waker(&mut self, number: u64) -> Option<Waker> {
        self.wakers.remove(&number)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.waiting.is_empty())
    }

    fn open_all_if_stopped(&mut self) {
        if self.phase != Phase::Running {
            self.open = usize::MAX;
        }
    }

    fn has_work(&self) -> bool {
        self.lanes.iter().take(self.open).any(|lane| !lane.waiting.is_empty())
    }

    fn is_finished(&self) -> bool {
        let stopped = self.phase != Phase::Running;
        stopped && self.lanes.iter().all(|lane| lane.waiting.is_empty() && lane.places == 0)
    }
}

impl<Q, A> LaneState<Q, A> {
    pub(super) fn is_full(&self) -> bool {
        self.weight + self.places >= self.capacity
    }

    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn push(&mut self, request: Q, answer: Answer<A>, weight: usize) {
        self.weight += weight;
        self.waiting.push((request, answer));
    }

    pub(super) fn reserve(&mut self) {
        self.places += 1;
    }

    pub(super) fn unreserve(&mut self) {
        self.places -= 1;
    }
}
