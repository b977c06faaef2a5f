//! The two faces of one file.

use std::collections::BTreeSet;

use super::seed::Seed;

/// What a power cut did to writes beside losing, keeping and tearing them.
#[derive(Clone, Copy, Default, Debug)]
pub struct Wreck {
    /// How many sectors have what was to go into another one.
    pub misdirected: u64,
    /// How many have a bit flipped.
    pub flipped: u64,
}

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
    pub(super) fn crash(&mut self, sector: usize, seed: &mut Seed) -> Wreck {
        let written = std::mem::take(&mut self.written);
        let mut survived = std::mem::take(&mut self.durable);
        if survived.len() != written.len() && seed.below(2) == 1 {
            survived.resize(written.len(), 0);
        }
        let end = written.len().min(survived.len());
        let bytes_of = |index: usize| &written[(index * sector).min(end)..((index + 1) * sector).min(end)];
        let dirty: Vec<usize> = std::mem::take(&mut self.dirty).into_iter().collect();
        let mut wreck = Wreck::default();
        for index in &dirty {
            let bytes = bytes_of(*index);
            if bytes.is_empty() {
                continue;
            }
            let mut arrived = bytes.to_vec();
            match seed.below(16) {
                0..=3 => continue,
                4..=11 => {}
                12 | 13 => arrived.truncate(seed.below(bytes.len() as u64) as usize),
                14 => {
                    arrived = bytes_of(dirty[seed.below(dirty.len() as u64) as usize]).to_vec();
                    wreck.misdirected += u64::from(arrived != bytes);
                }
                _ => {
                    arrived[seed.below(bytes.len() as u64) as usize] ^= 1 << seed.below(8);
                    wreck.flipped += 1;
                }
            }
            // What was synced stays, also where it shares a sector with what was not.
            let places = survived[index * sector..].iter_mut().zip(bytes);
            let unsynced = places.zip(arrived).filter(|((place, byte), _)| *place != *byte);
            unsynced.for_each(|((place, _), arrived)| *place = arrived);
        }
        self.written = survived.clone();
        self.durable = survived;
        wreck
    }
}
