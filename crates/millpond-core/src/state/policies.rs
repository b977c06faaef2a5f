//! The policy of each topic of a namespace: that of the namespace, or what a rule makes of it.
//!
//! A topic remembers which rule it is under and the version that it knows this of. So a change costs nothing by itself:
//! each topic finds its rule anew when it is next touched, and where there are no rules nothing is ever looked for.

use alloc::vec::Vec;

use millpond_types::{Policy, Rate, Rules, TopicName};

use crate::state::topic::Topic;

#[derive(Clone)]
pub(crate) struct Policies {
    pub(crate) base: Policy,
    pub(crate) rules: Rules,
    /// What each rule makes of the base.
    resolved: Vec<Policy>,
    /// Grows with each change.
    pub(crate) version: u64,
}

/// Which rule a topic is under.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Ruling {
    /// The version of the rules that this is true of.
    version: u64,
    rule: Option<u16>,
}

const _: () = assert!(millpond_types::limits::RULES_MAX <= u16::MAX as usize, "the index of a rule is a u16");

impl Policies {
    pub(crate) fn new(base: Policy, rules: Rules, version: u64) -> Policies {
        let resolved = rules.resolve(&base);
        Policies { base, rules, resolved, version }
    }

    /// The policy of a topic.
    pub(crate) fn of(&self, topic: &Topic) -> &Policy {
        if self.rules.is_empty() {
            return &self.base;
        }
        self.under(if topic.ruling.version == self.version { topic.ruling } else { self.ruling(&topic.name) })
    }

    /// The policy of a topic that may not be there.
    pub(crate) fn of_name(&self, name: &TopicName) -> &Policy {
        if self.rules.is_empty() { &self.base } else { self.under(self.ruling(name)) }
    }

    /// Lets a topic know which rule it is under.
    pub(crate) fn settle(&self, topic: &mut Topic) {
        if !self.rules.is_empty() && topic.ruling.version != self.version {
            topic.ruling = self.ruling(&topic.name);
        }
    }

    /// Whether a topic may offer otherwise under these than under others: then all have to be looked at again.
    pub(crate) fn holds_back_unlike(&self, other: &Policies) -> bool {
        let first = held_back_by(&self.base);
        let resolved = self.resolved.iter().chain(&other.resolved).chain([&other.base]);
        resolved.map(held_back_by).any(|held| held != first)
    }

    /// Whether a topic that nothing happens to is to be settled anew when these come after others: it may stand elsewhere,
    /// for the time that its messages have waited, have other tokens, or wait for what is in retry where they did not.
    pub(crate) fn settles_unlike(&self, other: &Policies) -> bool {
        self.age_unlike(other) || self.fill_unlike(other) || self.is_strict_unlike(other)
    }

    /// Whether what was in strict order may no longer be, or what was not may be.
    fn is_strict_unlike(&self, other: &Policies) -> bool {
        let both = || self.all().chain(other.all());
        both().any(Policy::is_strict) && !both().all(Policy::is_strict)
    }

    fn all(&self) -> impl Iterator<Item = &Policy> {
        self.resolved.iter().chain([&self.base])
    }

    fn age_unlike(&self, other: &Policies) -> bool {
        let is_strict_otherwise = || self.holds_back_unlike(other);
        self.base.ageing != other.base.ageing || self.base.ageing.is_some() && is_strict_otherwise()
    }

    /// Where there was no rate, no topic has a bucket.
    fn fill_unlike(&self, before: &Policies) -> bool {
        let rates = || self.rates().chain(before.rates());
        before.rates().any(|rate| rate.is_some()) && rates().any(|rate| *rate != self.base.rate)
    }

    fn rates(&self) -> impl Iterator<Item = &Option<Rate>> {
        self.all().map(|policy| &policy.rate)
    }

    fn ruling(&self, name: &TopicName) -> Ruling {
        Ruling { version: self.version, rule: self.rules.find(name).map(|at| at as u16) }
    }

    fn under(&self, ruling: Ruling) -> &Policy {
        ruling.rule.map_or(&self.base, |rule| &self.resolved[usize::from(rule)])
    }
}

/// All that a policy has to do with whether a topic that holds something ready may offer it.
fn held_back_by(policy: &Policy) -> Option<u32> {
    policy.leases_at_a_time()
}
