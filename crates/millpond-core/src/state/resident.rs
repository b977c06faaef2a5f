//! Which topics are in memory, what they take there, and which of them leaves first: the one that nothing has happened to
//! for longest. Nothing that is decided depends on it, but when leases are given ([`super::leased`]).
//!
//! Topics are linked through themselves in the order of their last use, so that use and leaving cost nothing to look for.

use alloc::collections::VecDeque;
use core::mem::size_of;

use millpond_types::{Millis, RunTime, Sequence};

use crate::page::RunPage;
use crate::state::ageing::Age;
use crate::state::bucket::Bucket;
use crate::state::resting::Resting;
use crate::state::topic::{Aside, AsideWhy, Expiry, Lease, Level, Topic};
use crate::state::{Now, State, TopicSlot};

/// Bytes that the tables by name and by number take for a topic, at the fill that they have on average.
const INDEX_BYTES: usize = 64;
/// Bytes of an entry in the time index.
const TIMER_BYTES: usize = 64;
/// Entries that a node of a sorted map has room for, and that it holds on average.
pub(super) const NODE: (usize, usize) = (11, 7);
/// Bytes that a topic takes at most for each message that is leased, with what is aside of it, whatever else it holds: in a
/// lease of its own, and with a dedup id that it shares with none.
pub(crate) const LEASE_BYTES: usize =
    size_of::<Lease>() + size_of::<Aside>() + 2 * (TIMER_BYTES + ENTRY_BYTES) + RunPage::MARKED_BYTES;
/// Bytes of an entry of the sorted maps of leases and of what is aside, at the fill that they have on average.
const ENTRY_BYTES: usize = (NODE.0 * size_of::<(Sequence, usize)>()).div_ceil(NODE.1);
/// Bytes that topics may take whatever the room is: so a few consumers go on, one topic after another, in no room at all.
const ROOM_MIN: usize = 1024 * 1024;
const NONE: TopicSlot = TopicSlot::MAX;
/// Topics brought in for dispatch that may stay for their turn where they take more than their share of the room, the last
/// ones: more than are needed at a time to find out whose turn it is in a scope.
const BROUGHT_MAX: usize = 1024;
/// One part in so many of the room is what topics may take beyond it where others are read ahead.
const OVER: usize = 16;
/// How long each of these may stay: dispatch goes on however little their share is, and does not wait for more once what is read
/// for it has come. Whoever asked for them may have gone meanwhile.
const BROUGHT_FOR: Millis = Millis::seconds(1);

/// All topics in memory.
#[derive(Debug)]
pub(crate) struct Residents {
    /// Bytes that they should not exceed.
    pub(crate) room: usize,
    /// Bytes that those may take at least that are leased from.
    pub(crate) leases_min: usize,
    /// Bytes that they take, about.
    pub(crate) bytes: usize,
    /// Bytes that those of them take that the start of their group has still to come to: these cannot leave either.
    pub(crate) held: usize,
    oldest: TopicSlot,
    newest: TopicSlot,
    /// Those that were brought in for dispatch last. Some may be gone since, or served.
    brought: VecDeque<Brought>,
    /// What these took together when they came.
    brought_bytes: usize,
    /// What they may take for longer.
    brought_share: usize,
}

/// A topic that was brought in for dispatch.
#[derive(Debug)]
struct Brought {
    slot: TopicSlot,
    bytes: usize,
    until: RunTime,
}

/// A topic among them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Residence {
    bytes: usize,
    older: TopicSlot,
    newer: TopicSlot,
    /// Whether it is among those that were brought in for dispatch last, and was not served since.
    brought: bool,
    /// Bytes that it takes at the worst because of what was leased of it when it was weighed; 0 if that was nothing.
    leased: usize,
    /// Bytes that it took then if the start of its group had still to come to it.
    held: usize,
}

impl Default for Residents {
    fn default() -> Self {
        Residents {
            room: usize::MAX,
            leases_min: ROOM_MIN,
            bytes: 0,
            held: 0,
            oldest: NONE,
            newest: NONE,
            brought: VecDeque::new(),
            brought_bytes: 0,
            brought_share: usize::MAX,
        }
    }
}

impl Default for Residence {
    fn default() -> Self {
        Residence { bytes: 0, older: NONE, newer: NONE, brought: false, leased: 0, held: 0 }
    }
}

impl Residence {
    /// Those that were used right before and right after it, if there are any.
    pub(super) fn neighbours(&self) -> [TopicSlot; 2] {
        [self.older, self.newer]
    }

    pub(crate) fn is_brought(&self) -> bool {
        self.brought
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn leased(&self) -> usize {
        self.leased
    }

    pub(crate) fn held(&self) -> usize {
        self.held
    }
}

impl Residents {
    /// Sets how many bytes topics may take that dispatch reads ahead and that wait for their turn.
    pub(crate) fn set_brought(&mut self, bytes: usize) {
        self.brought_share = bytes;
    }

