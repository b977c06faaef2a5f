//! Routing: which topics a message goes to that is published to an exchange. Edges ask this of what they know of the
//! exchange; the core asks it again where that is not true any more.
//!
//! A publish is held against each binding in turn. That is why an exchange has a limit on them, and why the edge does it.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use millpond_types::block::{self, Sizes};
use millpond_types::limits::PUBLISH_BYTES_MAX;
use millpond_types::{
    Binding, Code, Condition, ExchangeKind, KEY_PLACE, NamespaceName, RoutingKey, TopicName, Unroutable,
};

use crate::command::{DedupMark, PublishRun, Route, Routed};
use crate::dedup_hash;

/// An exchange. Shared between the core and edges; a change makes another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// What its bindings ask of a message.
    pub kind: ExchangeKind,
    /// What becomes of a message that none takes.
    pub unroutable: Unroutable,
    /// The journal position behind its last change: no two states of exchanges have one.
    pub version: u64,
    /// Its bindings.
    pub bindings: BTreeSet<Binding>,
}

impl Exchange {
    /// Fills in where a message goes: one run for each topic that a binding of this exchange leads to, or why it goes
    /// nowhere.
    pub fn resolve(&self, route: &mut Route, hash_key: [u64; 2]) {
        route.version = self.version;
        route.refusal = None;
        route.publish.runs.clear();
        match self.copies(route, hash_key) {
            Ok(copies) => route.publish.runs = copies,
            Err(refusal) => route.refusal = Some(refusal),
        }
    }

    fn copies(&self, route: &Route, hash_key: [u64; 2]) -> Result<Vec<PublishRun>, (Code, String)> {
        let Route { publish, exchange, key, message, .. } = route;
        let targets = self.targets(key, &message.block)?;
        if targets.is_empty() && self.unroutable == Unroutable::Refuse {
            let detail = format!(
                "no binding of exchange {exchange} takes a message with the key \"{key}\" and its headers; bind a topic with `millpond exchange bind`"
            );
            return Err((Code::Unroutable, detail));
        }
        let bytes = targets.len() * message.block.len();
        if bytes > PUBLISH_BYTES_MAX {
            let detail = format!(
                "exchange {exchange} takes the message to {} topics, {bytes} bytes in all, and one publish stores at most {PUBLISH_BYTES_MAX}: keep the body elsewhere and publish where it is",
                targets.len()
            );
            return Err((Code::LimitExceeded, detail));
        }
        Ok(targets.into_iter().map(|topic| message.copy(&publish.namespace, topic, hash_key)).collect())
    }

    /// The topics that a message goes to, each once, in the order of their names.
    fn targets(&self, key: &RoutingKey, block: &[u8]) -> Result<BTreeSet<TopicName>, (Code, String)> {
        let words: Vec<&str> = key.words().collect();
        let headers = if self.kind == ExchangeKind::Headers { headers(block) } else { Vec::new() };
        let takes = |binding: &&Binding| match &binding.condition {
            Condition::Always => true,
            Condition::Key(own) if self.kind == ExchangeKind::Topic => fits(own, &words),
            Condition::Key(own) => own == key,
            Condition::Headers { all, headers: own } => {
                let mut has = own.iter().map(|(key, value)| headers.contains(&(&key[..], &value[..])));
                if *all { has.all(|has| has) } else { has.any(|has| has) }
            }
        };
        self.bindings.iter().filter(takes).map(|binding| target(&binding.target, key)).collect()
    }
}

impl Routed {
    /// The message as it is published to one topic.
    fn copy(&self, namespace: &NamespaceName, topic: TopicName, hash_key: [u64; 2]) -> PublishRun {
        let Routed { priority, delay, ttl, block, too_large } = self;
        let id = block::first(block).map_or(&[][..], |parts| parts.dedup_id);
        let mark = |id| DedupMark { index: 0, hash: dedup_hash(hash_key, namespace, &topic, id) };
        let dedup = Some(id).filter(|id| !id.is_empty()).map(mark).into_iter().collect();
        let (sizes, too_large) = (Sizes::Uniform(block.len() as u32), too_large.iter().copied().collect());
        let (block, priority, delay, ttl): (Bytes, _, _, _) = (block.clone(), *priority, *delay, *ttl);
        PublishRun { topic, priority, delay, ttl, count: 1, block, sizes, dedup, too_large }
    }
}

fn headers(block: &[u8]) -> Vec<(&[u8], &[u8])> {
    let headers = block::first(block).map_or(&[][..], |parts| parts.headers);
    block::headers(headers).flatten().collect()
}

