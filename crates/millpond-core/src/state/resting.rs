//! Messages that rest: delayed or in retry, each until its time. They are aside, and where a level has very many of them,
//! those whose time is farthest leave memory, many together.
//!
//! ```text
//!   sequences ->   1  2  3  4  5  6  7  8  9  10 11 12
//!   pieces         [a  a  .  a  .  a]       [b  .  b  b]
//!   in memory            3     5        7
//! ```
//!
//! A *piece* reaches from its first message to its last, so that a message is found by its id; what lies in its reach and is
//! not of it is finished, in line, or aside in memory. Invariant: no two pieces of a level overlap. What comes to rest in the
//! reach of a piece stays in memory until the piece is back, and they are cut anew.
//!
//! A piece comes back when the first time of any of its messages has come. Which messages are in pieces changes no fact,
//! but for one thing: while very many messages of a level are in memory out of line, what is due of those in pieces waits.

mod leaving;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use millpond_types::{Priority, Sequence, WallTime};

use crate::page::{AsidePage, AsideState, Page, PieceMessages, StoredResting};
use crate::state::line::LevelBounds;
use crate::state::pieces::{PieceKind, PieceTimer, PieceTimers};
use crate::state::topic::{Aside, AsideWhy, Level};
use crate::state::{Now, State, TopicSlot};
use crate::store::{Found, Key, Want};
use crate::time_index::{TimeIndex, TimerKey};

/// While so many runs of a level are in memory out of line, those in pieces wait though they are due: a run takes about 500
/// bytes, and whoever works on them needs a while.
pub(crate) const OUT_OF_LINE_MAX: usize = 4096;
/// The pieces of a level.
#[derive(Clone, Default)]
pub(crate) struct Resting {
    pieces: BTreeMap<Sequence, Piece>,
    /// Those whose time has come while too many messages were out of line.
    overdue: BTreeSet<Sequence>,
    /// How many are on their way because their time has come.
    coming: usize,
}

#[derive(Clone, Copy)]
struct Piece {
    stored: StoredResting,
    /// When its first delay or TTL is over.
    wall: Option<TimerKey>,
    /// When its first back-off is.
    run: Option<TimerKey>,
}

impl Level {
    /// The pieces that end behind a message, in order.
    pub(crate) fn resting_from(&self, from: Sequence) -> impl DoubleEndedIterator<Item = &StoredResting> {
        let pieces = self.resting.iter().flat_map(move |resting| {
            let reaches = resting.pieces.range(..from).next_back().filter(|(_, piece)| piece.stored.end > from);
            reaches.into_iter().chain(resting.pieces.range(from..))
        });
        pieces.map(|(_, piece)| &piece.stored)
    }

    /// The pieces.
    pub(crate) fn resting_pieces(&self) -> impl DoubleEndedIterator<Item = &StoredResting> {
        self.resting_from(Sequence(0))
    }

    /// The piece in whose reach a message is.
    fn reached(&self, sequence: Sequence) -> Option<Sequence> {
        self.resting_from(sequence).next().map(|piece| piece.first).filter(|first| *first <= sequence)
    }

    /// Messages of all pieces.
    pub(crate) fn resting_messages(&self) -> u64 {
        self.resting_pieces().map(|piece| piece.messages).sum()
    }

    /// How many pieces there are.
    pub(crate) fn resting_count(&self) -> usize {
        self.resting.as_ref().map_or(0, |resting| resting.pieces.len())
    }

    /// How many runs are in memory out of line and not leased, or will be soon.
    fn out_of_line(&self, bounds: LevelBounds) -> usize {
        let coming = self.resting.as_ref().map_or(0, |resting| resting.coming);
        self.ready.len() + self.rests as usize + coming * bounds.resting_piece()
    }

