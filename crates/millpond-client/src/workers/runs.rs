//! Runs of strict order in a pool: one handler after the other works on the messages of a run, and what comes behind one that
//! was not acked is not begun.

use std::collections::{HashMap, VecDeque};

use millpond_types::{LeaseNumber, Receipt, TopicNumber};

use crate::delivery::Delivery;

/// A run: its topic and group, and its first lease.
pub(super) type Of = (TopicNumber, u32, LeaseNumber);

/// The run that a delivery is of.
pub(super) fn of(delivery: &Delivery) -> Option<Of> {
    let Receipt { topic, group, .. } = delivery.receipt;
    delivery.run.map(|first| (topic, group, first))
}

#[derive(Default)]
pub(super) struct Runs {
    /// For each run that a handler is at, what has come behind its message.
    behind: HashMap<Of, VecDeque<Delivery>>,
    /// The run that came last, and whether it ended early. A run comes in one piece, so nothing more comes of any other.
    last: Option<(Of, bool)>,
}

/// What is to be done with a delivery.
pub(super) enum Turn {
    /// It is handled.
    Now(Delivery),
    /// It is handled when the ack of what comes before it in its run is sent.
    Later,
    /// It is not handled: what came before it was not acked.
    Never(Receipt),
}

impl Runs {
    /// Takes in what has come.
    pub(super) fn take(&mut self, delivery: Delivery) -> Turn {
        let Some(of) = of(&delivery) else { return Turn::Now(delivery) };
        if self.last == Some((of, true)) {
            return Turn::Never(delivery.receipt);
        }
        self.last = Some((of, false));
        match self.behind.get_mut(&of) {
            Some(behind) => {
                behind.push_back(delivery);
                Turn::Later
            }
            None => {
                self.behind.insert(of, VecDeque::new());
                Turn::Now(delivery)
            }
        }
    }

    /// The ack of a message of a run is sent; what comes next of it, as far as it has come.
    pub(super) fn goes_on(&mut self, of: Of) -> Option<Delivery> {
        let next = self.behind.get_mut(&of).and_then(VecDeque::pop_front);
        if next.is_none() {
            self.behind.remove(&of);
        }
        next
    }

    /// A message of a run is not acked; what is not begun for that.
    pub(super) fn ends(&mut self, of: Of) -> Vec<Receipt> {
        if let Some((_, is_over)) = self.last.as_mut().filter(|(last, _)| *last == of) {
            *is_over = true;
        }
        let behind = self.behind.remove(&of).unwrap_or_default();
        behind.into_iter().map(|delivery| delivery.receipt).collect()
    }

    /// No run goes on; what is not begun for that.
    pub(super) fn end_all(&mut self) -> Vec<Receipt> {
        let behind = std::mem::take(&mut self.behind).into_values().flatten();
        behind.map(|delivery| delivery.receipt).collect()
    }
}
