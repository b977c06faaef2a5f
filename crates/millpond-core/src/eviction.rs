//! Topics leave memory when they take more of it than they should, a few at each turn's end, the ones that nothing has
//! happened to for longest first; those with long lines are made shorter before that. One that has not changed since it came
//! leaves without a trace. So do producer sessions.

use millpond_types::TopicNumber;

use crate::Core;
use crate::fact::GroupNumber;
use crate::state::stored::RUNS_OF_ONE;
use crate::state::topic::Topic;
use crate::state::{Now, TopicSlot};
use crate::store::{Key, Want};

/// Topics that leave in one turn at most, fewer where they hold much: about a quarter of a millisecond.
const LEAVE_MAX: usize = 256;
/// Topics that are looked at for that.
const LOOK_MAX: usize = 1024;
/// One part in so many of the room for topics is for those that were read ahead and wait for their turn.
const BROUGHT_SHARE: usize = 2;

impl Core {
    /// Sets how many bytes the topics in memory should not exceed.
    pub fn set_room(&mut self, bytes: usize) {
        self.state.residents.room = bytes;
        self.state.leased.has_eased = true;
        self.dispatcher.reach.set_room(bytes);
        self.state.residents.set_brought(bytes / BROUGHT_SHARE);
    }

    /// Sets how many bytes topics may take that are leased from where the room is less. What many clients do in a usual room, a
    /// few do in a small one: for tests, which have few.
    pub fn set_leases_room(&mut self, bytes: usize) {
        self.state.residents.leases_min = bytes;
        self.state.leased.has_eased = true;
    }

    /// Sets how many producer sessions may stay in memory.
    pub fn set_producers_resident(&mut self, sessions: usize) {
        self.state.producers.resident_max = sessions;
    }

    /// Sets how many bytes the producer sessions in memory may take.
    pub fn set_producers_room(&mut self, bytes: usize) {
        self.state.producers.room = bytes;
    }

    /// How many producer sessions are in memory, and about how many bytes they take.
    pub fn producers_resident(&self) -> (usize, usize) {
        self.state.producers.resident()
    }

    /// About how many bytes the topics in memory take.
    pub fn resident_bytes(&self) -> usize {
        self.state.residents.bytes
    }

    /// About how many bytes the topics which are leased from may come to take, whatever is done with the leases: they cannot
    /// leave.
    pub fn leased_bytes(&self) -> usize {
        self.state.leased.bytes
    }

    /// About how many bytes the topics take which the start of their group has still to come to: they cannot leave either.
    pub fn held_bytes(&self) -> usize {
        self.state.residents.held
    }

    /// How many topics are in memory.
    pub fn resident_count(&self) -> usize {
        self.state.topics.len()
    }

    /// The topics in memory, and whether each of them is kept there because somebody is about to come to it. It walks over
    /// all of them: for tests, to hold what stays against what may.
    pub fn residents(&self) -> impl Iterator<Item = (GroupNumber, TopicNumber, bool)> {
        self.state.topics.iter().map(|(slot, topic)| (topic.group, topic.number, self.is_needed(slot)))
    }

    /// How many topics are in the store alone.
    pub fn cold_count(&self) -> u64 {
        self.state.cold
    }

    /// Whether the topics that cannot do without memory leave no room for others. Then no more are brought in for
    /// dispatch, and publishes are better held back.
    pub fn is_crowded(&self) -> bool {
        self.is_crowded
    }

    /// Whether topics that starts of groups have still to come to leave too little room for others. Then publishes and forwards to
    /// their namespaces are [held](crate::output::Notice::Held) until these have gone on.
    pub fn do_starts_hold_too_much(&self) -> bool {
        self.state.residents.hold_too_much()
    }

    /// Whether they leave so little that nothing is better published at all.
    pub fn do_starts_hold_nearly_all(&self) -> bool {
        self.state.residents.hold_nearly_all()
    }

    /// Lets topics leave until the others have room, or enough of them have left for one time. True if there is more to
    /// do. Each turn does this at its end; a replay does it between batches.
    pub fn make_room(&mut self) -> bool {
        self.state.let_producers_leave();
        self.state.let_brought_go();
        let (mut looked, mut left) = (0, 0);
        let horizon = self.horizon();
        let topics = self.state.topics.len();
        let mut looks = LOOK_MAX.min(topics);
        while self.is_over_room() && looked < looks && left < LEAVE_MAX {
            let Some(slot) = self.state.residents.oldest() else { break };
            if let Some(runs) = self.state.shorten(slot) {
                // If that is not enough, its turn comes round once more, and before long it is as short as it may be.
                self.state.used(slot);
                left += runs.div_ceil(RUNS_OF_ONE);
                looks = LOOK_MAX.min(looked + topics);
                self.stayed = 0;
                continue;
            }
            looked += 1;
            if self.is_needed(slot) || !self.state.can_leave(slot, horizon) {
                // Looked at again when its turn comes round.
                self.state.leaves_last(slot);
                self.stayed += 1;
            } else {
                left += 1 + self.leave(slot, horizon) / RUNS_OF_ONE;
                self.stayed = 0;
            }
        }
        if !self.is_over_room() {
            self.stayed = 0;
        }
        // Only when each of them was looked at: what happens to be oldest may be what was leased in one go.
        let can_none_leave = self.stayed >= self.state.topics.len();
        self.is_crowded = can_none_leave && self.state.residents.bytes > self.state.residents.room_for_busy();
        self.dispatcher.reach.hold_back(self.is_crowded || self.state.residents.are_many_over());
        self.is_over_room() && !can_none_leave
    }

    /// Whether somebody is about to come to a topic, who would only have it read again: dispatch, for which it was read
    /// ahead, a parked command or a job.
    fn is_needed(&self, slot: TopicSlot) -> bool {
        let topic = &self.state.topics[slot];
        let (namespace, name) = (topic.namespace, &topic.name);
        topic.residence.is_brought()
            || self.is_awaited(namespace, name)
            || self.jobs.is_held(name)
            || self.is_front_asked_for(topic)
    }

    /// Whether the front of a line is on its way: without its topic it would be no use.
    fn is_front_asked_for(&self, topic: &Topic) -> bool {
        topic.levels.iter().any(|level| {
            let Some(first) = level.line.wanted() else { return false };
            let key = Key::Piece { group: topic.group, topic: topic.number, priority: level.priority, first };
            self.is_asked_for(&Want::Entry(key.bytes()))
        })
    }

    fn is_over_room(&self) -> bool {
        self.state.residents.bytes > self.state.residents.room
    }

    /// Returns how many runs and pieces the store was given.
    fn leave(&mut self, slot: TopicSlot, horizon: Now) -> usize {
        self.jobs.topic_left(&self.state.topics[slot], self.state.now);
        self.state.topics.offer(slot, None);
        self.dispatcher.scopes.tell(slot, &self.state);
        let (shelf, told) = self.state.shelve(slot);
        let topic = &self.state.topics[slot];
        let due = topic.stored.due;
        // A replay tells dispatch at its end.
        if self.state.replayed.is_none() {
            let is_paused = self.state.namespaces[topic.namespace].paused.names(&topic.name);
            self.dispatcher.evicted(topic, shelf, is_paused);
        }
        self.state.dismiss(slot);
        self.left_with(due.moments(), horizon);
        told
    }
}
