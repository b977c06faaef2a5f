//! Randomness, all of it from one seed.
//!
//! Each concern draws from a stream of its own, so that a change in what one of them draws (one more client verb, say)
//! leaves the others' draws as they were, and a seed stays near to the life that it told before.

use millpond_storage::twin::Seed;

/// A stream of random numbers.
pub struct Stream(Seed);

/// The streams of a life.
pub struct Streams {
    /// What kind of life it is.
    pub plan: Stream,
    /// What the clients do.
    pub load: Stream,
    /// What the candidates of an exclusive group do.
    pub offices: Stream,
    /// What the subscribers of several groups do.
    pub groups: Stream,
    /// Who is next: a turn, the disk, the housekeeper.
    pub schedule: Stream,
    /// What the network does to bytes.
    pub network: Stream,
    /// How time passes.
    pub time: Stream,
    /// When the process or the power goes.
    pub crashes: Stream,
    /// What the disk does of itself: faults, fullness, what it keeps of unsynced writes.
    pub disk: Stream,
}

impl Streams {
    /// All of a seed.
    pub fn new(seed: u64) -> Streams {
        let stream = |name| Stream::new(seed, name);
        Streams {
            plan: stream("plan"),
            load: stream("load"),
            offices: stream("offices"),
            groups: stream("groups"),
            schedule: stream("schedule"),
            network: stream("network"),
            time: stream("time"),
            crashes: stream("crashes"),
            disk: stream("disk"),
        }
    }
}

impl Stream {
    fn new(seed: u64, name: &str) -> Stream {
        // The name is folded in by drawing once per byte: streams of one seed, and of neighbours, share nothing.
        let start = name.bytes().fold(seed, |state, byte| Seed::new(state ^ u64::from(byte)).draw());
        Stream(Seed::new(start))
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0.draw()
    }

    /// 0..`end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0.below(end)
    }

    /// `from..=to`.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// True once in `n` draws.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// One of these words.
    pub fn word(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len() as u64) as usize]
    }

    /// An index, as often as its weight says.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut draw = self.below(weights.iter().sum());
        let hit = weights.iter().position(|weight| {
            let hit = draw < *weight;
            draw = draw.saturating_sub(*weight);
            hit
        });
        hit.expect("the weights have a sum")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_a_seed_and_of_its_neighbour_differ() {
        let mut of = Streams::new(1);
        let mut beside = Streams::new(2);
        let draws = [of.load.draw(), of.disk.draw(), of.time.draw(), beside.load.draw()];
        let mut distinct = draws.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), draws.len());
        assert_eq!(Streams::new(1).load.draw(), draws[0]);
    }

    #[test]
    fn weights_are_kept_to() {
        let mut stream = Streams::new(3).load;
        let mut seen = [0; 3];
        (0..1000).for_each(|_| seen[stream.weighted(&[1, 0, 9])] += 1);
        assert!(seen[0] > 50 && seen[1] == 0 && seen[2] > 800, "{seen:?}");
    }
}
