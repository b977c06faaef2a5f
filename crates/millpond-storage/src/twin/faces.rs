//! The two faces of one file.

use std::collections::BTreeSet;

use super::seed::Seed;

/// A file as it is read, and as it would be after a power cut.
#[derive(Default)]
pub(super) struct Faces {
    pub(super) written: Vec<u8>,
    durable: Vec<u8>,
    /// The sectors in which the two may differ.
    dirty: BTreeSet<usize>,
}

impl Faces {
    pub(super) fn durable(bytes: Vec<u8>) -> Faces {
        Faces { written: bytes.clone(), durable: bytes, dirty: BTreeSet::new() }
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8], sector: usize) {
        let end = offset + bytes.len();
        if self.written.len() < end {
            self.written.resize(end, 0);
        }
        self.written[offset..end].copy_from_slice(bytes);
        if !bytes.is_empty() {
            self.dirty.extend(offset / sector..=(end - 1) / sector);
        }
    }

    pub(super) fn set_length(&mut self, length: usize, sector: usize) {
        // What is cut off and grown again is zeros now, and was something else.
        if length < self.written.len() {
            self.dirty.extend(length / sector..=self.written.len() / sector);
        }
        self.written.resize(length, 0);
    }

    pub(super) fn sync(&mut self, sector: usize) {
        let length = self.written.len();
        self.durable.resize(length, 0);
        // A length is no page: it becomes durable with the next sync that does not fail.
        for index in std::mem::take(&mut self.dirty) {
            let (from, to) = ((index * sector).min(length), ((index + 1) * sector).min(length));
            self.durable[from..to].copy_from_slice(&self.written[from..to]);
        }
    }

    /// What is not durable yet will not be, unless it is written again.
    pub(super) fn forget(&mut self) {
        self.dirty.clear();
    }

    pub(super) fn flip(&mut self, offset: usize, mask: u8) {
        self.written[offset] ^= mask;
        if let Some(byte) = self.durable.get_mut(offset) {
            *byte ^= mask;
        }
    }

    /// Keeps what was synced, and of the rest what the seed leaves.
    pub(super) fn crash(&mut self, sector: usize, seed: &mut Seed) {
        let written = std::mem::take(&mut self.written);
        let mut survived = std::mem::take(&mut self.durable);
        if survived.len() != written.len() && seed.below(2) == 1 {
            survived.resize(written.len(), 0);
        }
        for index in std::mem::take(&mut self.dirty) {
            let from = index * sector;
            let to = (from + sector).min(written.len()).min(survived.len());
            if from >= to {
                continue;
            }
            let kept = match seed.below(4) {
                0 => 0,
                1 | 2 => to - from,
                _ => seed.below((to - from) as u64) as usize,
            };
            survived[from..from + kept].copy_from_slice(&written[from..from + kept]);
        }
        self.written = survived.clone();
        self.durable = survived;
    }
}
