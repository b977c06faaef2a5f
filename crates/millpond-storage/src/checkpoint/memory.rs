//! The model of a checkpoint store: what the others are held against.

use std::io;

use super::{Checkpoint, CheckpointError, CheckpointHead, CheckpointStore, FinishError, PageChunk};

/// Keeps the newest checkpoint in memory.
#[derive(Default)]
pub struct MemoryCheckpoints {
    newest: Option<Checkpoint>,
    begun: Option<Checkpoint>,
}

impl CheckpointStore for MemoryCheckpoints {
    fn begin(&mut self, head: CheckpointHead) -> io::Result<()> {
        self.begun = Some(Checkpoint { head, chunks: Vec::new() });
        Ok(())
    }

    fn write(&mut self, pages: &PageChunk) -> io::Result<()> {
        self.begun.as_mut().expect("a checkpoint is begun before it is written").chunks.push(pages.clone());
        Ok(())
    }

    fn finish(&mut self) -> Result<(), FinishError> {
        self.newest = Some(self.begun.take().expect("a checkpoint is begun before it is finished"));
        Ok(())
    }

    fn newest(&mut self) -> Result<Option<Checkpoint>, CheckpointError> {
        Ok(self.newest.clone())
    }
}
