//! A namespace: its policies, what is paused, its exchanges.

use std::collections::{BTreeMap, BTreeSet};

use millpond_types::{
    Binding, ExchangeKind, ExchangeName, NamespaceName, PausedTopics, Policy, Rule, Rules, TopicName, Unroutable,
    WallTime,
};

/// A namespace.
#[derive(Clone)]
pub struct Home {
    /// Its name.
    pub name: NamespaceName,
    /// Its policy, as it was asked for.
    pub policy: Policy,
    /// What it says otherwise for some topics, likewise.
    pub rules: Rules,
    /// The version of both.
    pub version: u64,
    /// What is paused, and until when.
    pub paused: BTreeMap<PausedTopics, WallTime>,
    /// Its exchanges.
    pub exchanges: BTreeMap<ExchangeName, Exchange>,
}

/// An exchange.
#[derive(Clone)]
#[allow(missing_docs, reason = "the words of the broker")]
pub struct Exchange {
    pub kind: ExchangeKind,
    pub unroutable: Unroutable,
    pub bindings: BTreeSet<Binding>,
}

impl Home {
    pub(super) fn new(name: NamespaceName, policy: Policy, rules: Rules) -> Home {
        let (paused, exchanges) = (BTreeMap::new(), BTreeMap::new());
        Home { name, policy, rules, version: 1, paused, exchanges }
    }

    /// The policy of a topic: the namespace's, or what the rule that is closest to its name makes of it.
    pub fn policy_of(&self, name: &TopicName) -> Policy {
        let fits = |rule: &&Rule| match rule.pattern.is_prefix {
            true => name.as_bytes().starts_with(rule.pattern.name.as_bytes()),
            false => rule.pattern.name == *name,
        };
        let fitting = self.rules.iter().filter(fits);
        let closest = fitting.max_by_key(|rule| (!rule.pattern.is_prefix, rule.pattern.name.as_bytes().len()));
        closest.map_or_else(|| self.policy.clone(), |rule| rule.overrides.over(&self.policy))
    }

    /// Whether topics may stand elsewhere than they did before, for the time that they have waited, or no longer wait for what
    /// is in retry: then all of them are gone over.
    pub(super) fn settles_unlike(&self, before: &Home) -> bool {
        let limits = |home: &Home| -> Vec<_> {
            let resolved = home.rules.resolve(&home.policy);
            resolved.iter().chain([&home.policy]).map(Policy::leases_at_a_time).collect()
        };
        let own = self.policy.leases_at_a_time();
        let is_limited_otherwise = || limits(self).into_iter().chain(limits(before)).any(|limit| limit != own);
        let ages = self.policy.ageing != before.policy.ageing || self.policy.ageing.is_some() && is_limited_otherwise();
        ages || limits(before).contains(&Some(1)) && limits(self).iter().any(|limit| *limit != Some(1))
    }

    /// Whether deliveries of a topic are stopped.
    pub fn is_paused(&self, name: &TopicName) -> bool {
        self.paused.keys().any(|paused| paused.covers(name))
    }
}
