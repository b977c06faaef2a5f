//! A publish to an exchange: one message, and a copy of it for each topic that it goes to, all of them or none. What is acked
//! with it is so too, as in any [forward](super::forward).
//!
//! Where it goes is found by the edge and is true of one version of the exchange. If another one is true when the publish
//! comes in, it is found anew here, so that a publish is routed by the bindings as they are at its arrival, whether or not
//! its topics have still to be fetched; and the batches of a producer keep their order.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use millpond_types::{OutcomeRun, PublishOutcome};

use crate::Core;
use crate::command::{Publish, PublishRun, Route};
use crate::decide::Refusal;
use crate::decide::exchange::exchange_unknown;
use crate::decide::forward::{check_acks, is_not_to_end};
use crate::decide::storing::{Runs, shorten};
use crate::fact::FactLog;
use crate::output::Reply;

impl Core {
    /// Sees to it that a publish that has just come in goes where the bindings lead now.
    pub(crate) fn route_anew(&self, route: &mut Route) {
        let namespace = self.state.namespaces.number(&route.publish.namespace);
        match namespace.and_then(|number| self.state.namespaces[number].exchanges.get(&route.exchange)) {
            Some(exchange) => {
                if exchange.version != route.version {
                    exchange.resolve(route, self.state.hash_key);
                }
                exchange.copy(route, self.state.hash_key);
            }
            None => (route.version, route.refusal) = (0, None),
        }
    }

    pub(super) fn route(&mut self, route: Route, log: &mut dyn FactLog) -> Result<Reply, Refusal> {
        let Route { receipts, publish, exchange, version, refusal, .. } = route;
        let Publish { namespace, producer, level, runs } = publish;
        let namespace = self.namespace_of(&namespace)?;
        if let Some(receipts) = &receipts {
            check_acks(receipts, producer)?;
        }
        if let Some(batch) = producer
            && let Some(outcomes) = self.repeated(namespace, batch, None)?
        {
            return Ok(Reply::Published { level, outcomes, topics: Vec::new() });
        }
        if version == 0 {
            return Err(exchange_unknown(&exchange));
        }
        let looked_up = core::mem::take(&mut self.looked_up);
        self.check_disk(producer, &looked_up, &runs)?;
        let acked = receipts.as_deref().unwrap_or_default();
        let (finished, outcomes) = match refusal {
            Some((code, detail)) => {
                let refused = OutcomeRun { count: 1, outcome: PublishOutcome::Refused { code, detail } };
                (self.try_acks(acked).0, Vec::from([refused]))
            }
            None => {
                let (finished, mut outcomes) = self.all_or_nothing(namespace, acked, &runs, looked_up, log);
                name_topics(&mut outcomes, &runs);
                shorten(&mut outcomes);
                (finished, outcomes)
            }
        };
        let is_dropped = outcomes.is_empty() && !finished.iter().any(is_not_to_end);
        self.unroutable += u64::from(is_dropped);
        self.note_batch(namespace, producer, &outcomes, log);
        let topics = runs.into_iter().map(|copy| copy.topic).collect();
        Ok(match receipts {
            Some(_) => Reply::Forwarded { finished, published: outcomes, topics },
            None => Reply::Published { level, outcomes, topics },
        })
    }

    /// How many messages were dropped so far, as their exchanges are set to, for they led nowhere.
    pub fn unroutable(&self) -> u64 {
        self.unroutable
    }
}

/// Lets each refusal say which topics it is of: who publishes to an exchange does not know them.
fn name_topics(outcomes: &mut Runs, copies: &[PublishRun]) {
    let mut copies = copies.iter();
    for run in outcomes {
        let (first, others) = (copies.next().expect("there is an outcome for each copy"), run.count as usize - 1);
        copies.by_ref().take(others).for_each(drop);
        if let PublishOutcome::Refused { detail, .. } = &mut run.outcome {
            let more = if others > 0 { format!(" and {others} more") } else { String::new() };
            *detail = format!("topic {}{more}: {detail}", first.topic);
        }
    }
}