/// The topic that a target is for a key.
fn target(target: &TopicName, key: &RoutingKey) -> Result<TopicName, (Code, String)> {
    if !target.as_str().contains(KEY_PLACE) {
        return Ok(target.clone());
    }
    let name = target.as_str().replace(KEY_PLACE, key.as_str());
    TopicName::try_from(&*name).map_err(|bad| {
        let detail = format!("a binding makes \"{name}\" of the key \"{key}\", and that is no name of a topic: {bad}");
        (Code::NameInvalid, detail)
    })
}

/// Whether words fit a pattern, in which `*` is one word and `#` any number of them.
fn fits(pattern: &RoutingKey, words: &[&str]) -> bool {
    let (mut rest, mut at) = (pattern.words(), 0);
    // What stands behind the last `#`, and how far that one reaches.
    let mut open = None;
    loop {
        let mut next = rest.clone();
        match next.next() {
            Some("#") => {
                open = Some((next.clone(), at));
                rest = next;
                continue;
            }
            Some(word) if words.get(at).is_some_and(|other| word == "*" || word == *other) => {
                (rest, at) = (next, at + 1);
                continue;
            }
            None if at == words.len() => return true,
            _ => {}
        }
        match &mut open {
            Some((behind, reach)) if *reach < words.len() => {
                *reach += 1;
                (rest, at) = (behind.clone(), *reach);
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::command::Level;
    use millpond_types::{ExchangeName, Millis, Priority};
    use proptest::prelude::*;

    fn key(text: &str) -> RoutingKey {
        RoutingKey::try_from(text).unwrap()
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
        let takes = |pattern, text| fits(&key(pattern), &key(text).words().collect::<Vec<_>>());
        for text in ["", "a", "a.b", "a..b"] {
            assert!(takes("#", text), "{text}");
        }
        assert!(takes("*.b", "a.b") && !takes("*.b", "b") && !takes("*.b", "a.a.b") && !takes("*", ""));
        assert!(takes("a.#", "a") && takes("a.#", "a.b.c") && !takes("a.#", "b.a") && takes("#.c", "a.b.c"));
        assert!(takes("a.#.z", "a.z") && takes("a.#.z", "a.b.z.z") && !takes("a.#.z", "a.z.b"));
        assert!(takes("*.#.*", "a.b") && !takes("*.#.*", "a") && takes("", "") && !takes("", "a"));
    }

    #[test]
    fn a_pattern_of_many_hashes_is_no_burden() {
        let pattern = key(&["#.a"; 32].join("."));
        assert!(!fits(&pattern, &[["a"; 63].as_slice(), &["b"]].concat()));
    }

    #[test]
    fn copies_of_one_message_have_four_mebibytes_together_and_no_more() {
        let target = |at: usize| TopicName::try_from(&*format!("t{at}")).unwrap();
        let binding = |at: usize| Binding { target: target(at), condition: Condition::Always };
        let exchange = Exchange {
            kind: ExchangeKind::Fanout,
            unroutable: Unroutable::Refuse,
            version: 1,
            bindings: (0..8).map(binding).collect(),
        };
        let resolved = |bytes: usize| {
            let mut route = route(bytes);
            exchange.resolve(&mut route, [0; 2]);
            (route.publish.runs.len(), route.refusal.map(|(code, _)| code))
        };
        assert_eq!(resolved(4 * 1024 * 1024 / 8), (8, None));
        assert_eq!(resolved(4 * 1024 * 1024 / 8 + 1), (0, Some(Code::LimitExceeded)));
    }

    /// A message of so many bytes in all, on its way to an exchange.
    fn route(bytes: usize) -> Route {
        let mut block = Vec::new();
        block::push(&mut block, b"", &[], &vec![b'x'; bytes - block::MESSAGE_MIN]).unwrap();
        assert_eq!(block.len(), bytes);
        let message = Routed {
            priority: Priority::DEFAULT,
            delay: Millis::ZERO,
            ttl: None,
            block: block.into(),
            too_large: None,
        };
        let exchange = ExchangeName::try_from("log").unwrap();
        Route::new(NamespaceName::default(), (exchange, key("k")), message, None, Level::Durable)
    }

    proptest! {
        #[test]
        fn a_pattern_takes_what_it_says(pattern in "([ab*#]?\\.){0,6}[ab*#]?", text in "([ab]?\\.){0,6}[ab]?") {
            let (pattern, text) = (key(&pattern), key(&text));
            let words: Vec<&str> = text.words().collect();
            let naively = fits_naively(&pattern.words().collect::<Vec<_>>(), &words);
            prop_assert_eq!(fits(&pattern, &words), naively, "{} {}", pattern, text);
        }
    }
}
