//! Old bytes are read again and compared with their checksums, so that damage is known before somebody needs what it has
//! hit.
//!
//! A pass goes through the segments from the oldest to the one before the last, batch by batch, in pieces. Whatever was
//! written stays as it was until its segment goes, so a batch that is not valid any more is damage. Behind it the batches of
//! its segment cannot be found, and the pass goes on in the next. Then it goes through the tables of the checkpoint, a table
//! at a time, those that a merge makes meanwhile included; the first that is damaged ends it, for then the checkpoint is.

use crate::journal::live::OPEN;
use crate::journal::scan::{Found, Scan};
use crate::journal::shared::Shared;
use crate::tree::{Tree, TreeError};

/// Bytes that are read at once, about.
const PIECE: u64 = 4 * 1024 * 1024;

/// Where a pass is.
pub struct Scrub(Place);

/// Behind what was read.
enum Place {
    /// The position of the next batch.
    Journal(u64),
    /// The number of the last table.
    Checkpoint(Option<u64>),
}

impl Default for Scrub {
    fn default() -> Self {
        Scrub(Place::Journal(0))
    }
}

/// What reading a piece came to.
#[derive(Debug)]
pub enum Scrubbed {
    /// It is as it was written, and there is more.
    Piece,
    /// It is not.
    Damaged(Damage),
    /// A table of the checkpoint is not, or cannot be read, and the next piece is the last.
    Checkpoint(TreeError),
    /// That was the last one: the next piece is the first of another pass.
    Pass,
}

/// A place in a segment where the bytes are not those that were written.
#[derive(Debug, thiserror::Error)]
#[error(
    "the journal is damaged: {file} at offset {offset} {what}; messages in the rest of this file may be lost, which \
     `millpond inspect` shows. Put the file back from a copy while the broker is stopped"
)]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The offset in it.
    pub offset: u64,
    /// What is wrong.
    pub what: String,
}

impl Scrub {
    /// Reads a piece.
    pub fn step(&mut self, shared: &Shared, tree: &dyn Tree) -> Scrubbed {
        match self.0 {
            Place::Journal(position) => self.read_journal(position, shared),
            Place::Checkpoint(behind) => self.read_table(behind, tree),
        }
    }

    fn read_journal(&mut self, position: u64, shared: &Shared) -> Scrubbed {
        let segments = shared.segments.all();
        let Some(segment) = segments.iter().find(|segment| segment.end > position && segment.end != OPEN) else {
            self.0 = Place::Checkpoint(None);
            return Scrubbed::Piece;
        };
        let from = position.max(segment.base);
        let mut scan = Scan::new(segment, shared.directory, from, 0);
        let what = loop {
            self.0 = Place::Journal(scan.position);
            if scan.position >= (from + PIECE).min(segment.end) {
                return Scrubbed::Piece;
            }
            match scan.step() {
                Ok(Found::Batch(..)) => {}
                Ok(Found::Torn(_)) => break "holds a batch that does not match its checksum".into(),
                Ok(Found::Nothing | Found::Lost | Found::Version(_)) => {
                    break "does not hold the batch that it should".into();
                }
                Err(error) => break format!("cannot be read: {error}"),
            }
        };
        let damage = Damage { file: shared.disk.place(&segment.name), offset: segment.offset(scan.position), what };
        self.0 = Place::Journal(segment.end);
        Scrubbed::Damaged(damage)
    }

    fn read_table(&mut self, behind: Option<u64>, tree: &dyn Tree) -> Scrubbed {
        let verified = tree.verify_next(behind);
        self.0 = match verified {
            Ok(None) => Place::Journal(0),
            Ok(read) => Place::Checkpoint(read),
            Err(_) => Place::Checkpoint(Some(u64::MAX)),
        };
        match verified {
            Ok(None) => Scrubbed::Pass,
            Ok(Some(_)) => Scrubbed::Piece,
            Err(error) => Scrubbed::Checkpoint(error),
        }
    }
}
