//! The side that submits: cheap to clone, one for every thread or task that wants.

use std::fmt;
use std::sync::Arc;
use std::task::{Wake, Waker};

use super::answer::{Answer, Pending};
use super::lanes::{Accepts, Lanes, Phase};
use super::line::Standing;
use super::place::Place;
use super::source::Source;
use crate::sync::thread::{self, Thread};

/// Submits requests to a queue. Lanes are named by their index.
pub struct Submitter<Q, A> {
    pub(super) lanes: Arc<Lanes<Q, A>>,
}

/// Why a request was not accepted; it is given back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refused<Q> {
    /// The lane is full. Only from the calls that do not block.
    Full(Q),
    /// The queue is stopping or has ended.
    Stopped(Q),
}

impl<Q> Refused<Q> {
    /// The request.
    pub fn into_request(self) -> Q {
        match self {
            Refused::Full(request) | Refused::Stopped(request) => request,
        }
    }
}

/// The queue is stopping or has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue takes no more requests: it is stopping or has ended")
    }
}

impl std::error::Error for Stopped {}

impl<Q, A> Submitter<Q, A> {
    pub(super) fn new(lanes: Arc<Lanes<Q, A>>) -> Submitter<Q, A> {
        Submitter { lanes }
    }

    /// Submits and, while the lane is full, blocks the thread. Refused only by a queue that stops.
    pub fn submit(&self, lane: usize, request: Q) -> Result<Pending<A>, Refused<Q>> {
        let (answer, pending) = Answer::pair();
        self.push_when_there_is_room(lane, request, answer)?;
        Ok(pending)
    }

    /// The same for a request whose answer nobody waits for.
    pub fn submit_unasked(&self, lane: usize, request: Q) -> Result<(), Refused<Q>> {
        self.push_when_there_is_room(lane, request, Answer::unasked())
    }

    /// Submits if the lane has room.
    pub fn try_submit(&self, lane: usize, request: Q) -> Result<Pending<A>, Refused<Q>> {
        let (answer, pending) = Answer::pair();
        self.push(lane, request, answer)?;
        Ok(pending)
    }

    /// Submits a request whose answer nobody waits for, if the lane has room.
    pub fn tell(&self, lane: usize, request: Q) -> Result<(), Refused<Q>> {
        self.push(lane, request, Answer::unasked())
    }

    /// One who submits in bulk, and by a name of its own where many do.
    pub fn source(&self) -> Source<Q, A> {
        Source::new(self.clone())
    }

    /// Reserves a place for a request that will come later: the result of a call outside. A queue that is stopping still
    /// gives places, for what it calls to finish its work; one that has ended does not.
    pub fn place(&self, lane: usize) -> Result<Place<Q, A>, Refused<()>> {
        let mut inner = self.lanes.lock();
        match inner.phase {
            Phase::Ended => return Err(Refused::Stopped(())),
            _ if inner.lanes[lane].is_full() => return Err(Refused::Full(())),
            Phase::Running | Phase::Stopping => inner.lanes[lane].reserve(),
        }
        drop(inner);
        Ok(Place::new(self.lanes.clone(), lane))
    }

    /// Submits a request whose answer becomes a request of the next queue. The place there is reserved first, so a full
    /// next queue refuses here. If this queue ends without answering, the place is given up.
    pub fn submit_into<R, B>(
        &self,
        lane: usize,
        request: Q,
        next: &Submitter<R, B>,
        next_lane: usize,
        turn: impl FnOnce(A) -> R + Send + 'static,
    ) -> Result<(), Refused<Q>>
    where
        R: Send + 'static,
        B: Send + 'static,
    {
        let place = match next.place(next_lane) {
            Ok(place) => place,
            Err(Refused::Full(())) => return Err(Refused::Full(request)),
            Err(Refused::Stopped(())) => return Err(Refused::Stopped(request)),
        };
        let answer = Answer::next(Box::new(move |answer| place.put(turn(answer))));
        self.push(lane, request, answer)
    }

    /// The weight of what waits in a lane.
    pub fn weight(&self, lane: usize) -> usize {
        self.lanes.lock().lanes[lane].weight()
    }

    /// The weight of what waits in all lanes.
    pub fn waiting(&self) -> usize {
        self.lanes.lock().waiting()
    }

    fn push_when_there_is_room(&self, lane: usize, request: Q, answer: Answer<A>) -> Result<(), Refused<Q>> {
        let weight = (self.lanes.weight)(&request);
        let mut standing = Standing::default();
        let mut inner = self.lanes.lock();
        loop {
            match inner.accepts(lane, &standing, weight) {
                Accepts::Yes => break,
                Accepts::Full => {
                    let waker = Waker::from(Arc::new(Blocked(thread::current())));
                    let before = inner.stand_in_line(lane, &mut standing, (weight, 1), &waker);
                    drop(inner);
                    drop(before);
                    thread::park();
                    inner = self.lanes.lock();
                }
                Accepts::Stopped => {
                    let left = inner.lanes[lane].line.leave(&mut standing);
                    drop(inner);
                    drop((left, answer));
                    return Err(Refused::Stopped(request));
                }
            }
        }
        let left = inner.lanes[lane].line.leave(&mut standing);
        inner.lanes[lane].push(request, answer, weight);
        self.lanes.unlock_and_wake(inner);
        drop(left);
        Ok(())
    }

    fn push(&self, lane: usize, request: Q, answer: Answer<A>) -> Result<(), Refused<Q>> {
        let weight = (self.lanes.weight)(&request);
        let mut inner = self.lanes.lock();
        let refused = match inner.accepts(lane, &Standing::default(), weight) {
            Accepts::Yes => {
                inner.lanes[lane].push(request, answer, weight);
                self.lanes.unlock_and_wake(inner);
                return Ok(());
            }
            Accepts::Full => Refused::Full(request),
            Accepts::Stopped => Refused::Stopped(request),
        };
        // Dropping the answer may run code of others, which may submit.
        drop(inner);
        drop(answer);
        Err(refused)
    }
}

/// A thread that waits for room.
struct Blocked(Thread);

impl Wake for Blocked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<Q, A> Clone for Submitter<Q, A> {
    fn clone(&self) -> Self {
        Submitter { lanes: self.lanes.clone() }
    }
}

impl<Q> fmt::Display for Refused<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Full(_) => f.write_str("the lane is full; try again when there is room"),
            Refused::Stopped(_) => Stopped.fmt(f),
        }
    }
}

impl<Q> fmt::Debug for Refused<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Full(_) => "Full",
            Refused::Stopped(_) => "Stopped",
        })
    }
}

impl<Q> std::error::Error for Refused<Q> {}

impl<Q, A> fmt::Debug for Submitter<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Submitter")
    }
}