    /// Bytes that topics may take which cannot do without memory.
    pub(crate) fn room_for_busy(&self) -> usize {
        self.room.max(ROOM_MIN)
    }

    /// Whether they take so much more than the room that they come faster than they leave.
    pub(crate) fn are_many_over(&self) -> bool {
        let room = self.room_for_busy();
        self.bytes > room.saturating_add(room / OVER)
    }

    /// Bytes that those of them may take that are leased from: half of the room is theirs, and what starts leave of the other.
    pub(crate) fn room_for_leases(&self) -> usize {
        let room = self.room.max(self.leases_min);
        room - self.held.min(room / 2)
    }

    /// Whether those that starts have still to come to take more than they should, which is half of the room.
    pub(crate) fn hold_too_much(&self) -> bool {
        self.held > self.room.max(self.leases_min) / 2
    }

    /// Whether they take so much that there is hardly room for anything else: three quarters.
    pub(crate) fn hold_nearly_all(&self) -> bool {
        self.held > self.room.max(self.leases_min) / 4 * 3
    }

    /// The topic that nothing has happened to for longest.
    pub(crate) fn oldest(&self) -> Option<TopicSlot> {
        (self.oldest != NONE).then_some(self.oldest)
    }
}

impl State {
    /// Takes a topic into memory.
    pub(crate) fn admit(&mut self, topic: Topic) -> TopicSlot {
        let slot = self.topics.insert(topic);
        self.link(slot);
        self.touch(slot);
        slot
    }

    /// Lets a topic go from memory.
    pub(crate) fn dismiss(&mut self, slot: TopicSlot) {
        self.unlink(slot);
        self.disarm_bucket(slot);
        self.disarm_raise(slot);
        let Topic { in_flight, residence, .. } = self.topics[slot];
        assert_eq!(in_flight, 0, "what is leased stays in memory");
        self.residents.bytes -= residence.bytes;
        if residence.leased > 0 {
            self.leased.bytes -= residence.leased;
            self.leased.has_eased = true;
        }
        if residence.held > 0 {
            self.residents.held -= residence.held;
            self.leased.has_eased = true;
        }
        self.topics.remove(slot);
    }

    /// A topic leaves last of all.
    pub(crate) fn leaves_last(&mut self, slot: TopicSlot) {
        if self.residents.newest != slot {
            self.unlink(slot);
            self.link(slot);
        }
    }

    /// A topic was used: it leaves last, and is weighed again.
    pub(crate) fn used(&mut self, slot: TopicSlot) {
        self.leaves_last(slot);
        let topic = &mut self.topics[slot];
        let bytes = topic.weight();
        let leased = if topic.in_flight > 0 { bytes + topic.may_grow() } else { 0 };
        let held = if topic.is_held { bytes } else { 0 };
        let before = core::mem::replace(&mut topic.residence.bytes, bytes);
        self.residents.bytes = self.residents.bytes - before + bytes;
        let before = core::mem::replace(&mut topic.residence.held, held);
        self.residents.held = self.residents.held - before + held;
        self.leased.has_eased |= held < before;
        let before = core::mem::replace(&mut topic.residence.leased, leased);
        self.leased.bytes = self.leased.bytes - before + leased;
        self.leased.has_eased |= leased < before;
    }

    /// A topic was brought in for dispatch.
    pub(crate) fn brought(&mut self, slot: TopicSlot) {
        self.used(slot);
        let residence = &mut self.topics[slot].residence;
        residence.brought = true;
        let brought = Brought { slot, bytes: residence.bytes, until: self.now.run + BROUGHT_FOR };
        self.residents.brought_bytes += brought.bytes;
        self.residents.brought.push_back(brought);
    }

    /// When one that was brought in for dispatch may leave: those that take no more than their share stay until they are served,
    /// and no more than others leave of the room that cannot leave themselves, which may be so for as long as leases last.
    pub(crate) fn next_brought(&self) -> Option<RunTime> {
        let State { residents, leased, .. } = self;
        let left = residents.room_for_busy().saturating_sub(leased.bytes + residents.held);
        let first =
            residents.brought.front().filter(|_| residents.brought_bytes > residents.brought_share.min(left))?;
        Some(if residents.brought.len() > BROUGHT_MAX { RunTime::default() } else { first.until })
    }

    /// Topics that were brought in for dispatch need not wait for their turn any more where they are too many.
    pub(crate) fn let_brought_go(&mut self) {
        while self.next_brought().is_some_and(|at| at <= self.now.run) {
            let State { residents, topics, .. } = self;
            let Brought { slot, bytes, .. } = residents.brought.pop_front().expect("there are too many");
            residents.brought_bytes -= bytes;
            if let Some(topic) = topics.get_mut(slot) {
                topic.residence.brought = false;
            }
        }
    }

