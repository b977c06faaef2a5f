//! Pieces of lines and their entries in the store: how they leave memory and how they come back.
//!
//! Invariant: the store has an entry for exactly the pieces that a line calls stored. A piece that leaves or comes back
//! changes what its topic's page says, so a checkpoint that has still to capture the topic does so before
//! ([`State::will_change`]): in every checkpoint, too, pages and pieces fit each other. A replay may cut a line at other
//! places than the broker did before it; nothing depends on that.

use millpond_types::{Priority, Sequence};

use crate::page::{Page, PiecePage, RunPage, StoredPiece};
use crate::state::line::InLine;
use crate::state::topic::Level;
use crate::state::{State, Timer, TopicSlot};
use crate::store::{Found, Key, Want};
use crate::time_index::TimerKey;

/// A stored piece some of whose messages have a TTL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PieceTimer {
    pub(crate) slot: TopicSlot,
    pub(crate) priority: Priority,
    pub(crate) first: Sequence,
}

impl State {
    /// Puts what lies between the ends of a topic's lines into the store.
    pub(crate) fn store_middles(&mut self, slot: TopicSlot) {
        for index in 0..self.topics[slot].levels.len() {
            let pieces = self.topics[slot].levels[index].line.loaded_middle();
            if !pieces.is_empty() {
                self.will_change(slot);
            }
            for first in pieces {
                self.store_piece(slot, index, first);
            }
        }
    }

    fn store_piece(&mut self, slot: TopicSlot, index: usize, first: Sequence) {
        let topic = &mut self.topics[slot];
        let level = &mut topic.levels[index];
        let (piece, runs) = level.line.store(first);
        for timer in level.take_expiries(&piece) {
            self.wall_timers.remove(timer);
        }
        let priority = level.priority;
        let page = PiecePage { topic: topic.number, group: topic.group, priority, runs };
        self.store.put(&page.key(), &Page::Piece(page));
        self.arm_piece(slot, priority, &piece);
    }

    /// One timer stands for all TTLs of a stored piece.
    pub(crate) fn arm_piece(&mut self, slot: TopicSlot, priority: Priority, piece: &StoredPiece) {
        if let Some(at) = piece.expiry() {
            let timer = self.piece_timers.insert(at.0, PieceTimer { slot, priority, first: piece.first });
            let level = self.topics[slot].level_mut(priority).expect("a piece has a level");
            level.line.set_timer(piece.first, timer);
        }
    }

    /// Sees to it that the run of a message is in memory, if it is in line, and tells how many runs came for that.
    /// Otherwise tells what has to be fetched.
    pub(crate) fn bring(&mut self, slot: TopicSlot, priority: Priority, sequence: Sequence) -> Result<usize, Want> {
        let topic = &self.topics[slot];
        let Some(InLine::Stored(first)) = topic.level(priority).map(|level| level.line.find(sequence)) else {
            return Ok(0);
        };
        let key = Key::Piece { group: topic.group, topic: topic.number, priority, first };
        match self.store.find(&key) {
            Found::Here(page) => {
                let Page::Piece(page) = *page else { panic!("an entry is of the kind of its key") };
                let runs = page.runs.len();
                self.load_piece(slot, page);
                Ok(runs)
            }
            Found::OnDisk => Err(Want::Entry(key.bytes())),
            Found::Absent => panic!("a stored piece has an entry: {key:?}"),
        }
    }

    /// Sees to it that all runs of messages from `from` on and before `end` are in memory that are in line.
    pub(crate) fn bring_range(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        from: Sequence,
        end: Sequence,
    ) -> Result<(), Want> {
        let mut at = from;
        loop {
            let next = self.topics[slot].level(priority).and_then(|level| level.line.next_from(at));
            let Some(first) = next.filter(|first| *first < end) else { return Ok(()) };
            self.bring(slot, priority, first)?;
            let level = self.topics[slot].level(priority).expect("it was just looked at");
            // The piece is in memory now, and what begins it may be finished.
            at = level.line.runs_from(first).next().map_or(end, RunPage::end);
        }
    }

    /// Takes a piece that was fetched out of the store, if its line still calls it stored.
    pub(crate) fn take_in_piece(&mut self, page: PiecePage) {
        let (slot, first) = (self.topics.by_number(page.topic, page.group), page.runs[0].first);
        let level = slot.and_then(|slot| self.topics[slot].level(page.priority));
        if let Some(slot) = slot
            && level.is_some_and(|level| level.line.find(first) == InLine::Stored(first))
        {
            self.load_piece(slot, page);
        }
    }

    /// Takes a piece out of the store again.
    pub(crate) fn load_piece(&mut self, slot: TopicSlot, page: PiecePage) {
        self.will_change(slot);
        self.store.remove(&page.key());
        let PiecePage { priority, runs, .. } = page;
        let first = runs[0].first;
        for run in &runs {
            self.arm_expiry(slot, priority, run);
        }
        let level = self.topics[slot].level_mut(priority).expect("a piece has a level");
        if let Some(timer) = level.line.load(first, runs) {
            self.piece_timers.remove(timer);
        }
        // A piece that is not wanted for longer goes back at the end of the turn.
        self.came(slot);
    }

    /// Sets the timer of a run with a TTL, unless that of a longer run which it was cut from is still set.
    pub(crate) fn arm_expiry(&mut self, slot: TopicSlot, priority: Priority, run: &RunPage) {
        let Some(at) = run.expiry() else { return };
        let expiries = &mut self.topics[slot].level_or_new(priority).expiries;
        let before = expiries.range(..=run.first).next_back();
        if before.is_none_or(|(_, (end, _))| *end <= run.first) {
            let timer = self.wall_timers.insert(at.0, Timer::Expiry { slot, priority, first: run.first });
            expiries.insert(run.first, (run.end(), timer));
        }
    }
}

impl PiecePage {
    pub(crate) fn key(&self) -> Key {
        let (group, topic, priority, first) = (self.group, self.topic, self.priority, self.runs[0].first);
        Key::Piece { group, topic, priority, first }
    }
}

impl Level {
    /// Takes out the timers of all TTLs that are of no messages but those of a piece.
    fn take_expiries(&mut self, piece: &StoredPiece) -> impl Iterator<Item = TimerKey> {
        let (aside, within) = (&self.aside, piece.first..piece.end);
        let is_aside = |first: Sequence, end: Sequence| {
            aside.range(..end).next_back().is_some_and(|(_, aside)| aside.run.end() > first)
        };
        let gone = self.expiries.extract_if(within, |first, (end, _)| *end <= piece.end && !is_aside(*first, *end));
        gone.map(|(_, (_, timer))| timer).collect::<alloc::vec::Vec<_>>().into_iter()
    }
}
