//! What is done to files: samples of bytes and lengths and every sector, or all of it where `WOUNDS=all` is in the environment.

use std::ops::Range;

use super::{BATCH_HEADER, Batch, Files, SEGMENT_HEADER, Whole};
use crate::journal::segment::END_AT;
use crate::twin::{SMALL_SECTOR, Seed};

/// What is done to files.
type Blow = Box<dyn Fn(&mut Files) + Send>;
/// What is done to one of them.
type FileBlow = Box<dyn Fn(&mut Vec<u8>) + Send>;

/// Bytes of a segment's header that say something, and behind them those of its end.
pub const SEGMENT_FIELDS: usize = 56;
const END_FIELDS: Range<usize> = END_AT as usize..END_AT as usize + 12;

/// What was done to it.
pub struct Wound<'a> {
    pub what: String,
    pub file: &'a str,
    pub files: Files,
}

/// Where a file is wounded, but for its sectors: these all are.
pub struct Regions {
    /// A bit of each of these bytes is flipped, or each of its bits.
    pub bytes: Vec<usize>,
    /// The file is cut to so many bytes.
    pub cuts: Vec<usize>,
}

/// Whether everything is wounded in every way.
pub fn is_every_bit() -> bool {
    std::env::var_os("WOUNDS").is_some_and(|which| which == "all")
}

/// All that is done to files, one after the other, each on its own, and to each file in its regions.
pub fn wounds<'a>(
    files: &'a Files,
    seed: &mut Seed,
    regions: &dyn Fn(&str, &[u8]) -> Regions,
) -> impl Iterator<Item = Wound<'a>> + use<'a> {
    let mut plans: Vec<(String, &str, Blow)> = Vec::new();
    let mut plan = |what: String, file: &'a str, how: Blow| {
        plans.push((what, file, how));
    };
    for (name, bytes) in files {
        let in_file = |how: FileBlow| {
            let name = name.clone();
            Box::new(move |files: &mut Files| how(files.get_mut(&name).unwrap())) as Blow
        };
        let Regions { bytes: matter, cuts } = regions(name, bytes);
        for at in matter {
            let bit = seed.below(8) as u8;
            for bit in if is_every_bit() { 0..8 } else { bit..bit + 1 } {
                plan(
                    format!("bit {bit} of byte {at} flipped"),
                    name,
                    in_file(Box::new(move |bytes| bytes[at] ^= 1 << bit)),
                );
            }
        }
        for at in cuts {
            plan(format!("cut to {at} bytes"), name, in_file(Box::new(move |bytes| bytes.truncate(at))));
        }
        let removed = name.clone();
        plan("removed".into(), name, Box::new(move |files| _ = files.remove(&removed)));
        for at in (0..bytes.len()).step_by(SMALL_SECTOR) {
            let to = (at + SMALL_SECTOR).min(bytes.len());
            for value in [0, 0xff] {
                plan(
                    format!("{at}..{to} filled with {value}"),
                    name,
                    in_file(Box::new(move |bytes| bytes[at..to].fill(value))),
                );
            }
            if to + SMALL_SECTOR <= bytes.len() {
                let misdirected = Box::new(move |bytes: &mut Vec<u8>| bytes.copy_within(to..to + SMALL_SECTOR, at));
                plan(format!("{to}.. written over {at}"), name, in_file(misdirected));
                let exchanged =
                    Box::new(move |bytes: &mut Vec<u8>| bytes[at..to + SMALL_SECTOR].rotate_left(SMALL_SECTOR));
                plan(format!("{to}.. and {at} in each other's place"), name, in_file(exchanged));
            }
            for (other, contents) in files.iter().filter(|(other, _)| *other != name) {
                let Some(sector) = contents.get(at..to).map(<[u8]>::to_vec) else { continue };
                let strange = Box::new(move |bytes: &mut Vec<u8>| bytes[at..to].copy_from_slice(&sector));
                plan(format!("{at}..{to} written as in {other}"), name, in_file(strange));
            }
        }
        for other in files.keys().filter(|other| *other != name) {
            let contents = files[other].clone();
            plan(
                format!("with the contents of {other}"),
                name,
                in_file(Box::new(move |bytes| bytes.clone_from(&contents))),
            );
        }
    }
    plans.into_iter().filter_map(move |(what, file, how)| {
        let mut wounded = files.clone();
        how(&mut wounded);
        (wounded != *files).then_some(Wound { what, file, files: wounded })
    })
}

impl Whole {
    /// What is done to the whole directory.
    pub fn wounds<'a>(&'a self, seed: &mut Seed) -> impl Iterator<Item = Wound<'a>> + use<'a> {
        wounds(&self.files, seed, &|name, bytes| Regions {
            bytes: self.bytes_that_matter(name, bytes, is_every_bit()),
            cuts: self.cuts(name, bytes),
        })
    }

    /// All fields of headers, and samples of what is between them; or all bytes.
    fn bytes_that_matter(&self, name: &str, bytes: &[u8], all: bool) -> Vec<usize> {
        if all || !name.ends_with(".journal") {
            return (0..bytes.len()).collect();
        }
        let mut matter: Vec<usize> = (0..SEGMENT_FIELDS).chain(END_FIELDS).collect();
        let of_file: Vec<&Batch> = self.batches.values().filter(|batch| batch.file == name).collect();
        for (index, batch) in of_file.iter().enumerate() {
            // The headers of the first, of one in the middle and of the last two, and of all the same fields.
            let whole = index == 0 || index == of_file.len() / 2 || index + 2 >= of_file.len();
            if !whole && index % 3 > 0 {
                continue;
            }
            matter.extend((0..BATCH_HEADER).filter(|at| whole || at % 8 == 0).map(|at| batch.offset + at));
            let payload = batch.offset + BATCH_HEADER..batch.offset + batch.bytes;
            matter.extend(payload.clone().take(3).chain(payload.clone().rev().take(9)));
            matter.extend(payload.step_by(241));
        }
        matter.sort_unstable();
        matter.dedup();
        matter
    }

    fn cuts(&self, name: &str, bytes: &[u8]) -> Vec<usize> {
        let mut cuts = vec![0, 1, bytes.len() / 2, bytes.len() - 1];
        if !name.ends_with(".journal") {
            cuts.extend(0..bytes.len());
        } else {
            cuts.extend([SEGMENT_FIELDS - 1, SEGMENT_FIELDS, SEGMENT_HEADER - 1, SEGMENT_HEADER]);
            cuts.extend([END_FIELDS.start, END_FIELDS.start + 1, END_FIELDS.end - 1, END_FIELDS.end]);
            for batch in self.batches.values().filter(|batch| batch.file == name) {
                let of_batch =
                    [0, 1, BATCH_HEADER - 1, BATCH_HEADER, BATCH_HEADER + 1, batch.bytes / 2, batch.bytes - 1];
                cuts.extend(of_batch.map(|at| batch.offset + at));
            }
        }
        cuts.sort_unstable();
        cuts.dedup();
        cuts
    }
}
