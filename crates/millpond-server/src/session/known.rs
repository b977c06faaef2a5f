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

use super::turns::is_long;
use super::uses::Uses;
use crate::convert::request::HashKey;

#[derive(Default)]
pub(crate) struct Known {
    pub(crate) uses: Uses,
    exchanges: RwLock<HashMap<NamespaceName, HashMap<ExchangeName, Lead>>>,
    /// Namespaces to which what publishes waits, and whether there are any.
    held: RwLock<Vec<NamespaceName>>,
    are_any_held: AtomicBool,
}

/// What is known of an exchange.
struct Lead {
    exchange: Arc<Exchange>,
    /// Whether it took long to find where a message goes, of any that came by so far: nobody knows before.
    takes_long: Arc<AtomicBool>,
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
                    Some(exchange) => {
                        // Of what it was before another binding came, little has changed.
                        let takes_long = of.get(&name).map(|before| before.takes_long.clone()).unwrap_or_default();
                        of.insert(name, Lead { exchange, takes_long });
                    }
                    None => _ = of.remove(&name),
                }
            }
        }
    }

    /// Fills in where a message goes. What is not known here the core says.
    pub(crate) fn resolve(&self, route: &mut Route, key: HashKey) {
        let found = self
            .look(&route.publish.namespace, &route.exchange, |lead| (lead.exchange.clone(), lead.takes_long.clone()));
        if let Some((exchange, takes_long)) = found {
            exchange.resolve(route, key);
            if is_long(route) {
                takes_long.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether it may take long to find where a message goes.
    pub(crate) fn takes_long(&self, route: &Route) -> bool {
        let takes_long = |lead: &Lead| lead.takes_long.load(Ordering::Relaxed);
        self.look(&route.publish.namespace, &route.exchange, takes_long).unwrap_or(false)
    }

    /// Whether a message goes where the exchange leads now, or nothing is known of it.
    pub(crate) fn is_current(&self, route: &Route) -> bool {
        let version = self.look(&route.publish.namespace, &route.exchange, |lead| lead.exchange.version);
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

    fn look<T>(&self, namespace: &NamespaceName, name: &ExchangeName, look: impl FnOnce(&Lead) -> T) -> Option<T> {
        let exchanges = self.exchanges.read().unwrap_or_else(PoisonError::into_inner);
        exchanges.get(namespace)?.get(name).map(look)
    }
}