    /// The timers of the pieces: those in wall time, and those in run time.
    pub(crate) fn resting_timers(&self) -> [impl Iterator<Item = TimerKey>; 2] {
        let timers = |of: fn(&Piece) -> Option<TimerKey>| {
            self.resting.iter().flat_map(|resting| resting.pieces.values()).filter_map(of)
        };
        [timers(|piece| piece.wall), timers(|piece| piece.run)]
    }
}

impl Resting {
    /// Bytes of a piece in memory.
    pub(crate) const PIECE_BYTES: usize = size_of::<Sequence>() + size_of::<Piece>();
}

impl State {
    /// Sees to it that the first of the messages aside from one on and before another is in memory. Otherwise tells what has
    /// to be fetched.
    pub(crate) fn bring_next_aside(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        from: Sequence,
        end: Sequence,
    ) -> Result<(), Want> {
        loop {
            let Some(level) = self.topics[slot].level(priority) else { return Ok(()) };
            let Some(piece) = level.resting_from(from).next().filter(|piece| piece.first < end) else { return Ok(()) };
            let first = level.aside_of(from).map(|_| from).or_else(|| Some(*level.aside.range(from..).next()?.0));
            if first.is_some_and(|first| first <= piece.first.max(from)) {
                return Ok(());
            }
            let first = piece.first;
            self.bring_resting(slot, priority, first)?;
        }
    }

    /// The same of the last one before another.
    pub(super) fn bring_last_aside(&mut self, slot: TopicSlot, priority: Priority, end: Sequence) -> Result<(), Want> {
        loop {
            let Some(level) = self.topics[slot].level(priority) else { return Ok(()) };
            let Some(piece) = level.resting_pieces().rfind(|piece| piece.first < end) else { return Ok(()) };
            let known = level.aside.range(..end).next_back().map(|(_, aside)| aside.run.end());
            if known.is_some_and(|known| known >= piece.end.min(end)) {
                return Ok(());
            }
            let first = piece.first;
            self.bring_resting(slot, priority, first)?;
        }
    }

    /// Sees to it that a message that is not in memory is, if it may be in a piece, and tells how many runs came for that.
    pub(super) fn bring_rested(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        sequence: Sequence,
    ) -> Result<usize, Want> {
        let piece = self.topics[slot].level(priority).and_then(|level| level.reached(sequence));
        piece.map_or(Ok(0), |first| self.bring_resting(slot, priority, first))
    }

    /// The same for a piece.
    pub(crate) fn bring_resting(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        first: Sequence,
    ) -> Result<usize, Want> {
        let topic = &self.topics[slot];
        let key = Key::Piece { group: topic.group, topic: topic.number, priority, first };
        match self.store.find(&key) {
            Found::Here(page) => {
                let Page::Piece(page) = *page else { panic!("an entry is of the kind of its key") };
                let PieceMessages::Resting(messages) = page.messages else { panic!("{key:?} is of a line") };
                let runs = messages.len();
                self.load_resting(slot, priority, messages);
                Ok(runs)
            }
            Found::OnDisk => Err(Want::Entry(key.bytes())),
            Found::Absent => panic!("a stored piece has an entry: {key:?}"),
        }
    }

    /// The time of a piece has come.
    pub(super) fn bring_overdue(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        first: Sequence,
    ) -> Result<usize, Want> {
        let (now, bounds) = (self.now.wall, self.topics[slot].bounds);
        let level = self.topics[slot].level_mut(priority).expect("a piece has a level");
        let is_full = level.out_of_line(bounds) >= OUT_OF_LINE_MAX;
        let resting = level.resting.as_mut().expect("a timer goes with its piece");
        let piece = resting.pieces.get_mut(&first).expect("a timer goes with its piece");
        let timers = [(&mut self.piece_timers.wall, piece.wall.take()), (&mut self.piece_timers.run, piece.run.take())];
        for (timers, timer) in timers {
            // The other one, if there is one: this one was taken.
            timer.into_iter().for_each(|timer| timers.remove(timer));
        }
        if is_full && piece.stored.expires > now {
            resting.overdue.insert(first);
            return Ok(0);
        }
        resting.coming += 1;
        self.bring_resting(slot, priority, first)
    }

