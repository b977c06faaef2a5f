//! What edges know of the core's state before they ask it: who uses which namespaces, and where exchanges lead.
//!
//! The writer notes each change before it tells an output of the same turn, so who was told of a change finds it here.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use millpond_core::command::Route;
use millpond_core::output::Notice;
use millpond_core::routing::Exchange;
use millpond_types::{ExchangeName, NamespaceName};

use super::uses::Uses;

#[derive(Default)]
pub(crate) struct Known {
    pub(crate) uses: Uses,
    exchanges: RwLock<HashMap<NamespaceName, HashMap<ExchangeName, Arc<Exchange>>>>,
    /// Namespaces to which what publishes waits, and whether there are any.
    held: RwLock<Vec<NamespaceName>>,
    are_any_held: AtomicBool,
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
            Notice::Held(namespaces) => {
                self.are_any_held.store(!namespaces.is_empty(), Ordering::Relaxed);
                *self.held.write().unwrap_or_else(PoisonError::into_inner) = namespaces;
            }
            Notice::Exchange { namespace, name, exchange } => {
                let mut exchanges = self.exchanges.write().unwrap_or_else(PoisonError::into_inner);
                let of = exchanges.entry(namespace).or_default();
                match exchange {
                    Some(exchange) => of.insert(name, exchange),
                    None => of.remove(&name),
                };
            }
        }
    }

    /// The exchange that a message is for. What is not known here the core says.
    pub(crate) fn exchange(&self, route: &Route) -> Option<Arc<Exchange>> {
        self.look(&route.publish.namespace, &route.exchange, Arc::clone)
    }

    /// Whether a message goes where the exchange leads now, or nothing is known of it.
    pub(crate) fn is_current(&self, route: &Route) -> bool {
        let version = self.look(&route.publish.namespace, &route.exchange, |exchange| exchange.version);
        version.is_none_or(|version| version == route.version)
    }

    /// Whether what publishes to some namespaces waits now.
    pub(crate) fn are_any_held(&self) -> bool {
        self.are_any_held.load(Ordering::Relaxed)
    }

    /// Whether it does to this one.
    pub(crate) fn is_held(&self, namespace: &NamespaceName) -> bool {
        self.are_any_held() && self.held.read().unwrap_or_else(PoisonError::into_inner).contains(namespace)
    }

    fn look<T>(
        &self,
        namespace: &NamespaceName,
        name: &ExchangeName,
        look: impl FnOnce(&Arc<Exchange>) -> T,
    ) -> Option<T> {
        let exchanges = self.exchanges.read().unwrap_or_else(PoisonError::into_inner);
        exchanges.get(namespace)?.get(name).map(look)
    }
}
