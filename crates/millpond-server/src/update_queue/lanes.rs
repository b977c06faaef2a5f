//! The lanes themselves: what submitters and the worker share, behind one mutex.
//!
//! Invariant: `asleep` is true only while the worker waits on `work`, and whoever puts a request into an open lane then
//! sets it to false and notifies, so that one sleep costs at most one wake-up. Who is let in ([`Line`]), who submits and
//! how the worker behaves is left to the neighbours.

use std::task::Waker;
use std::time::Duration;

use super::answer::Answer;
use super::line::{Fullness, Line, Standing};
use super::open::{LANES_MAX, Open};
use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A lane of a queue.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// The weight ([`super::State::weight`]) at which the lane is full: what a turn of the worker should take at most. A
    /// request is accepted as long as the lane is below it, so that no request is too heavy for ever.
    pub capacity: usize,
    /// The same for a turn that is to be short ([`super::State::is_in_haste`]).
    pub short: usize,
}

impl Lane {
    /// Of this capacity in all turns.
    pub const fn new(capacity: usize) -> Lane {
        Lane { capacity, short: capacity }
    }
}

pub(super) type Asked<Q, A> = (Q, Answer<A>);

pub(super) struct Lanes<Q, A> {
    inner: Mutex<Inner<Q, A>>,
    work: Condvar,
    pub(super) weight: fn(&Q) -> usize,
}

pub(super) struct Inner<Q, A> {
    pub(super) lanes: Vec<LaneState<Q, A>>,
    pub(super) phase: Phase,
    /// The others are left waiting.
    open: Open,
    asleep: bool,
    /// The last number that somebody had in a line.
    last_number: u64,
}

pub(super) struct LaneState<Q, A> {
    waiting: Vec<Asked<Q, A>>,
    weight: usize,
    lane: Lane,
    /// Whether the next turn is to be short.
    short: bool,
    /// Places reserved and not used yet; each weighs one.
    places: usize,
    /// Counts how often what waits was taken, from one.
    turn: u64,
    pub(super) line: Line,
}

/// Whether a request is let in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepts {
    Yes,
    Full,
    Stopped,
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
        assert!((1..=LANES_MAX).contains(&lanes.len()), "a queue has from one lane to as many as may be told apart");
        assert!(lanes.iter().all(|lane| lane.short > 0), "a lane of no capacity is always full");
        assert!(lanes.iter().all(|lane| lane.short <= lane.capacity), "a short turn is no longer than another one");
        let lanes = lanes.iter().map(|lane| LaneState::new(*lane)).collect();
        let inner = Inner { lanes, phase: Phase::Running, open: Open::ALL, asleep: false, last_number: 0 };
        Lanes { inner: Mutex::new(inner), work: Condvar::new(), weight }
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

    /// Swaps all that waits in the open lanes for the empty vectors of `taken`, after sleeping at most `sleep` (for ever
    /// if `None`) for something to come. Returns early when the queue is told to stop and nothing will come any more. Once
    /// it is, all lanes are open: what was accepted is handled, and nothing that would open a lane may ever come. Where turns are
    /// `short`, less is let in for the next one. True if it was told to stop.
    pub(super) fn take(
        &self,
        taken: &mut [Vec<Asked<Q, A>>],
        (open, short): (Open, bool),
        sleep: Option<Duration>,
    ) -> bool {
        assert!(open.has(0), "the first lane is never left waiting");
        let mut inner = self.lock();
        inner.open = open;
        inner.lanes.iter_mut().for_each(|lane| lane.short = short);
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
        let (mut called, open, is_stopping) = (Vec::new(), inner.open, inner.phase != Phase::Running);
        for (_, (lane, taken)) in inner.lanes.iter_mut().zip(taken).enumerate().filter(|(at, _)| open.has(*at)) {
            assert!(taken.is_empty(), "what was taken before is handled");
            lane.weight = 0;
            lane.turn += 1;
            std::mem::swap(&mut lane.waiting, taken);
            let room = lane.capacity();
            lane.line.call(room, &mut called);
        }
        drop(inner);
        called.into_iter().for_each(Waker::wake);
        is_stopping
    }

    /// Whether [`Lanes::take`] would find something in these lanes.
    pub(super) fn has_work(&self, open: Open) -> bool {
        let mut inner = self.lock();
        inner.open = open;
        inner.open_all_if_stopped();
        inner.has_work()
    }

    pub(super) fn is_open(&self, lane: usize) -> bool {
        self.lock().open.has(lane)
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
        let mut called = Vec::new();
        inner.lanes.iter_mut().for_each(|lane| lane.line.call_all(&mut called));
        drop(inner);
        called.into_iter().for_each(Waker::wake);
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

    /// A place was given up, which may be what a stopping worker waits for, or somebody in a line.
    pub(super) fn given_up(&self, inner: MutexGuard<'_, Inner<Q, A>>) {
        if inner.is_finished() || inner.has_work() {
            drop(inner);
            self.work.notify_one();
        }
    }
}

