//! Topics that something has happened to in a turn, and those that came into memory: before dispatch each is settled by its policy
//! and told to those who may be waiting for it; behind it, each gives what is too much to the store, or vanishes.

use alloc::vec::Vec;

use crate::Core;
use crate::fact::{Fact, FactLog};
use crate::page::AgePage;
use crate::state::TopicSlot;
use crate::state::bucket::Draw;
use crate::state::topic::{Topic, Touched};
use crate::state::warm::TOGETHER;

impl Core {
    /// Brings what the topics that something happened to are offered at up to date, and settles them before that, in the
    /// order of their numbers: that in which they were touched depends on which of them had to be brought into memory. Those
    /// that only came there wait for the job that goes over topics of their group, if there is one, as they would have if
    /// they had been there; and where it passes them over, for what happens to them next.
    pub(super) fn look_at_touched(&mut self, log: &mut dyn FactLog) {
        let mut news = Vec::new();
        for at in 0..self.state.touched.len() {
            let slot = self.state.touched[at];
            let topic = &self.state.topics[slot];
            let is_its_time = topic.touched == Touched::Changed
                || topic.is_gone_over() && self.state.groups[topic.group].unsettled.is_none();
            if is_its_time && self.has_to_settle(slot) {
                news.push((topic.number, topic.group, slot));
            } else {
                // Most have nothing to settle.
                self.refresh(slot);
            }
        }
        news.sort_unstable();
        for (.., slot) in news {
            self.settle(slot, log);
            self.refresh(slot);
        }
    }

    /// Whether [`Core::settle`] would change a topic.
    fn has_to_settle(&self, slot: TopicSlot) -> bool {
        self.state.has_other_wait(slot) || self.state.fit(slot).is_some() || self.state.age(slot).is_some()
    }

    /// Sees to it that a topic has the tokens, stands where, and waits for what its policy says, whatever it was under before.
    /// Whether that is news.
    pub(crate) fn settle(&mut self, slot: TopicSlot, log: &mut dyn FactLog) -> bool {
        let fit = self.state.fit(slot);
        if let Some(draw) = fit {
            self.drawn(slot, draw, log);
        }
        let waits = self.state.has_other_wait(slot);
        if waits {
            let Topic { number: topic, group, waits_for_retry, .. } = self.state.topics[slot];
            self.commit(Fact::Waits { topic, group, for_retry: !waits_for_retry }, log);
        }
        self.age(slot, log) || fit.is_some() || waits
    }

    /// Takes note of where a topic stands by now, for what waits in it. Whether that is news.
    pub(crate) fn age(&mut self, slot: TopicSlot, log: &mut dyn FactLog) -> bool {
        let Some(AgePage { level, raise }) = self.state.age(slot) else { return false };
        let Topic { number: topic, group, .. } = self.state.topics[slot];
        self.commit(Fact::Aged { topic, group, level, raise }, log);
        true
    }

    /// Takes tokens out of the bucket of a topic, if its rate has a limit.
    pub(super) fn draw(&mut self, slot: TopicSlot, count: u32, log: &mut dyn FactLog) {
        if let Some(draw) = self.state.draw(slot, count) {
            self.drawn(slot, draw, log);
        }
    }

    fn drawn(&mut self, slot: TopicSlot, Draw { full, dry }: Draw, log: &mut dyn FactLog) {
        let Topic { number: topic, group, .. } = self.state.topics[slot];
        self.commit(Fact::Drawn { topic, group, full, dry }, log);
    }

    /// Topics that something happened to vanish if nothing is left of them, in the order of their numbers: that in which
    /// they were touched depends on which of them had to be brought into memory.
    pub(super) fn vanish(&mut self, log: &mut dyn FactLog) {
        // As many may be touched in the next turn, and lists that grow are copied.
        let count = self.state.touched.len();
        let (mut empty, next) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for slot in core::mem::replace(&mut self.state.touched, next) {
            let topic = &self.state.topics[slot];
            if topic.is_empty() && !self.state.is_kept_empty(topic) {
                assert!(topic.offered.is_none(), "a topic without messages offers nothing");
                empty.push((topic.number, topic.group, slot));
                continue;
            }
            if self.state.store_middles(slot) > 0 {
                self.state.lengthen(slot);
            }
            let wants = self.state.store_resting(slot);
            let goes_on = wants.is_empty() && self.state.rest_too_many(slot);
            wants.into_iter().for_each(|want| self.want_aside(want));
            self.state.topics[slot].touched = Touched::No;
            if goes_on {
                self.state.came(slot);
            }
            self.state.used(slot);
            self.refresh(slot);
            self.state.arm_bucket(slot);
            self.state.arm_raise(slot);
        }
        empty.sort_unstable();
        for (at, (topic, group, slot)) in empty.iter().copied().enumerate() {
            if at % TOGETHER == 0 && self.state.topics.are_far() {
                self.state.topics.warm_places(empty[at..].iter().map(|(.., slot)| *slot).take(TOGETHER));
            }
            self.state.topics.take_up(slot);
            self.commit(Fact::TopicVanished { topic, group }, log);
        }
        self.state.forget_gone();
    }
}
