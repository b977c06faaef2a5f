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
//! but for one thing: while very many messages of a topic are in memory out of line, what is due of those in pieces waits. In
//! strict order none is given that stands behind it.

mod leaving;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use millpond_types::{Priority, Sequence, WallTime};

use crate::page::{AsidePage, AsideState, RunPage, StoredResting};
use crate::state::bounds::LevelBounds;
use crate::state::pieces::{PieceKind, PieceTimer, PieceTimers};
use crate::state::topic::{Aside, AsideWhy, Level};
use crate::state::{Now, State, TopicSlot};
use crate::store::Want;
use crate::time_index::{TimeIndex, TimerKey};

/// The pieces of a level.
#[derive(Clone, Default)]
pub(crate) struct Resting {
    pieces: BTreeMap<Sequence, Piece>,
    /// Messages in all of them.
    messages: u64,
    /// Those that wait for room.
    overdue: BTreeSet<Sequence>,
    /// How many wait for the disk.
    coming: usize,
}

#[derive(Clone, Copy)]
struct Piece {
    stored: StoredResting,
    awaits: Awaits,
}

/// What a piece waits for.
#[derive(Clone, Copy)]
enum Awaits {
    /// Its time: that at which its first delay or TTL is over, and that at which its first back-off is. It may have none.
    Time { wall: Option<TimerKey>, run: Option<TimerKey> },
    /// Its time has come while too much was out of line. If nothing else, the first TTL brings it.
    Room { wall: Option<TimerKey> },
    /// Its time has come, and it is being read.
    Disk,
}

impl Awaits {
    fn timers(self) -> [Option<TimerKey>; 2] {
        match self {
            Awaits::Time { wall, run } => [wall, run],
            Awaits::Room { wall } => [wall, None],
            Awaits::Disk => [None, None],
        }
    }
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
        self.resting.as_ref().map_or(0, |resting| resting.messages)
    }

    /// Whether this is one of the pieces, as it is.
    pub(super) fn is_stored(&self, piece: &StoredResting) -> bool {
        let known = self.resting.as_ref().and_then(|resting| resting.pieces.get(&piece.first));
        known.is_some_and(|known| known.stored == *piece)
    }

    /// How many pieces there are.
    pub(crate) fn resting_count(&self) -> usize {
        self.resting.as_ref().map_or(0, |resting| resting.pieces.len())
    }

    /// How much is in memory out of line and not leased, or will be soon, in units.
    fn out_of_line(&self, bounds: LevelBounds) -> usize {
        let coming = self.resting.as_ref().map_or(0, |resting| resting.coming);
        self.unleased as usize + coming * bounds.resting_piece()
    }

    /// The timers of the pieces: those in wall time, and those in run time.
    pub(crate) fn resting_timers(&self) -> [impl Iterator<Item = TimerKey>; 2] {
        let timers = |of: fn(&Piece) -> Option<TimerKey>| {
            self.resting.iter().flat_map(|resting| resting.pieces.values()).filter_map(of)
        };
        [timers(|piece| piece.awaits.timers()[0]), timers(|piece| piece.awaits.timers()[1])]
    }
}

