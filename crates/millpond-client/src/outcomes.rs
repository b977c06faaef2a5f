//! What became of each message of a publish or each receipt of a finish, kept as runs of equal neighbours.

use millpond_types::{FinishOutcome, LeaseNumber, MessageId, OutcomeRun, PublishOutcome, Receipt, Sequence};

use crate::receipts::Receipts;

/// Outcomes in the order of the messages or receipts that were given. A thousand messages of one topic are one run: walk
/// [`Outcomes::runs`] where speed matters and [`Outcomes::iter`] where it does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcomes<T> {
    runs: Vec<OutcomeRun<T>>,
}

impl<T> Outcomes<T> {
    /// The outcomes as the broker sent them. In a run of [`PublishOutcome::Queued`] the id is the first message's.
    pub fn runs(&self) -> &[OutcomeRun<T>] {
        &self.runs
    }

    /// How many messages or receipts have an outcome here.
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.count as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn append(&mut self, mut later: Outcomes<T>) {
        self.runs.append(&mut later.runs);
    }
}

impl<T> Default for Outcomes<T> {
    fn default() -> Self {
        Outcomes { runs: Vec::new() }
    }
}

impl<T> From<Vec<OutcomeRun<T>>> for Outcomes<T> {
    fn from(runs: Vec<OutcomeRun<T>>) -> Self {
        Outcomes { runs }
    }
}

impl Outcomes<PublishOutcome> {
    /// One outcome per message, each with its own id.
    pub fn iter(&self) -> impl Iterator<Item = PublishOutcome> {
        self.runs.iter().flat_map(|run| (0..run.count).map(|i| nth(&run.outcome, i)))
    }

    /// Messages that were stored.
    pub fn queued(&self) -> usize {
        self.count(|outcome| matches!(outcome, PublishOutcome::Queued { .. }))
    }

    /// Messages that were not stored because their dedup id was seen before.
    pub fn duplicates(&self) -> usize {
        self.count(|outcome| matches!(outcome, PublishOutcome::Duplicate { .. }))
    }

    /// Messages of which another one of their topic stands for them, or they for it.
    pub fn coalesced(&self) -> usize {
        self.count(|outcome| matches!(outcome, PublishOutcome::Coalesced { .. }))
    }

    /// Messages that were refused.
    pub fn refused(&self) -> usize {
        self.count(|outcome| matches!(outcome, PublishOutcome::Refused { .. }))
    }
}

impl Outcomes<FinishOutcome> {
    /// One outcome per receipt.
    pub fn iter(&self) -> impl Iterator<Item = FinishOutcome> {
        self.runs.iter().flat_map(|run| (0..run.count).map(|_| run.outcome.clone()))
    }

    /// Leases that the verb was carried out on, those that thereby made a dead letter included.
    pub fn done(&self) -> usize {
        self.count(|outcome| matches!(outcome, FinishOutcome::Done | FinishOutcome::Dead))
    }

    /// Receipts of a run in which something that comes before them is not finished: their leases are current still.
    pub fn out_of_order(&self) -> usize {
        self.count(|outcome| matches!(outcome, FinishOutcome::OutOfOrder))
    }

    /// Those of the receipts with this outcome.
    pub(crate) fn of(&self, receipts: &[(Receipt, u32)], outcome: &FinishOutcome) -> Receipts {
        let mut those = Receipts::default();
        let pairs = paired(receipts, &self.runs).into_iter().filter(|(_, of)| of == outcome);
        pairs.for_each(|((first, count), _)| those.push_run(first, count));
        those
    }

    /// Receipts whose lease was not current any more.
    pub fn lost(&self) -> usize {
        self.count(|outcome| matches!(outcome, FinishOutcome::LeaseLost))
    }
}

impl<T> Outcomes<T> {
    fn count(&self, meant: impl Fn(&T) -> bool) -> usize {
        self.runs.iter().filter(|run| meant(&run.outcome)).map(|run| run.count as usize).sum()
    }
}

/// What became of which receipts, as runs.
pub(crate) fn paired(
    receipts: &[(Receipt, u32)],
    outcomes: &[OutcomeRun<FinishOutcome>],
) -> Vec<((Receipt, u32), FinishOutcome)> {
    let (mut pairs, mut outcomes) = (Vec::new(), outcomes.iter().cloned().peekable());
    for &(mut first, mut count) in receipts {
        while let Some(next) = outcomes.peek_mut().filter(|_| count > 0) {
            let both = count.min(next.count);
            pairs.push(((first, both), next.outcome.clone()));
            // Receipts come from outside: behind the largest number there is nothing.
            first.lease = LeaseNumber(first.lease.0.saturating_add(u64::from(both)));
            (count, next.count) = (count - both, next.count - both);
            outcomes.next_if(|next| next.count == 0);
        }
    }
    pairs
}

fn nth(outcome: &PublishOutcome, index: u32) -> PublishOutcome {
    match outcome {
        PublishOutcome::Queued { id } => {
            // A number that no broker gives out is shown as it came, and takes nobody down.
            let sequence = Sequence(id.sequence.0.saturating_add(u64::from(index)));
            PublishOutcome::Queued { id: MessageId { sequence, ..*id } }
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use millpond_types::{Code, Priority, TopicNumber};

    use super::*;

    #[test]
    fn a_run_is_spread_over_its_messages() {
        let id =
            |sequence| MessageId { topic: TopicNumber(1), priority: Priority::DEFAULT, sequence: Sequence(sequence) };
        let refused = PublishOutcome::Refused { code: Code::DiskFull, detail: String::new() };
        let outcomes = Outcomes::from(vec![
            OutcomeRun { count: 2, outcome: PublishOutcome::Queued { id: id(7) } },
            OutcomeRun { count: 1, outcome: refused.clone() },
        ]);
        let queued = |sequence| PublishOutcome::Queued { id: id(sequence) };
        assert_eq!(outcomes.iter().collect::<Vec<_>>(), [queued(7), queued(8), refused]);
        assert_eq!((outcomes.len(), outcomes.queued(), outcomes.refused(), outcomes.duplicates()), (3, 2, 1, 0));
    }

    #[test]
    fn receipts_and_outcomes_are_paired_as_runs() {
        let at = |lease| Receipt { topic: TopicNumber(1), group: 0, lease: LeaseNumber(lease) };
        let (done, lost) = (FinishOutcome::Done, FinishOutcome::LeaseLost);
        let runs = [(2, done.clone()), (3, lost.clone()), (1, done.clone())];
        let outcomes = runs.map(|(count, outcome)| OutcomeRun { count, outcome });
        let pairs = paired(&[(at(1), 3), (at(9), 3)], &outcomes);
        let expected = [((at(1), 2), &done), ((at(3), 1), &lost), ((at(9), 2), &lost), ((at(11), 1), &done)];
        assert_eq!(pairs.iter().map(|(receipts, outcome)| (*receipts, outcome)).collect::<Vec<_>>(), expected);
        assert_eq!(paired(&[(at(1), 4)], &outcomes[..1]).len(), 1, "what has no outcome is in no pair");
    }
}