    /// Takes a piece that was fetched out of the store, if its level still calls it stored.
    pub(super) fn take_in_resting(&mut self, slot: TopicSlot, priority: Priority, messages: Vec<AsidePage>) {
        let stored = StoredResting::of(&messages);
        let level = self.topics[slot].level(priority);
        let resting = level.and_then(|level| level.resting.as_ref());
        if resting.and_then(|resting| resting.pieces.get(&stored.first)).is_some_and(|piece| piece.stored == stored) {
            self.load_resting(slot, priority, messages);
        }
    }

    fn load_resting(&mut self, slot: TopicSlot, priority: Priority, messages: Vec<AsidePage>) {
        self.will_change(slot);
        let stored = StoredResting::of(&messages);
        let topic = &mut self.topics[slot];
        self.store.remove(&Key::Piece { group: topic.group, topic: topic.number, priority, first: stored.first });
        let level = topic.level_mut(priority).expect("a piece has a level");
        let resting = level.resting.as_mut().expect("only a stored piece is loaded");
        let piece = resting.pieces.remove(&stored.first).expect("only a stored piece is loaded");
        assert_eq!(piece.stored, stored, "a piece comes back as it was put");
        if piece.wall.is_none() && piece.run.is_none() && !resting.overdue.remove(&stored.first) {
            resting.coming -= 1;
        }
        if resting.pieces.is_empty() {
            level.resting = None;
        }
        piece.wall.into_iter().for_each(|timer| self.piece_timers.wall.remove(timer));
        piece.run.into_iter().for_each(|timer| self.piece_timers.run.remove(timer));
        for page in messages {
            self.arm_expiry(slot, priority, &page.run);
            let aside = self.aside_of_page(slot, priority, page);
            let level = self.topics[slot].level_mut(priority).expect("it was just looked at");
            level.put_aside(aside);
        }
        // What is not wanted for longer goes back at the end of the turn.
        self.came(slot);
    }

    /// A level has a piece.
    pub(crate) fn add_resting(&mut self, slot: TopicSlot, priority: Priority, stored: StoredResting) {
        let (wall, run) = self.arm_resting(slot, priority, &stored);
        let level = self.topics[slot].level_or_new(priority);
        let pieces = &mut level.resting.get_or_insert_default().pieces;
        let other = pieces.insert(stored.first, Piece { stored, wall, run });
        assert!(other.is_none(), "a message is in one piece");
    }

    fn arm_resting(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        stored: &StoredResting,
    ) -> (Option<TimerKey>, Option<TimerKey>) {
        let timer = PieceTimer { slot, priority, first: stored.first, kind: PieceKind::Resting };
        let wall = Some(stored.due.min(stored.expires)).filter(|at| *at != WallTime::NEVER);
        let wall = wall.map(|at| self.piece_timers.wall.insert(at.0, timer));
        (wall, stored.retry.map(|at| self.piece_timers.run.insert(at.0, timer)))
    }

    /// Fewer messages are out of line: some of those that are overdue have their time again.
    fn arm_overdue(&mut self, slot: TopicSlot, index: usize) {
        let topic = &mut self.topics[slot];
        let level = &mut topic.levels[index];
        let priority = level.priority;
        let free = (OUT_OF_LINE_MAX / 2).saturating_sub(level.out_of_line(topic.bounds));
        let Some(resting) = level.resting.as_mut() else { return };
        let firsts =
            core::iter::from_fn(|| resting.overdue.pop_first()).take(free.div_ceil(topic.bounds.resting_piece()));
        for stored in firsts.map(|first| resting.pieces[&first].stored).collect::<Vec<_>>() {
            let (wall, run) = self.arm_resting(slot, priority, &stored);
            let resting = self.topics[slot].levels[index].resting.as_mut().expect("it was just looked at");
            resting.pieces.insert(stored.first, Piece { stored, wall, run });
        }
    }

