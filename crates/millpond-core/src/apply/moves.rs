//! Messages lie at another place in the journal. Nothing else of them changes: not their place in the topic, no lease, no
//! timer and no count.

use millpond_types::block::Sizes;
use millpond_types::{Priority, Sequence, TopicNumber};

use crate::apply::Place;
use crate::page::DeadPage;
use crate::state::State;

impl State {
    pub(super) fn moved(
        &mut self,
        topic: TopicNumber,
        priority: Priority,
        (first, count): (Sequence, u32),
        (position, sizes): (u64, &Sizes),
    ) {
        let slot = self.slot(topic);
        let place = self.place_of(slot, priority, first);
        let level = self.topics[slot].level_mut(priority).expect("a fact names a level that exists");
        let run = match place {
            Place::Line => level.line.run_mut(first),
            Place::Aside(at) => &mut level.aside.get_mut(&at).expect("it was just found").run,
        };
        assert_eq!((run.first, run.count), (first, count), "a run moves as a whole");
        let moved = run.moved_to(position, sizes.clone());
        self.freed.push(core::mem::replace(run, moved).extent());
        // Its page says something else now, and it may take more or less memory.
        self.touch(slot);
    }

    pub(super) fn dead_moved(&mut self, letter: &DeadPage, position: u64) {
        let DeadPage { namespace, group, id, ref run, .. } = *letter;
        let dead = &mut self.namespaces[namespace].dead;
        let dead = dead.get_mut(&(group, id)).expect("a fact names a dead letter that exists");
        self.freed.push(run.extent());
        dead.run = run.moved_to(position, run.sizes.clone());
    }
}
