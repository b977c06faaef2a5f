//! The two ends of one answer: the state gives it, the submitter waits for it.
//!
//! Invariant: an answer that is dropped without being given tells its other end [`Gone`], so nobody waits for ever.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Gives one answer.
pub struct Answer<A>(To<A>);

enum To<A> {
    /// Nobody asked.
    Nobody,
    /// Somebody waits.
    Waiter(Arc<Shared<A>>),
    /// It becomes a request of another queue.
    Next(Box<dyn FnOnce(A) + Send>),
}

/// Waits for one answer: as a future, or with [`Pending::wait`] from a thread.
pub struct Pending<A>(Arc<Shared<A>>);

/// The answer will not come: the queue ended or its state dropped the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gone;

impl fmt::Display for Gone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the queue ended before it answered; whether the request was carried out is not known")
    }
}

impl std::error::Error for Gone {}

struct Shared<A> {
    slot: Mutex<Slot<A>>,
    given: Condvar,
}

enum Slot<A> {
    Waiting(Option<Waker>),
    Given(A),
    Gone,
    Taken,
}

impl<A> Answer<A> {
    /// Gives the answer. Costs nothing where nobody asked.
    pub fn give(mut self, answer: A) {
        match std::mem::replace(&mut self.0, To::Nobody) {
            To::Nobody => {}
            To::Waiter(shared) => shared.settle(Slot::Given(answer)),
            To::Next(next) => next(answer),
        }
    }

    /// An answer that nobody asked for.
    pub fn unasked() -> Answer<A> {
        Answer(To::Nobody)
    }

    /// Whether somebody asked.
    pub fn is_asked(&self) -> bool {
        !matches!(self.0, To::Nobody)
    }

    pub(super) fn pair() -> (Answer<A>, Pending<A>) {
        let shared = Arc::new(Shared { slot: Mutex::new(Slot::Waiting(None)), given: Condvar::new() });
        (Answer(To::Waiter(shared.clone())), Pending(shared))
    }

    pub(super) fn next(next: Box<dyn FnOnce(A) + Send>) -> Answer<A> {
        Answer(To::Next(next))
    }
}

impl<A> Drop for Answer<A> {
    fn drop(&mut self) {
        if let To::Waiter(shared) = &self.0 {
            shared.settle(Slot::Gone);
        }
    }
}

impl<A> Pending<A> {
    /// Blocks the thread until the answer is there.
    pub fn wait(self) -> Result<A, Gone> {
        let mut slot = self.0.lock();
        loop {
            match slot.take() {
                Some(result) => return result,
                None => slot = self.0.given.wait(slot).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl<A> Future for Pending<A> {
    type Output = Result<A, Gone>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.lock();
        match slot.take() {
            Some(result) => Poll::Ready(result),
            None => {
                *slot = Slot::Waiting(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }
}

impl<A> Shared<A> {
    /// The slot is replaced whole, so a panic elsewhere cannot leave it half changed.
    fn lock(&self) -> MutexGuard<'_, Slot<A>> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self, outcome: Slot<A>) {
        let before = std::mem::replace(&mut *self.lock(), outcome);
        self.given.notify_all();
        if let Slot::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<A> Slot<A> {
    fn take(&mut self) -> Option<Result<A, Gone>> {
        match std::mem::replace(self, Slot::Taken) {
            waiting @ Slot::Waiting(_) => {
                *self = waiting;
                None
            }
            Slot::Given(answer) => Some(Ok(answer)),
            Slot::Gone => Some(Err(Gone)),
            Slot::Taken => panic!("an answer is taken once: the future was polled after it was ready"),
        }
    }
}

impl<A> fmt::Debug for Answer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answer")
    }
}

impl<A> fmt::Debug for Pending<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pending")
    }
}