    /// Whether time changes any of a level's pieces up to `horizon`. One whose timer has gone off is on its way, or waits until
    /// fewer messages are out of line.
    pub(super) fn is_resting_soon(&self, level: &Level, horizon: Now) -> bool {
        let Some(resting) = &level.resting else { return false };
        let PieceTimers { wall, run } = &self.piece_timers;
        resting.pieces.values().any(|piece| {
            let has_gone_off = piece.wall.is_none() && piece.run.is_none();
            let is_waiting = has_gone_off && resting.overdue.contains(&piece.stored.first);
            let is_soon = |timers: &TimeIndex<PieceTimer>, timer: Option<TimerKey>, until: u64| {
                timer.is_some_and(|timer| timers.deadline(timer).is_none_or(|at| at <= until))
            };
            !is_waiting
                && (has_gone_off || is_soon(wall, piece.wall, horizon.wall.0) || is_soon(run, piece.run, horizon.run.0))
        })
    }

    /// The timers of all pieces of a topic that leaves memory.
    pub(super) fn disarm_resting(&mut self, level: &Level) {
        let [wall, run] = level.resting_timers();
        wall.for_each(|timer| self.piece_timers.wall.remove(timer));
        run.for_each(|timer| self.piece_timers.run.remove(timer));
    }
}

impl Level {
    /// Puts messages aside.
    pub(crate) fn put_aside(&mut self, aside: Aside) {
        self.rests += u32::from(aside.state.rests());
        let other = self.aside.insert(aside.run.first, Box::new(aside));
        assert!(other.is_none(), "a message is aside once");
    }

    /// Takes what is aside from there.
    pub(crate) fn take_from_aside(&mut self, first: Sequence) -> Aside {
        let aside = *self.aside.remove(&first).expect("what is taken is aside");
        self.rests -= u32::from(aside.state.rests());
        aside
    }
}

impl AsideWhy {
    /// Whether they wait for a time.
    pub(crate) fn rests(self) -> bool {
        matches!(self, AsideWhy::Delayed { .. } | AsideWhy::Retrying { .. })
    }

    /// For how long they rest.
    pub(crate) fn rest(self, now: Now) -> Option<u64> {
        match self {
            AsideWhy::Delayed { due, .. } => Some(due.0.saturating_sub(now.wall.0)),
            AsideWhy::Retrying { due, .. } => Some(due.0.saturating_sub(now.run.0)),
            AsideWhy::Ready { .. } | AsideWhy::Leased(_) => None,
        }
    }
}

impl StoredResting {
    /// For how long the first of them rests.
    pub(crate) fn rest(&self, now: Now) -> u64 {
        let wall = self.due.0.saturating_sub(now.wall.0);
        self.retry.map_or(wall, |retry| wall.min(retry.0.saturating_sub(now.run.0)))
    }

    /// What is remembered of these messages.
    pub fn of(messages: &[AsidePage]) -> StoredResting {
        let (Some(first), Some(last)) = (messages.first(), messages.last()) else { panic!("a piece is not empty") };
        let is_retrying = |aside: &&AsidePage| matches!(aside.state, AsideState::Retrying { .. });
        let count = |aside: &AsidePage| u64::from(aside.run.count);
        let dues = messages.iter().filter_map(|aside| match aside.state {
            AsideState::Delayed { due } => Some(due),
            _ => None,
        });
        let retries = messages.iter().filter_map(|aside| match aside.state {
            AsideState::Retrying { due } => Some(due),
            _ => None,
        });
        let never = WallTime::NEVER;
        StoredResting {
            first: first.run.first,
            end: last.run.end(),
            messages: messages.iter().map(count).sum(),
            retrying: messages.iter().filter(is_retrying).map(count).sum(),
            published: messages.iter().map(|aside| aside.run.published).min().unwrap_or(never),
            due: dues.min().unwrap_or(never),
            expires: messages.iter().map(|aside| aside.run.expires).min().unwrap_or(never),
            retry: retries.min(),
        }
    }
}
