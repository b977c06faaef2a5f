//! What follows when messages are finished: what was kept for them is let go of.

use millpond_types::{Priority, Sequence};

use crate::state::{State, TopicSlot};

impl State {
    /// Messages of one run are finished, and no longer in line or aside.
    pub(super) fn settle(&mut self, slot: TopicSlot, priority: Priority, first: Sequence) {
        let level = self.topics[slot].level_mut(priority).expect("a level stays while its topic does");
        // A run lies within one that was published, or loaded, with one TTL.
        let expiry = level.expiries.range(..=first).next_back().filter(|(_, expiry)| expiry.end > first);
        if let Some((&from, expiry)) = expiry
            && !level.holds_any(from, expiry.end)
        {
            let expiry = level.expiries.remove(&from).expect("it was found");
            self.wall_timers.remove(expiry.timer);
        }
    }
}
