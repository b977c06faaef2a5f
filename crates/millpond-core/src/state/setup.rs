//! What clients set up and what stays until somebody takes it back: how many bytes of memory it takes, about. Bindings of
//! exchanges, pauses, rules, groups and namespaces are kept by facts, and counted here; sessions, consumers and open
//! receives belong to connections, and are counted in [`crate::dispatch::living`].
//!
//! Only what decides looks at it ([`crate::decide::setup`]): facts make true whatever they say, so a journal replays
//! alike, and a broker starts with what is there, whatever memory it has.

use alloc::vec::Vec;
use core::mem::size_of;

use bytes::Bytes;
use millpond_types::{
    Binding, Condition, ExchangeName, GroupName, NamespaceName, PausedTopics, Policy, Rule, Rules, WallTime,
};

use crate::fact::NamespaceNumber;
use crate::routing::Exchange;
use crate::state::State;
use crate::state::group::Group;
use crate::state::namespace::Namespace;
use crate::state::resident::NODE;

/// What a buffer of its own takes beside its bytes: what the allocator rounds up, and the count of those who share it.
pub(crate) const BUFFER: usize = 48;
/// What other tables know of a namespace, the edges' among them.
const NAMESPACE_ELSEWHERE: usize = 256;
/// What other tables know of a group: dispatch, and what is needed of the journal.
const GROUP_ELSEWHERE: usize = 512;
/// What the tables of exchanges take for one, the edges' among them.
const EXCHANGE_ELSEWHERE: usize = 256;

/// Bytes of something in a sorted map.
pub(crate) const fn in_map<T>() -> usize {
    size_of::<T>() * NODE.0 / NODE.1
}

/// A namespace, with its policy and rules and nothing else.
pub(crate) fn of_namespace(name: &NamespaceName, rules: &Rules) -> usize {
    let own = in_map::<Namespace>() + NAMESPACE_ELSEWHERE + BUFFER + name.as_str().len();
    // Each is there as it was said, and as what it makes of the policy.
    let rule = |rule: &Rule| size_of::<Rule>() + size_of::<Policy>() + BUFFER + rule.pattern.name.as_bytes().len();
    own + rules.iter().map(rule).sum::<usize>()
}

/// A group that holds nothing.
pub(crate) fn of_group(name: &GroupName) -> usize {
    in_map::<Group>() + GROUP_ELSEWHERE + BUFFER + name.as_str().len()
}

/// A pause of a topic, or of all with a prefix.
pub(crate) fn of_pause(topics: &PausedTopics, until: WallTime) -> usize {
    let length = BUFFER + topics.as_bytes().len();
    // A prefix that no other one covers is noted twice.
    let again = if topics.is_prefix() { in_map::<Vec<u8>>() + length } else { 0 };
    let end = if until == WallTime::NEVER { 0 } else { in_map::<(WallTime, NamespaceNumber, PausedTopics)>() };
    in_map::<(PausedTopics, WallTime)>() + length + again + end
}

/// An exchange without bindings.
pub(crate) fn of_new_exchange(name: &ExchangeName) -> usize {
    size_of::<Exchange>() + EXCHANGE_ELSEWHERE + BUFFER + name.as_str().len()
}

/// An exchange with its bindings.
pub(crate) fn of_exchange(name: &ExchangeName, exchange: &Exchange) -> usize {
    of_new_exchange(name) + exchange.bindings.iter().map(of_binding).sum::<usize>()
}

/// A binding.
pub(crate) fn of_binding(binding: &Binding) -> usize {
    let condition = match &binding.condition {
        Condition::Always => 0,
        Condition::Key(key) => BUFFER + key.as_bytes().len(),
        Condition::Headers { headers, .. } => {
            let each =
                headers.iter().map(|(key, value)| size_of::<(Bytes, Bytes)>() + 2 * BUFFER + key.len() + value.len());
            BUFFER + each.sum::<usize>()
        }
    };
    in_map::<Binding>() + BUFFER + binding.target.as_bytes().len() + condition
}

impl State {
    /// Something of so many bytes is set up.
    pub(crate) fn set_up(&mut self, bytes: usize) {
        self.setup += bytes;
    }

    /// Something of so many bytes was taken back.
    pub(crate) fn taken_back(&mut self, bytes: usize) {
        self.setup -= bytes;
    }

    /// What a namespace takes with all that is set up in it.
    pub(crate) fn weigh_setup_of(&self, number: NamespaceNumber) -> usize {
        let Namespace { name, policies, paused, exchanges, groups, ending } = &self.namespaces[number];
        let groups = groups.iter().chain(ending).map(|group| of_group(&self.groups[*group].name));
        let paused = paused.iter().map(|pause| of_pause(&pause.topics, pause.until));
        let exchanges = exchanges.iter().map(|(name, exchange)| of_exchange(name, exchange));
        of_namespace(name, &policies.rules) + groups.chain(paused).chain(exchanges).sum::<usize>()
    }

    /// What all that is set up takes. Looks at each of it.
    pub(crate) fn weigh_setup(&self) -> usize {
        self.namespaces.iter().map(|(number, _)| self.weigh_setup_of(number)).sum()
    }
}
