//! What a power cut took: the files as they were written, held against what is there of them. What a disk did beside that, it
//! tells by itself.
//!
//! A sector that had nothing but zeros, or that had been something else before, tells nothing.

use std::collections::BTreeMap;

use crate::sights::Sights;

/// What became of a sector.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sector {
    Kept,
    /// Nothing of it is there.
    Lost,
    /// A part of it is there.
    Torn,
    Unknown,
}

/// Counts what is gone. `written` is what was there before.
pub fn count(
    written: &BTreeMap<String, Vec<u8>>,
    left: &BTreeMap<String, Vec<u8>>,
    sector: usize,
    sights: &mut Sights,
) {
    for (name, written) in written {
        let Some(left) = left.get(name) else {
            sights.saw("names that a power cut took");
            continue;
        };
        let mut has_gap = false;
        for (at, written) in written.chunks(sector).enumerate() {
            let left = left.get(at * sector..).unwrap_or_default();
            let is = sector_of(written, &left[..left.len().min(written.len())]);
            match is {
                Sector::Kept => sights.saw_many("sectors kept behind lost ones", u64::from(has_gap)),
                Sector::Lost => sights.saw("sectors lost"),
                Sector::Torn => sights.saw("sectors torn"),
                Sector::Unknown => continue,
            }
            has_gap |= is != Sector::Kept;
        }
    }
}

fn sector_of(written: &[u8], left: &[u8]) -> Sector {
    let left = left.iter().chain(std::iter::repeat(&0));
    let (mut kept, mut lost) = (false, false);
    for (written, left) in written.iter().zip(left).filter(|(written, _)| **written != 0) {
        match left {
            left if left == written => kept = true,
            0 => lost = true,
            _ => return Sector::Unknown,
        }
    }
    match (kept, lost) {
        (true, false) => Sector::Kept,
        (false, true) => Sector::Lost,
        (true, true) => Sector::Torn,
        (false, false) => Sector::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_power_cut_took_is_told_by_what_is_left() {
        let disk = |files: &[(&str, &[u8])]| -> BTreeMap<String, Vec<u8>> {
            files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect()
        };
        let written = disk(&[("a", &[1, 1, 2, 2, 3, 3, 0, 0, 4]), ("b", &[5])]);
        let left = disk(&[("a", &[1, 1, 2, 0, 0, 0, 0, 0, 4])]);
        let mut sights = Sights::default();
        count(&written, &left, 2, &mut sights);
        let seen = ["names that a power cut took", "sectors torn", "sectors lost", "sectors kept behind lost ones"];
        assert_eq!(seen.map(|what| sights.of(what)), [1; 4]);
        count(&written, &disk(&[("a", &[9, 1, 2, 2, 3, 3]), ("b", &[5])]), 2, &mut sights);
        assert_eq!(seen.map(|what| sights.of(what)), [1, 1, 2, 1], "the first sector had been something else before");
    }
}
