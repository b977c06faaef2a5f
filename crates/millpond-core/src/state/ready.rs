//! Messages of a level that are aside and ready, in both of the orders in which they may go: the policy says which one counts,
//! and may say otherwise at any time.

use alloc::collections::BTreeSet;

use millpond_types::Sequence;

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct Ready {
    /// As (behind, first): each goes once everything before `behind` has been looked at.
    in_turn: BTreeSet<(Sequence, Sequence)>,
    /// The same by their first sequences.
    by_sequence: BTreeSet<Sequence>,
}

impl Ready {
    pub(crate) fn insert(&mut self, behind: Sequence, first: Sequence) {
        self.in_turn.insert((behind, first));
        self.by_sequence.insert(first);
    }

    pub(crate) fn remove(&mut self, behind: Sequence, first: Sequence) {
        self.in_turn.remove(&(behind, first));
        self.by_sequence.remove(&first);
    }

    pub(crate) fn contains(&self, behind: Sequence, first: Sequence) -> bool {
        self.in_turn.contains(&(behind, first)) && self.by_sequence.contains(&first)
    }

    pub(crate) fn len(&self) -> usize {
        assert_eq!(self.in_turn.len(), self.by_sequence.len(), "both orders are of the same messages");
        self.in_turn.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.in_turn.is_empty()
    }

    /// What goes first of them, as (behind, first).
    pub(crate) fn first(&self, is_strict: bool) -> Option<(Sequence, Sequence)> {
        match is_strict {
            true => self.by_sequence.first().map(|first| (*first, *first)),
            false => self.in_turn.first().copied(),
        }
    }

    /// All of them in the order in which they go, as (behind, first). In strict order each has the place of its sequence.
    pub(crate) fn in_order(&self, is_strict: bool) -> impl Iterator<Item = (Sequence, Sequence)> {
        let by_sequence = is_strict.then(|| self.by_sequence.iter().map(|first| (*first, *first)));
        let in_turn = (!is_strict).then(|| self.in_turn.iter().copied());
        by_sequence.into_iter().flatten().chain(in_turn.into_iter().flatten())
    }
}
