//! Numbers drawn from a seed, the same each time.

/// A SplitMix64 generator: small, and good enough to choose faults.
#[derive(Clone, Debug)]
pub struct Seed(u64);

impl Seed {
    /// Each seed is a sequence of its own.
    pub fn new(seed: u64) -> Seed {
        Seed(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The next number, reduced to 0..`end`.
    pub fn below(&mut self, end: u64) -> u64 {
        assert!(end > 0, "there is a number to choose");
        self.draw() % end
    }
}
