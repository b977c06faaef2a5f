//! The byte form of the pieces of a long line: what its topic remembers of each, and a piece itself.
//!
//! | of a stored piece | |
//! |---|---|
//! | difference | its first sequence, from that behind the piece before |
//! | number | how many sequences from the first to behind the last message |
//! | number | how many of them are not of it |
//! | difference | when the oldest was published, from the same of the piece before |
//! | option of number | the first TTL, counted from then |

use millpond_core::page::{RunPage, StoredPiece};
use millpond_types::{Sequence, WallTime};

use super::run::Before;
use super::{BadRecord, Sink, Source};

impl Sink<'_> {
    /// Appends what a line, whose sequences begin at `floor`, remembers of its pieces.
    pub(super) fn stored_pieces(&mut self, pieces: &[StoredPiece], floor: u64) {
        let (mut before, mut earlier) = (floor, 0);
        self.list(pieces, |sink, piece| {
            let length = piece.end.0 - piece.first.0;
            sink.difference(piece.first.0, before);
            sink.number(length);
            sink.number(length - piece.messages);
            sink.difference(piece.published.0, earlier);
            sink.difference(piece.head.0, piece.published.0);
            sink.option(piece.expiry().map(|at| at.0.wrapping_sub(piece.published.0)), Self::number);
            (before, earlier) = (piece.end.0, piece.published.0);
        });
    }

    /// Appends the runs of a piece.
    pub(super) fn piece(&mut self, runs: &[RunPage]) {
        let mut before = Before::first(runs[0].first.0);
        self.list(runs, |sink, run| sink.run(run, &mut before));
    }
}

impl Source<'_> {
    pub(super) fn stored_pieces(&mut self, floor: u64) -> Result<Vec<StoredPiece>, BadRecord> {
        let (mut before, mut earlier) = (floor, 0);
        self.list(|source| {
            let first = source.beside(before)?;
            let (length, missing) = (source.number()?, source.number()?);
            let published = source.beside(earlier)?;
            let head = WallTime(source.beside(published)?);
            let ttl = source.option(Self::number)?;
            let bad = source.bad("has a piece of a line without messages");
            let messages = length.checked_sub(missing).filter(|messages| *messages > 0).ok_or(bad)?;
            let end = first.checked_add(length).ok_or(bad)?;
            (before, earlier) = (end, published);
            Ok(StoredPiece {
                first: Sequence(first),
                end: Sequence(end),
                messages,
                head,
                published: WallTime(published),
                expires: ttl.map_or(WallTime::NEVER, |ttl| WallTime(published.wrapping_add(ttl))),
            })
        })
    }

    /// The runs of a piece that begins with this message.
    pub(super) fn piece(&mut self, first: Sequence) -> Result<Vec<RunPage>, BadRecord> {
        let mut before = Before::first(first.0);
        let runs = self.list(|source| source.run(&mut before))?;
        if runs.first().is_none_or(|run| run.first != first) {
            return Err(self.bad("has a piece of a line that does not begin where its key says"));
        }
        Ok(runs)
    }
}
