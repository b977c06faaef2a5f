//! Namespaces: made, altered, deleted, listed and counted.

use alloc::format;
use alloc::vec::Vec;

use millpond_types::limits::NAMESPACES_MAX;
use millpond_types::{Code, GroupName, NamespaceName, NamespaceView, Policy};

use crate::Core;
use crate::decide::Refusal;
use crate::fact::{Fact, FactLog};
use crate::output::Reply;
use crate::state::namespace::Namespace;

impl Core {
    pub(super) fn namespace_set(
        &mut self,
        name: NamespaceName,
        policy: Policy,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        policy.validate().map_err(|bad| (Code::PolicyInvalid, format!("{bad}")))?;
        let (number, version) = match self.state.namespaces.number(&name) {
            Some(number) => (number, self.state.namespaces[number].version + 1),
            None if self.state.namespaces.len() >= NAMESPACES_MAX => {
                return Err((Code::LimitExceeded, format!("a broker has at most {NAMESPACES_MAX} namespaces")));
            }
            None => (self.state.numbers.next_namespace, 1),
        };
        self.commit(Fact::NamespaceSet { number, name, policy, version }, log);
        Ok(Reply::Done)
    }

    pub(super) fn namespace_delete(&mut self, name: &NamespaceName, log: &mut dyn FactLog) -> Result<Reply, Refusal> {
        let number = self.namespace_of(name)?;
        let namespace = &self.state.namespaces[number];
        if number == 0 {
            return Err((Code::NamespaceInUse, "the namespace `default` always exists".into()));
        }
        if namespace.topics > 0 || namespace.counts.dead > 0 {
            let (topics, dead) = (namespace.topics, namespace.counts.dead);
            let detail = format!(
                "namespace {name} still has {topics} topics and {dead} dead letters; finish or purge them first"
            );
            return Err((Code::NamespaceInUse, detail));
        }
        let users = self.dispatcher.consumers.iter().filter(|(_, consumer)| consumer.namespace == number).count();
        if users > 0 {
            let detail = format!("{users} consumers are attached to namespace {name}; detach them first");
            return Err((Code::NamespaceInUse, detail));
        }
        self.commit(Fact::NamespaceDeleted { number }, log);
        self.dispatcher.scopes.close_namespace(number);
        Ok(Reply::Done)
    }

    pub(super) fn namespaces(&mut self, log: &dyn FactLog) -> Reply {
        Reply::Namespaces(self.state.namespaces.iter().map(|(_, namespace)| view(namespace, log.position())).collect())
    }

    pub(super) fn stats(&mut self, name: &NamespaceName, log: &dyn FactLog) -> Result<Reply, Refusal> {
        let number = self.namespace_of(name)?;
        Ok(Reply::Namespaces(Vec::from([view(&self.state.namespaces[number], log.position())])))
    }
}

fn view(namespace: &Namespace, position: u64) -> NamespaceView {
    NamespaceView {
        name: namespace.name.clone(),
        policy: namespace.policy.clone(),
        version: namespace.version,
        topics: namespace.topics,
        groups: Vec::from([(GroupName::default(), namespace.counts)]),
        paused: namespace.paused.iter().cloned().collect(),
        position,
    }
}
