//! Who holds the office of an exclusive group, and whose leases are left of the time before.

use millpond_types::{LeaderEpoch, RunTime, SessionId};

use crate::fact::GroupNumber;
use crate::state::State;

impl State {
    pub(super) fn office_taken(&mut self, group: GroupNumber, session: SessionId, epoch: LeaderEpoch) {
        let office = self.office_mut(group);
        assert!(office.leader.is_none(), "an office has one leader at most");
        assert!(epoch > office.epoch, "epochs grow strictly");
        (office.leader, office.epoch) = (Some(session), epoch);
        self.numbers.epochs = self.numbers.epochs.max(epoch);
    }

    pub(super) fn office_left(&mut self, group: GroupNumber, until: RunTime) {
        let office = self.office_mut(group);
        let leader = office.leader.take().expect("who leaves an office has held it");
        // One who was still waiting has leased nothing: it is the leases of the one before that are waited for.
        let (of, _) = office.outgoing.unwrap_or((leader, until));
        office.outgoing = Some((of, until));
    }

    pub(super) fn handed_over(&mut self, group: GroupNumber) {
        assert_eq!(self.groups[group].counts.leased, 0, "nothing is handed over that somebody has leased");
        let outgoing = self.office_mut(group).outgoing.take();
        assert!(outgoing.is_some(), "an office is handed over once");
    }
}
