//! The side that owns the state: one thread, or who stands for one, taking all that waits and handing it to the state.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::answer::Answer;
use super::lanes::{Asked, Lane, Lanes, Phase};
use super::open::Open;
use super::submitter::Submitter;
use crate::sync::thread::{Builder, JoinHandle};

/// State that one thread owns, and what requests do to it.
pub trait State: Send + 'static {
    /// What is asked.
    type Request: Send + 'static;
    /// What is answered.
    type Answer: Send + 'static;

    /// What a request counts against its lane's capacity; asked once, when it is submitted.
    fn weight(_request: &Self::Request) -> usize {
        1
    }

    /// Which lanes are taken from next, the first of all among them. Requests in others wait, and push back once those are full.
    fn open_lanes(&self) -> Open {
        Open::ALL
    }

    /// Whether turns are to be short: each takes a part of what lanes hold, because somebody waits for it who asks for little.
    fn is_in_haste(&self) -> bool {
        false
    }

    /// Whether it has requests of this turn that it handles in the next one: a queue that is told to stop comes to that as well.
    fn has_left(&self) -> bool {
        false
    }

    /// Handles all that waited. The batch is empty when the sleep that the last call asked for is over, and may be when
    /// the queue was told to stop.
    fn update(&mut self, batch: &mut Batch<Self::Request, Self::Answer>) -> Next;
}

/// What the worker does after an update, once it has found nothing waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Sleeps until a request comes, or for so long.
    Sleep(Option<Duration>),
    /// Ends the queue at once. What waits is answered [`super::Gone`].
    End,
}

/// Requests that were taken together.
pub struct Batch<Q, A> {
    lanes: Vec<Vec<Asked<Q, A>>>,
    is_stopping: bool,
}

impl<Q, A> Batch<Q, A> {
    /// Takes the requests out, lane by lane, each with its answer to be given.
    pub fn drain(&mut self) -> impl Iterator<Item = (Q, Answer<A>)> {
        self.drain_lanes().map(|(_, asked)| asked)
    }

    /// The same, with the lane that each came in.
    pub fn drain_lanes(&mut self) -> impl Iterator<Item = (usize, (Q, Answer<A>))> {
        self.lanes.iter_mut().enumerate().flat_map(|(at, lane)| lane.drain(..).map(move |asked| (at, asked)))
    }

    /// Whether the queue was told to stop: then it is taken from all lanes, those as well that were left waiting.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Whether nothing waited.
    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(Vec::is_empty)
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.lanes.iter().map(Vec::len).sum()
    }
}

/// Requests whose room a lane keeps when it is empty: enough for a busy turn, a few hundred kilobytes at most.
const BATCH_CAPACITY_KEPT: usize = 4096;

/// The state and its side of the lanes, for whoever calls it: a thread ([`UpdateQueue`]), or a simulation in which
/// nothing else runs. Dropped, it leaves nobody waiting.
pub struct Worker<S: State> {
    lanes: Ended<S::Request, S::Answer>,
    batch: Batch<S::Request, S::Answer>,
    /// What it owns.
    pub state: S,
}

/// However the worker ends, nobody is left waiting for it.
struct Ended<Q, A>(Arc<Lanes<Q, A>>);

impl<Q, A> Drop for Ended<Q, A> {
    fn drop(&mut self) {
        self.0.set_phase(Phase::Ended);
    }
}

impl<S: State> Worker<S> {
    /// A queue in front of the state.
    pub fn new(lanes: &[Lane], state: S) -> Worker<S> {
        Worker::new_with(lanes, |_| state)
    }

    /// Like [`Worker::new`], for a state that submits to its own queue.
    pub fn new_with(lanes: &[Lane], make: impl FnOnce(Submitter<S::Request, S::Answer>) -> S) -> Worker<S> {
        let batch = Batch { lanes: lanes.iter().map(|_| Vec::new()).collect(), is_stopping: false };
        let lanes = Arc::new(Lanes::new(lanes, S::weight));
        let state = make(Submitter::new(lanes.clone()));
        Worker { lanes: Ended(lanes), batch, state }
    }

