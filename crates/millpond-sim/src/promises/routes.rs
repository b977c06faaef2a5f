//! Exchanges: a message goes to each topic that a binding leads to as the bindings are when it comes in, once; and to all of
//! them or none.

use std::collections::BTreeSet;

use millpond_core::command::Route;
use millpond_core::output::Reply;
use millpond_types::block;
use millpond_types::{
    Condition, ExchangeKind, FinishOutcome, KEY_PLACE, OutcomeRun, PublishOutcome, RoutingKey, TopicName, Unroutable,
};

use super::Kept;
use crate::model::Model;
use crate::sights::Sights;
use crate::verdict::Violation;

/// Where a message has to go.
pub struct Routed {
    /// `None` where there is no such exchange.
    topics: Option<BTreeSet<TopicName>>,
    unroutable: Unroutable,
}

impl Routed {
    /// By the bindings as they are.
    pub fn by(model: &Model, route: &Route) -> Routed {
        let namespace = model.namespace(&route.publish.namespace);
        let exchange = namespace.and_then(|number| model.namespaces[&number].exchanges.get(&route.exchange));
        let Some(exchange) = exchange else { return Routed { topics: None, unroutable: Unroutable::Refuse } };
        let takes = exchange.bindings.iter().filter(|binding| takes(exchange.kind, &binding.condition, route));
        let target = |name: &TopicName| {
            let name = name.as_str().replace(KEY_PLACE, route.key.as_str());
            TopicName::try_from(&*name).expect("keys and targets make names")
        };
        let topics = takes.map(|binding| target(&binding.target)).collect();
        Routed { topics: Some(topics), unroutable: exchange.unroutable }
    }

    /// Holds the answer, and what was stored, against that.
    pub fn check(&self, reply: &Reply, stored: &[(u64, TopicName)], sights: &mut Sights) -> Kept {
        let stored: BTreeSet<&TopicName> = stored.iter().map(|(_, topic)| topic).collect();
        let wrong = |what: &str| {
            let topics = &self.topics;
            Err(Violation::routes(format!("{what}: it leads to {topics:?}, stored is {stored:?}, told {reply:?}")))
        };
        let is_acked =
            |finished: &[OutcomeRun<FinishOutcome>]| finished.iter().all(|run| run.outcome == FinishOutcome::Done);
        let (outcomes, named) = match reply {
            Reply::Published { outcomes, topics, .. } => (outcomes, topics),
            Reply::Forwarded { finished, published, topics } if is_acked(finished) => (published, topics),
            _ if stored.is_empty() => return Ok(()),
            _ => return wrong("a refused message is stored"),
        };
        let outcomes = outcomes.iter().flat_map(|run| (0..run.count).map(|_| &run.outcome));
        let outcomes: Vec<&PublishOutcome> = outcomes.collect();
        let refused = outcomes.iter().filter(|outcome| matches!(outcome, PublishOutcome::Refused { .. })).count();
        let Some(topics) = &self.topics else { return wrong("an exchange that is not there has an answer") };
        if refused > 0 {
            let is_all = refused == outcomes.len() || outcomes.len() == topics.len();
            sights.saw("routed nowhere");
            return if is_all && stored.is_empty() {
                Ok(())
            } else {
                wrong("some copies are refused, and others stored")
            };
        }
        if !topics.iter().eq(named) {
            return wrong("the topics that are told are others");
        }
        if topics.is_empty() && self.unroutable == Unroutable::Refuse || outcomes.len() != topics.len() {
            return wrong("there is not an outcome for each topic");
        }
        for (topic, outcome) in topics.iter().zip(&outcomes) {
            let is_stored = match outcome {
                PublishOutcome::Queued { .. } | PublishOutcome::Coalesced { replaced: Some(_), .. } => true,
                PublishOutcome::Duplicate { .. } | PublishOutcome::Coalesced { replaced: None, .. } => false,
                PublishOutcome::Refused { .. } => unreachable!("none is refused"),
            };
            if is_stored != stored.contains(topic) {
                return wrong("a copy is missing, or one too many");
            }
        }
        if stored.iter().any(|topic| !topics.contains(*topic)) {
            return wrong("a copy went astray");
        }
        sights.saw_many("copies routed", stored.len() as u64);
        Ok(())
    }
}

fn takes(kind: ExchangeKind, condition: &Condition, route: &Route) -> bool {
    match condition {
        Condition::Always => true,
        Condition::Key(own) if kind == ExchangeKind::Topic => {
            let words = |key: &RoutingKey| key.words().map(str::to_owned).collect::<Vec<_>>();
            fits(&words(own), &words(&route.key))
        }
        Condition::Key(own) => *own == route.key,
        Condition::Headers { all, headers } => {
            let parts = block::first(&route.message.block);
            let has = block::headers(parts.map_or(&[][..], |parts| parts.headers)).flatten();
            let has: BTreeSet<(&[u8], &[u8])> = has.collect();
            let mut asked = headers.iter().map(|(key, value)| has.contains(&(&key[..], &value[..])));
            if *all { asked.all(|has| has) } else { asked.any(|has| has) }
        }
    }
}

/// As it is said: `*` is one word, `#` any number of them.
fn fits(pattern: &[String], words: &[String]) -> bool {
    match pattern.split_first() {
        None => words.is_empty(),
        Some((first, rest)) if first == "#" => (0..=words.len()).any(|from| fits(rest, &words[from..])),
        Some((first, rest)) => {
            words.split_first().is_some_and(|(word, words)| (first == "*" || first == word) && fits(rest, words))
        }
    }
}
