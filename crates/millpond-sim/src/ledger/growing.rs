//! Growth of lease numbers: of one topic, over all its groups and lives, each is higher than those before it. That holds
//! in the namespaces too that the rest of the ledger leaves alone.

use std::collections::BTreeMap;

use millpond_core::fact::{Fact, GroupNumber, NamespaceNumber};
use millpond_types::{LeaseNumber, TopicName, TopicNumber};

use crate::sights::Sights;
use crate::verdict::Violation;
use crate::versioned::Versioned;

type Home = (NamespaceNumber, TopicName);

/// See the module.
#[derive(Default)]
pub(super) struct Growing {
    /// Whose life a number is. None goes back with the journal, for no number of a topic is ever given out again.
    homes: BTreeMap<TopicNumber, Home>,
    highest: Versioned<Home, Highest>,
}

#[derive(Clone, Copy)]
struct Highest {
    topic: TopicNumber,
    group: GroupNumber,
    lease: LeaseNumber,
}

impl Growing {
    /// Notes a fact; refuses a lease that lies no higher than one before it.
    pub(super) fn follow(&mut self, fact: &Fact, at: u64, sights: &mut Sights) -> Result<(), Violation> {
        match fact {
            Fact::TopicCreated { topic, namespace, name, .. } => {
                self.homes.insert(*topic, (*namespace, name.clone()));
                Ok(())
            }
            Fact::Leased { topic, group, lease, count, .. } => {
                let Some(home) = self.homes.get(topic).cloned() else {
                    return Err(Violation::growth(format!("{topic:?} was never made, and is leased")));
                };
                if let Some(before) = self.highest.get(&home) {
                    sights.saw_many("leases above an earlier life's", u64::from(before.topic != *topic));
                    sights.saw_many("leases above another group's", u64::from(before.group != *group));
                    if before.lease >= *lease {
                        let name = home.1;
                        return Err(Violation::growth(format!(
                            "lease {} of topic {name} is not a higher one",
                            lease.0
                        )));
                    }
                }
                let last = LeaseNumber(lease.0 + u64::from(*count) - 1);
                self.highest.set(at, home, Some(Highest { topic: *topic, group: *group, lease: last }));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The last lease of a topic, where another group had it.
    pub(super) fn elsewhere(&self, topic: TopicNumber, group: GroupNumber) -> Option<LeaseNumber> {
        let before = self.highest.get(self.homes.get(&topic)?)?;
        (before.group != group).then_some(before.lease)
    }

    pub(super) fn go_back(&mut self, position: u64) {
        self.highest.go_back(position);
    }

    pub(super) fn settle(&mut self, position: u64) {
        self.highest.settle(position);
    }
}