    /// A new handle for submitting.
    pub fn submitter(&self) -> Submitter<S::Request, S::Answer> {
        Submitter::new(self.lanes.0.clone())
    }

    /// Takes all that waits, or sleeps until something does, at most so long and for ever with `None`; hands it to the
    /// state.
    pub fn turn(&mut self, sleep: Option<Duration>) -> Next {
        let (open, short) = (self.state.open_lanes(), self.state.is_in_haste());
        self.batch.is_stopping = self.lanes.0.take(&mut self.batch.lanes, (open, short), sleep);
        let next = self.state.update(&mut self.batch);
        // What the state has left is dropped, and thereby answered `Gone`; a burst's memory is not kept.
        for lane in &mut self.batch.lanes {
            lane.clear();
            if lane.capacity() > BATCH_CAPACITY_KEPT {
                lane.shrink_to(BATCH_CAPACITY_KEPT);
            }
        }
        next
    }

    /// Whether something waits that the next turn would take, so that nobody sleeps.
    pub fn has_work(&self) -> bool {
        self.lanes.0.has_work(self.state.open_lanes())
    }

    /// Refuses what is new, and takes turns until all that was accepted is handled and every place is used or given up.
    /// After each, `others` do what this one waits for. Gives the state back.
    pub fn finish(mut self, mut others: impl FnMut()) -> S {
        self.lanes.0.set_phase(Phase::Stopping);
        while self.turn(Some(Duration::ZERO)) != Next::End && !self.ends() {
            others();
        }
        self.state
    }

    /// Ends a queue that is told to stop and has nothing left to come, or to be handled.
    fn ends(&self) -> bool {
        !self.state.has_left() && self.lanes.0.end_if_finished()
    }

    fn run(mut self) -> S {
        let mut sleep = Some(Duration::ZERO);
        loop {
            match self.turn(sleep) {
                Next::Sleep(time) if !self.ends() => sleep = time,
                Next::Sleep(_) | Next::End => return self.state,
            }
        }
    }
}

/// A running queue. Dropping it stops it without waiting for the end.
pub struct UpdateQueue<S: State> {
    lanes: Arc<Lanes<S::Request, S::Answer>>,
    thread: Option<JoinHandle<S>>,
}

/// The state's thread panicked; the state is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Panicked;

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the thread that owns the state panicked")
    }
}

impl std::error::Error for Panicked {}

impl<S: State> UpdateQueue<S> {
    /// Starts a thread of this name that owns the state. Fails if the thread cannot be started.
    pub fn start(name: &str, lanes: &[Lane], state: S) -> io::Result<UpdateQueue<S>> {
        UpdateQueue::start_with(name, lanes, |_| state)
    }

    /// Like [`UpdateQueue::start`], for a state that submits to its own queue.
    pub fn start_with(
        name: &str,
        lanes: &[Lane],
        make: impl FnOnce(Submitter<S::Request, S::Answer>) -> S,
    ) -> io::Result<UpdateQueue<S>> {
        let worker = Worker::new_with(lanes, make);
        let lanes = worker.lanes.0.clone();
        let thread = Builder::new().name(name.to_owned()).spawn(move || worker.run())?;
        Ok(UpdateQueue { lanes, thread: Some(thread) })
    }

    /// A new handle for submitting.
    pub fn submitter(&self) -> Submitter<S::Request, S::Answer> {
        Submitter::new(self.lanes.clone())
    }

    /// Refuses what is new, waits until all that was accepted is handled and every place is used or given up, and gives
    /// the state back.
    pub fn stop(mut self) -> Result<S, Panicked> {
        self.lanes.set_phase(Phase::Stopping);
        self.join()
    }

    /// Waits until the queue ends of its own accord, and gives the state back.
    pub fn join(&mut self) -> Result<S, Panicked> {
        let thread = self.thread.take().expect("a queue is joined once");
        thread.join().map_err(|_| Panicked)
    }
}

impl<S: State> Drop for UpdateQueue<S> {
    fn drop(&mut self) {
        self.lanes.set_phase(Phase::Stopping);
    }
}

impl<S: State> fmt::Debug for UpdateQueue<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpdateQueue")
    }
}

impl<S: State> fmt::Debug for Worker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Worker")
    }
}
