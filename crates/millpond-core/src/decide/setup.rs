//! Whether there is memory for what is to be set up. What would be too much is refused at once, and nothing that is there
//! goes for it; to take something back is always allowed, and makes room.
//!
//! What facts keep has one half of the share and what connections hold the other, so that neither can take all of it from
//! the other. What was set up when there was more memory stays. Of the second half a part is
//! for clients that hold little; of the rest none may hold more than it leaves free: the first one half of it, the next one half
//! of what is left ([`crate::dispatch::living`]).

use alloc::format;

use millpond_types::Code;

use crate::Core;
use crate::decide::Refusal;

impl Core {
    /// Sets how many bytes there are for what clients set up.
    pub fn set_setup_room(&mut self, bytes: usize) {
        self.setup_max = bytes / 2;
        self.dispatcher.living_max = bytes / 2;
    }

    /// About how many bytes of it bindings, pauses, rules, groups and namespaces take, and how many sessions, consumers and
    /// open receives.
    pub fn setup_bytes(&self) -> (usize, usize) {
        (self.state.setup, self.dispatcher.living_bytes())
    }

    /// Refuses what would take too much. `bytes` is what there would be more than there is.
    pub(super) fn check_setup(&self, bytes: usize) -> Result<(), Refusal> {
        let (taken, max) = (self.state.setup, self.setup_max);
        if bytes == 0 || taken.saturating_add(bytes) <= max {
            return Ok(());
        }
        let detail = format!(
            "bindings, pauses, rules, groups and namespaces take {taken} bytes of memory, and of the {max} that there are for them \
             too few are left: take back what nobody needs, or give the broker more memory with `--memory`"
        );
        Err((Code::Overloaded, detail))
    }

    /// Refuses a session where those that are there, and what they hold, leave no room.
    pub(super) fn check_session(&mut self) -> Result<(), Refusal> {
        if self.dispatcher.has_room_for_session() { Ok(()) } else { Err(self.too_many_living()) }
    }

    /// One client would hold more than a little, and more than is left for all others who do.
    pub(super) fn too_much_of_one(&self, held: usize) -> Refusal {
        let (max, free) = (self.dispatcher.room_for_much(), self.dispatcher.free_for_much());
        let detail = format!(
            "the consumers, or open receives, of this connection take {held} bytes of memory with the names in their filters, and \
             of the {max} that there are for all connections that hold more than a little {free} are free: no connection may hold \
             more than it leaves for others, so end some, use fewer and shorter filters, or give the broker more memory with \
             `--memory`"
        );
        (Code::Overloaded, detail)
    }

    pub(super) fn too_many_living(&self) -> Refusal {
        let (taken, max) = (self.dispatcher.living_bytes(), self.dispatcher.living_max);
        let detail = format!(
            "sessions, consumers and open receives take {taken} bytes of memory with the names in their filters, and of the {max} \
             that there are for them too few are left: try again when some have ended, use fewer and shorter filters, or give \
             the broker more memory with `--memory`"
        );
        (Code::Overloaded, detail)
    }
}