impl Resting {
    /// A piece is being read.
    fn comes(&mut self, first: Sequence) {
        self.pieces.get_mut(&first).expect("a piece is there until it has come").awaits = Awaits::Disk;
        self.overdue.remove(&first);
        self.coming += 1;
    }

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
            self.bring_piece(slot, priority, first)?;
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
            self.bring_piece(slot, priority, first)?;
        }
    }

    /// Sees to it that a message that is not in memory is, if it may be in a piece, and tells how many runs came for that.
    pub(super) fn bring_resting(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        sequence: Sequence,
    ) -> Result<usize, Want> {
        let piece = self.topics[slot].level(priority).and_then(|level| level.reached(sequence));
        piece.map_or(Ok(0), |first| self.bring_piece(slot, priority, first))
    }

    /// The time of a piece has come.
    pub(super) fn bring_overdue(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        first: Sequence,
    ) -> Result<usize, Want> {
        let (now, bounds, is_held) = (self.now.wall, self.topics[slot].bounds, self.is_held_by_retry(slot));
        let most = bounds.out_of_line_of(self.topics[slot].levels.len());
        let level = self.topics[slot].level_mut(priority).expect("a piece has a level");
        let is_full = level.out_of_line(bounds) >= most;
        let resting = level.resting.as_mut().expect("a timer goes with its piece");
        let piece = resting.pieces.get_mut(&first).expect("a timer goes with its piece");
        let StoredResting { expires, retrying, .. } = piece.stored;
        self.piece_timers.remove(piece.awaits.timers());
        // What is in retry may hold all that is ready.
        if is_full && expires > now && !(is_held && retrying > 0) {
            let timer = PieceTimer { slot, priority, first, kind: PieceKind::Resting };
            let wall = (expires != WallTime::NEVER).then(|| self.piece_timers.wall.insert(expires.0, timer));
            piece.awaits = Awaits::Room { wall };
            resting.overdue.insert(first);
            return Ok(0);
        }
        resting.comes(first);
        self.bring_piece(slot, priority, first)
    }

    /// In strict order what is due goes by its sequence, also where it waits for room behind younger ones that fell due before it.
    /// Whether such a one may stand before what would go next: then it is on its way. It takes room beyond the bound, a piece for
    /// each time that somebody is given something.
    pub(crate) fn bring_due_before_next(&mut self, slot: TopicSlot, priority: Priority) -> Result<bool, Want> {
        let level = self.topics[slot].level_mut(priority).expect("a ready level is there");
        let (next, Some(resting)) = (level.next_in_strict_order(), level.resting.as_mut()) else { return Ok(false) };
        let waits = resting.overdue.first().copied().filter(|first| *first < next);
        let Some(first) = waits else {
            let mut before = resting.pieces.range(..next).map(|(_, piece)| piece.awaits);
            return Ok(resting.coming > 0 && before.any(|awaits| matches!(awaits, Awaits::Disk)));
        };
        self.piece_timers.remove(resting.pieces[&first].awaits.timers());
        resting.comes(first);
        self.bring_piece(slot, priority, first).map(|_| true)
    }

    fn is_held_by_retry(&self, slot: TopicSlot) -> bool {
        let topic = &self.topics[slot];
        // Of nearly every topic nothing is in retry, and nobody asks for its policy.
        topic.retrying > 0 && topic.is_held_by_retry(self.policy(slot))
    }

    /// Whether a topic waits for what is in retry and should not, or should and does not: where it has something that could
    /// be given but for that.
    pub(crate) fn has_other_wait(&self, slot: TopicSlot) -> bool {
        let topic = &self.topics[slot];
        let should_wait = self.is_held_by_retry(slot) && topic.highest_ready().is_some();
        topic.waits_for_retry != should_wait
    }

    /// Takes the messages of a piece into memory.
    pub(super) fn load_resting(&mut self, slot: TopicSlot, priority: Priority, messages: Vec<AsidePage>) {
        let stored = StoredResting::of(&messages);
        let level = self.topics[slot].level_mut(priority).expect("a piece has a level");
        let resting = level.resting.as_mut().expect("only a stored piece is loaded");
        let piece = resting.pieces.remove(&stored.first).expect("only a stored piece is loaded");
        assert_eq!(piece.stored, stored, "a piece comes back as it was put");
        match piece.awaits {
            Awaits::Time { .. } => {}
            Awaits::Room { .. } => _ = resting.overdue.remove(&stored.first),
            Awaits::Disk => resting.coming -= 1,
        }
        resting.messages -= stored.messages;
        if resting.pieces.is_empty() {
            level.resting = None;
        }
        self.piece_timers.remove(piece.awaits.timers());
        for page in messages {
            self.arm_expiry(slot, priority, &page.run);
            let aside = self.aside_of_page(slot, priority, page);
            let level = self.topics[slot].level_mut(priority).expect("it was just looked at");
            level.put_aside(aside);
        }
    }

    /// A level has a piece.
    pub(crate) fn add_resting(&mut self, slot: TopicSlot, priority: Priority, stored: StoredResting) {
        let awaits = self.arm_resting(slot, priority, &stored);
        let resting = self.topics[slot].level_or_new(priority).resting.get_or_insert_default();
        resting.messages += stored.messages;
        let other = resting.pieces.insert(stored.first, Piece { stored, awaits });
        assert!(other.is_none(), "a message is in one piece");
    }

    fn arm_resting(&mut self, slot: TopicSlot, priority: Priority, stored: &StoredResting) -> Awaits {
        let timer = PieceTimer { slot, priority, first: stored.first, kind: PieceKind::Resting };
        let wall = Some(stored.due.min(stored.expires)).filter(|at| *at != WallTime::NEVER);
        let wall = wall.map(|at| self.piece_timers.wall.insert(at.0, timer));
        Awaits::Time { wall, run: stored.retry.map(|at| self.piece_timers.run.insert(at.0, timer)) }
    }

    /// Fewer messages are out of line, or what is in retry holds those that are: some that wait for room have their time
    /// again.
    fn arm_overdue(&mut self, slot: TopicSlot, index: usize) {
        let is_held = self.is_held_by_retry(slot);
        let topic = &self.topics[slot];
        let (level, bounds) = (&topic.levels[index], topic.bounds);
        let most = bounds.out_of_line_of(topic.levels.len());
        let free = (most / 2).saturating_sub(level.out_of_line(bounds));
        let (priority, count) = (level.priority, free.div_ceil(bounds.resting_piece()));
        let Some(resting) = level.resting.as_ref().filter(|resting| !resting.overdue.is_empty()) else { return };
        let overdue = resting.overdue.iter().map(|first| resting.pieces[first]);
        let pieces: Vec<Piece> = match is_held {
            true => overdue.filter(|piece| piece.stored.retrying > 0).collect(),
            false => overdue.take(count).collect(),
        };
        for Piece { stored, awaits } in pieces {
            self.piece_timers.remove(awaits.timers());
            let awaits = self.arm_resting(slot, priority, &stored);
            let resting = self.topics[slot].levels[index].resting.as_mut().expect("it was just looked at");
            resting.overdue.remove(&stored.first);
            resting.pieces.insert(stored.first, Piece { stored, awaits });
        }
    }

    /// Whether time changes any of a level's pieces up to `horizon`, or one is on its way. Where one waits for room, only its TTL
    /// is watched in memory.
    pub(super) fn is_resting_soon(&self, level: &Level, horizon: Now) -> bool {
        let PieceTimers { wall, run } = &self.piece_timers;
        let is_soon = |timers: &TimeIndex<PieceTimer>, timer: Option<TimerKey>, until: u64| {
            timer.is_some_and(|timer| timers.deadline(timer).is_none_or(|at| at <= until))
        };
        let pieces = level.resting.iter().flat_map(|resting| resting.pieces.values());
        pieces.map(|piece| piece.awaits).any(|awaits| match awaits {
            Awaits::Time { wall: at, run: or } => is_soon(wall, at, horizon.wall.0) || is_soon(run, or, horizon.run.0),
            Awaits::Room { wall } => wall.is_some(),
            Awaits::Disk => true,
        })
    }
}

