//! Messages of a topic that some record has told of, all of them: what a group has of these is what records say of it.

use millpond_types::{Priority, Sequence};

use super::sorted::Sorted;

/// See the module. Stretches by their first message, with their ends; no two overlap or touch.
#[derive(Default)]
pub struct Seen(Sorted<(Priority, Sequence), Sequence>);

/// Consecutive messages: the first one, and the sequence behind the last.
pub type Stretch = (Sequence, Sequence);

impl Seen {
    /// They are told of.
    pub fn add(&mut self, priority: Priority, (first, end): Stretch) {
        let (mut from, mut until) = (first, end);
        let before = self.0.range((priority, Sequence(0))..(priority, after(first))).next_back();
        if let Some(((_, begin), behind)) = before.filter(|(_, behind)| **behind >= first) {
            (from, until) = (begin, until.max(*behind));
        }
        let touched = self.0.range((priority, after(from))..(priority, after(until)));
        for (at, behind) in touched.map(|(at, behind)| (at, *behind)).collect::<Vec<_>>() {
            until = until.max(behind);
            self.0.remove(&at);
        }
        self.0.insert((priority, from), until);
    }

    /// Those parts of a stretch that nothing has told of.
    pub fn lacks(&self, priority: Priority, (first, end): Stretch) -> Vec<Stretch> {
        let (mut lacks, mut from) = (Vec::new(), first);
        let before = self.0.range((priority, Sequence(0))..(priority, first)).next_back();
        for ((_, begin), behind) in before.into_iter().chain(self.0.range((priority, first)..(priority, end))) {
            if from < begin {
                lacks.push((from, begin));
            }
            from = from.max(*behind);
        }
        if from < end {
            lacks.push((from, end));
        }
        lacks
    }
}

fn after(sequence: Sequence) -> Sequence {
    Sequence(sequence.0.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use crate::twin::Seed;

    #[test]
    fn what_was_told_of_is_not_lacking_and_all_else_is() {
        for seed in 0..50 {
            let mut seed = Seed::new(seed);
            let (mut seen, mut model) = (Seen::default(), BTreeSet::new());
            for _ in 0..40 {
                let priority = Priority::new(seed.below(2) as u8).unwrap();
                let first = seed.below(100);
                let end = first + 1 + seed.below(8);
                let expected: Vec<u64> = (first..end).filter(|at| !model.contains(&(priority, *at))).collect();
                let lacks = seen.lacks(priority, (Sequence(first), Sequence(end)));
                assert!(lacks.array_windows().all(|[one, next]| one.1 < next.0), "{lacks:?}");
                assert_eq!(lacks.into_iter().flat_map(|(from, to)| from.0..to.0).collect::<Vec<_>>(), expected);
                seen.add(priority, (Sequence(first), Sequence(end)));
                model.extend((first..end).map(|at| (priority, at)));
                let stretches: Vec<_> = seen.0.range((priority, Sequence(0))..(priority, Sequence(u64::MAX))).collect();
                assert!(stretches.array_windows().all(|[one, next]| *one.1 < next.0.1), "{stretches:?}");
            }
        }
    }
}
