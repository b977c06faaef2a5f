//! Pieces of lines and their entries in the store: how they leave memory and how they come back. Those of messages that rest
//! are [`super::resting`]'s.
//!
//! Invariant: the store has an entry for exactly the pieces that a level calls stored. A piece that leaves or comes back
//! changes what its topic's page says, so a checkpoint that has still to capture the topic does so before
//! ([`State::will_change`]): in every checkpoint, too, pages and pieces fit each other. A replay may cut a line at other
//! places than the broker did before it; nothing depends on that.

use alloc::boxed::Box;
use alloc::vec::Vec;

use millpond_types::{Priority, Sequence};

use crate::page::{Page, PieceMessages, PiecePage, RunPage, StoredPiece, StoredResting};
use crate::state::line::InLine;
use crate::state::topic::{Expiry, Level};
use crate::state::{State, Timer, TopicSlot};
use crate::store::{Found, Key, Want};
use crate::time_index::{TimeIndex, TimerKey};

/// A stored piece that time changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PieceTimer {
    pub(crate) slot: TopicSlot,
    pub(crate) priority: Priority,
    pub(crate) first: Sequence,
    pub(crate) kind: PieceKind,
}

/// What lies in a piece.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum PieceKind {
    Line,
    Resting,
}

/// When time first changes each of the pieces that are in the store.
pub(crate) struct PieceTimers {
    pub(crate) wall: TimeIndex<PieceTimer>,
    pub(crate) run: TimeIndex<PieceTimer>,
}

impl PieceTimers {
    pub(crate) fn new() -> PieceTimers {
        PieceTimers { wall: TimeIndex::new(), run: TimeIndex::new() }
    }

    /// Removes the timers of a piece, those that have not been taken.
    pub(crate) fn remove(&mut self, [wall, run]: [Option<TimerKey>; 2]) {
        wall.into_iter().for_each(|timer| self.wall.remove(timer));
        run.into_iter().for_each(|timer| self.run.remove(timer));
    }

    fn take_due(&mut self) -> Option<PieceTimer> {
        self.run.take_due().or_else(|| self.wall.take_due())
    }
}

impl State {
    /// Puts what lies between the ends of a topic's lines into the store, and tells how many runs.
    pub(crate) fn store_middles(&mut self, slot: TopicSlot) -> usize {
        let mut runs = 0;
        for index in 0..self.topics[slot].levels.len() {
            let pieces = self.topics[slot].levels[index].line.loaded_middle();
            if pieces.is_empty() {
                continue;
            }
            self.will_change(slot);
            runs += pieces.into_iter().map(|first| self.store_piece(slot, index, first)).sum::<usize>();
        }
        runs
    }

    /// Puts a piece into the store, and tells how many runs it has.
    fn store_piece(&mut self, slot: TopicSlot, index: usize, first: Sequence) -> usize {
        let topic = &mut self.topics[slot];
        let level = &mut topic.levels[index];
        let (piece, runs) = level.line.store(first);
        for timer in level.take_expiries(piece.first, piece.end) {
            self.wall_timers.remove(timer);
        }
        let (priority, count) = (level.priority, runs.len());
        let messages = PieceMessages::Line(runs);
        let page = PiecePage { topic: topic.number, group: topic.group, priority, messages };
        self.store.put(&page.key(), &Page::Piece(page));
        self.arm_piece(slot, priority, &piece);
        count
    }

    /// One timer stands for all TTLs of a stored piece.
    pub(crate) fn arm_piece(&mut self, slot: TopicSlot, priority: Priority, piece: &StoredPiece) {
        if let Some(at) = piece.expiry() {
            let timer = PieceTimer { slot, priority, first: piece.first, kind: PieceKind::Line };
            let timer = self.piece_timers.wall.insert(at.0, timer);
            let level = self.topics[slot].level_mut(priority).expect("a piece has a level");
            level.line.set_timer(piece.first, timer);
        }
    }

    /// Takes note of the time: a piece that it changes can be taken from here on.
    pub(crate) fn advance_pieces(&mut self) {
        let State { piece_timers, topics, now, .. } = self;
        let place = |timer: &PieceTimer| {
            let topic = &topics[timer.slot];
            (topic.number, timer.priority, timer.first, topic.group, timer.kind)
        };
        piece_timers.run.advance(now.run.0, place);
        piece_timers.wall.advance(now.wall.0, place);
    }

    /// Brings the next piece that time changes, if there is one, and tells how many runs came.
    pub(crate) fn bring_next_due(&mut self) -> Option<Result<usize, Want>> {
        let PieceTimer { slot, priority, first, kind } = self.piece_timers.take_due()?;
        Some(match kind {
            PieceKind::Line => self.bring_piece(slot, priority, first),
            PieceKind::Resting => self.bring_overdue(slot, priority, first),
        })
    }

    /// Sees to it that a message is in memory, if it is in line or rests, and tells how many runs came for that. Otherwise
    /// tells what has to be fetched.
    pub(crate) fn bring(&mut self, slot: TopicSlot, priority: Priority, sequence: Sequence) -> Result<usize, Want> {
        // Pieces reach over what is in memory as well, so each place is looked at before the next one is fetched.
        if self.topics[slot].level(priority).is_none_or(|level| level.aside_of(sequence).is_some()) {
            return Ok(0);
        }
        let brought = self.bring_line(slot, priority, sequence)?;
        let level = self.topics[slot].level(priority).expect("it was just looked at");
        if matches!(level.line.find(sequence), InLine::Run(_)) {
            return Ok(brought);
        }
        Ok(brought + self.bring_resting(slot, priority, sequence)?)
    }

