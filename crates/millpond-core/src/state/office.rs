//! The office of an exclusive group, as facts have left it.
//!
//! Invariant: leases of the group that a session holds are those of the leader, or of the outgoing one while there is one.
//! When a term lapses and who waits for the office is the dispatcher's business ([`crate::dispatch::offices`]).

use millpond_types::{GroupKind, LeaderEpoch, SessionId};

use crate::fact::GroupNumber;
use crate::page::OfficePage;
use crate::state::State;

impl OfficePage {
    /// The office of a new group, behind all epochs that there were; `None` for a shared one.
    pub(crate) fn of(kind: GroupKind, epochs: LeaderEpoch) -> Option<OfficePage> {
        match kind {
            GroupKind::Shared => None,
            GroupKind::Exclusive(terms) => Some(OfficePage { terms, epoch: epochs, leader: None, outgoing: None }),
        }
    }

    /// Who is delivered to.
    pub(crate) fn served(&self) -> Option<SessionId> {
        self.leader.filter(|_| self.outgoing.is_none())
    }
}

impl State {
    pub(crate) fn office(&self, group: GroupNumber) -> Option<&OfficePage> {
        self.groups.get(group)?.office.as_deref()
    }

    /// Whether any group has a leader.
    pub(crate) fn is_led(&self) -> bool {
        self.groups.iter().any(|(_, group)| group.office.as_deref().is_some_and(|office| office.leader.is_some()))
    }

    pub(crate) fn office_mut(&mut self, group: GroupNumber) -> &mut OfficePage {
        self.groups[group].office.as_deref_mut().expect("a fact about an office is one about an exclusive group")
    }
}
