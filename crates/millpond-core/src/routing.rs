//! Routing: which topics a message goes to that is published to an exchange. Edges ask this of what they know of the
//! exchange; the core asks it again where that is not true any more.
//!
//! A publish is held against each binding in turn. That is why an exchange has a limit on them, and why the edge does it. What
//! is asked of the message is put in order once for all of them, so that each costs little whatever it asks. What all cost is
//! counted, and they may be asked in parts ([`Finding`]), for whoever shares a thread with who routes much.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use bytes::Bytes;
use millpond_types::block::{self, Sizes};
use millpond_types::limits::PUBLISH_BYTES_MAX;
use millpond_types::{Binding, Code, ExchangeKind, KEY_PLACE, NamespaceName, RoutingKey, TopicName, Unroutable};

use crate::command::{Copies, DedupMark, PublishRun, Route, Routed};
use crate::dedup_hash;

mod finding;
mod headers;
mod words;

pub use finding::Finding;

/// Steps of something that is taken from a message: a copy is a topic more, found among the others.
const TAKEN: usize = 256;

/// An exchange. Shared between the core and edges; a change makes another one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exchange {
    /// What its bindings ask of a message.
    pub kind: ExchangeKind,
    /// What becomes of a message that none takes.
    pub unroutable: Unroutable,
    /// The journal position behind its last change: no two states of exchanges have one.
    pub version: u64,
    /// Its bindings, each once, in order.
    pub bindings: Vec<Binding>,
}

impl Exchange {
    /// Where a binding is among its own, or would be.
    pub(crate) fn place(&self, binding: &Binding) -> Result<usize, usize> {
        self.bindings.binary_search(binding)
    }

    /// Finds where a message goes: which bindings of this exchange take it, or why it goes nowhere. The copies are not made yet,
    /// for a few bytes may have a thousand: while it waits it holds a bit for each binding.
    pub fn resolve(&self, route: &mut Route, hash_key: [u64; 2]) {
        let mut finding = self.begin();
        let is_through = self.hold(&mut finding, route, hash_key, usize::MAX);
        assert!(is_through, "nothing stops it");
        self.end(finding, route);
    }

    /// Makes the copies of a message that this exchange has resolved: a run for each topic that it goes to, in the order of
    /// their names.
    pub fn copy(&self, route: &mut Route, hash_key: [u64; 2]) {
        assert_eq!(route.version, self.version, "its bindings are others");
        let topics = self.targets(route).expect("they were names when it was resolved");
        route.taken = Vec::new();
        let Route { publish, message, .. } = route;
        publish.runs = topics.into_iter().map(|topic| message.copy(&publish.namespace, topic, hash_key)).collect();
    }

    /// The copies of a message, if it may have them.
    fn copies(&self, route: &Route) -> Result<Copies, (Code, String)> {
        let Route { exchange, key, message, .. } = route;
        let topics = self.targets(route)?;
        if topics.is_empty() && self.unroutable == Unroutable::Refuse {
            let detail = format!(
                "no binding of exchange {exchange} takes a message with the key \"{key}\" and its headers; bind a topic with `millpond exchange bind`"
            );
            return Err((Code::Unroutable, detail));
        }
        let bytes = topics.len() * message.block.len();
        if bytes > PUBLISH_BYTES_MAX {
            let detail = format!(
                "exchange {exchange} takes the message to {} topics, {bytes} bytes in all, and one publish stores at most {PUBLISH_BYTES_MAX}: keep the body elsewhere and publish where it is",
                topics.len()
            );
            return Err((Code::LimitExceeded, detail));
        }
        let names = topics.iter().map(|topic| topic.as_bytes().len()).sum();
        Ok(Copies { count: topics.len(), names })
    }

    /// The topics that a message goes to whose bindings are found, each once, in the order of their names.
    fn targets(&self, route: &Route) -> Result<Vec<TopicName>, (Code, String)> {
        let taking = self.bindings.iter().zip(0..).filter(|(_, at)| takes(&route.taken, *at));
        let mut targets =
            taking.map(|(binding, _)| target(&binding.target, &route.key)).collect::<Result<Vec<_>, _>>()?;
        // Those of a fanout mostly are in order: its bindings are, unless the key stands in several.
        targets.sort_unstable();
        targets.dedup();
        Ok(targets)
    }
}

/// Bindings of which one word says whether they take a message.
const BITS: usize = u64::BITS as usize;

/// Whether the binding at a place is among those that take a message.
fn takes(taken: &[u64], at: usize) -> bool {
    taken.get(at / BITS).is_some_and(|bits| bits >> (at % BITS) & 1 == 1)
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

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::vec;

    use super::*;
    use crate::command::Level;
    use millpond_types::limits::{BINDINGS_MAX, ROUTING_WORDS_MAX};
    use millpond_types::{Condition, ExchangeName, Millis, Priority};

    fn key(text: &str) -> RoutingKey {
        RoutingKey::try_from(text).unwrap()
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
            exchange.copy(&mut route, [0; 2]);
            (route.publish.runs.len(), route.refusal.map(|(code, _)| code))
        };
        assert_eq!(resolved(4 * 1024 * 1024 / 8), (8, None));
        assert_eq!(resolved(4 * 1024 * 1024 / 8 + 1), (0, Some(Code::LimitExceeded)));
    }

    /// What there is at most on both sides, and nothing that is found early on.
    #[test]
    fn a_message_takes_few_steps_whatever_it_and_the_bindings_say() {
        let steps = |kind, condition: &dyn Fn(usize) -> Condition, route: &mut Route| {
            let target = TopicName::try_from("t").unwrap();
            let binding = |at| Binding { target: target.clone(), condition: condition(at) };
            let bindings: BTreeSet<Binding> = (0..BINDINGS_MAX).map(binding).collect();
            assert_eq!(bindings.len(), BINDINGS_MAX);
            let bindings = bindings.into_iter().collect();
            let exchange = Exchange { kind, unroutable: Unroutable::Drop, version: 1, bindings };
            exchange.resolve(route, [0; 2]);
            assert!(route.copies.count == 0 && route.refusal.is_none());
            route.steps / BINDINGS_MAX
        };
        // As many words as there may be, of which all but the last fit anywhere.
        let late = |at| Condition::Key(key(&format!("#.{}b{at}", "a.".repeat(31))));
        let mut words = Route { key: key(&["a"; ROUTING_WORDS_MAX].join(".")), ..route(100) };
        let each = steps(ExchangeKind::Topic, &late, &mut words);
        assert!((33..33 * 4).contains(&each), "{each} for each pattern of 33 words");

        let headers: Vec<_> = (0..3_000_u16).map(|at| (at.to_be_bytes(), [])).collect();
        let headers: Vec<_> = headers.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        let mut block = Vec::new();
        block::push(&mut block, b"", &headers, b"").unwrap();
        let others = |at: usize| Condition::Headers {
            all: false,
            headers: (0..16_u8).map(|nth| (vec![b'h', nth].into(), format!("{at}").into())).collect(),
        };
        let mut labelled = route(100);
        labelled.message.block = block.into();
        let each = steps(ExchangeKind::Headers, &others, &mut labelled);
        assert!((16..16 * 40).contains(&each), "{each} for each of 16 headers, of a message that has 3,000");
    }

    /// A message of so many bytes in all, on its way to an exchange.
    pub(super) fn route(bytes: usize) -> Route {
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
}
