//! The journal's recent batches in memory, and the memory that batches are built in.
//!
//! A batch is built in a chunk, a large buffer that several batches share, one behind the other. Once written it stays
//! here, in the same memory, until newer ones need the budget: deliveries of recent messages copy nothing and read no
//! file. When the last batch of a chunk goes, and no delivery on its way holds a part of it, the chunk is used again, so
//! that a steady load touches no new memory.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use millpond_core::output::Extent;

use crate::sync::{Mutex, lock};

/// Chunks kept for use again: under a steady load one comes free for each that is begun.
const FREE_CHUNKS: usize = 2;

/// See the module.
pub struct Tail {
    budget: u64,
    /// Bytes of a chunk: some batches of a loaded broker, so that little is lost where a batch does not fit the rest.
    chunk: usize,
    recent: Mutex<Recent>,
}

#[derive(Default)]
struct Recent {
    /// By position, without gaps.
    batches: VecDeque<(u64, Bytes)>,
    bytes: u64,
    free: Vec<BytesMut>,
}

impl Tail {
    /// Keeps up to `budget` bytes of batches, in chunks of so many.
    pub fn new(budget: u64, chunk: usize) -> Tail {
        Tail { budget, chunk, recent: Mutex::default() }
    }

    /// Takes in a batch that has been written.
    pub fn insert(&self, position: u64, batch: Bytes) {
        let mut evicted = Vec::new();
        let mut recent = lock(&self.recent);
        if let Some((before, bytes)) = recent.batches.back() {
            assert_eq!(before + bytes.len() as u64, position, "batches come one behind the other");
        }
        recent.bytes += batch.len() as u64;
        recent.batches.push_back((position, batch));
        while recent.bytes > self.budget {
            let Some((_, batch)) = recent.batches.pop_front() else { break };
            recent.bytes -= batch.len() as u64;
            evicted.push(batch);
        }
        drop(recent);
        for batch in evicted {
            self.give_back(batch);
        }
    }

    /// The bytes at an extent, if they are here.
    pub fn get(&self, extent: Extent) -> Option<Bytes> {
        let recent = lock(&self.recent);
        let index = recent.batches.partition_point(|(position, _)| *position <= extent.position).checked_sub(1)?;
        let (position, batch) = &recent.batches[index];
        let from = usize::try_from(extent.position - position).ok()?;
        let to = from.checked_add(extent.length as usize)?;
        (to <= batch.len()).then(|| batch.slice(from..to))
    }

    /// An empty buffer of at least this capacity.
    pub fn chunk(&self, capacity: usize) -> BytesMut {
        if capacity <= self.chunk
            && let Some(chunk) = lock(&self.recent).free.pop()
        {
            return chunk;
        }
        BytesMut::with_capacity(capacity.max(self.chunk))
    }

    fn give_back(&self, batch: Bytes) {
        // Succeeds for the last handle on a chunk alone.
        let Ok(mut chunk) = batch.try_into_mut() else { return };
        chunk.clear();
        // A chunk that was made larger for one batch is not worth keeping.
        if chunk.try_reclaim(self.chunk) && chunk.capacity() < 2 * self.chunk {
            let mut recent = lock(&self.recent);
            if recent.free.len() < FREE_CHUNKS {
                recent.free.push(chunk);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(chunk: &mut BytesMut, length: usize, byte: u8) -> Bytes {
        chunk.resize(length, byte);
        chunk.split().freeze()
    }

    #[test]
    fn what_is_recent_is_found_and_what_is_old_is_not() {
        let tail = Tail::new(100, 4096);
        let mut chunk = tail.chunk(0);
        for i in 0..5u8 {
            let bytes = batch(&mut chunk, 40, i);
            tail.insert(u64::from(i) * 40, bytes);
        }
        let get = |position, length| tail.get(Extent { position, length });
        assert_eq!(get(119, 1), None);
        assert_eq!(get(120, 40).unwrap(), [3; 40][..]);
        assert_eq!(get(199, 1).unwrap(), [4][..]);
        assert_eq!(get(190, 11), None, "an extent never goes past a batch");
    }

    #[test]
    fn a_chunk_is_used_again_once_nobody_reads_it() {
        let tail = Tail::new(10, 4096);
        let mut chunk = tail.chunk(0);
        let memory = chunk.as_ptr();
        let (first, second) = (batch(&mut chunk, 8, 1), batch(&mut chunk, 8, 2));
        let held = first.slice(..4);
        tail.insert(0, first);
        tail.insert(8, second);
        drop(chunk);
        drop(held);
        // The third batch drives the second out, the last of the chunk.
        tail.insert(16, Bytes::from_static(&[3; 8]));
        assert_eq!(tail.chunk(0).as_ptr(), memory);
    }
}