    /// The same, if it is in line.
    pub(crate) fn bring_line(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        sequence: Sequence,
    ) -> Result<usize, Want> {
        match self.topics[slot].level(priority).map(|level| level.line.find(sequence)) {
            Some(InLine::Stored(first)) => self.bring_piece(slot, priority, first),
            _ => Ok(0),
        }
    }

    /// The same of a piece that is in the store.
    pub(crate) fn bring_piece(&mut self, slot: TopicSlot, priority: Priority, first: Sequence) -> Result<usize, Want> {
        let topic = &self.topics[slot];
        let key = Key::Piece { group: topic.group, topic: topic.number, priority, first };
        match self.store.find(&key) {
            Found::Here(page) => {
                let Page::Piece(page) = *page else { panic!("an entry is of the kind of its key") };
                let runs = page.runs().count();
                self.load_piece(slot, page);
                Ok(runs)
            }
            Found::OnDisk => Err(Want::Entry(key.bytes())),
            Found::Absent => panic!("a stored piece has an entry: {key:?}"),
        }
    }

    /// Sees to it that all runs of messages from `from` on and before `end` are in memory that are in line or rest.
    pub(crate) fn bring_range(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        from: Sequence,
        end: Sequence,
    ) -> Result<(), Want> {
        let next = |level: &Level| level.resting_from(from).next().map(|piece| piece.first);
        while let Some(first) = self.topics[slot].level(priority).and_then(next).filter(|first| *first < end) {
            self.bring_piece(slot, priority, first)?;
        }
        let mut at = from;
        loop {
            let next = self.topics[slot].level(priority).and_then(|level| level.line.next_from(at));
            let Some(first) = next.filter(|first| *first < end) else { return Ok(()) };
            self.bring_line(slot, priority, first)?;
            let level = self.topics[slot].level(priority).expect("it was just looked at");
            // The piece is in memory now, and what begins it may be finished.
            at = level.line.runs_from(first).next().map_or(end, RunPage::end);
        }
    }

    /// Takes a piece that was fetched out of the store, if its level still calls it stored.
    pub(crate) fn take_in_piece(&mut self, page: PiecePage) {
        let Some(slot) = self.topics.by_number(page.topic, page.group) else { return };
        let Some(level) = self.topics[slot].level(page.priority) else { return };
        let first = page.first();
        let is_stored = match &page.messages {
            PieceMessages::Line(_) => level.line.find(first) == InLine::Stored(first),
            PieceMessages::Resting(messages) => level.is_stored(&StoredResting::of(messages)),
        };
        if is_stored {
            self.load_piece(slot, page);
        }
    }

    /// Takes a piece out of the store again.
    fn load_piece(&mut self, slot: TopicSlot, page: PiecePage) {
        self.will_change(slot);
        self.store.remove(&page.key());
        match page.messages {
            PieceMessages::Line(runs) => self.load_line(slot, page.priority, runs),
            PieceMessages::Resting(messages) => self.load_resting(slot, page.priority, messages),
        }
        // What is not wanted for longer goes back at the end of the turn.
        self.came(slot);
    }

    fn load_line(&mut self, slot: TopicSlot, priority: Priority, runs: Vec<RunPage>) {
        self.lengthen(slot);
        for run in &runs {
            self.arm_expiry(slot, priority, run);
        }
        let level = self.topics[slot].level_mut(priority).expect("a piece has a level");
        if let Some(timer) = level.line.load(runs[0].first, runs) {
            self.piece_timers.wall.remove(timer);
        }
    }

    /// Sets the timer of a run with a TTL, unless that of a longer run which it was cut from is still set.
    pub(crate) fn arm_expiry(&mut self, slot: TopicSlot, priority: Priority, run: &RunPage) {
        let Some(at) = run.expiry() else { return };
        let expiries = &mut self.topics[slot].level_or_new(priority).expiries;
        let before = expiries.range(..=run.first).next_back();
        if before.is_none_or(|(_, expiry)| expiry.end <= run.first) {
            let timer = self.wall_timers.insert(at.0, Timer::Expiry { slot, priority, first: run.first });
            expiries.insert(run.first, Box::new(Expiry { end: run.end(), timer }));
        }
    }
}

impl PiecePage {
    pub(crate) fn key(&self) -> Key {
        Key::Piece { group: self.group, topic: self.topic, priority: self.priority, first: self.first() }
    }
}

impl Level {
    /// Takes out the timers of the TTLs of messages from one on and before another that are of no messages in memory.
    pub(super) fn take_expiries(&mut self, from: Sequence, until: Sequence) -> Vec<TimerKey> {
        let before = self.expiries.range(..from).next_back().filter(|(_, expiry)| expiry.end > from);
        let of = before.into_iter().chain(self.expiries.range(from..until));
        let gone = of.filter(|(first, expiry)| !self.holds_any(**first, expiry.end)).map(|(first, _)| *first);
        let gone: Vec<Sequence> = gone.collect();
        gone.iter().filter_map(|first| self.expiries.remove(first)).map(|expiry| expiry.timer).collect()
    }
}