impl<Q, A> Inner<Q, A> {
    /// Whether a request of some weight is let in, from one who stands so with the lane.
    pub(super) fn accepts(&self, lane: usize, standing: &Standing, weight: usize) -> Accepts {
        match self.phase {
            Phase::Running if self.lanes[lane].fullness().admits(standing, weight) => Accepts::Yes,
            Phase::Running => Accepts::Full,
            Phase::Stopping | Phase::Ended => Accepts::Stopped,
        }
    }

    /// Notes whom to wake when there may be room for so many requests, of which the first is of some weight.
    #[must_use = "a waker is code of others and is dropped outside of the lock"]
    pub(super) fn stand_in_line(
        &mut self,
        lane: usize,
        standing: &mut Standing,
        (weight, count): (usize, usize),
        waker: &Waker,
    ) -> Option<Waker> {
        let wish = self.lanes[lane].fullness().wish(weight, count);
        self.lanes[lane].line.stand(standing, wish, waker, &mut self.last_number)
    }

    pub(super) fn waiting(&self) -> usize {
        self.lanes.iter().map(LaneState::weight).sum()
    }

    fn open_all_if_stopped(&mut self) {
        if self.phase != Phase::Running {
            self.open = Open::ALL;
        }
    }

    /// Whether there is something to take, or somebody to call: those who were called before may not have come.
    fn has_work(&self) -> bool {
        let to_call = |lane: &LaneState<Q, A>| !lane.line.is_empty() && lane.fullness().has_room();
        let mut open = self.lanes.iter().enumerate().filter(|(at, _)| self.open.has(*at));
        open.any(|(_, lane)| !lane.waiting.is_empty() || to_call(lane))
    }

    fn is_finished(&self) -> bool {
        let stopped = self.phase != Phase::Running;
        stopped && self.lanes.iter().all(|lane| lane.waiting.is_empty() && lane.places == 0)
    }
}

impl<Q, A> LaneState<Q, A> {
    fn new(lane: Lane) -> LaneState<Q, A> {
        LaneState { waiting: Vec::new(), weight: 0, lane, short: false, places: 0, turn: 1, line: Line::default() }
    }

    /// Whether there is no place to reserve.
    pub(super) fn is_full(&self) -> bool {
        // A short turn breaks no promise of room.
        !Fullness { capacity: self.lane.capacity, ..self.fullness() }.admits(&Standing::default(), 1)
    }

    pub(super) fn turn(&self) -> u64 {
        self.turn
    }

    fn fullness(&self) -> Fullness<'_> {
        let LaneState { weight, places, turn, line, .. } = self;
        let (capacity, whole) = (self.capacity(), self.lane.capacity);
        Fullness { line, turn: *turn, taken: weight + places, capacity, whole }
    }

    /// What comes in for the next turn at most.
    fn capacity(&self) -> usize {
        if self.short { self.lane.short } else { self.lane.capacity }
    }

    pub(super) fn weight(&self) -> usize {
        self.weight
    }

    pub(super) fn push(&mut self, request: Q, answer: Answer<A>, weight: usize) {
        let capacity = self.capacity();
        let fills = self.weight < capacity && self.weight + weight > capacity;
        // By how much the last one is too heavy is not taken from the room for those who ask for little.
        self.weight = if fills { capacity } else { self.weight + weight };
        self.waiting.push((request, answer));
    }

    pub(super) fn reserve(&mut self) {
        self.places += 1;
    }

    pub(super) fn unreserve(&mut self) {
        self.places -= 1;
    }
}
