//! The messages of a level that were never looked at, in order: pieces of runs, each in memory or in the store.
//!
//! ```text
//!   head                                                        tail
//!   [ 300 units ][ 512 ]  stored  stored  stored  ...  stored  [ 512 ][ 17 ]
//! ```
//!
//! A line that grows keeps its ends in memory and gives what lies between to the store, whole pieces at a time. Which
//! pieces those are and where they are cut changes no fact and no output: that is why all else sees runs, or learns that
//! a piece has to be loaded first. When pieces leave and come back is not decided here.
//!
//! How long head, tail and pieces are is measured in [units](RunPage::units). A run is not cut for it: one that is more than a
//! piece has is a piece of its own.

mod middle;
mod older;

use alloc::vec::Vec;

use millpond_types::{Sequence, WallTime};

use crate::page::{RunPage, StoredPiece};
use crate::state::bounds::LevelBounds;
use crate::state::series::{Series, Things};
use crate::time_index::TimerKey;

/// A new piece of a line of more than so many for each of its units is longer: of 100,000 messages published one by one that
/// makes some 900 pieces.
const PIECES_A_UNIT: usize = 4;

#[derive(Clone)]
pub(crate) struct Line {
    pieces: Series<Piece>,
    /// Messages in all pieces.
    waiting: u64,
    /// About what the runs in memory take, with themselves.
    bytes: usize,
    /// Where pieces were loaded that may lie between stored ones.
    islands: Vec<Sequence>,
    /// No piece reaches over this: what is from before it may come later, and goes between.
    floor: Sequence,
    bounds: LevelBounds,
}

#[derive(Clone)]
enum Piece {
    /// Never empty. With how many units its runs are.
    Loaded(Series<RunPage>, u32),
    /// With the timer of its first TTL.
    Stored(StoredPiece, Option<TimerKey>),
}

/// Where a message is, as far as its line knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InLine<'a> {
    /// Not here.
    Absent,
    /// In this run.
    Run(&'a RunPage),
    /// If anywhere, in the stored piece that begins with this message.
    Stored(Sequence),
}

impl Line {
    /// Of a topic whose own sequences begin at `floor`: those before it are given to it by others.
    pub(crate) fn new(bounds: LevelBounds, floor: Sequence) -> Line {
        Line { pieces: Series::new(), waiting: 0, bytes: 0, islands: Vec::new(), floor, bounds }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// How many messages there are.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// The first message.
    pub(crate) fn first(&self) -> Option<Sequence> {
        self.pieces.front().map(Piece::first)
    }

    /// The last message. Of a stored piece, one that may be finished.
    pub(crate) fn last(&self) -> Option<Sequence> {
        self.pieces.back().map(|piece| Sequence(piece.end().0 - 1))
    }

    /// The run at the front; `None` where there is none, or none in memory.
    pub(crate) fn front(&self) -> Option<&RunPage> {
        match self.pieces.front() {
            Some(Piece::Loaded(runs, _)) => runs.front(),
            _ => None,
        }
    }

    /// Since when the first message waits.
    pub(crate) fn head(&self) -> Option<WallTime> {
        self.pieces.front().map(|piece| match piece {
            Piece::Loaded(runs, _) => runs[0].since(),
            Piece::Stored(piece, _) => piece.head,
        })
    }

    /// The stored piece that is to be loaded because the front has come to it, or is close to it.
    pub(crate) fn wanted(&self) -> Option<Sequence> {
        let mut in_memory = 0;
        for piece in &self.pieces {
            match piece {
                _ if in_memory >= u32::from(self.bounds.head) => break,
                Piece::Loaded(_, units) => in_memory += units,
                Piece::Stored(piece, _) => return Some(piece.first),
            }
        }
        None
    }

    pub(crate) fn push_back(&mut self, run: RunPage) {
        assert!(self.pieces.back().is_none_or(|last| last.end() <= run.first), "a line is in order");
        self.waiting += u64::from(run.count);
        self.bytes += whole_bytes(&run);
        let is_apart = |last: &RunPage| last.first < self.floor && run.first >= self.floor;
        let (more, room) = (run.units(), self.piece_room());
        match self.pieces.back_mut() {
            Some(Piece::Loaded(runs, units)) if *units + more <= room && !runs.back().is_some_and(is_apart) => {
                runs.push_back(run);
                *units += more;
            }
            _ => self.pieces.push_back(Piece::Loaded(Series::One(run), more)),
        }
    }

    /// How many units a piece may have that grows at the back: more in a line of very many pieces, however short its ends are,
    /// for each piece is remembered in memory.
    fn piece_room(&self) -> u32 {
        let longer = (self.pieces.len() / PIECES_A_UNIT).min(LevelBounds::ENDS.piece.into()) as u32;
        longer.max(self.bounds.piece.into())
    }

    /// Puts a run where its sequences belong, which may be before others that came later.
    pub(crate) fn insert(&mut self, run: RunPage) {
        let at = self.at(run.first);
        let Some(next) = self.pieces.get(at) else { return self.push_back(run) };
        assert!(run.end() <= next.first(), "a run goes between others");
        self.waiting += u64::from(run.count);
        self.bytes += whole_bytes(&run);
        let (more, room) = (run.units(), u32::from(self.bounds.piece));
        match at.checked_sub(1).map(|before| &mut self.pieces[before]) {
            Some(Piece::Loaded(runs, units)) if *units + more <= room => {
                runs.push_back(run);
                *units += more;
            }
            _ => {
                self.islands.push(run.first);
                self.pieces.insert(at, Piece::Loaded(Series::One(run), more));
            }
        }
    }

    /// Puts a piece at the back that is in the store already.
    pub(crate) fn push_stored(&mut self, piece: StoredPiece) {
        assert!(self.pieces.back().is_none_or(|last| last.end() <= piece.first), "a line is in order");
        self.waiting += piece.messages;
        self.pieces.push_back(Piece::Stored(piece, None));
    }

    pub(crate) fn find(&self, sequence: Sequence) -> InLine<'_> {
        match self.pieces.get(self.at(sequence)) {
            Some(Piece::Loaded(runs, _)) => {
                let run = runs.get(runs.partition_point(|run| run.end() <= sequence));
                run.filter(|run| run.contains(sequence)).map_or(InLine::Absent, InLine::Run)
            }
            Some(Piece::Stored(piece, _)) if piece.first <= sequence => InLine::Stored(piece.first),
            _ => InLine::Absent,
        }
    }

