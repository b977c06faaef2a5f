//! Office and epoch: what the candidates of an exclusive group are told, over all losses. An epoch is one session's for
//! ever, and deliveries of one never come among those of another.
//!
//! That leases of one epoch are over before deliveries of the next begin is an invariant of the core, and is checked
//! after each turn.

use std::collections::BTreeMap;

use millpond_types::{LeaderEpoch, Role, SessionId, Standing};

use crate::sights::Sights;
use crate::verdict::Violation;

/// See the module.
#[derive(Default)]
pub struct Offices {
    leaders: BTreeMap<LeaderEpoch, SessionId>,
    /// The epoch of the last delivery.
    delivered: LeaderEpoch,
}

impl Offices {
    /// A candidate was told what it is.
    pub fn standing(&mut self, session: SessionId, standing: Standing, sights: &mut Sights) -> Result<(), Violation> {
        let Standing { role, epoch, .. } = standing;
        if matches!(role, Role::Inaugurate | Role::Lead) {
            self.leads(session, epoch, sights)?;
        }
        sights.saw_many("offices led", u64::from(role == Role::Lead));
        Ok(())
    }

    /// Messages came.
    pub fn delivered(&mut self, session: SessionId, epoch: LeaderEpoch, sights: &mut Sights) -> Result<(), Violation> {
        sights.saw("delivered by an office");
        self.leads(session, epoch, sights)?;
        let before = std::mem::replace(&mut self.delivered, epoch);
        if epoch < before {
            return Err(Violation::offices(format!("a delivery of epoch {} comes after {}", epoch.0, before.0)));
        }
        Ok(())
    }

    fn leads(&mut self, session: SessionId, epoch: LeaderEpoch, sights: &mut Sights) -> Result<(), Violation> {
        let highest = self.leaders.last_key_value().map_or(LeaderEpoch(0), |(highest, _)| *highest);
        sights.saw_many("epochs above an earlier one", u64::from(!self.leaders.is_empty() && epoch > highest));
        if epoch < highest && !self.leaders.contains_key(&epoch) {
            return Err(Violation::growth(format!("epoch {} is told of first behind {}", epoch.0, highest.0)));
        }
        let known = *self.leaders.entry(epoch).or_insert(session);
        if known != session {
            let what = format!("epoch {} is that of {session:?}, and was that of {known:?}", epoch.0);
            return Err(Violation::offices(what));
        }
        Ok(())
    }
}
