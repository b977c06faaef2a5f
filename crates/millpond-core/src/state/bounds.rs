//! How much of a topic stays in memory while the topic does: of each level the ends of its line, and of the messages that rest
//! those whose time comes first.
//!
//! A line begins as long as there may be. Where topics want for room, those that nothing has happened to for longest become
//! shorter before any of them leaves: so very many topics whose turns come one after another have room for the front of each,
//! and a turn costs no read. One that comes back is as long as what it has left with, and becomes longer with each piece that it
//! has use for.

use millpond_types::TopicNumber;

use crate::fact::GroupNumber;
use crate::page::{LevelPage, RunPage, TopicPage};
use crate::state::topic::Topic;
use crate::state::{State, TopicSlot};

/// One part in so many of the room for topics is for one level of one of them.
const SHARE: usize = 256;
/// Units at the front of a line, at least: a read is over before they are.
const HEAD_MIN: usize = 32;
/// The same where topics want for room: a piece that is read still lasts for several messages.
const HEAD_LEAST: u16 = 4;
/// So many times shorter a line becomes at once, and so many times longer.
const SHORTER: u16 = 4;
const LONGER: u16 = 2;
/// A topic may have a piece, and messages that rest, that are shorter by one part in so many.
const APART: u16 = 4;
/// What a topic is in one group is cut as many messages earlier or later as in the group before.
const GROUPS_APART: u64 = 31;
/// Messages that rest, at least, in units, but for what is less in some topics: with fewer their pieces are hardly more than one
/// message each.
const RESTING_MIN: u16 = 128;

/// How much of a level stays in memory, in [units](crate::page::RunPage::units): a run is one, and more the more sizes and dedup ids
/// of messages it has. So they bound bytes, whatever is published. No run is cut for them, and where one is asked for it stays
/// however large it is. All else is in the store, in pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LevelBounds {
    /// At the front of the line, at least, and at least one; with fewer the next piece is loaded ahead.
    pub head: u16,
    /// At its back, at least.
    pub tail: u16,
    /// In a piece of it, where it is not cut further; a run that is more is a piece of its own.
    pub piece: u16,
    /// Of the messages that rest, at most; where there are more, those whose time is farthest go to the store.
    pub resting: u16,
    /// Out of line and not leased: while there is so much, what is due in pieces waits. A run takes about 500 bytes, and whoever works
    /// on them needs a while. The levels of a topic share it, as far as each has what it needs.
    pub out_of_line: u16,
}

impl LevelBounds {
    /// A piece is 32 KiB in memory; on disk it is a page or less, and where messages have dedup ids nearly as much as in memory.
    /// Both ends are long enough that a line which a consumer keeps up with never goes to the store, and that a read is over
    /// before the head is.
    pub const ENDS: LevelBounds = LevelBounds { head: 256, tail: 512, piece: 512, resting: 256, out_of_line: 4096 };
    /// So much stays that it is all of a level of a test.
    pub const WHOLE: LevelBounds =
        LevelBounds { head: u16::MAX, tail: u16::MAX, piece: 512, resting: u16::MAX, out_of_line: u16::MAX };

    /// [`LevelBounds::ENDS`], or less where there is little room: a line takes about a 256th of that, where messages have no TTL.
    pub fn within(room: usize) -> LevelBounds {
        let LevelBounds { head, tail, piece, resting, out_of_line } = LevelBounds::ENDS;
        let of = |part: u16, whole: usize| (usize::from(part) * whole / usize::from(head)) as u16;
        // A head, a tail and a piece that is not full yet.
        let heads = usize::from(head + tail + piece) / usize::from(head);
        let whole = (room / SHARE / size_of::<RunPage>() / heads).clamp(HEAD_MIN, head.into());
        LevelBounds {
            head: whole as u16,
            tail: of(tail, whole),
            piece: of(piece, whole),
            resting: of(resting, whole).max(RESTING_MIN),
            out_of_line: of(out_of_line, whole),
        }
    }

    /// Those of one topic. Where each publish goes to the same very many topics, all of them would come to the end of a piece in one
    /// turn, which took 20 ms for a thousand. So it is nearer in some than in others, and of one topic in some groups.
    fn apart(self, topic: TopicNumber, group: GroupNumber) -> LevelBounds {
        let number = topic.0.wrapping_add(u64::from(group) * GROUPS_APART);
        let nearer = |part: u16| part - (number % u64::from(part / APART + 1)) as u16;
        LevelBounds { piece: nearer(self.piece), resting: nearer(self.resting), ..self }
    }

