//! What is ready, and in which order: the rules of dispatch as they are written down, by a walk over all messages.

use std::cmp::Reverse;

use millpond_core::fact::GroupNumber;
use millpond_types::{Policy, Priority, Sequence, TopicName, WallTime};

use super::{Key, Message, Model, State, Topic};

/// What is next at a priority of a topic: the level that it was raised to, since when it waits, its priority. The greatest
/// goes first.
type Head = (Priority, Reverse<WallTime>, Priority);

/// Where a message stands among those of its priority.
type Place = (Sequence, u8, Sequence);

/// Returned and due ones first, then in order, or in strict order by sequence alone; `None` for what is not ready.
fn place(sequence: Sequence, message: &Message, is_strict: bool) -> Option<Place> {
    match message.state {
        State::InLine => Some((sequence, 1, sequence)),
        State::Back(_) if is_strict => Some((sequence, 0, sequence)),
        State::Back(behind) => Some((behind, 0, sequence)),
        State::Delayed(_) | State::Retrying(_) | State::Leased(_) => None,
    }
}

impl Model {
    /// The topics of a group that could deliver now, and the level at which they stand. Left out is what the core alone can
    /// tell: topics with a rate, and all while their group starts or is being settled.
    pub fn ready_of(&self, group: GroupNumber, now: WallTime) -> Vec<(TopicName, Priority)> {
        let (of, home) = (&self.groups[&group], self.home(group));
        if of.is_ending || of.is_starting || of.is_settling {
            return Vec::new();
        }
        let stand = |topic: &Topic| {
            let policy = home.policy_of(&topic.name);
            let is_left_out = topic.is_limited || policy.rate.is_some() || home.is_paused(&topic.name);
            if is_left_out || topic.room(&policy) == 0 {
                return None;
            }
            topic.heads(&policy, now).into_iter().map(|(level, ..)| level).max()
        };
        self.topics_of(group).filter_map(|(_, topic)| Some((topic.name.clone(), stand(topic)?))).collect()
    }
}

impl Topic {
    /// The messages that are ready, in the order of delivery, over all priorities.
    pub fn ready(&self, policy: &Policy) -> Vec<(Key, &Message)> {
        let place = |sequence, message| place(sequence, message, policy.is_strict());
        let ready = self.messages.iter();
        let mut ready: Vec<_> = ready
            .filter_map(|(key, message)| Some(((Reverse(key.0), place(key.1, message)?), (*key, message))))
            .collect();
        ready.sort_unstable_by_key(|(place, _)| *place);
        ready.into_iter().map(|(_, found)| found).collect()
    }

    /// What is next at each priority that competes: one of each or, in strict order, that of the highest.
    pub fn heads(&self, policy: &Policy, now: WallTime) -> Vec<Head> {
        // The lowest priority comes first, and all of one lie together.
        let mut first: Vec<(Priority, Place, &Message)> = Vec::new();
        for ((priority, sequence), message) in &self.messages {
            let Some(place) = place(*sequence, message, policy.is_strict()) else { continue };
            match first.last_mut().filter(|(of, ..)| of == priority) {
                Some(head) if place < head.1 => *head = (*priority, place, message),
                Some(_) => {}
                None => first.push((*priority, place, message)),
            }
        }
        let is_one = policy.is_strict() || policy.ageing.is_none();
        let heads = first.into_iter().rev().take(if is_one { 1 } else { usize::MAX });
        let level = |priority: Priority, since: WallTime| {
            let steps = policy.ageing.map_or(0, |step| now.since(since).0 / step.0);
            Priority::new((priority.level() as u64).saturating_add(steps).min(9) as u8).expect("9 is the highest")
        };
        let head = |(priority, _, message): (Priority, Place, &Message)| {
            (level(priority, message.since), Reverse(message.since), priority)
        };
        heads.map(head).collect()
    }

    /// Whether anything of it is ready, whatever keeps it from being delivered.
    pub fn is_ready(&self) -> bool {
        self.messages.values().any(|message| matches!(message.state, State::InLine | State::Back(_)))
    }

    /// How many more of its messages may be leased now.
    pub fn room(&self, policy: &Policy) -> u64 {
        let leased = self.leases.len() as u64;
        match policy.leases_at_a_time() {
            None => u64::MAX,
            Some(1) if self.is_retrying() => 0,
            Some(1) if leased == 0 => u64::from(policy.run),
            Some(limit) => u64::from(limit).saturating_sub(leased),
        }
    }

    /// Whether anything of it is in back-off.
    pub fn is_retrying(&self) -> bool {
        self.messages.values().any(|message| matches!(message.state, State::Retrying(_)))
    }
}
