//! Frames that wait to be written.
//!
//! They lie in one buffer. A large block that was read for its frame alone stays where it lies, and is written from there: to
//! copy it would keep whoever else the thread serves waiting for the while, and would take its memory twice.

use std::collections::VecDeque;

use bytes::Bytes;
use millpond_protocol::Sink;

use super::room::SMALL;

/// Bytes of a block from which on it stays where it lies. That it is written on its own costs two calls into the system, which
/// is about what a copy of so much does.
const LARGE: usize = 64 * 1024;

/// See the module.
#[derive(Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    /// How many of these are written.
    written: usize,
    /// Large blocks in their order, each with the index of the byte behind it.
    blocks: VecDeque<(usize, Bytes)>,
    /// How much of the first of these is written.
    of_first: usize,
    /// Bytes of all of them.
    in_blocks: usize,
}

impl Frames {
    /// Whether all of them are written.
    pub(crate) fn is_empty(&self) -> bool {
        self.next().is_empty()
    }

    /// What is to be written next, as far as it lies together.
    pub(crate) fn next(&self) -> &[u8] {
        match self.blocks.front() {
            Some((behind, block)) if *behind == self.written => &block[self.of_first..],
            Some((behind, _)) => &self.bytes[self.written..*behind],
            None => &self.bytes[self.written..],
        }
    }

    /// Bytes of all that is to be written.
    pub(crate) fn unwritten(&self) -> usize {
        self.bytes.len() - self.written + self.in_blocks - self.of_first
    }

    /// So many bytes of it are written. An idle connection keeps no memory for the busy time that it had.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        match self.blocks.front().filter(|(behind, _)| *behind == self.written).map(|(_, block)| block.len()) {
            Some(length) => {
                self.of_first += bytes;
                if self.of_first == length {
                    self.of_first = 0;
                    self.in_blocks -= length;
                    self.blocks.pop_front();
                }
            }
            None => self.written += bytes,
        }
        if self.is_empty() {
            self.written = 0;
            self.bytes.clear();
            self.bytes.shrink_to(SMALL);
        }
    }

    /// What is written makes room for what is not, where that is the smaller part.
    pub(crate) fn compact(&mut self) {
        if self.written > self.bytes.len() / 2 {
            self.bytes.drain(..self.written);
            self.blocks.iter_mut().for_each(|(behind, _)| *behind -= self.written);
            self.written = 0;
        }
    }

    /// All that is to be written.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.total());
        while !self.is_empty() {
            let next = self.next();
            let bytes = next.len();
            all.extend_from_slice(next);
            self.wrote(bytes);
        }
        all
    }
}

impl Sink for Frames {
    fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    fn total(&self) -> usize {
        self.bytes.len() + self.in_blocks
    }

    fn put_block(&mut self, block: &Bytes) {
        if block.len() < LARGE {
            return self.bytes.extend_from_slice(block);
        }
        self.blocks.push_back((self.bytes.len(), block.clone()));
        self.in_blocks += block.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small and large blocks, written in parts of every kind: the bytes are those of a plain buffer.
    #[test]
    fn what_is_written_is_what_was_put() {
        let (mut plain, mut frames) = (Vec::new(), Frames::default());
        let (mut written, mut moved_beside_blocks) = (Vec::new(), 0);
        for round in 0..40 {
            for size in [1, LARGE - 1, LARGE, LARGE + round] {
                let block = Bytes::from(vec![round as u8; size]);
                for sink in [&mut plain as &mut dyn Sink, &mut frames] {
                    sink.bytes().extend_from_slice(&[size as u8; 3]);
                    sink.put_block(&block);
                }
            }
            for most in [1, 2, 5000, LARGE, LARGE, LARGE * (round % 3)] {
                let next = frames.next();
                let part = next.len().min(most);
                written.extend_from_slice(&next[..part]);
                frames.wrote(part);
                let before = frames.written;
                frames.compact();
                moved_beside_blocks += usize::from(frames.written < before && !frames.blocks.is_empty());
                assert_eq!(frames.unwritten(), plain.len() - written.len());
                assert!(frames.total() >= frames.unwritten());
            }
        }
        assert!(!frames.is_empty() && written.len() > 10 * LARGE && moved_beside_blocks > 5);
        written.extend(frames.take());
        assert!(written == plain && frames.is_empty() && frames.total() == 0);
    }
}
