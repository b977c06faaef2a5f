//! Which of the messages that rest leave memory, and how they are cut into pieces.

use alloc::vec::Vec;

use millpond_types::Sequence;

use crate::page::{AsidePage, Page, PieceMessages, PiecePage, StoredResting};
use crate::state::topic::{AsideWhy, Level};
use crate::state::{Now, State, TopicSlot};
use crate::store::Want;

/// Pieces that are fetched at a time because messages have come to rest in their reach.
const CUT_ANEW: usize = 16;

impl State {
    /// Lets messages that rest leave memory where a level has too many, has them all back where it has few, and lets those
    /// that are overdue come if there is room for them again. Tells what has to be fetched for it.
    pub(crate) fn store_resting(&mut self, slot: TopicSlot) -> Vec<Want> {
        let mut wants = Vec::new();
        if self.topics[slot].set_aside == 0 {
            // As of nearly every topic, nothing rests of it.
            return wants;
        }
        for index in 0..self.topics[slot].levels.len() {
            let topic = &self.topics[slot];
            let (level, bound) = (&topic.levels[index], usize::from(topic.bounds.resting));
            let (has_too_many, has_pieces) = (level.rests as usize > bound, level.resting.is_some());
            if has_too_many {
                self.will_change(slot);
                wants.extend(self.store_far(slot, index, bound));
            }
            if has_pieces {
                self.arm_overdue(slot, index);
                wants.extend(self.bring_few(slot, index, bound));
            }
        }
        wants
    }

    /// Whether more of a topic rests in memory than should, and may leave: pieces have come back to be cut anew. Where a start has
    /// still to come to it, what is saved for that may be as much, and stays.
    pub(crate) fn rest_too_many(&self, slot: TopicSlot) -> bool {
        let topic = &self.topics[slot];
        let bound = topic.bounds.resting;
        let rest_too_many =
            |level: &Level| level.rests > u32::from(bound) && !level.far(self.now, usize::from(bound) / 2).is_empty();
        topic.set_aside > 0 && !topic.is_held && topic.levels.iter().any(rest_too_many)
    }

    /// Where few messages rest, none of them is in a piece.
    fn bring_few(&mut self, slot: TopicSlot, index: usize, bound: usize) -> Vec<Want> {
        let level = &self.topics[slot].levels[index];
        if u64::from(level.rests) + level.resting_messages() > bound as u64 / 2 {
            return Vec::new();
        }
        let (priority, pieces) = (level.priority, level.resting_pieces().map(|piece| piece.first).collect::<Vec<_>>());
        pieces.into_iter().filter_map(|first| self.bring_piece(slot, priority, first).err()).collect()
    }

    /// Stores the farther half of what may be in memory and all that is beyond it. Where much of that is in the reach of pieces,
    /// some of these come back, and the next turn goes on.
    fn store_far(&mut self, slot: TopicSlot, index: usize, bound: usize) -> Vec<Want> {
        let level = &self.topics[slot].levels[index];
        let (priority, mut far) = (level.priority, level.far(self.now, bound / 2));
        // What a start has saved, it has to find without the disk.
        far.retain(|first| !self.is_saved(slot, priority, *first));
        let units = |firsts: &[Sequence]| firsts.iter().map(|first| level.aside[first].run.units()).sum::<u32>();
        let (between, far): (Vec<Sequence>, Vec<Sequence>) =
            far.into_iter().partition(|first| level.reached(*first).is_some());
        let mut around: Vec<Sequence> = Vec::new();
        if units(&between) as usize > bound / 4 {
            around.extend(between.iter().filter_map(|first| level.reached(*first)));
            around.dedup();
            around.truncate(CUT_ANEW);
        }
        self.store_pieces_of(slot, index, &far);
        around.into_iter().filter_map(|first| self.bring_piece(slot, priority, first).err()).collect()
    }

    /// Stores messages that rest, none of which is in the reach of a piece.
    fn store_pieces_of(&mut self, slot: TopicSlot, index: usize, firsts: &[Sequence]) {
        let length = self.topics[slot].bounds.resting_piece();
        let mut rest = firsts;
        while let Some(first) = rest.first() {
            let level = &self.topics[slot].levels[index];
            let next = level.resting_from(*first).next().map_or(Sequence(u64::MAX), |piece| piece.first);
            let mut sum = 0;
            let fits = |first: &&Sequence| {
                let is_first = sum == 0;
                sum += level.aside[first].run.units() as usize;
                **first < next && (is_first || sum <= length)
            };
            let count = rest.iter().take_while(fits).count();
            let (piece, others) = rest.split_at(count);
            self.store_resting_piece(slot, index, piece);
            rest = others;
        }
    }

    fn store_resting_piece(&mut self, slot: TopicSlot, index: usize, firsts: &[Sequence]) {
        let messages = firsts.iter().map(|first| {
            let aside = self.topics[slot].levels[index].take_from_aside(*first);
            match aside.state {
                AsideWhy::Delayed { timer, .. } => self.wall_timers.remove(timer),
                AsideWhy::Retrying { timer, .. } => self.run_timers.remove(timer),
                AsideWhy::Ready { .. } | AsideWhy::Leased(_) => unreachable!("only what rests is stored"),
            }
            self.aside_page(&aside)
        });
        let messages: Vec<AsidePage> = messages.collect();
        let stored = StoredResting::of(&messages);
        let topic = &mut self.topics[slot];
        let level = &mut topic.levels[index];
        for timer in level.take_expiries(stored.first, stored.end) {
            self.wall_timers.remove(timer);
        }
        let (priority, of) = (level.priority, (topic.number, topic.group));
        let page = PiecePage { topic: of.0, group: of.1, priority, messages: PieceMessages::Resting(messages) };
        self.store.put(&page.key(), &Page::Piece(page));
        self.add_resting(slot, priority, stored);
    }
}

impl Level {
    /// The messages that rest in memory, in order, but for so many units of those whose time comes first, and for those whose time
    /// has come: these are ready with the next turn.
    fn far(&self, now: Now, near: usize) -> Vec<Sequence> {
        let resting = self.aside.iter().filter_map(|(first, aside)| Some((aside.state.rest(now)?, *first)));
        let mut resting: Vec<(u64, Sequence)> = resting.collect();
        if near > 0 && near < resting.len() {
            resting.select_nth_unstable(near);
        }
        // No run is less than a unit.
        let most = near.min(resting.len());
        resting[..most].sort_unstable();
        let mut sum = 0;
        let is_near = |(_, first): &&(u64, Sequence)| {
            sum += self.aside[first].run.units() as usize;
            sum <= near
        };
        let near = resting[..most].iter().take_while(is_near).count();
        let far = resting.into_iter().skip(near).filter(|(rest, _)| *rest > 0);
        let mut far: Vec<Sequence> = far.map(|(_, first)| first).collect();
        far.sort_unstable();
        far
    }
}
