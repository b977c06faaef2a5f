//! What edges know of the core's state before they ask it: who uses which namespaces, and where exchanges lead.
//!
//! The writer notes each change before it tells an output of the same turn, so who was told of a change finds it here.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use millpond_core::command::Route;
use millpond_core::output::Notice;
use millpond_core::routing::Exchange;
use millpond_types::{ExchangeName, NamespaceName};

use super::uses::Uses;
use crate::convert::request::HashKey;

#[derive(Default)]
pub(crate) struct Known {
    pub(crate) uses: Uses,
    exchanges: RwLock<HashMap<NamespaceName, HashMap<ExchangeName, Arc<Exchange>>>>,
}

impl Known {
    /// What the core has to say.
    pub(crate) fn note(&self, notice: Notice) {
        match notice {
            Notice::Namespace { name, connections } => self.uses.set_quota(name, connections),
            Notice::NamespaceGone(name) => {
                self.uses.remove(&name);
                self.exchanges.write().unwrap_or_else(PoisonError::into_inner).remove(&name);
            }
            Notice::Exchange { namespace, name, exchange } => {
                let mut exchanges = self.exchanges.write().unwrap_or_else(PoisonError::into_inner);
                let of = exchanges.entry(namespace).or_default();
                match exchange {
                    Some(exchange) => _ = of.insert(name, exchange),
                    None => _ = of.remove(&name),
                }
            }
        }
    }

    /// Fills in where a message goes. What is not known here the core says.
    pub(crate) fn resolve(&self, route: &mut Route, key: HashKey) {
        let exchange = {
            let exchanges = self.exchanges.read().unwrap_or_else(PoisonError::into_inner);
            exchanges.get(&route.publish.namespace).and_then(|of| of.get(&route.exchange)).cloned()
        };
        if let Some(exchange) = exchange {
            exchange.resolve(route, key);
        }
    }
}
