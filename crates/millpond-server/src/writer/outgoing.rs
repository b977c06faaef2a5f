//! Outputs that wait until they may be told.

use millpond_core::output::{Output, Reply};

use crate::session::Registry;
use crate::session::ticket::UNANSWERED;
use crate::update_queue::Answer;

/// Outputs for connections and for the program itself.
#[derive(Default)]
pub(crate) struct Outgoing {
    pub(crate) outputs: Vec<Output>,
    pub(crate) calls: Vec<(Answer<Reply>, Reply)>,
}

impl Outgoing {
    pub(crate) fn is_empty(&self) -> bool {
        self.outputs.is_empty() && self.calls.is_empty()
    }

    /// Tells them.
    pub(crate) fn release(self, registry: &Registry) {
        registry.release(self.outputs.into_iter());
        for (answer, reply) in self.calls {
            answer.give(reply);
        }
    }
}

/// Calls of the program itself that are not answered yet, by the index in their ticket.
#[derive(Default)]
pub(crate) struct Calls {
    places: Vec<Option<Answer<Reply>>>,
    free: Vec<u32>,
}

impl Calls {
    /// Keeps an answer to be given and returns its index.
    ///
    /// # Panics
    /// At sixteen million open calls.
    pub(crate) fn insert(&mut self, answer: Answer<Reply>) -> u32 {
        if !answer.is_asked() {
            return UNANSWERED;
        }
        if let Some(index) = self.free.pop() {
            self.places[index as usize] = Some(answer);
            return index;
        }
        assert!(self.places.len() < UNANSWERED as usize, "a program has fewer calls open");
        self.places.push(Some(answer));
        (self.places.len() - 1) as u32
    }

    /// Takes an answer out; `None` if nobody asked for it.
    pub(crate) fn remove(&mut self, index: u32) -> Option<Answer<Reply>> {
        let answer = self.places.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(answer)
    }

    /// How many are kept.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.places.len() - self.free.len()
    }
}
