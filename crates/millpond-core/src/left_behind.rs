//! The leases that sessions leave behind. They run out, or are given back, a slice a turn: each of them is a fact, and
//! nobody is served while facts are decided.
//!
//! For everybody else the session is over at once. Until its turn comes, a lease that was left behind is current: whoever has
//! its receipt may finish it, and nobody else has its message. But nobody can extend it, for it ends as soon as its turn
//! comes. They are known by their numbers, so a session that begins under the same id meanwhile keeps what it is given and
//! gets none of them.
//!
//! What a session goes on without, because its client did not name it, is kept by whoever extends it before its turn comes.
//!
//! Nothing here is journaled. What a crash leaves of them is held by a session that is gone, as all leases of sessions are
//! after a start: it may be resumed, and else they run out when the grace is over. So whoever ends a session is told when the
//! last of its leases was given back: what was confirmed makes no failures later.

use alloc::collections::{BinaryHeap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use millpond_types::{LeaseNumber, SessionId, TopicNumber};

use crate::Core;
use crate::command::Ticket;
use crate::fact::{FactLog, GroupNumber};
use crate::output::Reply;
use crate::state::topic::{Lease, Left, Topic};
use crate::state::{State, TopicSlot};

/// What a lease is of: a topic, in a group.
pub(crate) type Of = (TopicNumber, GroupNumber);

/// Leases in a row: the first, and the one behind the last.
pub(crate) type LeaseRange = (Of, LeaseNumber, LeaseNumber);

/// Runs of leases that are looked at in one turn, with the dead letters that become of them: about two milliseconds, so that
/// whoever waits for the turn does not notice, and a session with 200,000 of them is done with in 200 turns.
const SLICE: usize = 1_000;

/// Invariant: nobody is in it who left nothing.
#[derive(Default)]
pub(crate) struct LeftBehind {
    /// Of leaders whose hand-over is up. The next ones wait for it, so it goes before all else.
    of_leaders: VecDeque<Leaving>,
    of_others: VecDeque<Leaving>,
    /// What may still be looked at in this turn.
    room: usize,
}

/// What one session left at one moment.
struct Leaving {
    session: SessionId,
    why: Why,
    /// In the order of their numbers: it depends neither on memory nor on what happened to them before. A heap, so that the
    /// moment costs a look at each of them and not their order.
    leases: BinaryHeap<Reverse<LeaseRange>>,
}

/// Why leases end with nobody's doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// Their session was lost and not resumed: they run out.
    Expired,
    /// Their session has lost the office of their group, and its hand-over is up: they run out.
    CutOff,
    /// Their session was ended: they are given back, and then who asked for that is told.
    Ended(Ticket),
    /// Their session was resumed, and its client does not have them any more: they are given back.
    Resumed,
}

impl LeftBehind {
    /// A turn begins.
    pub(crate) fn set_room(&mut self) {
        self.room = SLICE;
    }

    /// Whether there is more to be gone through.
    pub(crate) fn any(&self) -> bool {
        !self.of_leaders.is_empty() || !self.of_others.is_empty()
    }

    /// What a session was to give back because it was resumed is to be said anew.
    fn forget_resumed(&mut self, session: SessionId) {
        self.of_others.retain(|left| left.why != Why::Resumed || left.session != session);
    }

    /// Those who left something take turns, a run of leases each, so that who left little does not wait for who left much.
    fn queue(&mut self, left: Leaving) {
        let queue = if left.why == Why::CutOff { &mut self.of_leaders } else { &mut self.of_others };
        queue.push_back(left);
    }

    fn next(&mut self) -> Option<Leaving> {
        self.of_leaders.pop_front().or_else(|| self.of_others.pop_front())
    }

    /// All that is to be gone through.
    pub(crate) fn all(&self) -> impl Iterator<Item = LeaseRange> {
        self.of_leaders.iter().chain(&self.of_others).flat_map(|left| &left.leases).map(|Reverse(range)| *range)
    }
}

impl Core {
    /// How many runs of leases are still to end because of sessions that are over or hold them no more. For tests, to hold
    /// what is kept against what there is.
    pub fn left_behind(&self) -> usize {
        self.left_behind.all().count()
    }

    /// A session leaves behind what it holds, in one group or in all.
    pub(crate) fn leave_behind(
        &mut self,
        session: SessionId,
        group: Option<GroupNumber>,
        why: Why,
        log: &mut dyn FactLog,
    ) {
        let mut leases = Vec::new();
        self.state.for_held_by(session, |of, lease| {
            // However often sessions of an id come and go, each lease is here once.
            if group.is_none_or(|group| group == of.1) && lease.left != Left::Over {
                lease.left = Left::Over;
                leases.push(Reverse((of, lease.number, lease.end())));
            }
        });
        if group.is_none() {
            self.left_behind.forget_resumed(session);
        }
        self.queue_left(Leaving { session, why, leases: leases.into() }, log);
    }

