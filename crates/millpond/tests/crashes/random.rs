//! What is drawn, from `MILLPOND_TEST_SEED` or the time; the seed is printed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn from_environment() -> Random {
        let given = std::env::var("MILLPOND_TEST_SEED").ok();
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_nanos() as u64;
        let seed = given.map_or_else(now, |text| text.parse().expect("MILLPOND_TEST_SEED is a number"));
        eprintln!("drawn by MILLPOND_TEST_SEED={seed}");
        Random(seed)
    }

    pub fn new(seed: u64) -> Random {
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

    pub fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    /// Sleeps for so many milliseconds.
    pub fn pause(&mut self, least: u64, most: u64) {
        std::thread::sleep(Duration::from_millis(least + self.below(most - least + 1)));
    }
}