    /// A topic is served: it need not wait for its turn any more.
    pub(crate) fn served(&mut self, slot: TopicSlot) {
        self.topics[slot].residence.brought = false;
    }

    /// Whether a topic can do without memory for now: nothing of it is leased, no start has still to come to it, and time
    /// changes nothing of it up to `horizon`.
    pub(crate) fn can_leave(&self, slot: TopicSlot, horizon: Now) -> bool {
        let topic = &self.topics[slot];
        let is_soon = |at: u64| at <= horizon.wall.0;
        let refill = topic.bucket.as_ref().and_then(|bucket| bucket.deadline());
        let raise = topic.age.as_ref().and_then(|age| age.deadline());
        !topic.is_touched()
            && !topic.is_held
            && raise.is_none_or(|at| !is_soon(at.0))
            && refill.is_none_or(|at| at > horizon.run)
            && topic.in_flight == 0
            && !topic.levels.iter().any(|level| {
                level.expiries.values().any(|expiry| self.wall_timers.deadline(expiry.timer).is_some_and(is_soon))
                    // One that has gone off is of a piece that is on its way.
                    || level.line.timers().any(|timer| self.piece_timers.wall.deadline(timer).is_none_or(is_soon))
                    || self.is_resting_soon(level, horizon)
                    || level.aside.values().any(|aside| match aside.state {
                        AsideWhy::Delayed { due, .. } => is_soon(due.0),
                        AsideWhy::Retrying { due, .. } => due <= horizon.run,
                        AsideWhy::Ready { .. } | AsideWhy::Leased(_) => false,
                    })
            })
    }

    /// The topics in the order of their last use.
    pub(crate) fn by_use(&self) -> impl Iterator<Item = &Topic> {
        let next = |slot: &TopicSlot| Some(self.topics[*slot].residence.newer).filter(|newer| *newer != NONE);
        core::iter::successors(self.residents.oldest(), next).map(|slot| &self.topics[slot])
    }

    fn link(&mut self, slot: TopicSlot) {
        let older = core::mem::replace(&mut self.residents.newest, slot);
        match older {
            NONE => self.residents.oldest = slot,
            older => self.topics[older].residence.newer = slot,
        }
        let residence = &mut self.topics[slot].residence;
        (residence.older, residence.newer) = (older, NONE);
    }

    fn unlink(&mut self, slot: TopicSlot) {
        let Residence { older, newer, .. } = self.topics[slot].residence;
        match older {
            NONE => self.residents.oldest = newer,
            older => self.topics[older].residence.newer = newer,
        }
        match newer {
            NONE => self.residents.newest = older,
            newer => self.topics[newer].residence.older = older,
        }
    }
}

impl Topic {
    /// About how many bytes it takes, without walking what it holds.
    fn weight(&self) -> usize {
        let levels = self.levels.bytes();
        let held: usize = self.levels.iter().map(Level::weight).sum();
        let leases = few_bytes(self.leases.len(), 16) + self.leases.len() * (size_of::<Lease>() + TIMER_BYTES);
        let bucket = if self.bucket.is_some() { size_of::<Bucket>() + TIMER_BYTES } else { 0 };
        let age = if self.age.is_some() { size_of::<Age>() + TIMER_BYTES } else { 0 };
        size_of::<Topic>() + INDEX_BYTES + self.name.as_bytes().len() + levels + held + leases + bucket + age
    }
}

impl Topic {
    /// About how many bytes more it takes at most when each message that is leased has a lease of its own.
    fn may_grow(&self) -> usize {
        (self.in_flight as usize - self.leases.len()) * LEASE_BYTES
    }
}

impl Level {
    fn weight(&self) -> usize {
        let of = size_of::<Sequence>();
        self.line.weight()
            + few_bytes(self.aside.len(), of + size_of::<usize>())
            + self.aside.len() * (size_of::<Aside>() + TIMER_BYTES)
            + self.aside_bytes
            + map_bytes(self.resting_count(), Resting::PIECE_BYTES)
            + self.resting_count() * TIMER_BYTES
            + map_bytes(self.ready.len(), 3 * of)
            + few_bytes(self.expiries.len(), of + size_of::<usize>())
            + self.expiries.len() * (size_of::<Expiry>() + TIMER_BYTES)
    }
}

/// Bytes of a sorted map that holds a single entry in place.
fn few_bytes(entries: usize, of_one: usize) -> usize {
    if entries > 1 { map_bytes(entries, of_one) } else { 0 }
}

/// Bytes of a sorted map.
fn map_bytes(entries: usize, of_one: usize) -> usize {
    entries.div_ceil(NODE.1) * NODE.0 * of_one
}
