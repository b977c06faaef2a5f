//! Exchanges and their bindings: made, deleted, listed.

use alloc::format;
use alloc::sync::Arc;

use millpond_types::limits::{BINDINGS_MAX, EXCHANGES_MAX};
use millpond_types::{Binding, Code, ExchangeKind, ExchangeName, ExchangeView, NamespaceName, Unroutable};

use crate::Core;
use crate::decide::Refusal;
use crate::fact::{Fact, FactLog, NamespaceNumber};
use crate::output::Reply;
use crate::routing::Exchange;
use crate::state::setup;

impl Core {
    pub(super) fn exchange_create(
        &mut self,
        namespace: &NamespaceName,
        name: ExchangeName,
        (kind, unroutable): (ExchangeKind, Unroutable),
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(namespace)?;
        let exchanges = &self.state.namespaces[namespace].exchanges;
        if exchanges.contains_key(&name) {
            return Err((Code::ExchangeExists, format!("there is an exchange {name} already; delete it first")));
        }
        if exchanges.len() >= EXCHANGES_MAX {
            return Err((Code::LimitExceeded, format!("a namespace has at most {EXCHANGES_MAX} exchanges")));
        }
        self.check_setup(setup::of_new_exchange(&name))?;
        let version = log.position();
        self.commit(Fact::ExchangeCreated { namespace, name, kind, unroutable, version }, log);
        Ok(Reply::Done)
    }

    pub(super) fn exchange_delete(
        &mut self,
        namespace: &NamespaceName,
        name: ExchangeName,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(namespace)?;
        self.exchange_of(namespace, &name)?;
        self.commit(Fact::ExchangeDeleted { namespace, name }, log);
        Ok(Reply::Done)
    }

    pub(super) fn bind(
        &mut self,
        namespace: &NamespaceName,
        name: ExchangeName,
        binding: &Binding,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(namespace)?;
        let exchange = self.exchange_of(namespace, &name)?;
        binding.validate(exchange.kind).map_err(|bad| (Code::ArgumentInvalid, format!("{bad}")))?;
        let binding = binding.detach();
        if exchange.place(&binding).is_ok() {
            return Ok(Reply::Count(0));
        }
        if exchange.bindings.len() >= BINDINGS_MAX {
            let detail = format!(
                "an exchange has at most {BINDINGS_MAX} bindings; where each key has a topic of its own, one binding to {{key}} does"
            );
            return Err((Code::LimitExceeded, detail));
        }
        self.check_setup(setup::of_binding(&binding))?;
        let version = log.position();
        self.commit(Fact::Bound { namespace, exchange: name, binding, version }, log);
        Ok(Reply::Count(1))
    }

    pub(super) fn unbind(
        &mut self,
        namespace: &NamespaceName,
        name: ExchangeName,
        binding: &Binding,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        let namespace = self.namespace_of(namespace)?;
        let binding = binding.detach();
        if self.exchange_of(namespace, &name)?.place(&binding).is_err() {
            return Ok(Reply::Count(0));
        }
        let version = log.position();
        self.commit(Fact::Unbound { namespace, exchange: name, binding, version }, log);
        Ok(Reply::Count(1))
    }

    pub(super) fn exchanges(&self, namespace: &NamespaceName) -> Result<Reply, Refusal> {
        let exchanges = &self.state.namespaces[self.namespace_of(namespace)?].exchanges;
        let view = |(name, exchange): (&ExchangeName, &Arc<Exchange>)| {
            let Exchange { kind, unroutable, version, ref bindings } = **exchange;
            ExchangeView { name: name.clone(), kind, unroutable, bindings: bindings.len() as u64, version }
        };
        Ok(Reply::Exchanges(exchanges.iter().map(view).collect()))
    }

    pub(super) fn bindings(&self, namespace: &NamespaceName, name: &ExchangeName) -> Result<Reply, Refusal> {
        let exchange = self.exchange_of(self.namespace_of(namespace)?, name)?;
        Ok(Reply::Bindings(exchange.bindings.clone()))
    }

    fn exchange_of(&self, namespace: NamespaceNumber, name: &ExchangeName) -> Result<&Exchange, Refusal> {
        let exchange = self.state.namespaces[namespace].exchanges.get(name);
        exchange.map(|exchange| &**exchange).ok_or_else(|| exchange_unknown(name))
    }
}

pub(super) fn exchange_unknown(name: &ExchangeName) -> Refusal {
    (Code::ExchangeUnknown, format!("there is no exchange {name}; make it with `millpond exchange create`"))
}
