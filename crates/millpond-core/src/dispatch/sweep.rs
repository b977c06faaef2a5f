//! Goes through the topics that a change of policy or a pause may have changed, a slice a turn.

use alloc::vec::Vec;

use crate::Core;
use crate::state::TopicSlot;
use crate::state::topics::Edge;
use crate::store::Name;

/// Topics looked at again in one turn: a fraction of a millisecond.
pub(super) const SLICE: usize = 1000;

impl Core {
    pub(super) fn sweep(&mut self) {
        let mut room = SLICE;
        while room > 0
            && let Some(mut sweep) = self.state.sweeps.pop()
        {
            let (group, from) = &sweep.from;
            let (topics, until) = (&self.state.topics, &sweep.until);
            let is_over = |name: &[u8]| *group == until.0 && Name::compare_key(name, &until.1).is_ge();
            let found = topics.walk(*group, Edge::Key(from));
            let found = found.take_while(|(_, topic)| !is_over(topic.name.as_bytes())).map(|(slot, _)| slot);
            let slots: Vec<TopicSlot> = found.take(room).collect();
            slots.iter().for_each(|slot| self.look_again(*slot));
            if slots.len() == room {
                let last = &self.state.topics[slots[room - 1]];
                sweep.from = (last.group, Name::behind(last.name.as_bytes()));
                return self.state.sweeps.resume(sweep);
            }
            // An empty range costs something as well.
            room -= slots.len().max(1);
            let later = self.state.groups.after(sweep.from.0).filter(|next| *next <= sweep.until.0);
            if let Some(next) = later {
                sweep.from = (next, Vec::new());
                self.state.sweeps.resume(sweep);
            }
        }
    }

    /// Finds out anew whether a topic is paused and what it offers, and tells those who may be waiting for it: what it
    /// offered all the while they may have passed over.
    fn look_again(&mut self, slot: TopicSlot) {
        let topic = &mut self.state.topics[slot];
        topic.paused = self.state.namespaces[topic.namespace].paused.holds(&topic.name);
        if topic.levels.iter().any(|level| level.resting_count() > 0) {
            // What waits for room in pieces may wait for nothing else from here on.
            self.state.came(slot);
        }
        if self.state.refresh(slot) || self.state.topics[slot].offered.is_some() {
            self.dispatcher.scopes.tell(slot, &self.state);
        }
    }
}
