//! Exchanges in the state: each is in memory, shared with the edges, and has an entry in the store that is put anew with
//! each change.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use millpond_types::ExchangeName;

use crate::fact::NamespaceNumber;
use crate::output::Notice;
use crate::page::{ExchangePage, Page};
use crate::routing::Exchange;
use crate::state::{State, setup};
use crate::store::Key;

impl State {
    /// An exchange was made, or is another one now.
    pub(crate) fn set_exchange(&mut self, namespace: NamespaceNumber, name: ExchangeName, exchange: Exchange) {
        self.set_up(setup::of_exchange(&name, &exchange));
        let exchange = Arc::new(exchange);
        let page = ExchangePage::of(namespace, &name, &exchange);
        self.set_entry(&page.key(), Some(&Page::Exchange(Box::new(page))));
        let before = self.namespaces[namespace].exchanges.insert(name.clone(), exchange.clone());
        self.taken_back(before.map_or(0, |before| setup::of_exchange(&name, &before)));
        self.notify(|state| Notice::Exchange {
            namespace: state.namespaces[namespace].name.clone(),
            name,
            exchange: Some(exchange),
        });
    }

    /// Changes the bindings of an exchange.
    pub(crate) fn rebind(
        &mut self,
        namespace: NamespaceNumber,
        name: &ExchangeName,
        version: u64,
        change: impl FnOnce(&mut Exchange),
    ) {
        let known = self.namespaces[namespace].exchanges.get_key_value(name);
        let (name, exchange) = known.expect("a fact names an exchange that is there");
        let (name, mut exchange) = (name.clone(), Exchange::clone(exchange));
        exchange.version = version;
        change(&mut exchange);
        self.set_exchange(namespace, name, exchange);
    }

    /// An exchange is gone.
    pub(crate) fn remove_exchange(&mut self, namespace: NamespaceNumber, name: &ExchangeName) {
        let gone = self.namespaces[namespace].exchanges.remove(name);
        let gone = gone.expect("only an exchange that is there is deleted");
        self.taken_back(setup::of_exchange(name, &gone));
        self.set_entry(&Key::Exchange { namespace, name: name.clone() }, None);
        self.notify(|state| Notice::Exchange {
            namespace: state.namespaces[namespace].name.clone(),
            name: name.clone(),
            exchange: None,
        });
    }

    /// Takes an exchange in from its entry.
    pub(crate) fn add_exchange(&mut self, page: ExchangePage) {
        let ExchangePage { namespace, name, kind, unroutable, version, bindings } = page;
        let exchange = Exchange { kind, unroutable, version, bindings: bindings.into_iter().collect() };
        self.set_up(setup::of_exchange(&name, &exchange));
        self.namespaces[namespace].exchanges.insert(name, Arc::new(exchange));
    }

    /// What edges have to know when the core starts.
    pub(crate) fn all_notices(&self) -> Vec<Notice> {
        let exchange = |(number, name, exchange): (NamespaceNumber, &ExchangeName, &Arc<Exchange>)| Notice::Exchange {
            namespace: self.namespaces[number].name.clone(),
            name: name.clone(),
            exchange: Some(exchange.clone()),
        };
        let namespaces = self.namespaces.iter().map(|(_, namespace)| namespace.notice());
        namespaces.chain(self.exchanges().map(exchange)).collect()
    }

    /// All exchanges, in the order of their namespaces and names.
    pub(crate) fn exchanges(&self) -> impl Iterator<Item = (NamespaceNumber, &ExchangeName, &Arc<Exchange>)> {
        self.namespaces.iter().flat_map(|(number, namespace)| {
            namespace.exchanges.iter().map(move |(name, exchange)| (number, name, exchange))
        })
    }
}

impl ExchangePage {
    pub(crate) fn of(namespace: NamespaceNumber, name: &ExchangeName, exchange: &Exchange) -> ExchangePage {
        let Exchange { kind, unroutable, version, ref bindings } = *exchange;
        let bindings = bindings.iter().cloned().collect();
        ExchangePage { namespace, name: name.clone(), kind, unroutable, version, bindings }
    }

    fn key(&self) -> Key {
        Key::Exchange { namespace: self.namespace, name: self.name.clone() }
    }
}
