//! In which order topics are published to. A random order is a permutation that is computed and not stored, so that it
//! costs no memory however many topics there are.

use clap::ValueEnum;

/// The order of publishing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Order {
    /// In the order of the topics' names, which is the kindest one to whatever keeps them sorted.
    Sequential,
    /// In no order: neighbours in time are strangers by name.
    Random,
}

/// Rounds of the permutation: four mix well, and nobody attacks a load generator.
const ROUNDS: u64 = 4;

impl Order {
    /// The topic of the run numbered `run` of all. Every topic has its turn before one has a second.
    pub fn topic(self, run: u64, topics: u32) -> u32 {
        let (lap, place) = (run / u64::from(topics), (run % u64::from(topics)) as u32);
        match self {
            Order::Sequential => place,
            Order::Random => shuffled(place, topics, lap),
        }
    }
}

/// Where `place` stands in a permutation of `0..topics`, another one for each lap: a Feistel network over the next even
/// number of bits, walked on until it comes back into the range.
fn shuffled(place: u32, topics: u32, lap: u64) -> u32 {
    // At most 32 bits for 2^32 places, so that a half fits into 16; at least one bit a half.
    let half = (32 - (topics - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u32 << half) - 1;
    let mut value = place;
    loop {
        let (mut left, mut right) = (value >> half, value & mask);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ (mix(lap * ROUNDS + round, right) & mask));
        }
        value = left << half | right;
        if value < topics {
            return value;
        }
    }
}

/// A number that looks like chance and follows from two: the finish of SplitMix64.
fn mix(key: u64, value: u32) -> u32 {
    let mut mixed = (key << 32 | u64::from(value)).wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    (mixed ^ mixed >> 31) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_topic_has_its_turn_in_each_lap() {
        for topics in [1, 2, 3, 10, 1000, 4097] {
            for order in [Order::Sequential, Order::Random] {
                for lap in 0..2 {
                    let run = |place| lap * u64::from(topics) + u64::from(place);
                    let mut seen: Vec<u32> = (0..topics).map(|place| order.topic(run(place), topics)).collect();
                    seen.sort_unstable();
                    assert!(seen.into_iter().eq(0..topics), "{order:?} of {topics}");
                }
            }
        }
    }

    #[test]
    fn a_random_order_has_no_neighbours_and_other_laps() {
        const TOPICS: u32 = 100_000;
        let near = |run| {
            let (one, two) = (Order::Random.topic(run, TOPICS), Order::Random.topic(run + 1, TOPICS));
            u64::from(one.abs_diff(two) < TOPICS / 100)
        };
        assert!((0..1000).map(near).sum::<u64>() < 50);
        let again = |run| Order::Random.topic(run, TOPICS) == Order::Random.topic(run + u64::from(TOPICS), TOPICS);
        assert!((0..1000).filter(|run| again(*run)).count() < 10);
    }
}
