//! The side that owns the state: one thread, taking all that waits and handing it to the state.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::answer::Answer;
use super::lanes::{Asked, Lane, Lanes, Phase};
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

    /// How many lanes are taken from next, at least one. Requests in later lanes wait, and push back once those are full.
    fn open_lanes(&self) -> usize {
        usize::MAX
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
}

impl<Q, A> Batch<Q, A> {
    /// Takes the requests out, lane by lane, each with its answer to be given.
    pub fn drain(&mut self) -> impl Iterator<Item = (Q, Answer<A>)> {
        self.lanes.iter_mut().flat_map(|lane| lane.drain(..))
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
        let shared = Arc::new(Lanes::new(lanes, S::weight));
        let count = lanes.len();
        let state = make(Submitter::new(shared.clone()));
        let thread = Builder::new().name(name.to_owned()).spawn({
            let shared = shared.clone();
            move || run(&shared, count, state)
        })?;
        Ok(UpdateQueue { lanes: shared, thread: Some(thread) })
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

fn run<S: State>(lanes: &Lanes<S::Request, S::Answer>, count: usize, mut state: S) -> S {
    // However this thread ends, nobody is left waiting for it.
    struct Ended<'a, Q, A>(&'a Lanes<Q, A>);
    impl<Q, A> Drop for Ended<'_, Q, A> {
        fn drop(&mut self) {
            self.0.set_phase(Phase::Ended);
        }
    }
    let _ended = Ended(lanes);

    let mut batch = Batch { lanes: (0..count).map(|_| Vec::new()).collect() };
    let mut sleep = Some(Duration::ZERO);
    loop {
        lanes.take(&mut batch.lanes, state.open_lanes(), sleep);
        let next = state.update(&mut batch);
        // What the state has left is dropped, and thereby answered `Gone`; a burst's memory is not kept.
        for lane in &mut batch.lanes {
            lane.clear();
            if lane.capacity() > BATCH_CAPACITY_KEPT {
                lane.shrink_to(BATCH_CAPACITY_KEPT);
            }
        }
        match next {
            Next::Sleep(time) if !lanes.end_if_finished() => sleep = time,
            Next::Sleep(_) | Next::End => return state,
        }
    }
}

/// Requests whose room a lane keeps when it is empty: enough for a busy turn, a few hundred kilobytes at most.
const BATCH_CAPACITY_KEPT: usize = 4096;

impl<S: State> fmt::Debug for UpdateQueue<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UpdateQueue")
    }
}
