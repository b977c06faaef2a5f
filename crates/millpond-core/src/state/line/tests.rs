//! A line against a plain list of runs: whatever lies in the store, both tell the same.

use alloc::collections::BTreeMap;

use millpond_types::block::Sizes;
use proptest::prelude::*;

use super::*;
use crate::page::Marks;

const BOUNDS: LevelBounds = LevelBounds { head: 3, tail: 4, piece: 3, resting: 0, out_of_line: 1 };

/// What it is where there is less room.
const SHORTER: LevelBounds = LevelBounds { head: 1, tail: 1, piece: 2, ..BOUNDS };

/// Some of which have messages of several sizes, and some dedup ids.
fn run(first: u64, count: u32) -> RunPage {
    let (position, published, expires) = (first * 1000, WallTime(first), WallTime(first + 50));
    let sizes = if !first.is_multiple_of(3) {
        Sizes::Uniform(10)
    } else {
        Sizes::Ends((0..count).map(|at| 10 + at * (11 + at)).collect())
    };
    let marks = (0..count)
        .filter(|at| !first.is_multiple_of(2) && !(at + count).is_multiple_of(3))
        .map(|at| (at, u128::from(at)));
    let marks = Marks::new(expires, marks);
    RunPage { first: Sequence(first), position, published, expires, sizes, marks, count, index: 0 }
}

/// Most are short, and some are more than a piece has.
fn count(value: u64) -> u32 {
    1 + (value % 4) as u32 * if value.is_multiple_of(7) { 8 } else { 1 }
}

struct Both {
    line: Line,
    plain: Vec<RunPage>,
    store: BTreeMap<Sequence, Vec<RunPage>>,
    next: u64,
}

impl Both {
    fn step(&mut self, kind: u8, value: u64) {
        let some = |store: &BTreeMap<Sequence, _>| store.keys().nth(value as usize % store.len().max(1)).copied();
        match kind {
            0..5 => {
                let run = run(self.next + value % 3, count(value / 3));
                self.next = run.end().0;
                self.plain.push(run.clone());
                self.line.push_back(run);
            }
            5 | 6 if !self.plain.is_empty() => self.carve(if kind == 5 { 0 } else { value }),
            7 => {
                let middle = self.line.loaded_middle();
                assert!(middle.is_sorted(), "the oldest first");
                for first in middle {
                    let (_, runs) = self.line.store(first);
                    assert_eq!(self.store.insert(first, runs), None);
                }
            }
            8 => _ = some(&self.store).map(|first| self.load(first)),
            9 => self.line.set_bounds(if value.is_multiple_of(2) { BOUNDS } else { SHORTER }),
            _ => _ = self.line.wanted().map(|first| self.load(first)),
        }
    }

    fn load(&mut self, first: Sequence) {
        let runs = self.store.remove(&first).expect("what is wanted was stored");
        assert_eq!(self.line.load(first, runs), None);
    }

    /// Takes some of a run out of both, after its piece was loaded if need be.
    fn carve(&mut self, value: u64) {
        let at = value as usize % self.plain.len();
        let run = &mut self.plain[at];
        let skip = (value / 7) as u32 % run.count;
        let before = run.split_front(skip);
        let middle = run.split_front(1 + (value / 11) as u32 % run.count);
        let rest = run.clone();
        self.plain.splice(at..=at, [before, rest].into_iter().filter(|run| run.count > 0));
        if let InLine::Stored(first) = self.line.find(middle.first) {
            self.load(first);
        }
        let carved = self.line.carve(middle.first, middle.count);
        assert_eq!(carved.compact(), middle.compact());
    }

    fn check(&self) {
        let (line, plain) = (&self.line, &self.plain);
        line.check_sums();
        assert_eq!(line.first(), plain.first().map(|run| run.first));
        assert_eq!(line.is_empty(), plain.is_empty());
        assert_eq!(line.waiting(), plain.iter().map(|run| u64::from(run.count)).sum::<u64>());
        let mut runs: Vec<_> = line.runs().chain(self.store.values().flatten()).map(RunPage::compact).collect();
        runs.sort_by_key(|run| run.first);
        assert!(
            runs.into_iter().eq(plain.iter().map(RunPage::compact)),
            "every run stands in the line or in the store"
        );
        assert!(line.stored_from(Sequence(0)).map(|piece| piece.first).eq(self.store.keys().copied()));
        for sequence in (0..self.next + 2).map(Sequence) {
            let expected = plain.iter().find(|run| run.contains(sequence));
            let stored =
                self.store.values().find(|runs| runs[0].first <= sequence && sequence < runs[runs.len() - 1].end());
            match (line.find(sequence), stored) {
                (InLine::Stored(first), Some(runs)) => assert_eq!(first, runs[0].first),
                (InLine::Run(run), None) => assert_eq!(Some(run.compact()), expected.map(RunPage::compact)),
                (InLine::Absent, None) => assert_eq!(expected, None),
                found => panic!("{sequence:?} is {found:?}"),
            }
            // In a stored piece the last one before may be finished, and all of the piece is looked at when it comes.
            let before = plain.iter().rev().find(|run| run.first < sequence).map(|run| run.end().min(sequence).0 - 1);
            match line.last_before(sequence) {
                Some(last) if matches!(line.find(last), InLine::Stored(_)) => {
                    assert!(last < sequence && before.is_some_and(|before| before <= last.0));
                }
                last => assert_eq!(last.map(|last| last.0), before, "before {sequence:?}"),
            }
            let from: Vec<_> = line.runs_from(sequence).map(|run| run.first).collect();
            assert!(from.into_iter().eq(line.runs().filter(|run| run.end() > sequence).map(|run| run.first)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_line_in_pieces_is_the_line(steps in proptest::collection::vec((0..11u8, any::<u64>()), 1..80)) {
        let (line, plain, store) = (Line::new(BOUNDS, Sequence(0)), Vec::new(), BTreeMap::new());
        let mut both = Both { line, plain, store, next: 1 };
        for (kind, value) in steps {
            both.step(kind, value);
            both.check();
        }
    }

    #[test]
    fn only_the_ends_of_a_line_stay(counts in proptest::collection::vec(any::<u64>().prop_map(count), 0..100)) {
        let mut line = Line::new(BOUNDS, Sequence(0));
        let mut next = 0;
        for count in counts {
            line.push_back(run(next, count));
            next += u64::from(count);
            line.loaded_middle().into_iter().for_each(|first| _ = line.store(first));
            // One that is more than a piece has, at each end.
            let longest = run(3, 25).units();
            let most = u32::from(BOUNDS.head + BOUNDS.tail) + 2 * longest.max(BOUNDS.piece.into());
            let units = line.runs().map(RunPage::units).sum::<u32>();
            prop_assert!(units < most, "{} units stay", units);
            prop_assert_eq!(line.wanted(), None, "what was just stored is not wanted back");
        }
    }
}
