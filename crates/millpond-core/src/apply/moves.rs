//! Messages lie at another place in the journal. Nothing else of them changes: not their place in the topic, no lease, no
//! timer and no count.

use millpond_types::block::Sizes;
use millpond_types::{Priority, Sequence};

use crate::apply::Place;
use crate::page::{DeadPage, Page};
use crate::state::{State, TopicSlot};

impl State {
    pub(super) fn moved(
        &mut self,
        slot: TopicSlot,
        priority: Priority,
        (first, count): (Sequence, u32),
        (position, sizes): (u64, &Sizes),
    ) {
        let place = self.place_of(slot, priority, first);
        let level = self.topics[slot].level_mut(priority).expect("a fact names a level that exists");
        let run = match place {
            Place::Line => level.line.run_mut(first),
            Place::Aside(at) => &mut level.aside.get_mut(&at).expect("it was just found").run,
        };
        assert_eq!((run.first, run.count), (first, count), "a run moves as a whole");
        let moved = run.moved_to(position, sizes.clone());
        let before = core::mem::replace(run, moved).extent();
        self.keep(slot, before.length);
        self.free(slot, before);
        // Its page says something else now, and it may take more or less memory.
        self.touch(slot);
    }

    pub(super) fn dead_moved(&mut self, letter: &DeadPage, position: u64) {
        let run = letter.run.moved_to(position, letter.run.sizes.clone());
        let (group, before) = (letter.group, letter.run.extent());
        self.holdings.store(group, before.length);
        self.holdings.freed.push((group, before));
        let moved = DeadPage { run, ..letter.clone() };
        self.set_entry(&moved.key(), Some(&Page::Dead(moved)));
    }
}
