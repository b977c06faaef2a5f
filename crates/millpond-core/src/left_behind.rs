//! The leases that sessions leave behind. They run out, or are given back, a slice a turn: each of them is a fact, and
//! nobody is served while facts are decided.
//!
//! For everybody else the session is over at once. Until its turn comes, a lease that was left behind is current like any
//! other: whoever has its receipt may finish it, and nobody else has its message. They are known by their numbers, so a
//! session that begins under the same id meanwhile keeps what it is given and gets none of them.
//!
//! Nothing here is journaled. What a crash leaves of them is held by a session that is gone, as all leases of sessions are
//! after a start: it may be resumed, and else they run out when the grace is over.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use millpond_types::{LeaseNumber, SessionId, TopicNumber};

use crate::Core;
use crate::fact::{FactLog, GroupNumber};
use crate::state::TopicSlot;
use crate::state::topic::Topic;

/// What a lease is of: a topic, in a group.
pub(crate) type Of = (TopicNumber, GroupNumber);

/// Leases in a row: the first, and the one behind the last.
pub(crate) type LeaseRange = (Of, LeaseNumber, LeaseNumber);

/// Runs of leases that are looked at in one turn: about two milliseconds, so that whoever waits for the turn does not
/// notice, and a session with 200,000 of them is done with in 200 turns.
const SLICE: usize = 1_000;

#[derive(Default)]
pub(crate) struct LeftBehind {
    /// What was left first is gone through first. None of them is empty.
    queue: VecDeque<Left>,
    /// What may still be looked at in this turn.
    room: usize,
}

/// What one session left at one moment.
struct Left {
    /// In the order of their numbers: it depends neither on memory nor on what happened to them before. A heap, so that the
    /// moment costs a look at each of them and not their order.
    leases: BinaryHeap<Reverse<LeaseRange>>,
    why: Why,
}

/// Why leases end with nobody's doing.
pub(crate) enum Why {
    /// Their session was lost and not resumed: they run out.
    Expired,
    /// Their session was ended: they are given back.
    Ended,
    /// Their session was resumed: those are given back that its client does not have any more, which are all but these, in
    /// order.
    Resumed(Vec<LeaseRange>),
}

impl LeftBehind {
    /// A turn begins.
    pub(crate) fn set_room(&mut self) {
        self.room = SLICE;
    }

    /// Whether there is more to be gone through.
    pub(crate) fn any(&self) -> bool {
        !self.queue.is_empty()
    }

    /// All that is to be gone through.
    pub(crate) fn all(&self) -> impl Iterator<Item = LeaseRange> {
        self.queue.iter().flat_map(|left| &left.leases).map(|Reverse(range)| *range)
    }
}

impl Core {
    /// A session leaves behind what it holds, in one group or in all.
    pub(crate) fn leave_behind(
        &mut self,
        session: SessionId,
        group: Option<GroupNumber>,
        why: Why,
        log: &mut dyn FactLog,
    ) {
        let held = self.state.held_by(session).map(|slot| &self.state.leases[slot as usize]);
        let ranges = held.map(|lease| {
            let Topic { number, group, .. } = self.state.topics[lease.slot];
            Reverse(((number, group), lease.number, lease.end()))
        });
        let leases: Vec<_> = ranges.filter(|Reverse(((_, of), ..))| group.is_none_or(|group| group == *of)).collect();
        if !leases.is_empty() {
            self.left_behind.queue.push_back(Left { leases: leases.into(), why });
            self.go_on_with_left_behind(log);
        }
    }

    /// Ends what was left behind, as far as this turn goes.
    pub(crate) fn go_on_with_left_behind(&mut self, log: &mut dyn FactLog) {
        while self.left_behind.room > 0
            && let Some(left) = self.left_behind.queue.front_mut()
        {
            self.left_behind.room -= 1;
            let Reverse((of, from, to)) = left.leases.pop().expect("what is left is not empty");
            let Some((slot, first, end)) = self.state.first_leased(of, from, to) else {
                self.drop_done();
                continue;
            };
            let (lease, count) = (first, (end.0 - first.0) as u32);
            let mut behind = end;
            match &left.why {
                Why::Expired => self.run_out(slot, lease, count, log),
                Why::Ended => self.release_held(slot, lease, count, log),
                Why::Resumed(held) => match first_gap(of, first, end, held) {
                    None => {}
                    Some((lease, to)) => {
                        behind = to;
                        self.release_held(slot, lease, (to.0 - lease.0) as u32, log);
                    }
                },
            }
            if behind < to {
                let left = self.left_behind.queue.front_mut().expect("it was just looked at");
                left.leases.push(Reverse((of, behind, to)));
            }
            self.drop_done();
        }
    }

    /// What is gone through keeps no memory, and asks for no turn.
    fn drop_done(&mut self) {
        if self.left_behind.queue.front().is_some_and(|left| left.leases.is_empty()) {
            self.left_behind.queue.pop_front();
        }
    }
}

impl crate::state::State {
    /// The first of some leases that are current and of one run: where they are, the first, and the one behind the last.
    fn first_leased(
        &self,
        (topic, group): Of,
        from: LeaseNumber,
        to: LeaseNumber,
    ) -> Option<(TopicSlot, LeaseNumber, LeaseNumber)> {
        let slot = self.topics.by_number(topic, group)?;
        let topic = &self.topics[slot];
        let first = if self.is_leased(slot, from) { from } else { *topic.leases.range(from..to).next()?.0 };
        let of = topic.lease(first).expect("it is current");
        Some((slot, first, self.leases[of as usize].end().min(to)))
    }
}

/// The first part of a range of leases that is not among those held.
fn first_gap(of: Of, first: LeaseNumber, end: LeaseNumber, held: &[LeaseRange]) -> Option<(LeaseNumber, LeaseNumber)> {
    let from = held.partition_point(|(other, _, to)| (*other, *to) <= (of, first));
    let mut named = held[from..].iter().take_while(|(other, from, _)| *other == of && *from < end);
    let mut at = first;
    // Neighbours among them are one, so what is behind the first of them that covers the beginning is a gap.
    if let Some((_, _, to)) = held.get(from).filter(|(other, from, _)| *other == of && *from <= at) {
        at = *to;
        named.next();
    }
    let until = named.next().map_or(end, |(_, from, _)| *from);
    (at < until).then_some((at, until))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_is_not_named() {
        let gaps = |held: &[(u64, u64)]| -> Vec<(u64, u64)> {
            let range = |topic, (from, to)| ((TopicNumber(topic), 0), LeaseNumber(from), LeaseNumber(to));
            let mut held: Vec<LeaseRange> = held.iter().map(|held| range(1, *held)).collect();
            held.extend([0, 2].map(|topic| range(topic, (0, 100))));
            held.sort_unstable();
            let (mut found, mut at) = (Vec::new(), LeaseNumber(10));
            while let Some((from, to)) = first_gap((TopicNumber(1), 0), at, LeaseNumber(20), &held) {
                found.push((from.0, to.0));
                at = to;
            }
            found
        };
        assert_eq!(gaps(&[]), [(10, 20)]);
        assert_eq!(gaps(&[(5, 105)]), []);
        assert_eq!(gaps(&[(10, 20)]), []);
        assert_eq!(gaps(&[(10, 11), (19, 25)]), [(11, 19)]);
        assert_eq!(gaps(&[(11, 12), (15, 18), (30, 35)]), [(10, 11), (12, 15), (18, 20)]);
    }
}
