//! One of those who submit in bulk, by name: a queue with many of them lets none put more than its share in front of the
//! others.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::answer::Answer;
use super::lanes::Accepts;
use super::line::Standing;
use super::submitter::{Stopped, Submitter};

/// Submits the requests of one source, in order, and waits for room as one. Dropped, it leaves every line that it stands
/// in.
pub struct Source<Q, A> {
    submitter: Submitter<Q, A>,
    standings: Box<[Standing]>,
}

impl<Q, A> Source<Q, A> {
    pub(super) fn new(submitter: Submitter<Q, A>) -> Source<Q, A> {
        let standings = vec![Standing::default(); submitter.lanes.lock().lanes.len()];
        Source { submitter, standings: standings.into() }
    }

    /// Submits as many as there is room for, in order and in one step; the rest stays. Answers nobody waits for. Returns
    /// what the submitted ones are together by a `measure`.
    pub fn tell_all(
        &mut self,
        lane: usize,
        requests: &mut VecDeque<Q>,
        measure: impl Fn(&Q) -> usize,
    ) -> Result<usize, Stopped> {
        let (lanes, standing) = (&self.submitter.lanes, &mut self.standings[lane]);
        let mut inner = lanes.lock();
        let is_next = inner.lanes[lane].line.is_next(standing);
        let (mut stopped, mut told, mut measured) = (false, false, 0);
        while let Some(request) = requests.front() {
            let weight = (lanes.weight)(request);
            match inner.accepts(lane, standing, weight) {
                Accepts::Yes => {}
                Accepts::Full => break,
                Accepts::Stopped => {
                    stopped = true;
                    break;
                }
            }
            let request = requests.pop_front().expect("it was just looked at");
            let state = &mut inner.lanes[lane];
            standing.put(state.turn(), weight);
            (told, measured) = (true, measured + measure(&request));
            state.push(request, Answer::unasked(), weight);
        }
        // Who was let in as one who asks for little keeps its place for the rest.
        let has_had_its_turn = requests.is_empty() || is_next && told;
        let left = if has_had_its_turn { inner.lanes[lane].line.leave(standing) } else { None };
        lanes.unlock_and_wake(inner);
        drop(left);
        if stopped { Err(Stopped) } else { Ok(measured) }
    }

    /// Whether what is submitted in a lane is taken next, and does not wait for as long as the state likes.
    pub fn is_open(&self, lane: usize) -> bool {
        self.submitter.lanes.is_open(lane)
    }

    /// Resolves when there may be room in a lane for the first of so many requests, which is of some weight. Who does not
    /// make use of it stands in line again when it waits again, where it stood.
    pub fn room(&mut self, lane: usize, weight: usize, count: usize) -> Room<'_, Q, A> {
        Room { source: self, lane, weight, count }
    }
}

impl<Q, A> Drop for Source<Q, A> {
    fn drop(&mut self) {
        let mut inner = self.submitter.lanes.lock();
        let lanes = inner.lanes.iter_mut().zip(&mut self.standings);
        let left: Vec<_> = lanes.filter_map(|(lane, standing)| lane.line.leave(standing)).collect();
        drop(inner);
        drop(left);
    }
}

/// Waits until a lane has room.
pub struct Room<'a, Q, A> {
    source: &'a mut Source<Q, A>,
    lane: usize,
    weight: usize,
    count: usize,
}

impl<Q, A> Future for Room<'_, Q, A> {
    type Output = Result<(), Stopped>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Room { source, lane, weight, count } = &mut *self;
        let standing = &mut source.standings[*lane];
        let mut inner = source.submitter.lanes.lock();
        match inner.accepts(*lane, standing, *weight) {
            Accepts::Yes => Poll::Ready(Ok(())),
            Accepts::Stopped => Poll::Ready(Err(Stopped)),
            Accepts::Full => {
                let before = inner.stand_in_line(*lane, standing, (*weight, *count), context.waker());
                drop(inner);
                drop(before);
                Poll::Pending
            }
        }
    }
}

impl<Q, A> fmt::Debug for Source<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}
