//! The words of a routing key, and whether it fits a pattern.
//!
//! A pattern is gone through once, with the set of all places in the key that what has been gone through may end at. So each of
//! its words is looked up once, however many `#` there are: no way is tried that is given up, whatever the two say.

use alloc::vec::Vec;

use millpond_types::RoutingKey;
use millpond_types::limits::ROUTING_WORDS_MAX;

/// Places between the words of a key: bit `n` is the one behind `n` of them.
type Places = u128;

const _: () = assert!(ROUTING_WORDS_MAX < Places::BITS as usize, "there is one place more than words");

/// Bytes of a word that are compared as one number.
const HEAD: usize = 8;

/// The words of the key of a message.
#[derive(Default)]
pub(super) struct Words<'a> {
    /// Each once, in order.
    words: Vec<Word<'a>>,
    count: usize,
}

/// In the order of [`Word::sign`], and then of what it says.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Word<'a> {
    sign: (u64, usize),
    word: &'a [u8],
    /// The places that it stands behind.
    places: Places,
}

impl<'a> Words<'a> {
    pub(super) fn of(key: &'a RoutingKey) -> Words<'a> {
        let mut words: Vec<Word<'_>> =
            split(key).enumerate().map(|(at, word)| Word { sign: sign(word), word, places: 1 << at }).collect();
        let count = words.len();
        words.sort_unstable();
        words.dedup_by(|next, first| {
            let is_same = next.word == first.word;
            first.places |= if is_same { next.places } else { 0 };
            is_same
        });
        Words { words, count }
    }

    /// How many the key has.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Steps that it takes to find a word.
    pub(super) fn depth(&self) -> usize {
        1 + (usize::BITS - self.words.len().leading_zeros()) as usize
    }

    /// Whether they fit a pattern, in which `*` is one word and `#` any number of them; counts the words that are looked at.
    pub(super) fn fit(&self, pattern: &RoutingKey, looked_at: &mut usize) -> bool {
        let end: Places = 1 << self.count;
        let within = end | (end - 1);
        let mut reached: Places = 1;
        for word in split(pattern) {
            *looked_at += 1;
            reached = match word {
                b"#" => within & (Places::MAX << reached.trailing_zeros()),
                b"*" => within & (reached << 1),
                word => (reached & self.places_of(word)) << 1,
            };
            if reached == 0 {
                return false;
            }
        }
        reached & end != 0
    }

    fn places_of(&self, word: &[u8]) -> Places {
        let sign = sign(word);
        let alike = &self.words[self.words.partition_point(|other| other.sign < sign)..];
        if word.len() <= HEAD {
            return alike.first().filter(|first| first.sign == sign).map_or(0, |first| first.places);
        }
        let found = alike.binary_search_by(|other| (other.sign, other.word).cmp(&(sign, word)));
        found.map_or(0, |at| alike[at].places)
    }
}

/// The words between the dots; an empty key has none.
fn split(key: &RoutingKey) -> impl Iterator<Item = &[u8]> {
    let words = Some(key.as_bytes()).filter(|key| !key.is_empty());
    words.into_iter().flat_map(|key| key.split(|byte| *byte == b'.'))
}

/// The first bytes of a word, and how many it has: of a short one that is all there is to compare, and of most others.
fn sign(word: &[u8]) -> (u64, usize) {
    let head = match word.first_chunk::<HEAD>() {
        Some(head) => u64::from_be_bytes(*head),
        None => word.iter().fold(0, |head, byte| head << 8 | u64::from(*byte)),
    };
    (head, word.len())
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;
    use proptest::prelude::*;

    fn key(text: &str) -> RoutingKey {
        RoutingKey::try_from(text).unwrap()
    }

    fn takes(pattern: &str, text: &str) -> bool {
        Words::of(&key(text)).fit(&key(pattern), &mut 0)
    }

    /// As it is said.
    fn fits_naively(pattern: &[&str], words: &[&str]) -> bool {
        match pattern {
            [] => words.is_empty(),
            ["#", rest @ ..] => (0..=words.len()).any(|from| fits_naively(rest, &words[from..])),
            [word, rest @ ..] => {
                words.first().is_some_and(|first| *word == "*" || word == first) && fits_naively(rest, &words[1..])
            }
        }
    }

    #[test]
    fn patterns() {
        for text in ["", "a", "a.b", "a..b"] {
            assert!(takes("#", text), "{text}");
        }
        assert!(takes("*.b", "a.b") && !takes("*.b", "b") && !takes("*.b", "a.a.b") && !takes("*", ""));
        assert!(takes("a.#", "a") && takes("a.#", "a.b.c") && !takes("a.#", "b.a") && takes("#.c", "a.b.c"));
        assert!(takes("a.#.z", "a.z") && takes("a.#.z", "a.b.z.z") && !takes("a.#.z", "a.z.b"));
        assert!(takes("*.#.*", "a.b") && !takes("*.#.*", "a") && takes("", "") && !takes("", "a"));
    }

    #[test]
    fn as_many_words_as_a_key_may_have_are_told_apart() {
        let all: Vec<String> = (0..ROUTING_WORDS_MAX).map(|at| alloc::format!("{at:x}")).collect();
        let text = all.join(".");
        assert!(takes(&text, &text) && takes("#", &text) && takes(&["*"; ROUTING_WORDS_MAX].join("."), &text));
        assert!(takes("#.3f", &text) && !takes("#.3e", &text) && !takes("#.40", &text) && takes("0.#.3e.*", &text));
        // Longer than what is compared first.
        let long = "prefixed-1.prefixed-2.prefixed-2.prefixed.prefixe";
        assert!(takes("#.prefixed-2.prefixed.#", long) && takes("*.#.prefixe", long) && takes(long, long));
        assert!(!takes("#.prefixed-3.#", long) && !takes("#.prefixed-.#", long) && !takes("#.prefix.#", long));
    }

    #[test]
    fn each_word_of_a_pattern_is_looked_at_once() {
        let text = ["a"; ROUTING_WORDS_MAX].join(".");
        let hashes = ["#.a"; ROUTING_WORDS_MAX / 2].join(".") + "b";
        let late = ["#"].iter().chain(&["a"; 31]).chain(&["b1"]).copied().collect::<Vec<_>>().join(".");
        for pattern in [&hashes, &late] {
            let mut looked_at = 0;
            assert!(!Words::of(&key(&text)).fit(&key(pattern), &mut looked_at));
            assert_eq!(looked_at, pattern.split('.').count(), "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn a_pattern_takes_what_it_says(pattern in "([ab*#]?\\.){0,6}[ab*#]?", text in "([ab]?\\.){0,6}[ab]?") {
            let (pattern, text) = (key(&pattern), key(&text));
            let words: Vec<&str> = text.words().collect();
            let naively = fits_naively(&pattern.words().collect::<Vec<_>>(), &words);
            prop_assert_eq!(takes(pattern.as_str(), text.as_str()), naively, "{} {}", pattern, text);
        }

        /// Words that begin alike, longer than what is compared first, and keys with the signs of patterns.
        #[test]
        fn a_pattern_of_long_words_takes_what_it_says(
            pattern in "((wordword[ab]?|w[ab]|[*#])\\.){0,5}(wordword[abc]|#)",
            text in "((wordword[ab]?|w[ab]|[*#])\\.){0,7}wordword[ab]",
        ) {
            let (pattern, text) = (key(&pattern), key(&text));
            let words: Vec<&str> = text.words().collect();
            let naively = fits_naively(&pattern.words().collect::<Vec<_>>(), &words);
            prop_assert_eq!(takes(pattern.as_str(), text.as_str()), naively, "{} {}", pattern, text);
        }
    }
}
