//! Namespaces: made, altered, deleted, listed and counted.

use alloc::format;
use alloc::vec::Vec;

use millpond_types::limits::{NAMESPACES_MAX, PAGE_BYTES_MAX, PAGE_MAX};
use millpond_types::{Code, Counted, GroupKind, GroupName, NamespaceName, NamespaceView, Policy, Rules, Start, Usage};

use crate::Core;
use crate::decide::Refusal;
use crate::fact::{Fact, FactLog};
use crate::output::Reply;
use crate::state::group::Group;
use crate::state::namespace::Namespace;
use crate::state::setup;

impl Core {
    pub(super) fn namespace_set(
        &mut self,
        (name, based_on): (NamespaceName, Option<u64>),
        policy: Policy,
        rules: Rules,
        log: &mut dyn FactLog,
    ) -> Result<Reply, Refusal> {
        rules.validate(&policy).map_err(|bad| (Code::PolicyInvalid, format!("{bad}")))?;
        let number = self.state.namespaces.number(&name);
        let version = number.map_or(0, |number| self.state.namespaces[number].policies.version);
        if let Some(based_on) = based_on.filter(|based_on| *based_on != version) {
            let detail = match (version, based_on) {
                (0, _) => format!("there is no namespace {name} any more"),
                (_, 0) => format!("namespace {name} exists already"),
                _ => format!(
                    "namespace {name} is of version {version} by now, and what was to be changed is {based_on}; read it again"
                ),
            };
            return Err((Code::NamespaceChanged, detail));
        }
        let (number, version) = match number {
            Some(number) => (number, version + 1),
            None if self.state.namespaces.len() >= NAMESPACES_MAX => {
                return Err((Code::LimitExceeded, format!("a broker has at most {NAMESPACES_MAX} namespaces")));
            }
            None => (self.state.numbers.next_namespace, 1),
        };
        let bytes = setup::of_namespace(&name, &rules);
        self.check_setup(match self.state.namespaces.get(number) {
            Some(known) => bytes.saturating_sub(setup::of_namespace(&name, &known.policies.rules)),
            None => bytes + setup::of_group(&GroupName::default()),
        })?;
        let dispatch = policy.dispatch;
        self.commit(Fact::NamespaceSet { number, name, policy, rules, version }, log);
        self.dispatcher.scopes.set_dispatch(&self.state.namespaces[number].groups, dispatch);
        if version == 1 {
            let (group, name) = (self.state.numbers.next_group, GroupName::default());
            let (start, kind) = (Start::Latest, GroupKind::Shared);
            self.commit(Fact::GroupCreated { group, namespace: number, name, start, kind }, log);
        }
        Ok(Reply::Done)
    }

    pub(super) fn namespace_delete(&mut self, name: &NamespaceName, log: &mut dyn FactLog) -> Result<Reply, Refusal> {
        let number = self.namespace_of(name)?;
        if number == 0 {
            return Err((Code::NamespaceInUse, "the namespace `default` always exists".into()));
        }
        let home = &self.state.namespaces[number];
        let groups = [&home.groups[..], &home.ending[..]].concat();
        let of = || groups.iter().map(|group| &self.state.groups[*group]);
        if !of().all(Group::is_empty) {
            let topics = Counted(of().map(|group| group.topics).max().unwrap_or(0), "topic");
            let dead = Counted(of().map(|group| group.counts.dead).sum(), "dead letter");
            let is_idle = of().all(|group| group.usage().messages == 0);
            let detail = match is_idle {
                // Nobody sees them in a list.
                true => format!(
                    "namespace {name} has {topics} of which nothing is left but the bucket of their rate; set its rate to none first"
                ),
                false => {
                    format!("namespace {name} still has {topics} and {dead}; finish or purge all of it first")
                }
            };
            return Err((Code::NamespaceInUse, detail));
        }
        let users = self.dispatcher.consumers.iter().filter(|(_, consumer)| groups.contains(&consumer.group)).count();
        if users > 0 {
            let users = Counted(users as u64, "consumer");
            let detail = format!("namespace {name} has {users} attached; it is deleted when none is left");
            return Err((Code::NamespaceInUse, detail));
        }
        for group in &groups {
            let leader = self.state.office(*group).and_then(|office| office.leader);
            self.dispatcher.close_office(*group, leader);
            self.state.emptied.extend(leader);
        }
        self.commit(Fact::NamespaceDeleted { number }, log);
        groups.into_iter().for_each(|group| self.dispatcher.scopes.close_group(group));
        Ok(Reply::Done)
    }

    pub(super) fn namespaces(&self, after: Option<&NamespaceName>, log: &dyn FactLog) -> Reply {
        let (mut rows, mut bytes) = (Vec::<NamespaceView>::new(), 0);
        for namespace in self.state.namespaces.after(after) {
            let view = self.view(namespace, log.position());
            bytes += view.frame_bytes();
            if rows.len() == PAGE_MAX || bytes > PAGE_BYTES_MAX {
                let next = rows.last().map(|row| row.name.clone());
                return Reply::Namespaces { rows, next };
            }
            rows.push(view);
        }
        Reply::Namespaces { rows, next: None }
    }

    pub(super) fn stats(&mut self, name: &NamespaceName, log: &dyn FactLog) -> Result<Reply, Refusal> {
        let number = self.namespace_of(name)?;
        let rows = Vec::from([self.view(&self.state.namespaces[number], log.position())]);
        Ok(Reply::Namespaces { rows, next: None })
    }

    /// All namespaces as they are now, of no position: for tests, which hold each turn against what they know.
    pub fn namespaces_now(&self) -> impl Iterator<Item = NamespaceView> {
        self.state.namespaces.after(None).map(|namespace| self.view(namespace, 0))
    }

    fn view(&self, namespace: &Namespace, position: u64) -> NamespaceView {
        let groups = || namespace.groups.iter().map(|group| &self.state.groups[*group]);
        NamespaceView {
            name: namespace.name.clone(),
            policy: namespace.policies.base.clone(),
            rules: namespace.policies.rules.clone(),
            version: namespace.policies.version,
            usage: groups().map(Group::usage).fold(Usage::default(), Usage::most),
            groups: groups().map(Group::view).collect(),
            offices: self.offices(namespace).collect(),
            paused: namespace.paused.iter().collect(),
            position,
        }
    }
}