    /// Whether a message is in a stored piece of which nothing is missing: it waits, and nothing has to be read to know that.
    pub(crate) fn is_stored(&self, sequence: Sequence) -> bool {
        let piece = self.pieces.get(self.at(sequence));
        matches!(piece, Some(Piece::Stored(piece, _)) if piece.first <= sequence && piece.is_whole())
    }

    /// Takes `count` messages from `sequence` on out of the run that they are in.
    pub(crate) fn carve(&mut self, sequence: Sequence, count: u32) -> RunPage {
        let index = self.at(sequence);
        let Some(Piece::Loaded(runs, of_piece)) = self.pieces.get_mut(index) else {
            panic!("a fact names messages that are in line and in memory")
        };
        let at = runs.partition_point(|run| run.end() <= sequence);
        let run = runs.get_mut(at).filter(|run| run.contains(sequence)).expect("a fact names messages in line");
        (self.bytes, *of_piece) = (self.bytes - whole_bytes(run), *of_piece - run.units());
        let before = (sequence > run.first).then(|| run.split_front((sequence.0 - run.first.0) as u32));
        let middle = run.split_front(count);
        if run.count == 0 {
            runs.remove(at);
        } else {
            run.slim();
            (self.bytes, *of_piece) = (self.bytes + whole_bytes(run), *of_piece + run.units());
        }
        if let Some(mut before) = before {
            before.slim();
            (self.bytes, *of_piece) = (self.bytes + whole_bytes(&before), *of_piece + before.units());
            runs.insert(at, before);
        }
        // Cuts in the middle make more runs: a piece stays so short that the next cut moves few of them.
        let piece = self.bounds.piece as usize;
        let half = (runs.len() > 2 * piece).then(|| runs.split_off(piece));
        let of_half = half.iter().flatten().map(RunPage::units).sum::<u32>();
        *of_piece -= of_half;
        if runs.is_empty() {
            self.pieces.remove(index);
        }
        if let Some(half) = half {
            self.islands.push(half[0].first);
            self.pieces.insert(index + 1, Piece::Loaded(half, of_half));
        }
        self.waiting -= u64::from(count);
        middle
    }

    /// Puts a run in the place of the one that has the same messages, and is in memory.
    pub(crate) fn replace(&mut self, run: RunPage) -> RunPage {
        let at = self.at(run.first);
        let Some(Piece::Loaded(runs, of_piece)) = self.pieces.get_mut(at) else {
            panic!("a fact names messages that are in line and in memory")
        };
        let at = runs.partition_point(|other| other.first < run.first);
        let same = runs.get_mut(at).filter(|other| (other.first, other.count) == (run.first, run.count));
        let before = core::mem::replace(same.expect("a fact names a run in line"), run);
        let run = &runs[at];
        self.bytes = self.bytes - whole_bytes(&before) + whole_bytes(run);
        *of_piece = *of_piece - before.units() + run.units();
        before
    }

    /// The first message from `first` on; of a stored piece that begins before it, `first` itself, which may be
    /// finished.
    pub(crate) fn next_from(&self, first: Sequence) -> Option<Sequence> {
        match self.pieces.get(self.at(first))? {
            Piece::Loaded(runs, _) => Some(runs[runs.partition_point(|run| run.end() <= first)].first.max(first)),
            Piece::Stored(piece, _) => Some(piece.first.max(first)),
        }
    }

