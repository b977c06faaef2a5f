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
    /// An exchange was made.
    pub(crate) fn make_exchange(&mut self, namespace: NamespaceNumber, name: ExchangeName, exchange: Exchange) {
        self.set_up(setup::of_exchange(&name, &exchange));
        let before = self.namespaces[namespace].exchanges.insert(name.clone(), Arc::new(exchange));
        assert!(before.is_none(), "an exchange is made once");
        self.exchange_changed(namespace, &name);
    }

    /// Changes the bindings of an exchange. What edges have of it stays as it is: the first change since they were told
    /// makes another one, and further ones of the turn change that.
    pub(crate) fn rebind(
        &mut self,
        namespace: NamespaceNumber,
        name: &ExchangeName,
        version: u64,
        change: impl FnOnce(&mut Exchange),
    ) {
        let known = self.namespaces[namespace].exchanges.get_mut(name);
        let exchange = Arc::make_mut(known.expect("a fact names an exchange that is there"));
        let before = setup::of_exchange(name, exchange);
        exchange.version = version;
        change(exchange);
        let after = setup::of_exchange(name, exchange);
        self.set_up(after);
        self.taken_back(before);
        self.exchange_changed(namespace, name);
    }

    /// An exchange is gone.
    pub(crate) fn remove_exchange(&mut self, namespace: NamespaceNumber, name: &ExchangeName) {
        let gone = self.namespaces[namespace].exchanges.remove(name);
        let gone = gone.expect("only an exchange that is there is deleted");
        self.taken_back(setup::of_exchange(name, &gone));
        self.exchange_changed(namespace, name);
    }

    /// Its entry is put anew, or removed, and edges are to know.
    fn exchange_changed(&mut self, namespace: NamespaceNumber, name: &ExchangeName) {
        let exchange = self.namespaces[namespace].exchanges.get(name);
        let page = exchange.map(|exchange| Page::Exchange(Box::new(ExchangePage::of(namespace, name, exchange))));
        self.set_entry(&Key::Exchange { namespace, name: name.clone() }, page.as_ref());
        if self.replayed.is_none() {
            self.rebound.insert((namespace, name.clone()));
        }
    }

    /// Lets edges know of the exchanges that have changed, as they are by now: one of a thousand bindings may have changed
    /// a thousand times in the turn.
    pub(crate) fn notify_rebound(&mut self) {
        for (number, name) in core::mem::take(&mut self.rebound) {
            // One that is gone with its namespace is no more to be told of.
            let Some(namespace) = self.namespaces.get(number) else { continue };
            let exchange = namespace.exchanges.get(&name).cloned();
            self.notices.push(Notice::Exchange { namespace: namespace.name.clone(), name, exchange });
        }
    }

    /// Takes an exchange in from its entry.
    pub(crate) fn add_exchange(&mut self, page: ExchangePage) {
        let ExchangePage { namespace, name, kind, unroutable, version, mut bindings } = page;
        // They were saved in order; nothing here relies on who did that.
        bindings.sort_unstable();
        bindings.dedup();
        let exchange = Exchange { kind, unroutable, version, bindings };
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
        let bindings = bindings.clone();
        ExchangePage { namespace, name: name.clone(), kind, unroutable, version, bindings }
    }
}
