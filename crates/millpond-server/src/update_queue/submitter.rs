//! The side that submits: cheap to clone, one for every thread or task that wants.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, MutexGuard};
use std::task::{Context, Poll};

use super::answer::{Answer, Pending};
use super::lanes::{Inner, Lanes, Phase};
use super::place::Place;

/// Submits requests to a queue. Lanes are named by their index.
pub struct Submitter<Q, A> {
    lanes: Arc<Lanes<Q, A>>,
}

/// Why a request was not accepted; it is given back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Refused<Q> {
    /// The lane is full. Only from the calls that do not block.
    Full(Q),
    /// The queue is stopping or has ended.
    Stopped(Q),
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
        let inner = self.lanes.lock();
        let inner = self.lanes.wait_for_room(inner, |inner| inner.accepts(lane) != Accepts::Full);
        self.push(inner, lane, request, answer)?;
        Ok(pending)
    }

    /// Submits if the lane has room.
    pub fn try_submit(&self, lane: usize, request: Q) -> Result<Pending<A>, Refused<Q>> {
        let (answer, pending) = Answer::pair();
        self.push(self.lanes.lock(), lane, request, answer)?;
        Ok(pending)
    }

    /// Submits a request whose answer nobody waits for, if the lane has room.
    pub fn tell(&self, lane: usize, request: Q) -> Result<(), Refused<Q>> {
        self.push(self.lanes.lock(), lane, request, Answer::unasked())
    }

    /// Submits as many as the lane has room for, in order and in one step; the rest stays. Answers nobody waits for.
    pub fn tell_all(&self, lane: usize, requests: &mut VecDeque<Q>) -> Result<(), Stopped> {
        let mut inner = self.lanes.lock();
        while inner.accepts(lane) == Accepts::Yes {
            let Some(request) = requests.pop_front() else { break };
            let weight = (self.lanes.weight)(&request);
            inner.lanes[lane].push(request, Answer::unasked(), weight);
        }
        let stopped = inner.accepts(lane) == Accepts::Stopped;
        self.lanes.unlock_and_wake(inner);
        if stopped { Err(Stopped) } else { Ok(()) }
    }

    /// Resolves when the lane has room, for whoever wants to try again then; others may be quicker.
    pub fn room(&self, lane: usize) -> Room<'_, Q, A> {
        Room { submitter: self, lane, waker: None }
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
        self.push(self.lanes.lock(), lane, request, answer)
    }

    /// The weight of what waits in a lane.
    pub fn weight(&self, lane: usize) -> usize {
        self.lanes.lock().lanes[lane].weight()
    }

    /// Whether nothing waits in any lane.
    pub fn is_idle(&self) -> bool {
        self.lanes.lock().is_empty()
    }

    fn push(
        &self,
        mut inner: MutexGuard<'_, Inner<Q, A>>,
        lane: usize,
        request: Q,
        answer: Answer<A>,
    ) -> Result<(), Refused<Q>> {
        match inner.accepts(lane).check(request) {
            Ok(request) => {
                let weight = (self.lanes.weight)(&request);
                inner.lanes[lane].push(request, answer, weight);
                self.lanes.unlock_and_wake(inner);
                Ok(())
            }
            Err(refused) => {
                // Dropping the answer may run code of others, which may submit.
                drop(inner);
                drop(answer);
                Err(refused)
            }
        }
    }
}

/// Waits until a lane has room.
pub struct Room<'a, Q, A> {
    submitter: &'a Submitter<Q, A>,
    lane: usize,
    /// The number that our waker is known by.
    waker: Option<u64>,
}

impl<Q, A> Future for Room<'_, Q, A> {
    type Output = Result<(), Stopped>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut inner = self.submitter.lanes.lock();
        match inner.accepts(self.lane) {
            Accepts::Yes => Poll::Ready(Ok(())),
            Accepts::Stopped => Poll::Ready(Err(Stopped)),
            Accepts::Full => {
                let number = inner.wake_on_room(self.waker, context.waker());
                drop(inner);
                self.waker = Some(number);
                Poll::Pending
            }
        }
    }
}

impl<Q, A> Drop for Room<'_, Q, A> {
    /// Who waits for several things makes a new one of these each time, so what was noted must not pile up.
    fn drop(&mut self) {
        let Some(number) = self.waker else { return };
        let waker = self.submitter.lanes.lock().forget_waker(number);
        drop(waker);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepts {
    Yes,
    Full,
    Stopped,
}

impl Accepts {
    fn check<Q>(self, request: Q) -> Result<Q, Refused<Q>> {
        match self {
            Accepts::Yes => Ok(request),
            Accepts::Full => Err(Refused::Full(request)),
            Accepts::Stopped => Err(Refused::Stopped(request)),
        }
    }
}

impl<Q, A> Inner<Q, A> {
    fn accepts(&self, lane: usize) -> Accepts {
        match self.phase {
            Phase::Running if self.lanes[lane].is_full() => Accepts::Full,
            Phase::Running => Accepts::Yes,
            Phase::Stopping | Phase::Ended => Accepts::Stopped,
        }
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
