//! Old bytes are read again and compared with their checksums, so that damage is known before somebody needs what it has
//! hit.
//!
//! A pass goes through the segments from the oldest to the one before the last, batch by batch, in pieces. Whatever was
//! written stays as it was until its segment goes, so a batch that is not valid any more is damage. Behind it the batches of
//! its segment cannot be found, and the pass goes on in the next.

use crate::journal::live::OPEN;
use crate::journal::scan::{Found, Scan};
use crate::journal::shared::Shared;

/// Bytes that are read at once, about.
const PIECE: u64 = 4 * 1024 * 1024;

/// Where a pass is.
#[derive(Default)]
pub struct Scrub {
    /// The next batch; everything before it was read.
    position: u64,
}

/// What reading a piece came to.
#[derive(Debug)]
pub enum Scrubbed {
    /// It is as it was written, and there is more.
    Piece,
    /// It is not.
    Damaged(Damage),
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
    pub fn step(&mut self, shared: &Shared) -> Scrubbed {
        let segments = shared.segments.all();
        let Some(segment) = segments.iter().find(|segment| segment.end > self.position && segment.end != OPEN) else {
            self.position = 0;
            return Scrubbed::Pass;
        };
        let from = self.position.max(segment.base);
        let mut scan = Scan::new(segment, shared.directory, from, 0);
        let what = loop {
            self.position = scan.position;
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
        self.position = segment.end;
        Scrubbed::Damaged(damage)
    }
}