impl PieceTimers {
    /// Removes those of all pieces of a level whose topic leaves memory.
    pub(super) fn disarm_resting(&mut self, level: &Level) {
        let [wall, run] = level.resting_timers();
        wall.for_each(|timer| self.wall.remove(timer));
        run.for_each(|timer| self.run.remove(timer));
    }
}

impl Level {
    /// Puts messages aside.
    pub(crate) fn put_aside(&mut self, mut aside: Aside) {
        // Also of what is leased, which may stay for hours: one message must not keep what a batch of thousands has shared.
        aside.run.slim();
        if !matches!(aside.state, AsideWhy::Leased(_)) {
            let units = aside.run.units();
            self.unleased += units;
            self.rests += if aside.state.rests() { units } else { 0 };
        }
        self.aside_bytes += aside.run.bytes();
        let other = self.aside.insert(aside.run.first, Box::new(aside));
        assert!(other.is_none(), "a message is aside once");
    }

    /// Takes what is aside from there.
    pub(crate) fn take_from_aside(&mut self, first: Sequence) -> Aside {
        let aside = *self.aside.remove(&first).expect("what is taken is aside");
        if !matches!(aside.state, AsideWhy::Leased(_)) {
            let units = aside.run.units();
            self.unleased -= units;
            self.rests -= if aside.state.rests() { units } else { 0 };
        }
        self.aside_bytes -= aside.run.bytes();
        aside
    }

    /// Puts a run in the place of one aside that has the same messages.
    pub(crate) fn replace_aside(&mut self, run: RunPage) -> RunPage {
        let mut aside = self.take_from_aside(run.first);
        assert_eq!(aside.run.count, run.count, "the same messages");
        let before = core::mem::replace(&mut aside.run, run);
        self.put_aside(aside);
        before
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
