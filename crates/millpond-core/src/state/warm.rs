//! Topics that are about to be looked at one after the other, brought near the processor together.
//!
//! Among very many topics, each part of one that a fact needs is far off in memory, and every part is waited for. Where it
//! is known which topics come next, what will be needed of them is read beforehand, of several at a time: so it is waited
//! for all at once. Nothing is decided by it and nothing changes.

use core::hint::black_box;

use millpond_types::TopicNumber;

use crate::state::topic::AsideWhy;
use crate::state::topics::Topics;
use crate::state::{State, TopicSlot};

/// Topics that are brought near at a time: more than a processor can wait for at once, and so few that the first of them
/// is still near when it has its turn.
pub(crate) const TOGETHER: usize = 16;
/// With fewer topics in memory than this, about as many as fit a processor's own cache, all are near anyway.
const FAR: usize = 512;

impl Topics {
    /// Whether there are so many that one is mostly far off.
    pub(crate) fn are_far(&self) -> bool {
        self.len() >= FAR
    }
}

impl State {
    /// Brings near what is needed to end leases of topics with these numbers, of which there are [`TOGETHER`] at most.
    pub(crate) fn warm_leased(&self, numbers: impl Iterator<Item = TopicNumber>) {
        let mut slots = [0; TOGETHER];
        let mut found = 0;
        for (place, slot) in slots.iter_mut().zip(numbers.filter_map(|number| self.topics.first_sibling(number))) {
            *place = slot;
            found += 1;
        }
        slots[..found].iter().for_each(|slot| _ = black_box(self.touch_lease(*slot)));
    }

    /// Brings near what is needed to lease from topics, of which there are [`TOGETHER`] at most. Some may be gone.
    pub(crate) fn warm_waiting(&self, slots: impl Iterator<Item = TopicSlot>) {
        slots.for_each(|slot| _ = black_box(self.touch_waiting(slot)));
    }

    /// Something of each part of a topic, of its place in the order, and of its neighbours in that of use.
    fn touch_waiting(&self, slot: TopicSlot) -> Option<u64> {
        let topic = self.topics.get(slot)?;
        black_box(self.topics.order.position(slot));
        let level = topic.levels.front()?;
        let own = topic.in_flight ^ topic.hashes.tenant ^ level.next.0 ^ level.ready.len() as u64;
        let name = topic.name.as_bytes().last().copied();
        let beside = topic.residence.neighbours().map(|slot| self.topics.get(slot).map_or(0, |topic| topic.in_flight));
        let front = level.line.front().map_or(0, |run| run.position);
        Some(own ^ front ^ beside[0] ^ beside[1] ^ u64::from(name?))
    }

    /// Something of each part of a topic and its first lease that is a place in memory of its own.
    fn touch_lease(&self, slot: TopicSlot) -> Option<u64> {
        let topic = &self.topics[slot];
        let level = topic.levels.front()?;
        let own = topic.in_flight ^ topic.hashes.tenant ^ level.next.0 ^ level.ready.len() as u64;
        let (_, aside) = level.aside.iter().next()?;
        let AsideWhy::Leased(lease) = aside.state else { return None };
        let lease = &self.leases[lease as usize];
        let beside = [lease.previous, lease.next].map(|slot| slot.map_or(0, |slot| self.leases[slot as usize].count));
        Some(own ^ aside.run.position ^ u64::from(beside[0] ^ beside[1]))
    }
}
