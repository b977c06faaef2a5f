//! Checkpoints: the state at a journal position, as pages.
//!
//! The truth is the newest complete checkpoint and the journal after it. A checkpoint is complete when it was read back
//! whole after its sync; until then the one before, and the journal after that one, stay.

mod file;
mod memory;

use std::io;

use bytes::Bytes;
use millpond_core::page::Page;

use crate::codec::{BadRecord, Source, decode_page, encode_page};
pub use crate::journal::live::LiveBytes;

pub use file::FileCheckpoints;
pub(crate) use file::{checkpoint_position, is_unfinished};
pub use memory::MemoryCheckpoints;

/// Bytes at which a chunk is ended: one checksum and one write.
const CHUNK_FULL: usize = 1024 * 1024;

/// Keeps checkpoints.
pub trait CheckpointStore: Send {
    /// Begins a checkpoint. One that was begun and not finished is forgotten.
    fn begin(&mut self, head: CheckpointHead) -> io::Result<()>;
    /// Adds pages.
    fn write(&mut self, pages: &PageChunk) -> io::Result<()>;
    /// Makes the checkpoint durable and reads it back; only then it takes the place of the one before.
    fn finish(&mut self) -> Result<(), FinishError>;
    /// The newest complete checkpoint, checked.
    fn newest(&mut self) -> Result<Option<Checkpoint>, CheckpointError>;
}

/// What a checkpoint is of.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CheckpointHead {
    /// The journal position: the state is that after every batch before it.
    pub position: u64,
    /// The start of the broker that made it.
    pub start: u32,
    /// What each segment held of live messages.
    pub live: LiveBytes,
}

/// Pages in their byte form.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageChunk {
    /// The pages, one behind the other.
    pub bytes: Bytes,
    /// How many.
    pub pages: u32,
}

/// A checkpoint that was read and checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// What it is of.
    pub head: CheckpointHead,
    /// Its pages.
    pub chunks: Vec<PageChunk>,
}

/// Why a checkpoint was not finished.
#[derive(Debug, thiserror::Error)]
pub enum FinishError {
    /// The system said no.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is not what was written.
    #[error("reading back {0}")]
    Verify(#[from] CheckpointError),
}

/// Why there is a checkpoint and no use of it.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// Its bytes are not what was written.
    #[error("the checkpoint {file} is damaged at offset {offset}: it {what}")]
    Damaged {
        /// The file.
        file: String,
        /// The offset in it.
        offset: u64,
        /// What is wrong, as the end of a sentence.
        what: &'static str,
    },
    /// A later version wrote it.
    #[error("the checkpoint {file} was written by a newer version of Millpond (form {version}): use that version")]
    Version {
        /// The file.
        file: String,
        /// The form's version.
        version: u32,
    },
    /// It could not be read.
    #[error("reading the checkpoint {file} failed: {error}")]
    Io {
        /// The file.
        file: String,
        /// The system's word.
        error: io::Error,
    },
}

impl PageChunk {
    /// The pages.
    pub fn decode(&self) -> impl Iterator<Item = Result<Page, BadRecord>> {
        let mut source = Source::new(&self.bytes);
        let mut left = self.pages;
        std::iter::from_fn(move || {
            if left == 0 {
                let rest = std::mem::take(&mut source);
                let bad = BadRecord { offset: rest.at(), what: "is one more than the chunk should hold" };
                return (!rest.is_empty()).then_some(Err(bad));
            }
            let page = decode_page(&mut source);
            left = if page.is_ok() { left - 1 } else { 0 };
            if page.is_err() {
                source = Source::default();
            }
            Some(page)
        })
    }
}

/// A checkpoint on its way to the store.
pub(crate) struct Job {
    pub position: u64,
    pub start: u32,
    /// Known once the journal is written up to the position.
    pub live: Option<LiveBytes>,
    pub chunks: Vec<PageChunk>,
}

impl Job {
    /// Writes the checkpoint.
    pub fn run(&self, store: &mut dyn CheckpointStore) -> Result<(), FinishError> {
        let live = self.live.clone().expect("what is durable was written");
        store.begin(CheckpointHead { position: self.position, start: self.start, live })?;
        for chunk in &self.chunks {
            store.write(chunk)?;
        }
        store.finish()
    }
}

/// Turns pages into chunks.
pub(crate) fn encode_pages(pages: impl IntoIterator<Item = Page>) -> Vec<PageChunk> {
    let mut chunks = Vec::new();
    let (mut bytes, mut count) = (Vec::new(), 0);
    for page in pages {
        encode_page(&page, &mut bytes);
        count += 1;
        if bytes.len() >= CHUNK_FULL {
            chunks.push(PageChunk { bytes: std::mem::take(&mut bytes).into(), pages: std::mem::take(&mut count) });
        }
    }
    if count > 0 {
        chunks.push(PageChunk { bytes: bytes.into(), pages: count });
    }
    chunks
}

#[cfg(test)]
mod tests;
