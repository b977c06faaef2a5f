//! What happens to a crawl in the middle of it, and when: drawn from a seed, so that a run can be repeated.

/// Something that happens.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    KillCrawler,
    KillBroker,
    KillBoth,
    /// A crawler stands still until the last blow has fallen: it may have lost its leases then.
    Hold,
}

/// The blows in their order; when each falls, and on which crawler, is drawn.
pub const BLOWS: [Blow; 7] = [
    Blow::KillCrawler,
    Blow::KillBroker,
    Blow::KillCrawler,
    Blow::Hold,
    Blow::KillCrawler,
    Blow::KillBoth,
    Blow::KillBroker,
];

/// SplitMix64, from `MILLPOND_TEST_SEED` or a number of its own, which is printed.
pub struct Random(u64);

impl Random {
    pub fn new() -> Random {
        let given = std::env::var("MILLPOND_TEST_SEED").ok();
        let seed = given.map_or(20_261_121, |text| text.parse().expect("MILLPOND_TEST_SEED is a number"));
        eprintln!("kills by MILLPOND_TEST_SEED={seed}");
        Random(seed)
    }

    /// A number below the limit.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }
}
