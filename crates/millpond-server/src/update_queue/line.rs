//! Who is let into a lane, and in which order, where more want in than there is room for.
//!
//! All that is in a lane is handled in one turn, in the order in which it came; so a lane holds no more than what a turn
//! may take, and what else is to be done waits with whoever wants it done. Three rules keep one source from putting more
//! than its share in front of others:
//!
//! * Who finds no room stands in line. Room goes to those in front, and no newcomer passes them.
//! * While somebody stands in line, a source puts in no more than a [`PART`] of the lane in a turn, and then goes to the end.
//! * A source that puts in little in a turn ([`LIGHT`]) waits for nobody: there is as much room again for such. So whoever
//!   asks for little finds one turn of others in front of it, whatever they would like. Where turns are
//!   short, a single request is little that would be so in another one.
//!
//! Invariant: whoever stands in line before an open lane is called when it is that one's turn, or when the lane is empty.

use std::collections::BTreeMap;
use std::task::Waker;

/// Of a lane, one part in so many is what a source puts in at a time while others stand in line: each of these is called
/// in a turn or two, and a call brings enough to be worth it.
const PART: usize = 8;
/// Of a lane, one part in so many in a turn is little: some dozens of small requests.
const LIGHT: usize = 32;

/// Those who stand in line before a lane, under numbers that grow: what each wants to put in, and whom to wake.
#[derive(Default)]
pub(super) struct Line(BTreeMap<u64, (usize, Waker)>);

/// How one source stands with one lane.
#[derive(Clone, Copy, Default)]
pub(super) struct Standing {
    /// Its number in the line, from when it found no room until it has had some.
    number: Option<u64>,
    /// The last turn that it put something in for, and how much.
    turn: u64,
    put: usize,
}

/// A lane as it is now.
pub(super) struct Fullness<'a> {
    pub(super) line: &'a Line,
    pub(super) turn: u64,
    pub(super) taken: usize,
    /// What is let in for the next turn, and what would be for one that is not short.
    pub(super) capacity: usize,
    pub(super) whole: usize,
}

impl Fullness<'_> {
    /// Whether a source may put in a request of some weight. Where it may at all, no weight is too much.
    pub(super) fn admits(&self, standing: &Standing, weight: usize) -> bool {
        let put = standing.put_in(self.turn);
        let little = if put == 0 { self.whole } else { self.capacity } / LIGHT;
        if put + weight <= little && self.taken < 2 * self.capacity {
            return true;
        }
        let has_had_its_part = !self.line.is_empty() && put > 0 && put >= self.capacity / PART;
        self.has_room() && self.line.is_next(standing) && !has_had_its_part
    }

    /// Whether somebody who stands in line would be let in.
    pub(super) fn has_room(&self) -> bool {
        self.taken < self.capacity
    }

    /// What a source is counted as when it is called, that has so many requests and a first one of some weight.
    pub(super) fn wish(&self, weight: usize, count: usize) -> usize {
        weight.max(weight.saturating_mul(count).min(self.capacity / PART))
    }
}

impl Standing {
    /// Counts what was put in.
    pub(super) fn put(&mut self, turn: u64, weight: usize) {
        self.put = self.put_in(turn) + weight;
        self.turn = turn;
    }

    fn put_in(&self, turn: u64) -> usize {
        if self.turn == turn { self.put } else { 0 }
    }
}

impl Line {
    /// Whether nobody stands in line.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes whom to wake when it is the source's turn, in its place or at the end. `last` is the last number given out.
    #[must_use = "a waker is code of others and is dropped outside of the lock"]
    pub(super) fn stand(
        &mut self,
        standing: &mut Standing,
        wish: usize,
        waker: &Waker,
        last: &mut u64,
    ) -> Option<Waker> {
        let number = *standing.number.get_or_insert_with(|| {
            *last += 1;
            *last
        });
        self.0.insert(number, (wish, waker.clone())).map(|(_, waker)| waker)
    }

    /// The source stands in line no longer.
    #[must_use = "a waker is code of others and is dropped outside of the lock"]
    pub(super) fn leave(&mut self, standing: &mut Standing) -> Option<Waker> {
        self.0.remove(&standing.number.take()?).map(|(_, waker)| waker)
    }

    /// Takes out those for whose wishes there is room, one at least. A source keeps its number until it has put
    /// something in, so who comes too late for that is in front the next time.
    pub(super) fn call(&mut self, mut room: usize, called: &mut Vec<Waker>) {
        while let Some(first) = self.0.first_entry()
            && room > 0
        {
            let (wish, waker) = first.remove();
            room = room.saturating_sub(wish.max(1));
            called.push(waker);
        }
    }

    /// Takes out all.
    pub(super) fn call_all(&mut self, called: &mut Vec<Waker>) {
        called.extend(std::mem::take(&mut self.0).into_values().map(|(_, waker)| waker));
    }

    /// Whether nobody stands in front of the source.
    pub(super) fn is_next(&self, standing: &Standing) -> bool {
        let Some((first, _)) = self.0.first_key_value() else { return true };
        standing.number.is_some_and(|number| number <= *first)
    }
}