    /// The last message before `end`. Of a stored piece, one that may be finished.
    pub(crate) fn last_before(&self, end: Sequence) -> Option<Sequence> {
        let behind = self.pieces.partition_point(|piece| piece.first() < end);
        let last = match self.pieces.get(behind.checked_sub(1)?)? {
            Piece::Loaded(runs, _) => runs[runs.partition_point(|run| run.first < end) - 1].end(),
            Piece::Stored(piece, _) => piece.end,
        };
        Some(Sequence(last.min(end).0 - 1))
    }

    /// How many units are in memory, or fewer.
    pub(crate) fn units_at_most(&self) -> usize {
        // No run is more units than it has bytes for.
        self.bytes / size_of::<RunPage>()
    }

    /// About how many bytes it takes.
    pub(crate) fn weight(&self) -> usize {
        let front = self.pieces.front();
        // One alone may stand in place, or in what several have left.
        let is_alone = self.pieces.len() == 1 && matches!(front, Some(Piece::Loaded(runs, _)) if runs.len() == 1);
        let in_place = if is_alone { size_of::<RunPage>() } else { 0 };
        self.pieces.bytes() + (self.bytes - in_place).max(front.map_or(0, Piece::bytes))
    }

    /// When the oldest message was published.
    pub(crate) fn oldest(&self) -> Option<WallTime> {
        // A redriven message is older than its place in the line.
        let published = self.pieces.iter().map(|piece| match piece {
            Piece::Loaded(runs, _) => runs.iter().map(|run| run.published).min().expect("a piece is not empty"),
            Piece::Stored(piece, _) => piece.published,
        });
        published.min()
    }

    /// Checks that what is summed up is the sum.
    pub(crate) fn check_sums(&self) {
        assert_eq!(self.runs().map(whole_bytes).sum::<usize>(), self.bytes, "what the runs of a line take");
        for piece in &self.pieces {
            let Piece::Loaded(runs, sum) = piece else { continue };
            assert_eq!(runs.iter().map(RunPage::units).sum::<u32>(), *sum, "what the runs of a piece are together");
        }
    }

    /// The runs in memory, in order.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &RunPage> {
        self.pieces.iter().flat_map(Piece::runs)
    }

    /// The runs in memory that end behind `first`, in order.
    pub(crate) fn runs_from(&self, first: Sequence) -> impl Iterator<Item = &RunPage> {
        let pieces = self.pieces.iter().skip(self.at(first));
        pieces.flat_map(Piece::runs).skip_while(move |run| run.end() <= first)
    }

    /// The runs in memory that end behind `first` and begin before `end`, in order. It looks no further than that.
    pub(crate) fn runs_between(&self, first: Sequence, end: Sequence) -> impl Iterator<Item = &RunPage> {
        let pieces = self.pieces.iter().skip(self.at(first)).take_while(move |piece| piece.first() < end);
        let runs = pieces.flat_map(Piece::runs).skip_while(move |run| run.end() <= first);
        runs.take_while(move |run| run.first < end)
    }

    /// The pieces in the store that end behind `first`, in order.
    pub(crate) fn stored_from(&self, first: Sequence) -> impl Iterator<Item = &StoredPiece> {
        self.pieces.iter().skip(self.at(first)).filter_map(|piece| match piece {
            Piece::Loaded(..) => None,
            Piece::Stored(piece, _) => Some(piece),
        })
    }

    /// The index of the first piece that ends behind a message.
    fn at(&self, sequence: Sequence) -> usize {
        self.pieces.partition_point(|piece| piece.end() <= sequence)
    }
}

impl Piece {
    fn first(&self) -> Sequence {
        match self {
            Piece::Loaded(runs, _) => runs[0].first,
            Piece::Stored(piece, _) => piece.first,
        }
    }

    fn end(&self) -> Sequence {
        match self {
            Piece::Loaded(runs, _) => runs.back().expect("a piece is not empty").end(),
            Piece::Stored(piece, _) => piece.end,
        }
    }

    /// Bytes of memory that it takes elsewhere.
    fn bytes(&self) -> usize {
        match self {
            Piece::Loaded(runs, _) => runs.bytes(),
            Piece::Stored(..) => 0,
        }
    }

    fn runs(&self) -> Things<'_, RunPage> {
        match self {
            Piece::Loaded(runs, _) => runs.iter(),
            Piece::Stored(..) => Default::default(),
        }
    }
}

/// About how many bytes a run takes with itself.
fn whole_bytes(run: &RunPage) -> usize {
    size_of::<RunPage>() + run.bytes()
}

#[cfg(test)]
mod tests;
