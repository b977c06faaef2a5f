//! Which bindings of an exchange take a message: all of them are asked, at once or in parts.

use alloc::vec;
use alloc::vec::Vec;

use millpond_types::{Condition, ExchangeKind};

use super::headers::Headers;
use super::words::Words;
use super::{BITS, Exchange, TAKEN};
use crate::command::{Copies, Route};

/// How far a message was held against the bindings of an exchange.
#[derive(Debug)]
pub struct Finding {
    version: u64,
    /// Which take it, a bit each.
    taken: Vec<u64>,
    /// How many it was held against.
    at: usize,
    steps: usize,
}

impl Finding {
    /// The version of the exchange.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// How many steps that took, as in [`Route::steps`].
    pub fn steps(&self) -> usize {
        self.steps
    }
}

/// A part has so many times the steps that it takes to put in order what is asked of the message, or more: each does that anew.
const PART: usize = 4;
/// Steps of that, with which all is done at once: some forty headers. What is done again in each part would be no small part of it.
const ORDERING_MAX: usize = 1024;

impl Exchange {
    /// A message that was held against nothing.
    pub fn begin(&self) -> Finding {
        Finding { version: self.version, taken: vec![0; self.bindings.len().div_ceil(BITS)], at: 0, steps: 0 }
    }

    /// Holds a message against further bindings, until that took so many steps; whether it was held against all. Each part puts in
    /// order anew what is asked of the message: the longer that takes, the longer a part is, or it is the only one.
    pub fn hold(&self, finding: &mut Finding, route: &Route, hash_key: [u64; 2], most: usize) -> bool {
        assert_eq!(finding.version, self.version, "its bindings are others");
        let (by_words, by_headers) = (self.kind == ExchangeKind::Topic, self.kind == ExchangeKind::Headers);
        let words = if by_words { Words::of(&route.key) } else { Words::default() };
        let headers = if by_headers { Headers::of(&route.message.block, hash_key) } else { Headers::default() };
        let ordering = words.count() * words.depth() + headers.count() * headers.depth();
        let most = if ordering > ORDERING_MAX { usize::MAX } else { most.max(PART * ordering).max(1) };
        let mut steps = ordering;
        while finding.at < self.bindings.len() && steps < most {
            let mut looked_at = 0;
            let (takes, each) = match &self.bindings[finding.at].condition {
                Condition::Always => (true, 0),
                Condition::Key(own) if by_words => (words.fit(own, &mut looked_at), words.depth()),
                Condition::Key(own) => (*own == route.key, 0),
                Condition::Headers { all, headers: own } => (headers.have(*all, own, &mut looked_at), headers.depth()),
            };
            finding.taken[finding.at / BITS] |= u64::from(takes) << (finding.at % BITS);
            finding.at += 1;
            steps += 1 + looked_at * each;
        }
        finding.steps += steps;
        finding.at == self.bindings.len()
    }

    /// Notes what was found of a message that was held against all.
    pub fn end(&self, finding: Finding, route: &mut Route) {
        let Finding { version, taken, at, steps } = finding;
        assert!((version, at) == (self.version, self.bindings.len()), "it was held against all of these bindings");
        let count: u32 = taken.iter().map(|bits| bits.count_ones()).sum();
        (route.version, route.refusal, route.copies) = (self.version, None, Copies::default());
        (route.taken, route.steps) = (taken, steps + count as usize * TAKEN);
        match self.copies(route) {
            Ok(copies) => route.copies = copies,
            Err(refusal) => (route.taken, route.refusal) = (Vec::new(), Some(refusal)),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use bytes::Bytes;
    use millpond_types::{Binding, RoutingKey, TopicName, Unroutable, block};
    use proptest::prelude::*;

    use super::super::tests::route;
    use super::*;

    fn pair(name: u8, value: u8) -> (Bytes, Bytes) {
        (vec![name].into(), vec![value].into())
    }

    fn condition(kind: ExchangeKind, [one, other, third]: [u8; 3]) -> Condition {
        match kind {
            ExchangeKind::Fanout => Condition::Always,
            ExchangeKind::Direct => Condition::Key(RoutingKey::try_from(&*format!("{one}.{other}")).unwrap()),
            ExchangeKind::Topic => {
                let words = [one, other, third].map(|word| ["a", "b", "*", "#"][usize::from(word % 4)]);
                Condition::Key(RoutingKey::try_from(&*words.join(".")).unwrap())
            }
            ExchangeKind::Headers => {
                Condition::Headers { all: third % 2 == 0, headers: [pair(b'x', one % 4), pair(b'y', other % 4)].into() }
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_found_in_parts_is_what_is_found_at_once(
            kind in prop::sample::select(vec![
                ExchangeKind::Fanout, ExchangeKind::Direct, ExchangeKind::Topic, ExchangeKind::Headers,
            ]),
            conditions in prop::collection::vec(any::<[u8; 3]>(), 0..200),
            key in "[ab](\\.[ab]){0,4}",
            parts in prop::collection::vec(0..300_usize, 1..5),
        ) {
            let binding = |(at, ask): (usize, &[u8; 3])| {
                Binding { target: TopicName::try_from(&*format!("t{at:03}")).unwrap(), condition: condition(kind, *ask) }
            };
            let mut bindings: Vec<Binding> = conditions.iter().enumerate().map(binding).collect();
            bindings.sort();
            let exchange = Exchange { kind, unroutable: Unroutable::Refuse, version: 7, bindings };
            let mut message = Vec::new();
            block::push(&mut message, b"", &[(b"x", &[1]), (b"y", &[2])], b"body").unwrap();
            let mut at_once = route(100);
            (at_once.key, at_once.message.block) = (RoutingKey::try_from(&*key).unwrap(), message.into());
            let mut in_parts = at_once.clone();
            exchange.resolve(&mut at_once, [1, 2]);

            let (mut finding, mut steps) = (exchange.begin(), 0);
            for most in parts.iter().cycle() {
                let is_through = exchange.hold(&mut finding, &in_parts, [1, 2], *most);
                prop_assert!(is_through || finding.steps() >= steps + most, "a part is as long as it may be");
                steps = finding.steps();
                if is_through {
                    break;
                }
            }
            exchange.end(finding, &mut in_parts);
            prop_assert!(in_parts.steps >= at_once.steps);
            in_parts.steps = at_once.steps;
            prop_assert_eq!(in_parts, at_once);
        }
    }
}
