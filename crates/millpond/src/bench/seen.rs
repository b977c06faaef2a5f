//! Which messages of a run have arrived: a bit for each, so that one that is missing or came twice is told.

use std::ops::Range;

use super::producer::INDEX_BITS;

/// A set of message numbers.
#[derive(Default)]
pub struct Seen {
    /// A bitmap for each producer.
    producers: Vec<Vec<u64>>,
    twice: u64,
}

impl Seen {
    /// Notes a message.
    pub fn insert(&mut self, number: u64) {
        let (producer, index) = ((number >> INDEX_BITS) as usize, number & ((1 << INDEX_BITS) - 1));
        if self.producers.len() <= producer {
            self.producers.resize_with(producer + 1, Vec::new);
        }
        let words = &mut self.producers[producer];
        let (word, bit) = ((index / 64) as usize, 1 << (index % 64));
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        self.twice += u64::from(words[word] & bit != 0);
        words[word] |= bit;
    }

    /// Adds what another consumer has seen.
    pub fn merge(&mut self, other: Seen) {
        self.twice += other.twice;
        if self.producers.len() < other.producers.len() {
            self.producers.resize_with(other.producers.len(), Vec::new);
        }
        for (mine, theirs) in self.producers.iter_mut().zip(other.producers) {
            if mine.len() < theirs.len() {
                mine.resize(theirs.len(), 0);
            }
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                self.twice += u64::from((*mine & theirs).count_ones());
                *mine |= theirs;
            }
        }
    }

    /// How many came more than once.
    pub fn twice(&self) -> u64 {
        self.twice
    }

    /// How many of a producer's messages are missing.
    pub fn missing(&self, producer: usize, sent: Range<u64>) -> u64 {
        let words = self.producers.get(producer).map_or(&[][..], Vec::as_slice);
        let is_there = |index: u64| words.get((index / 64) as usize).is_some_and(|word| word >> (index % 64) & 1 == 1);
        sent.filter(|index| !is_there(*index)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_and_the_doubled_are_counted() {
        let number = |producer: u64, index: u64| producer << INDEX_BITS | index;
        let (mut one, mut two) = (Seen::default(), Seen::default());
        [number(0, 0), number(0, 70), number(1, 3), number(1, 3)].into_iter().for_each(|n| one.insert(n));
        [number(0, 1), number(0, 70), number(2, 0)].into_iter().for_each(|n| two.insert(n));
        one.merge(two);
        assert_eq!(one.twice(), 2);
        assert_eq!(one.missing(0, 0..71), 68);
        assert_eq!(one.missing(2, 0..1), 0);
        assert_eq!(one.missing(3, 0..5), 5);
    }
}
