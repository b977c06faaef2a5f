//! Mutations without guidance: what a plain test does to the inputs of a corpus.
//!
//! The same seed and corpus give the same mutations. They are those of any fuzzer: bits, bytes, numbers that are often a
//! border, pieces moved, left out, doubled, and taken from another input.

/// Numbers that limits and lengths break at.
const BORDERS: [u64; 12] =
    [0, 1, 9, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];

/// An input grows up to here.
const LENGTH_MAX: usize = 16 * 1024;

/// A source of mutations.
pub struct Mutator(u64);

impl Mutator {
    /// From a seed.
    pub fn new(seed: u64) -> Mutator {
        Mutator(seed)
    }

    /// An input that comes of one of a corpus.
    pub fn input(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut input = self.pick(corpus).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            let other = self.pick(corpus).map(Vec::as_slice).unwrap_or_default();
            self.mutate(&mut input, other);
        }
        input.truncate(LENGTH_MAX);
        input
    }

    fn mutate(&mut self, input: &mut Vec<u8>, other: &[u8]) {
        let at = self.below(input.len() + 1);
        let length = self.below(17).min(input.len() - at);
        match self.below(8) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = self.draw() as u8,
            2 => self.number(&mut input[at..]),
            3 => _ = input.drain(at..at + length),
            4 => {
                let piece = input[at..at + length].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, piece);
            }
            5 => {
                let from = self.below(other.len() + 1);
                let piece = &other[from..(from + self.below(65)).min(other.len())];
                input.splice(at..at + length, piece.iter().copied());
            }
            6 => input.truncate(at),
            _ => {
                let drawn: Vec<u8> = (0..self.below(9)).map(|_| self.draw() as u8).collect();
                input.splice(at..at, drawn);
            }
        }
    }

    /// A number that is often a border, of one to eight bytes.
    fn number(&mut self, place: &mut [u8]) {
        let width = (1 << self.below(4)).min(place.len());
        let border = BORDERS[self.below(BORDERS.len())].wrapping_add(self.below(3) as u64).wrapping_sub(1);
        place[..width].copy_from_slice(&border.to_le_bytes()[..width]);
    }

    fn pick<'a>(&mut self, corpus: &'a [Vec<u8>]) -> Option<&'a Vec<u8>> {
        corpus.get(self.below(corpus.len()))
    }

    fn below(&mut self, end: usize) -> usize {
        (self.draw() % end.max(1) as u64) as usize
    }

    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
