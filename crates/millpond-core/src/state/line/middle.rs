//! The middle of a line: which pieces the store is given, and how they come back.

use alloc::vec::Vec;
use core::ops::Range;

use millpond_types::{Sequence, WallTime};

use super::{Line, Piece, whole_bytes};
use crate::page::{RunPage, StoredPiece};
use crate::state::bounds::LevelBounds;
use crate::time_index::TimerKey;

impl Line {
    /// The pieces between head and tail that are in memory, the oldest first.
    pub(crate) fn loaded_middle(&mut self) -> Vec<Sequence> {
        if self.units_at_most() <= usize::from(self.bounds.head) + usize::from(self.bounds.tail) {
            // Nearly every line. Where pieces were loaded to be looked at, they may stay for now.
            return Vec::new();
        }
        let middle = self.middle();
        let is_loaded = |at: &usize| matches!(self.pieces[*at], Piece::Loaded(..));
        let front: Vec<usize> = middle.clone().take_while(is_loaded).collect();
        let rest = middle.start + front.len()..middle.end;
        let back = rest.clone().rev().take_while(is_loaded);
        let islands = self.islands.iter().map(|first| self.at(*first)).filter(|at| rest.contains(at));
        let mut indexes: Vec<usize> = back.chain(islands.filter(is_loaded)).chain(front).collect();
        indexes.sort_unstable();
        indexes.dedup();
        // Those at the ends are found from there, once they no longer belong to an end.
        self.islands.clear();
        indexes.into_iter().map(|at| self.pieces[at].first()).collect()
    }

    /// Takes the runs of a piece out of memory: they are the store's from here on.
    pub(crate) fn store(&mut self, first: Sequence) -> (StoredPiece, Vec<RunPage>) {
        let at = self.at(first);
        let Some(Piece::Loaded(runs, _)) = self.pieces.get(at) else { panic!("only what is in memory is stored") };
        self.bytes -= runs.iter().map(whole_bytes).sum::<usize>();
        let runs: Vec<RunPage> = runs.iter().map(RunPage::compact).collect();
        let piece = StoredPiece::of(&runs);
        assert_eq!(piece.first, first, "a piece goes by its first message");
        self.pieces[at] = Piece::Stored(piece, None);
        (piece, runs)
    }

    /// Gives a stored piece its runs back, and its timer out. Where it is more than a piece has, as those of older versions may
    /// be, they are several from here on.
    pub(crate) fn load(&mut self, first: Sequence, runs: Vec<RunPage>) -> Option<TimerKey> {
        let at = self.at(first);
        let Some(Piece::Stored(stored, timer)) = self.pieces.get(at) else { panic!("only a stored piece is loaded") };
        assert_eq!(StoredPiece::of(&runs), *stored, "a piece comes back as it was put");
        let timer = *timer;
        self.bytes += runs.iter().map(whole_bytes).sum::<usize>();
        let mut pieces = self.cut(runs).into_iter();
        self.islands.push(first);
        self.pieces[at] = pieces.next().expect("a piece is not empty");
        for (behind, piece) in pieces.enumerate() {
            self.islands.push(piece.first());
            self.pieces.insert(at + 1 + behind, piece);
        }
        timer
    }

    /// Keeps more or less of the line in memory from here on. Pieces in memory that are too long for that are cut.
    pub(crate) fn set_bounds(&mut self, bounds: LevelBounds) {
        let before = core::mem::replace(&mut self.bounds, bounds);
        if before.piece <= bounds.piece {
            return;
        }
        let is_long = |piece: &Piece| matches!(piece, Piece::Loaded(runs, units) if *units > bounds.piece.into() && runs.len() > 1);
        for at in (0..self.pieces.len()).rev() {
            if !is_long(&self.pieces[at]) {
                continue;
            }
            let Piece::Loaded(runs, _) = self.pieces.remove(at) else { unreachable!("a long piece is in memory") };
            for (behind, piece) in self.cut(runs.into()).into_iter().enumerate() {
                self.islands.push(piece.first());
                self.pieces.insert(at + behind, piece);
            }
        }
    }

    /// The pieces that runs are cut into.
    fn cut(&self, runs: Vec<RunPage>) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let (mut piece, mut sum) = (Vec::new(), 0);
        for run in runs {
            let more = run.units();
            if !piece.is_empty() && sum + more > u32::from(self.bounds.piece) {
                pieces.push(Piece::Loaded(core::mem::take(&mut piece).into(), sum));
                sum = 0;
            }
            piece.push(run);
            sum += more;
        }
        pieces.push(Piece::Loaded(piece.into(), sum));
        pieces
    }

    /// Remembers the timer of a stored piece.
    pub(crate) fn set_timer(&mut self, first: Sequence, key: TimerKey) {
        let at = self.at(first);
        let Some(Piece::Stored(_, timer)) = self.pieces.get_mut(at) else { panic!("only stored pieces have timers") };
        *timer = Some(key);
    }

    /// The timers of stored pieces.
    pub(crate) fn timers(&self) -> impl Iterator<Item = TimerKey> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Loaded(..) => None,
            Piece::Stored(_, timer) => *timer,
        })
    }

    /// The pieces that are neither of the head nor of the tail.
    fn middle(&self) -> Range<usize> {
        let end = |pieces: &mut dyn Iterator<Item = &Piece>, least: u16| {
            let mut sum = 0;
            let is_at_end = |piece: &&Piece| {
                let Piece::Loaded(_, units) = piece else { return false };
                let is_short = sum < u32::from(least);
                sum += units;
                is_short
            };
            pieces.take_while(is_at_end).count()
        };
        let from = end(&mut self.pieces.iter(), self.bounds.head);
        let until = self.pieces.len() - end(&mut self.pieces.iter().rev(), self.bounds.tail);
        from..until.max(from)
    }
}

impl StoredPiece {
    /// When the first TTL passes, if there is one.
    pub fn expiry(&self) -> Option<WallTime> {
        Some(self.expires).filter(|at| *at != WallTime::NEVER)
    }

    /// What is remembered of these runs.
    pub fn of(runs: &[RunPage]) -> StoredPiece {
        let [first, ..] = runs else { panic!("a piece is not empty") };
        StoredPiece {
            first: first.first,
            end: runs[runs.len() - 1].end(),
            messages: runs.iter().map(|run| u64::from(run.count)).sum(),
            head: first.since(),
            published: runs.iter().map(|run| run.published).min().unwrap_or_default(),
            expires: runs.iter().map(|run| run.expires).min().unwrap_or(WallTime::NEVER),
        }
    }
}
