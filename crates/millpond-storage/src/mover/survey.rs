//! A look through a checkpoint at what segments would take to be emptied, before anything of them is moved.
//!
//! What moves is a piece of the journal, for all groups whose runs lie wholly in it. So a run is written once more unless an
//! earlier one holds all of it; a dead letter is its group's alone, and always is. A pass comes by in the same order.

use std::collections::BTreeMap;

use millpond_core::output::Extent;

use super::pass::Pass;
use super::victims::Victims;
use crate::store::LayeredStore;
use crate::tree::TreeError;

/// Runs that are kept in mind at a time: some megabytes. Room for more of them there is only where they are tiny.
const RUNS_MAX: usize = 1 << 18;

/// See the module. Of the segments that are looked at, only those stay for which there is room together.
pub struct Survey {
    pass: Pass,
    tally: Tally,
}

struct Tally {
    room: Cost,
    /// By the position of their first batch, those that are left.
    segments: BTreeMap<u64, Needed>,
    /// All of them, those last that are given up first.
    order: Vec<u64>,
    /// What those that are left take.
    cost: Cost,
    too_full: Vec<u64>,
}

/// What it takes to empty a segment.
#[derive(Default)]
struct Needed {
    /// The position behind the segment.
    end: u64,
    cost: Cost,
    /// Runs that move, from where until where; none lies in another.
    runs: BTreeMap<u64, u64>,
}

#[derive(Clone, Copy, Default)]
struct Cost {
    bytes: u64,
    runs: usize,
}

/// What a survey has come to.
pub struct Surveyed {
    /// There is room for what is needed of these.
    pub fit: Victims,
    /// Of each of these more is needed than there is room for.
    pub too_full: Vec<u64>,
}

impl Survey {
    /// Of segments, each with the position behind it, those first that are to be emptied rather than others.
    pub fn begin(segments: Vec<(u64, u64)>, room: u64) -> Survey {
        let pass = Pass::begin(segments.iter().copied().collect());
        Survey { pass, tally: Tally::new(segments, Cost { bytes: room, runs: RUNS_MAX }) }
    }

    /// Looks at the next entries. False if there were none.
    pub fn look_on(&mut self, store: &LayeredStore) -> Result<bool, TreeError> {
        let goes_on = self.pass.look_on(store)?;
        while let Some(found) = self.pass.next() {
            self.tally.note(found.extent(), found.is_dead());
        }
        Ok(goes_on)
    }

    pub fn end(self) -> Surveyed {
        self.tally.end()
    }
}

impl Tally {
    fn new(segments: Vec<(u64, u64)>, room: Cost) -> Tally {
        let order = segments.iter().map(|(base, _)| *base).collect();
        let segments = segments.into_iter().map(|(base, end)| (base, Needed { end, ..Needed::default() })).collect();
        Tally { room, segments, order, cost: Cost::default(), too_full: Vec::new() }
    }

    fn note(&mut self, extent: Extent, is_dead: bool) {
        let found = self.segments.range_mut(..=extent.position).next_back();
        let Some((&base, needed)) = found.filter(|(_, needed)| extent.position < needed.end) else { return };
        let before = needed.cost;
        needed.note(extent, is_dead);
        self.cost = self.cost.less(before).and(needed.cost);
        if !needed.cost.is_within(self.room) {
            self.too_full.push(base);
            self.give_up(base);
        }
        while !self.cost.is_within(self.room) {
            let last = self.order.pop().expect("one alone is within the room, or was given up");
            self.give_up(last);
        }
    }

    fn give_up(&mut self, base: u64) {
        if let Some(needed) = self.segments.remove(&base) {
            self.cost = self.cost.less(needed.cost);
        }
    }

    fn end(self) -> Surveyed {
        let fit = self.segments.into_iter().map(|(base, needed)| (base, needed.end)).collect();
        Surveyed { fit, too_full: self.too_full }
    }
}

