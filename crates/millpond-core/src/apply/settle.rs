//! What follows when messages are finished: what was kept for those before the completion cursor is let go of.

use millpond_types::Priority;

use crate::state::{State, TopicSlot};

impl State {
    pub(super) fn settle(&mut self, slot: TopicSlot, priority: Priority) {
        let level = self.topics[slot].level_mut(priority).expect("a level stays while its topic does");
        let completion = level.completion();
        while let Some(entry) = level.expiries.first_entry().filter(|entry| entry.get().0 <= completion) {
            let (_, timer) = entry.remove();
            self.wall_timers.remove(timer);
        }
        let level = self.topics[slot].level_mut(priority).expect("a level stays while its topic does");
        while level.marks.first_entry().is_some_and(|entry| *entry.key() < completion) {
            level.marks.pop_first();
        }
    }
}
