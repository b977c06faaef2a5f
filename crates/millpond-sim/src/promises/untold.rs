//! Nobody who waits is forgotten: when nothing goes on any more, there is nothing ready that a receive which waits, or a
//! consumer with credit, asks for. Left out is who may be given less because of the memory that leases take.

use millpond_core::Core;
use millpond_core::fact::GroupNumber;
use millpond_types::{Filter, SessionId};

use super::{Kept, Promises};
use crate::verdict::Violation;

impl Promises {
    /// Looks at all who wait, where nothing goes on.
    pub fn look_for_untold(&mut self, core: &Core) -> Kept {
        let receiving = self.seats.receiving().map(|seat| (seat, "a receive that waits".to_owned()));
        let hungry = self.credits.hungry().filter_map(|of| Some((self.seats.attached(of)?, of)));
        let hungry = hungry.map(|(seat, (session, number))| (seat, format!("consumer {number} of {session:?}")));
        for (seat, who) in receiving.chain(hungry) {
            let is_rationed =
                !seat.at_most_once && self.rations.may_ration(core, &self.model, (seat.holder, seat.group));
            if is_rationed || !self.is_served(seat.group, seat.holder) {
                continue;
            }
            if self.holds_any(seat.holder) {
                self.sights.saw("who holds leases and waits for nothing");
            }
            self.sights.saw(if seat.holder == SessionId(0) {
                "receives that wait for nothing"
            } else {
                "consumers that wait for nothing"
            });
            if let Some(ready) = self.ready_for(seat.group, &seat.filter) {
                return Err(Violation::stuck(format!("{ready} is ready, and {who} is not told")));
            }
        }
        Ok(())
    }

    /// Receives that nobody has answered or withdrawn.
    pub fn waits(&self) -> usize {
        self.seats.receiving().count()
    }

    fn holds_any(&self, holder: SessionId) -> bool {
        self.model.leases().any(|(.., message)| message.terms.holder == holder)
    }

    /// Whether a session is given what is ready of a group: where one leads it, nobody else is.
    fn is_served(&self, group: GroupNumber, session: SessionId) -> bool {
        let of = self.model.groups.get(&group);
        of.is_some_and(|of| of.office.is_none_or(|office| office.leader == Some(session) && office.outgoing.is_none()))
    }

    fn ready_for(&self, group: GroupNumber, filter: &Filter) -> Option<String> {
        let mut ready = self.model.ready_of(group, self.now.wall).into_iter();
        ready.find(|(name, _)| filter.admits(name)).map(|(name, _)| name.to_string())
    }
}
