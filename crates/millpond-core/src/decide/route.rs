//! A publish to an exchange: one message, and a copy of it for each topic that it goes to, all of them or none.
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
use crate::decide::dedup::LookedUp;
use crate::decide::exchange::exchange_unknown;
use crate::decide::forward::is_refused;
use crate::decide::storing::{Runs, Trial, shorten};
use crate::fact::{FactLog, NamespaceNumber};
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
        let Route { publish, exchange, version, refusal, .. } = route;
        let Publish { namespace, producer, level, runs } = publish;
        let namespace = self.namespace_of(&namespace)?;
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
        let outcomes = match refusal {
            Some((code, detail)) => {
                Vec::from([OutcomeRun { count: 1, outcome: PublishOutcome::Refused { code, detail } }])
            }
            None => self.publish_all_or_none(namespace, &runs, looked_up, log),
        };
        self.unroutable += u64::from(outcomes.is_empty());
        self.note_batch(namespace, producer, &outcomes, log);
        Ok(Reply::Published { level, outcomes, topics: runs.into_iter().map(|copy| copy.topic).collect() })
    }

    /// How many messages were dropped so far, as their exchanges are set to, for they led nowhere.
    pub fn unroutable(&self) -> u64 {
        self.unroutable
    }

    fn publish_all_or_none(
        &mut self,
        namespace: NamespaceNumber,
        runs: &[PublishRun],
        mut looked_up: LookedUp,
        log: &mut dyn FactLog,
    ) -> Runs {
        self.expire_waiting(namespace, runs, &mut looked_up, log);
        let tried = self.try_publish(namespace, runs, looked_up.clone(), Trial::default());
        match tried.iter().any(is_refused) {
            true => {
                let mut refused = name_topics(tried, runs);
                shorten(&mut refused);
                refused
            }
            false => self.publish_together(namespace, runs, looked_up, log),
        }
    }
}

/// Lets each refusal say which topics it is of: who publishes to an exchange does not know them.
fn name_topics(mut outcomes: Runs, copies: &[PublishRun]) -> Runs {
    let mut copies = copies.iter();
    for run in &mut outcomes {
        let (first, others) = (copies.next().expect("there is an outcome for each copy"), run.count as usize - 1);
        copies.by_ref().take(others).for_each(drop);
        if let PublishOutcome::Refused { detail, .. } = &mut run.outcome {
            let more = if others > 0 { format!(" and {others} more") } else { String::new() };
            *detail = format!("topic {}{more}: {detail}", first.topic);
        }
    }
    outcomes
}