    /// Messages that rest come back together because of one of them, so their pieces are shorter.
    pub(crate) fn resting_piece(self) -> usize {
        usize::from(self.resting / 4).max(1)
    }

    /// How much may be out of line and not leased of each of so many levels: a part of what all may, but as much as rests in memory
    /// and two times as much beside that, with which what is due goes on.
    pub(crate) fn out_of_line_of(self, levels: usize) -> usize {
        let all = usize::from(self.out_of_line);
        (all / levels).max(3 * usize::from(self.resting)).min(all)
    }

    /// How many units of a line may stay: its ends, and a piece that is not full yet.
    fn stay(self) -> usize {
        usize::from(self.head) + usize::from(self.tail) + usize::from(self.piece)
    }

    /// With a line that is a step shorter, if it may be.
    fn shorter(self) -> Option<LevelBounds> {
        let LevelBounds { head, tail, piece, .. } = self;
        let shorter =
            LevelBounds { head: head / SHORTER, tail: tail / SHORTER, piece: (piece / SHORTER).max(1), ..self };
        (shorter.head >= HEAD_LEAST).then_some(shorter)
    }

    /// With a line that is a step longer, or as long as it may be.
    fn longer(self, most: LevelBounds) -> LevelBounds {
        let of = |part: u16, most: u16| part.saturating_mul(LONGER).min(most);
        LevelBounds {
            head: of(self.head, most.head),
            tail: of(self.tail, most.tail),
            piece: of(self.piece, most.piece),
            ..self
        }
    }

    /// With the shortest line that has room for so many units.
    fn fitting(self, units: usize) -> LevelBounds {
        let shorter = core::iter::successors(self.shorter(), |bounds| bounds.shorter());
        shorter.take_while(|bounds| units <= bounds.stay()).last().unwrap_or(self)
    }
}

impl TopicPage {
    /// The most units that one of its lines has in memory.
    fn units(&self) -> usize {
        let units = |level: &LevelPage| level.runs.iter().map(|run| run.units() as usize).sum();
        self.levels.iter().map(units).max().unwrap_or(0)
    }
}

impl State {
    /// How much of a topic stays in memory at most.
    pub(crate) fn bounds_of(&self, topic: TopicNumber, group: GroupNumber) -> LevelBounds {
        self.bounds.apart(topic, group)
    }

    /// How much of a topic stays that comes with these lines: all that has come.
    pub(crate) fn bounds_of_page(&self, page: &TopicPage) -> LevelBounds {
        self.bounds_of(page.number, page.group).fitting(page.units())
    }

    /// Gives the store more of a topic's lines, for want of room, and tells how many runs. `None` if they are as short as they
    /// may be.
    pub(crate) fn shorten(&mut self, slot: TopicSlot) -> Option<usize> {
        let topic = &self.topics[slot];
        let units = topic.levels.iter().map(|level| level.line.units_at_most()).max().unwrap_or(0);
        let shorter = core::iter::successors(topic.bounds.shorter(), |bounds| bounds.shorter());
        let bounds = shorter.into_iter().find(|bounds| bounds.stay() < units)?;
        self.set_line_bounds(slot, bounds);
        Some(self.store_middles(slot))
    }

    /// A topic has use for more of its lines than was in memory.
    pub(crate) fn lengthen(&mut self, slot: TopicSlot) {
        let Topic { number, group, bounds, .. } = self.topics[slot];
        if bounds.head < self.bounds.head {
            self.set_line_bounds(slot, bounds.longer(self.bounds_of(number, group)));
        }
    }

    fn set_line_bounds(&mut self, slot: TopicSlot, bounds: LevelBounds) {
        let topic = &mut self.topics[slot];
        topic.bounds = bounds;
        (0..topic.levels.len()).for_each(|at| topic.levels[at].line.set_bounds(bounds));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_little_room_less_of_a_level_stays() {
        assert_eq!(LevelBounds::within(usize::MAX), LevelBounds::ENDS);
        let least = LevelBounds { head: 32, tail: 64, piece: 64, resting: 128, out_of_line: 512 };
        assert_eq!(LevelBounds::within(0), least);
        let bounds = LevelBounds::within(16 << 20);
        assert!(least.head < bounds.head && bounds.head < LevelBounds::ENDS.head, "{bounds:?}");
    }
}
