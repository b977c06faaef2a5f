//! What of a line was published before a time: found without bringing pieces that hold nothing of it.

use millpond_types::{Sequence, WallTime};

use super::{Line, Piece};

impl Line {
    /// The first message from `from` on that was published before a time, as far as its pieces tell; of one that is stored,
    /// where it begins. With how many runs and pieces were looked at: if that is `limit`, where to go on instead.
    pub(crate) fn older_from(&self, from: Sequence, before: WallTime, limit: usize) -> (Option<Sequence>, usize) {
        let parts = self.pieces.iter().skip(self.at(from)).flat_map(|piece| {
            let stored = match piece {
                Piece::Stored(piece, _) => Some((piece.first, piece.published)),
                Piece::Loaded(..) => None,
            };
            let loaded = piece.runs().filter(move |run| run.end() > from).map(|run| (run.first, run.published));
            stored.into_iter().chain(loaded)
        });
        let mut looked_at = 0;
        for (first, published) in parts {
            if looked_at == limit || published < before {
                return (Some(first.max(from)), (looked_at + 1).min(limit));
            }
            looked_at += 1;
        }
        (None, looked_at)
    }
}