    /// A session that was resumed leaves behind what its client does not have any more: all but these, in order.
    pub(crate) fn leave_all_but(&mut self, session: SessionId, held: &[LeaseRange], log: &mut dyn FactLog) {
        let mut leases = Vec::new();
        self.state.for_held_by(session, |of, lease| {
            if lease.left != Left::Over {
                let unnamed = gaps(of, lease.number, lease.end(), held);
                lease.left = if unnamed.is_empty() { Left::No } else { Left::Unnamed };
                leases.extend(unnamed.into_iter().map(|(from, to)| Reverse((of, from, to))));
            }
        });
        // What its client has is what it says last.
        self.left_behind.forget_resumed(session);
        self.queue_left(Leaving { session, why: Why::Resumed, leases: leases.into() }, log);
    }

    fn queue_left(&mut self, left: Leaving, log: &mut dyn FactLog) {
        if left.leases.is_empty() {
            return self.is_through(left.why);
        }
        self.left_behind.queue(left);
        self.go_on_with_left_behind(log);
    }

    /// Ends what was left behind, as far as this turn goes.
    pub(crate) fn go_on_with_left_behind(&mut self, log: &mut dyn FactLog) {
        while self.left_behind.room > 0
            && let Some(mut left) = self.left_behind.next()
        {
            let letters = self.end_next_of(&mut left, log);
            self.left_behind.room = self.left_behind.room.saturating_sub(letters.max(1));
            match left.leases.is_empty() {
                true => self.is_through(left.why),
                false => self.left_behind.queue(left),
            }
        }
    }

    /// All leases that were left at one moment have come back: a crash from here on makes failures of none.
    fn is_through(&mut self, why: Why) {
        if let Why::Ended(asked) = why {
            self.reply(asked, Reply::Done);
        }
    }

    /// Ends the next leases of one run. How many dead letters that has made.
    fn end_next_of(&mut self, left: &mut Leaving, log: &mut dyn FactLog) -> usize {
        let Reverse((of, from, to)) = left.leases.pop().expect("there is one more");
        let Some((slot, first, end)) = self.state.first_leased(of, from, to) else { return 0 };
        if end < to {
            left.leases.push(Reverse((of, end, to)));
        }
        let count = (end.0 - first.0) as u32;
        let is_extended = || self.state.left(slot, first) == Left::No;
        match left.why {
            Why::Resumed if is_extended() => 0,
            Why::Expired | Why::CutOff => self.run_out(slot, first, count, log),
            Why::Ended(_) | Why::Resumed => self.release_held(slot, first, count, log),
        }
    }
}

impl State {
    /// Whether a lease that is current was left behind.
    pub(crate) fn left(&self, slot: TopicSlot, lease: LeaseNumber) -> Left {
        let of = self.topics[slot].lease(lease).expect("the lease is current");
        self.leases[of as usize].left
    }

    /// Goes over the leases that a session holds, and what they are of.
    fn for_held_by(&mut self, session: SessionId, mut with: impl FnMut(Of, &mut Lease)) {
        let mut next = self.holders.get(&session).map(|holder| holder.first);
        while let Some(slot) = next {
            let lease = &mut self.leases[slot as usize];
            next = lease.next;
            let Topic { number, group, .. } = self.topics[lease.slot];
            with((number, group), lease);
        }
    }

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

/// The parts of a range of leases that are not among those held, which are in order.
fn gaps(of: Of, first: LeaseNumber, end: LeaseNumber, held: &[LeaseRange]) -> Vec<(LeaseNumber, LeaseNumber)> {
    let from = held.partition_point(|(other, _, to)| (*other, *to) <= (of, first));
    let named = held[from..].iter().take_while(|(other, from, _)| *other == of && *from < end);
    let mut found = Vec::new();
    let mut at = first;
    for (_, from, to) in named {
        if *from > at {
            found.push((at, *from));
        }
        at = at.max(*to);
    }
    if at < end {
        found.push((at, end));
    }
    found
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
            let found = gaps((TopicNumber(1), 0), LeaseNumber(10), LeaseNumber(20), &held);
            found.into_iter().map(|(from, to)| (from.0, to.0)).collect()
        };
        assert_eq!(gaps(&[]), [(10, 20)]);
        assert_eq!(gaps(&[(5, 105)]), []);
        assert_eq!(gaps(&[(10, 20)]), []);
        assert_eq!(gaps(&[(10, 11), (19, 25)]), [(11, 19)]);
        assert_eq!(gaps(&[(11, 12), (15, 18), (30, 35)]), [(10, 11), (12, 15), (18, 20)]);
    }
}