impl Needed {
    fn note(&mut self, Extent { position: from, length }: Extent, is_dead: bool) {
        let until = from + u64::from(length);
        if is_dead {
            self.cost.bytes += u64::from(length);
            return;
        }
        let before = self.runs.range(..=from).next_back();
        if before.is_some_and(|(_, end)| until <= *end) {
            return;
        }
        while let Some((&inner, _)) = self.runs.range(from..).next().filter(|(_, end)| **end <= until) {
            self.runs.remove(&inner);
        }
        self.runs.insert(from, until);
        self.cost = Cost { bytes: self.cost.bytes + u64::from(length), runs: self.runs.len() };
    }
}

impl Cost {
    fn is_within(self, room: Cost) -> bool {
        self.bytes <= room.bytes && self.runs <= room.runs
    }

    fn and(self, other: Cost) -> Cost {
        Cost { bytes: self.bytes + other.bytes, runs: self.runs + other.runs }
    }

    fn less(self, other: Cost) -> Cost {
        Cost { bytes: self.bytes - other.bytes, runs: self.runs - other.runs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tally of segments of 100 bytes each.
    fn tally(bases: &[u64], bytes: u64, runs: usize) -> Tally {
        Tally::new(bases.iter().map(|base| (*base, base + 100)).collect(), Cost { bytes, runs })
    }

    fn note(tally: &mut Tally, position: u64, length: u32) {
        tally.note(Extent { position, length }, false);
    }

    fn end(tally: Tally) -> (Vec<u64>, Vec<u64>) {
        let Surveyed { fit, too_full } = tally.end();
        (fit.bases().collect(), too_full)
    }

    #[test]
    fn what_lies_in_an_earlier_run_is_written_with_it_and_what_does_not_by_itself() {
        let mut tally = tally(&[0], 1000, 1000);
        let mut cost_of = |position, length, is_dead| {
            let before = tally.cost.bytes;
            tally.note(Extent { position, length }, is_dead);
            tally.cost.bytes - before
        };
        assert_eq!([cost_of(10, 20, false), cost_of(10, 20, false), cost_of(20, 10, false)], [20, 0, 0]);
        assert_eq!(cost_of(25, 10, false), 10, "not all of it has moved");
        assert_eq!([cost_of(26, 9, false), cost_of(10, 20, false)], [0, 0]);
        assert_eq!(cost_of(5, 50, false), 50, "nor of this");
        assert_eq!([cost_of(40, 15, false), cost_of(11, 2, false), cost_of(54, 2, false)], [0, 0, 2]);
        assert_eq!([cost_of(10, 20, true), cost_of(10, 20, true)], [20, 20], "of two groups");
        assert_eq!(cost_of(100, 20, false), 0, "nobody asks for this");
    }

    #[test]
    fn those_stay_for_which_there_is_room_together() {
        let mut all = tally(&[200, 0, 100], 50, 1000);
        [(210, 20), (10, 20), (110, 10)].into_iter().for_each(|(at, length)| note(&mut all, at, length));
        assert_eq!(end(all), (vec![0, 100, 200], vec![]));
        let mut two = tally(&[200, 0, 100], 49, 1000);
        [(210, 20), (10, 20), (110, 10)].into_iter().for_each(|(at, length)| note(&mut two, at, length));
        assert_eq!(end(two), (vec![0, 200], vec![]), "the one that comes last is given up");
        let mut full = tally(&[200, 0, 100], 49, 1000);
        [(210, 20), (230, 30), (10, 20), (110, 10)].into_iter().for_each(|(at, length)| note(&mut full, at, length));
        assert_eq!(end(full), (vec![0, 100], vec![200]), "what is too full alone takes no other's place");
    }

    #[test]
    fn no_more_runs_are_kept_in_mind_than_may_be() {
        let mut tally = tally(&[0, 100], 1000, 2);
        [(0, 1), (2, 1), (100, 1)].into_iter().for_each(|(at, length)| note(&mut tally, at, length));
        assert_eq!(tally.segments.keys().copied().collect::<Vec<_>>(), [0]);
        note(&mut tally, 0, 3);
        note(&mut tally, 4, 1);
        note(&mut tally, 6, 1);
        assert_eq!(end(tally), (vec![], vec![0]), "two, and one more");
    }
}
