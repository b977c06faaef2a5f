//! A reserved place in a lane, for what will come back from a call outside.

use std::fmt;
use std::sync::Arc;

use super::answer::Answer;
use super::lanes::{Lanes, Phase};

/// A place for one request, reserved when it was made: [`Place::put`] finds room even when the lane is full by then and
/// even after [`super::UpdateQueue::stop`], which waits for places to be used or dropped.
pub struct Place<Q, A> {
    lanes: Arc<Lanes<Q, A>>,
    lane: usize,
    used: bool,
}

impl<Q, A> Place<Q, A> {
    pub(super) fn new(lanes: Arc<Lanes<Q, A>>, lane: usize) -> Place<Q, A> {
        Place { lanes, lane, used: false }
    }

    /// Puts the request into the lane. It is dropped if the queue has ended by a panic or of its own accord.
    pub fn put(mut self, request: Q) {
        self.used = true;
        let weight = (self.lanes.weight)(&request);
        let mut inner = self.lanes.lock();
        inner.lanes[self.lane].unreserve();
        if inner.phase != Phase::Ended {
            inner.lanes[self.lane].push(request, Answer::unasked(), weight);
            self.lanes.unlock_and_wake(inner);
        }
    }
}

impl<Q, A> Drop for Place<Q, A> {
    fn drop(&mut self) {
        if !self.used {
            let mut inner = self.lanes.lock();
            inner.lanes[self.lane].unreserve();
            self.lanes.given_up(inner);
        }
    }
}

impl<Q, A> fmt::Debug for Place<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place in lane {}", self.lane)
    }
}
