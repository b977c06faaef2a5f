//! The byte form of the pieces of a long line and of messages that rest: what their topic remembers of each, and a piece
//! itself.
//!
//! | of a stored piece | |
//! |---|---|
//! | difference | its first sequence, from that behind the piece before |
//! | number | how many sequences from the first to behind the last message |
//! | number | how many of them are not of it |
//! | difference | when the oldest was published, from the same of the piece before |
//! | option of number | the first TTL, counted from then |
//!
//! | of a piece of messages that rest | |
//! |---|---|
//! | difference | its first sequence, from that behind the piece before |
//! | number | how many sequences from the first to behind the last message |
//! | number | how many of them are not of it |
//! | number | how many of its messages are in retry |
//! | difference | when the oldest was published, from the same of the piece before |
//! | option of number | the first end of a delay, counted from then |
//! | option of number | the first TTL, counted from then |
//! | option of number | the first end of a back-off |
//!
//! A piece is a list of runs. That of messages that rest is an empty one, and behind it a list of messages aside.

use millpond_core::page::{AsidePage, AsideState, PieceMessages, StoredPiece, StoredResting};
use millpond_types::{RunTime, Sequence, WallTime};

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

    /// The same of the pieces of messages that rest.
    pub(super) fn stored_resting(&mut self, pieces: &[StoredResting], floor: u64) {
        let (mut before, mut earlier) = (floor, 0);
        self.list(pieces, |sink, piece| {
            let StoredResting { first, end, messages, retrying, published, due, expires, retry } = *piece;
            let length = end.0 - first.0;
            let since =
                |at: WallTime| Some(at).filter(|at| *at != WallTime::NEVER).map(|at| at.0.wrapping_sub(published.0));
            sink.difference(first.0, before);
            sink.number(length);
            sink.number(length - messages);
            sink.number(retrying);
            sink.difference(published.0, earlier);
            sink.option(since(due), Self::number);
            sink.option(since(expires), Self::number);
            sink.option(retry.map(|at| at.0), Self::number);
            (before, earlier) = (end.0, published.0);
        });
    }

    /// Appends the messages of a piece.
    pub(super) fn piece(&mut self, messages: &PieceMessages) {
        match messages {
            PieceMessages::Line(runs) => {
                let mut before = Before::first(runs[0].first.0);
                self.list(runs, |sink, run| sink.run(run, &mut before));
            }
            PieceMessages::Resting(messages) => {
                let mut before = Before::first(messages[0].run.first.0);
                self.number(0);
                self.list(messages, |sink, aside| sink.aside(aside, &mut before));
            }
        }
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

    pub(super) fn stored_resting(&mut self, floor: u64) -> Result<Vec<StoredResting>, BadRecord> {
        let (mut before, mut earlier) = (floor, 0);
        self.list(|source| {
            let first = source.beside(before)?;
            let (length, missing, retrying) = (source.number()?, source.number()?, source.number()?);
            let published = source.beside(earlier)?;
            let (due, expires) = (source.option(Self::number)?, source.option(Self::number)?);
            let retry = source.option(Self::number)?.map(RunTime);
            let bad = source.bad("has a piece without messages that rest");
            let messages = length.checked_sub(missing).filter(|messages| *messages > 0).ok_or(bad)?;
            let end = first.checked_add(length).ok_or(bad)?;
            if retrying > messages {
                return Err(bad);
            }
            (before, earlier) = (end, published);
            let at =
                |since: Option<u64>| since.map_or(WallTime::NEVER, |since| WallTime(published.wrapping_add(since)));
            Ok(StoredResting {
                first: Sequence(first),
                end: Sequence(end),
                messages,
                retrying,
                published: WallTime(published),
                due: at(due),
                expires: at(expires),
                retry,
            })
        })
    }

    /// The messages of a piece that begins with this one.
    pub(super) fn piece(&mut self, first: Sequence) -> Result<PieceMessages, BadRecord> {
        let mut before = Before::first(first.0);
        let runs = self.list(|source| source.run(&mut before))?;
        let messages = match runs[..] {
            [] => {
                let mut before = Before::first(first.0);
                PieceMessages::Resting(self.list(|source| source.aside(&mut before))?)
            }
            _ => PieceMessages::Line(runs),
        };
        let begins = match &messages {
            PieceMessages::Line(runs) => runs[0].first == first,
            PieceMessages::Resting(messages) => {
                let rests =
                    |aside: &AsidePage| matches!(aside.state, AsideState::Delayed { .. } | AsideState::Retrying { .. });
                messages.first().is_some_and(|aside| aside.run.first == first) && messages.iter().all(rests)
            }
        };
        if !begins {
            return Err(self.bad("has a piece that does not begin where its key says, or holds what it should not"));
        }
        Ok(messages)
    }
}
