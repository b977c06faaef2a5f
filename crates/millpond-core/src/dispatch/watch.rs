//! The watch: a topic that is ready, a consumer with credit that admits it, and nobody who was told of either. Wake-ups
//! derive from state, so there is no such pair. That this is so is proved over again, a slice of the topics and of the
//! scopes at a time; a pair that is found all the same is brought together, and counted.

use alloc::vec::Vec;

use millpond_types::{Millis, RunTime};

use crate::Core;
use crate::dispatch::scope::ScopeSlot;
use crate::state::TopicSlot;

/// How often the watch looks.
pub const WATCH_EVERY: Millis = Millis(1000);
/// Places of topics looked at in one turn: a tenth of a millisecond.
const TOPICS: usize = 1000;
/// Places of scopes looked at in one turn: of the lists that nobody uses there may be 64 a group.
const SCOPES: usize = 256;
/// Consumers looked at in one turn, of those that are given nothing because of what their sessions hold.
const CONSUMERS: usize = 1000;

#[derive(Default)]
pub(crate) struct Watch {
    /// When it looks next.
    next: RunTime,
    topic: usize,
    scope: usize,
    forgotten: u64,
}

impl Core {
    /// How many topics and scopes were found that somebody should have been told of, since the start. Anything but zero is
    /// a bug of the broker that did no harm.
    pub fn forgotten(&self) -> u64 {
        self.dispatcher.watch.forgotten
    }

    /// Lets dispatch forget whom it was to tell of what. For simulations: the watch has to find all of it.
    pub fn forget_wake_ups(&mut self) {
        self.dispatcher.scopes.forget_wake_ups();
        self.forget_rationed();
    }

    /// Takes one in so many of the topics that are ready out of the order, as if nothing were to be had there, and returns
    /// how many. For simulations: the watch has to put all of them back.
    pub fn forget_ready(&mut self, one_in: usize) -> usize {
        let topics = self.state.topics.iter();
        let ready = topics.filter(|(_, topic)| topic.offered.is_some()).map(|(slot, _)| slot);
        let lost: Vec<TopicSlot> = ready.step_by(one_in).collect();
        for slot in &lost {
            self.state.topics.offer(*slot, None);
            self.dispatcher.scopes.tell(*slot, &self.state);
        }
        lost.len()
    }

    /// Whether there is anything for the watch to look at: then a turn is due after [`WATCH_EVERY`], whatever
    /// [`Core::next_wake`] says.
    pub fn is_watched(&self) -> bool {
        self.state.topics.len() > 0 && !self.dispatcher.consumers.is_empty()
    }

    /// Looks at the next ones, if it is time. What this turn has touched must have been told of.
    pub(super) fn watch(&mut self) {
        let now = self.state.now.run;
        // What a change of policy or a pause has done is told by a sweep of its own.
        if now < self.dispatcher.watch.next || !self.state.sweeps.is_empty() {
            return;
        }
        self.dispatcher.watch.next = now + WATCH_EVERY;
        let from = self.dispatcher.watch.topic;
        for slot in from..from + TOPICS.min(self.state.topics.places()) {
            let slot = (slot % self.state.topics.places()) as u32;
            if self.state.topics.get(slot).is_some() && self.state.refresh(slot) {
                self.dispatcher.scopes.tell(slot, &self.state);
                self.dispatcher.watch.forgotten += 1;
            }
        }
        self.dispatcher.watch.topic = (from + TOPICS) % self.state.topics.places().max(1);
        let (from, places) = (self.dispatcher.watch.scope, self.dispatcher.scopes.slots.capacity());
        for slot in from..from + SCOPES.min(places) {
            self.watch_scope((slot % places) as ScopeSlot);
        }
        self.dispatcher.watch.scope = (from + SCOPES) % places.max(1);
        self.dispatcher.watch.forgotten += self.watch_rationed(CONSUMERS);
    }

    fn watch_scope(&mut self, slot: ScopeSlot) {
        let scopes = &mut self.dispatcher.scopes;
        let is_stirred = scopes.is_stirred(slot);
        let Some(scope) = scopes.slots.get_mut(slot as usize) else { return };
        let before = scope.tell_all();
        if scope.hungry.is_empty() {
            return;
        }
        let turn = scopes.next_turn(slot, &self.state, &self.dispatcher.reach);
        // Who waits for what was being read, and that was nothing, is told so as well.
        scopes.slots[slot as usize].is_held = turn.is_err();
        // Where it takes a read to know, nobody can say that it was forgotten.
        let is_forgotten = matches!(&turn, Ok(Some(turn)) if !is_stirred || !turn.is_at(before));
        self.dispatcher.watch.forgotten += u64::from(is_forgotten);
        if !matches!(turn, Ok(None)) {
            scopes.stir(slot);
        }
    }
}
