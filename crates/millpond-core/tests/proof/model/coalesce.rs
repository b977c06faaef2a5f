//! Topics in which so many messages wait, or one that stands for all.

use millpond_types::{Coalesce, Retry};

use super::{Key, Message, Model, Place, State};

impl Model {
    /// The messages of a topic that are not leased.
    pub(super) fn waiting(&self, place: &Place) -> Vec<Key> {
        let Some(topic) = self.topics.get(place) else { return Vec::new() };
        topic.messages.iter().filter(|(_, message)| message.holder().is_none()).map(|(key, _)| *key).collect()
    }

    /// The one that stands for all: the last of the highest priority at which that has not expired.
    pub(super) fn slot(&self, place: &Place) -> Option<Key> {
        let waiting = self.waiting(place);
        let is_last = |key: &Key| !waiting.iter().any(|other| other.0 == key.0 && other.1 > key.1);
        waiting.iter().copied().filter(|key| is_last(key) && !self.is_expired(place, *key)).max()
    }

    /// Ends the one that waits in a topic that coalesces, if it has expired.
    pub(super) fn expire_waiting(&mut self, place: &Place) {
        if let [key] = self.waiting(place)[..]
            && self.policy_of(&place.name).coalesce != Coalesce::Off
            && self.is_expired(place, key)
        {
            self.expire(place, key);
        }
    }

    fn is_expired(&self, place: &Place, key: Key) -> bool {
        self.topics[place].messages[&key].expires.is_some_and(|at| at <= self.wall)
    }

    /// The one that ends where there are too many: the next of the lowest priority at which one is ready.
    pub(super) fn first_to_drop(&self, place: &Place) -> Key {
        let ready: Vec<Key> = self.ready(place).into_iter().map(|(key, _)| key).collect();
        let lowest = ready.iter().map(|(priority, _)| *priority).min();
        let first = ready.iter().find(|(priority, _)| Some(*priority) == lowest);
        first.copied().unwrap_or_else(|| self.waiting(place)[0])
    }

    /// The one that is being worked on, if it is one alone.
    pub(super) fn running(&self, place: &Place) -> Option<Key> {
        let messages = self.topics.get(place)?.messages.iter();
        let mut leased = messages.filter(|(_, message)| message.holder().is_some()).map(|(key, _)| *key);
        leased.next().filter(|_| leased.next().is_none())
    }

    /// A message takes what another one leaves: its failures, its back-off where that is longer than a delay, and, with
    /// ageing, how long it has waited. The back-off of what a longer delay held begins anew.
    pub(super) fn inherit(&mut self, place: &Place, heir: Key, failures: u32, (left, since): (State, u64)) {
        let (run, wall, ages) = (self.run, self.wall, self.policy.ageing.is_some());
        let until = match (left, self.policy_of(&place.name).retry) {
            (State::Retrying(until), _) => Some(until),
            (State::Delayed(_), Retry::Backoff { first, longest }) if failures > 0 => {
                Some(run + longest.0.min(first.0 << (failures - 1).min(10)))
            }
            _ => None,
        };
        let sequence = heir.1;
        let heir = self.message(place, heir);
        heir.failures = heir.failures.max(failures);
        let waits_from = |state: State| if let State::Delayed(due) = state { due.max(wall) } else { wall };
        let longer = waits_from(heir.state).saturating_sub(waits_from(left).saturating_sub(since));
        if ages && longer < heir.since {
            heir.since = longer;
            if heir.state == State::InLine {
                heir.state = State::Back(sequence);
            }
        }
        if heir.failures > 0 && heir.state == State::InLine {
            // It has been looked at.
            heir.state = State::Back(sequence);
        }
        let delay = if let State::Delayed(due) = heir.state { due.saturating_sub(wall) } else { 0 };
        if let Some(until) = until.filter(|until| until.saturating_sub(run) >= delay) {
            heir.state = State::Retrying(until);
        }
    }
}

/// Whether a message was published later than another one, as far as times and sequences tell.
pub(super) fn is_later((one, of): (Key, &Message), (other, than): (Key, &Message)) -> bool {
    of.published > than.published || of.published == than.published && one.0 == other.0 && one.1 > other.1
}
