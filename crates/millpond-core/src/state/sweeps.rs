//! What a change of policy or a pause by prefix still has to be told to: ranges of names whose topics are looked at
//! again in slices, never all of them in one turn. Until they were, what they are offered at in the order may be what it
//! was before, so dispatch looks twice at what it takes meanwhile.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::fact::GroupNumber;

/// Ranges that wait at a time. More of them become one, that is too wide: better than a queue without end.
const SWEEPS_MAX: usize = 64;

/// Names of a group, as they stand in keys: from one on and before another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Sweep {
    /// Where it goes on.
    pub(crate) from: (GroupNumber, Vec<u8>),
    /// What lies behind it. May be in a later group.
    pub(crate) until: (GroupNumber, Vec<u8>),
}

#[derive(Clone, Default)]
pub(crate) struct Sweeps {
    pending: VecDeque<Sweep>,
}

impl Sweeps {
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(crate) fn push(&mut self, sweep: Sweep) {
        if self.pending.len() < SWEEPS_MAX {
            return self.pending.push_back(sweep);
        }
        // Not the first: that goes on to its end, whatever comes.
        let last = self.pending.back_mut().expect("there are many");
        last.from = sweep.from.min(core::mem::take(&mut last.from));
        last.until = sweep.until.max(core::mem::take(&mut last.until));
    }

    /// Takes the one whose turn it is; what is left of it is handed back with [`Sweeps::resume`].
    pub(crate) fn pop(&mut self) -> Option<Sweep> {
        self.pending.pop_front()
    }

    pub(crate) fn resume(&mut self, rest: Sweep) {
        self.pending.push_front(rest);
    }
}
